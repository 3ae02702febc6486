"""Marian without `transformers`: the table both ways, what has no equivalent, damaged and hostile folders."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import marian as made
import qkv
from qkv.blocks.positions import sinusoids
from qkv.data.corpus import ParallelConfig
from qkv.errors import ConfigError, InputError, RefusedError
from qkv.generation.beam import Search
from qkv.interop.marian import POSITIONS, TABLES, marian
from qkv.interop.tensors import export_weights, import_weights
from qkv.models.transformer import TransformerConfig
from qkv.recipe.bundle import publish, save
from qkv.tasks.translation.evaluate import PairsEvaluator
from qkv.tasks.translation.predict import translate_texts
from reliability.nursery import Nursery

CONFIGS = {
    "as it stands": TransformerConfig(vocabulary=19, layers=2, heads=3, width=24, hidden=17, context=12),
    "a shallow decoder": made.config(19, layers=11, decoder_layers=2, activation="gelu", dropout=0.1),
    "a deep decoder": made.config(19, layers=1, decoder_layers=11, activation="silu"),
}
EVERY = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)


@EVERY
def test_there_and_back(config: TransformerConfig) -> None:
    values = marian.export_config(config)
    assert values["architectures"] == ["MarianMTModel"]
    ids = {"eos_token_id": 0, "pad_token_id": 18, "decoder_start_token_id": 18}
    assert marian.import_config(made.values(made.padded_words()) | values | ids) == config
    ours = config.build().state_dict()
    theirs = export_weights(marian.table(config), ours)
    assert theirs["final_logits_bias"].shape == (1, 19)
    assert marian.tidy(config, theirs) == {name: name for name in theirs}
    again = import_weights(marian.table(config), theirs)
    assert again.keys() == ours.keys()
    assert all(torch.equal(again[key], ours[key]) for key in ours)


@EVERY
def test_what_does_not_fit_is_named(config: TransformerConfig) -> None:
    theirs = export_weights(marian.table(config), config.build().state_dict())
    del theirs["model.decoder.layers.0.encoder_attn.k_proj.bias"]
    theirs["model.encoder.layer_norm.weight"] = torch.zeros(1)
    with pytest.raises(InputError, match=r"1 missing \(model\.decoder\..*1 unknown \(model\.encoder\.layer_norm"):
        import_weights(marian.table(config), theirs)


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "embeddings as they are": ({"scale_embedding": False}, "scale_embedding = False is not supported; expected True"),
    "nothing said about it": ({"scale_embedding": None}, "scale_embedding = False"),
    "two tables": ({"share_encoder_decoder_embeddings": False}, "share_encoder_decoder_embeddings = False"),
    "a head of its own": ({"tie_word_embeddings": False}, "tie_word_embeddings = False"),
    "two vocabularies": ({"decoder_vocab_size": 7}, "decoder_vocab_size = 7"),
    "an unknown activation": ({"activation_function": "mish"}, "activation_function = 'mish' .* known: relu, swish"),
    "learned positions": ({"static_position_embeddings": False}, "static_position_embeddings = False"),
    "norms first": ({"normalize_before": True}, "normalize_before = True"),
    "a norm of embeddings": ({"normalize_embedding": True}, "normalize_embedding = True"),
    "a last norm": ({"add_final_layer_norm": True}, "add_final_layer_norm = True"),
    "other biases": ({"add_bias_logits": True}, "add_bias_logits = True"),
    "a decoder alone": ({"is_encoder_decoder": False}, "is_encoder_decoder = False"),
    "two widths inside": ({"decoder_ffn_dim": 45}, "decoder_ffn_dim = 45 is not supported; expected 44"),
    "two numbers of heads": ({"decoder_attention_heads": 2}, "decoder_attention_heads = 2"),
    "heads that do not divide": (
        {"encoder_attention_heads": 5, "decoder_attention_heads": 5},
        "does not divide into 5 heads",
    ),
    "an architecture without a head": ({"architectures": ["MarianModel"]}, "expected .*MarianMTModel"),
    "a start from elsewhere": ({"decoder_start_token_id": 58100}, "decoder_start_token_id = 58100 is not one id"),
    "no start": ({"decoder_start_token_id": None}, "decoder_start_token_id = 58100"),
    "several ends": ({"eos_token_id": [0, 1]}, r"eos_token_id = \[0, 1\]"),
    "padding from elsewhere": ({"pad_token_id": -1}, "pad_token_id = -1"),
    "no width": ({"d_model": None}, "d_model is missing"),
    "no layers": ({"encoder_layers": 0}, "layers = 0"),
    "endless layers": ({"decoder_layers": 2**31}, "decoder_layers = 2147483648"),
    "layers beyond the tensors": ({"encoder_layers": 1000, "decoder_layers": 1000}, "layers, a context of"),
    "an endless context": ({"max_position_embeddings": 2**20, "d_model": 64}, "the memory of any machine"),
    "a program": ({"auto_map": {"AutoModel": "evil.Evil"}}, "auto_map names a program"),
    "a list for a number": ({"vocab_size": [1]}, "vocab_size|vocabulary|wrong kind"),
    "a word for layers": ({"encoder_layers": "many"}, "layers"),
}


@pytest.mark.parametrize(("changes", "words"), REFUSED.values(), ids=REFUSED)
def test_what_our_figure_does_not_have_is_refused(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    place = made.folder(tmp_path / "in", **changes)
    with pytest.raises(RefusedError, match=words) as refusal:
        qkv.load(place)
    assert str(place) in str(refusal.value)
    assert refusal.value.exit_code == 5


def test_what_published_files_repeat(tmp_path: Path) -> None:
    """The shared table under every name, and the waves; what they say must be what is computed here."""
    weights = made.tensors(made.padded_words())
    shared, waves = weights["model.shared.weight"], sinusoids(64, 32, "concatenated")
    more = {name: shared.clone() for name in TABLES} | {name: waves.half() for name in POSITIONS}
    expected = qkv.load(made.folder(tmp_path / "plain", weights)).translate("The river", beams=2)
    assert qkv.load(made.folder(tmp_path / "more", weights | more)).translate("The river", beams=2) == expected
    only = {name: tensor for name, tensor in weights.items() if name != "model.shared.weight"}
    other = made.folder(tmp_path / "other name", only | {"lm_head.weight": shared})
    assert qkv.load(other).translate("The river", beams=2) == expected
    for number, (name, tensor) in enumerate(
        {"lm_head.weight": shared + 1e-3, POSITIONS[0]: sinusoids(64, 32), POSITIONS[1]: waves[:9]}.items()
    ):
        with pytest.raises(RefusedError, match=rf"model\.safetensors: tensor {name} "):
            qkv.load(made.folder(tmp_path / str(number), weights | {name: tensor.clone()}))


@pytest.mark.parametrize(
    ("name", "tensor"),
    {
        "model.shared.weight": None,
        "final_logits_bias": torch.zeros(3),
        "model.encoder.layers.1.fc1.weight": torch.zeros(44, 31),
        "model.encoder.layers.2.fc1.weight": torch.zeros(44, 32),
        "model.decoder.layers.0.encoder_attn.q_proj.bias": torch.zeros(32, dtype=torch.int8),
        "lm_head.bias": torch.zeros(7),
    }.items(),
)
def test_tensors_that_do_not_fit_are_refused(name: str, tensor: torch.Tensor | None, tmp_path: Path) -> None:
    weights = made.tensors(made.padded_words()) | ({} if tensor is None else {name: tensor})
    kept = {key: value for key, value in weights.items() if key != name or tensor is not None}
    with pytest.raises(RefusedError):
        qkv.load(made.folder(tmp_path / "in", kept))


def test_damaged_folders_are_refused(nursery: Nursery, tmp_path: Path) -> None:
    """As people see it: exit code 5 and one line."""
    good = made.folder(tmp_path / "good")
    assert nursery.qkv("translate", str(good), "The river").code == 0
    for name in ("model.safetensors", "config.json", "tokenizer.json"):
        for number, damage in enumerate((b"", b"{}", None)):
            place = made.folder(tmp_path / f"{name}-{number}")
            whole = (place / name).read_bytes()
            (place / name).write_bytes(whole[: len(whole) // 2] if damage is None else damage)
            done = nursery.qkv("translate", str(place), "The river")
            assert (done.code, done.err.count("\n")) == (5, 1), f"{name}, {number}: {done.err}"
            assert name in done.err


def test_pickles_are_refused(tmp_path: Path) -> None:
    place = made.folder(tmp_path / "pickled")
    (place / "model.safetensors").rename(place / "pytorch_model.bin")
    with pytest.raises(RefusedError, match="may hold programs"):
        qkv.load(place)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"norm": "pre"}, "norm = 'pre' has no equivalent in Marian.*Train one with norm = 'post'"),
        ({"positions": "learned"}, "positions = 'learned' has no equivalent in Marian.*positions = 'sinusoidal'"),
    ],
)
def test_what_has_no_twin_gets_a_sentence(changes: dict[str, Any], words: str, tmp_path: Path) -> None:
    save(tmp_path / "ours", made.bundle(**changes))
    with pytest.raises(ConfigError, match=words):
        qkv.load(tmp_path / "ours").export(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_where_texts_start_and_end_is_kept(tmp_path: Path) -> None:
    """Padding that starts the decoder and is never written, in a folder of our own as well."""
    opened = qkv.load(made.folder(tmp_path / "in"))
    words = opened.tokenizer
    assert opened.bundle.start_and_end == (words.named["<|pad|>"], words.named["<|end|>"])
    assert opened.bundle.forbidden_ids == {words.named["<|pad|>"]}
    assert words.closing == (words.named["<|end|>"],)
    publish(tmp_path / "own", opened.bundle)
    again = qkv.load(tmp_path / "own")
    assert again.bundle.start_and_end == opened.bundle.start_and_end
    assert again.translate(made.SENTENCES) == opened.translate(made.SENTENCES)
    trained = made.bundle()
    assert trained.start_and_end == (trained.tokenizer.separator,) * 2
    assert not trained.forbidden_ids
    several = made.bundle(languages=["de", "fr"])
    assert several.forbidden_ids == {several.tokenizer.named[tag] for tag in ("<2de>", "<2fr>")}


def test_scores_are_of_what_the_model_translates(tmp_path: Path) -> None:
    """It starts with padding, here as there."""
    bundle = qkv.load(made.folder(tmp_path / "in")).bundle
    files = tmp_path / "test.en", tmp_path / "test.de"
    for path in files:
        path.write_text("".join(text + "\n" for text in made.SENTENCES), encoding="utf-8")
    outputs, _ = PairsEvaluator(bundle, ParallelConfig(files=tuple(map(str, files)))).outputs(bundle, 5)
    expected, _ = translate_texts(bundle, made.SENTENCES, Search(beams=5))
    assert [text.strip() for text in outputs.translations] == [best.text.strip() for best, *_ in expected]


def test_the_files_beside_the_weights(tmp_path: Path) -> None:
    save(tmp_path / "ours", made.bundle(languages=["de", "fr"]))
    opened = qkv.load(tmp_path / "ours")
    opened.export(tmp_path / "out")
    said = {
        name: json.loads((tmp_path / "out" / name).read_text()) for name in ("config.json", "generation_config.json")
    }
    end = opened.tokenizer.separator
    for values in said.values():
        assert [values[f"{name}_token_id"] for name in ("decoder_start", "eos", "pad")] == [end] * 3
    assert said["config.json"]["forced_eos_token_id"] is None
    written = said["generation_config.json"]
    assert (written["num_beams"], written["length_penalty"], written["do_sample"]) == (5, 1.0, False)
    assert written["bad_words_ids"] == sorted([opened.tokenizer.named[tag]] for tag in ("<2de>", "<2fr>"))
    card = (tmp_path / "out" / "README.md").read_text()
    assert "pipeline_tag: translation" in card
    assert 'tokenizer("<2de>Once"' in card
    again = qkv.load(tmp_path / "out")
    assert again.bundle.config == opened.bundle.config
    assert again.translate(made.SENTENCES, to="fr") == opened.translate(made.SENTENCES, to="fr")


def test_an_export_that_differs_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two tensors of one shape exchanged, as a slip in the table would do it."""
    from qkv.interop import export

    save(tmp_path / "ours", made.bundle())
    honest = export.huggingface_weights

    def exchanged(bundle: Any) -> dict[str, torch.Tensor]:
        weights = honest(bundle)
        one, other = (f"model.decoder.layers.0.encoder_attn.{name}_proj.weight" for name in "kv")
        return {**weights, one: weights[other], other: weights[one]}

    monkeypatch.setattr(export, "huggingface_weights", exchanged)
    with pytest.raises(RefusedError, match="the copy differs from the original"):
        qkv.load(tmp_path / "ours").export(tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ours"]

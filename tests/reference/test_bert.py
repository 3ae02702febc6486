"""Parity with tiny random Hugging Face BERTs and DistilBERTs, bare and with heads, both ways. Nothing is downloaded.

The real one is MiniLM, from PyPI (data_at_hand.py).
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

import data_at_hand
import minilm
from qkv.evaluation import vectors
from qkv.interop.bert_architectures import bert, distilbert
from qkv.interop.tensors import export_weights, import_weights
from qkv.models.bert import Bert, BertConfig
from qkv.models.masked import Masked

if not os.environ.get("CI"):
    pytest.importorskip("transformers", reason="parity with Hugging Face needs the extra: pip install 'qkv[hf]'")

import transformers

BERT = {
    "vocab_size": 37,
    "hidden_size": 30,
    "intermediate_size": 44,
    "num_hidden_layers": 3,
    "num_attention_heads": 5,
    "max_position_embeddings": 24,
    "type_vocab_size": 2,
}
DISTILBERT = {
    "vocab_size": 37,
    "dim": 30,
    "hidden_dim": 44,
    "n_layers": 3,
    "n_heads": 5,
    "max_position_embeddings": 24,
}
LABELS = {"id2label": {0: "bad", 1: "so", 2: "good"}, "label2id": {"bad": 0, "so": 1, "good": 2}}
NAMES = [
    "BertModel",
    "BertForMaskedLM",
    "BertForPreTraining",
    "BertForSequenceClassification",
    "BertForTokenClassification",
    "DistilBertModel",
    "DistilBertForMaskedLM",
    "DistilBertForSequenceClassification",
    "DistilBertForTokenClassification",
]
EVERY = pytest.mark.parametrize("name", NAMES)


def family(name: str) -> Any:
    return distilbert if name.startswith("Distil") else bert


def theirs_of(name: str) -> Any:
    """Every parameter random, norms and biases too: a start of ones and zeros would hide an exchange."""
    torch.manual_seed(3)
    labels = LABELS if name.endswith("Classification") else {}
    if name.startswith("Distil"):
        config = transformers.DistilBertConfig(**DISTILBERT, **labels)
    else:
        config = transformers.BertConfig(**BERT, **labels)
    config.architectures = [name]
    model = getattr(transformers, name)(config)
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=0.5 if parameter.dim() == 1 else 0.0, std=0.3)
    return model.eval()


def saved(model: Any, folder: Path) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """config.json and the tensors as theirs writes them."""
    model.save_pretrained(folder)
    return json.loads((folder / "config.json").read_text()), load_file(folder / "model.safetensors")


def opened(name: str, values: dict[str, Any], weights: dict[str, Tensor]) -> tuple[Any, Any]:
    """Our config and our model, from what their folder holds."""
    config = family(name).import_config(values)
    kept = family(name).tidy(config, weights)
    ours = config.build()
    ours.load_state_dict(import_weights(family(name).table(config), {new: weights[old] for old, new in kept.items()}))
    return config, ours.eval()


def batch() -> tuple[Tensor, Tensor, Tensor]:
    """Tokens, which of them are real (texts of unequal length), and segments."""
    drawn = torch.Generator().manual_seed(5)
    tokens = torch.randint(37, (4, 24), generator=drawn)
    lengths = torch.tensor([24, 7, 1, 15])
    segments = (torch.arange(24) > lengths.unsqueeze(1) // 2).long()
    return tokens, torch.arange(24) < lengths.unsqueeze(1), segments


def layers_of(encoder: Any, *inputs: Tensor | None) -> list[Tensor]:
    seen: list[Tensor] = []
    hooks = [
        part.register_forward_hook(lambda module, given, made: seen.append(made))
        for part in (encoder.embedded, *encoder.blocks)
    ]
    encoder(*inputs)
    for hook in hooks:
        hook.remove()
    return seen


@EVERY
@torch.no_grad()
def test_the_same_hidden_states_and_logits(name: str, tmp_path: Path) -> None:
    theirs = theirs_of(name)
    _, ours = opened(name, *saved(theirs, tmp_path))
    tokens, present, segments = batch()
    typed = {} if name.startswith("Distil") else {"token_type_ids": segments}
    expected = theirs(tokens, attention_mask=present.long(), output_hidden_states=True, **typed)
    encoder = ours if isinstance(ours, Bert) else ours.encoder
    found = layers_of(encoder, tokens, present, segments if typed else None)
    assert len(found) == len(expected.hidden_states) == 4
    for mine, other in zip(found, expected.hidden_states, strict=True):
        torch.testing.assert_close(mine[present], other[present], atol=1e-5, rtol=1e-5)
    answer = ours(tokens, present, segments if typed else None)
    if name == "BertForPreTraining":
        torch.testing.assert_close(ours.followed(found[-1]), expected.seq_relationship_logits, atol=1e-5, rtol=1e-5)
        right = expected.prediction_logits
    else:
        right = expected.last_hidden_state if name.endswith("Model") else expected.logits
    if name == "BertModel":
        torch.testing.assert_close(ours.pooler(answer), expected.pooler_output, atol=1e-5, rtol=1e-5)
    kept = present if answer.dim() == 3 else slice(None)
    assert right.abs().max() > 0.3, "a comparison of zeros says nothing"
    torch.testing.assert_close(answer[kept], right[kept], atol=1e-5, rtol=1e-5)


@EVERY
def test_there_and_back(name: str, tmp_path: Path) -> None:
    """Bit for bit; and theirs opens what we write with nothing missing and nothing left over."""
    theirs = theirs_of(name)
    values, weights = saved(theirs, tmp_path)
    config, ours = opened(name, values, weights)
    back = export_weights(family(name).table(config), ours.state_dict())
    assert back.keys() <= weights.keys()
    assert all(torch.equal(back[key], weights[key]) for key in back)
    written = family(name).export_config(config)
    assert family(name).import_config(written) == config
    folder = tmp_path / "ours"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(written))
    save_file(back, folder / "model.safetensors", {"format": "pt"})
    again, report = getattr(transformers, name).from_pretrained(folder, output_loading_info=True)
    assert not any(report[kind] for kind in ("missing_keys", "unexpected_keys", "mismatched_keys")), report
    tokens, present, _ = batch()
    with torch.no_grad():
        first, second = (model.eval()(tokens, attention_mask=present.long())[0] for model in (theirs, again))
    assert torch.equal(first, second)
    if "Classification" in name:
        assert again.config.id2label == LABELS["id2label"]


def test_the_same_gradients(tmp_path: Path) -> None:
    theirs = theirs_of("BertForMaskedLM")
    for module in theirs.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    config, ours = opened("BertForMaskedLM", *saved(theirs, tmp_path))
    tokens, present, segments = batch()
    tokens = tokens.clamp(min=1)  # theirs keeps the embedding of padding, 0, where it is
    scores = theirs(tokens, attention_mask=present.long(), token_type_ids=segments).logits
    for logits in (scores, ours(tokens, present, segments)):
        nn.functional.cross_entropy(logits[present], tokens[present]).backward()
    expected = {name: p.grad for name, p in theirs.named_parameters()}
    found = export_weights(bert.table(config), {name: p.grad for name, p in ours.named_parameters()})
    for key, gradient in found.items():
        torch.testing.assert_close(gradient, expected[key], atol=2e-5, rtol=1e-4, msg=lambda m, k=key: f"{k}: {m}")


def test_a_file_as_google_published_it(tmp_path: Path) -> None:
    """bert-base-uncased: gamma and beta, counted positions, a pooler and a next-sentence head that nobody asked for."""
    theirs = theirs_of("BertForPreTraining")
    values, weights = saved(theirs, tmp_path)
    old = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in weights.items()
    }
    old["bert.embeddings.position_ids"] = torch.arange(24).unsqueeze(0)
    old["cls.predictions.decoder.weight"] = old["bert.embeddings.word_embeddings.weight"].clone()
    old["cls.predictions.decoder.bias"] = old["cls.predictions.bias"]
    tokens, present, segments = batch()
    with torch.no_grad():
        expected = theirs(tokens, attention_mask=present.long(), token_type_ids=segments, output_hidden_states=True)
    _, masked = opened("BertForMaskedLM", {**values, "architectures": ["BertForMaskedLM"]}, old)
    assert isinstance(masked, Masked)
    torch.testing.assert_close(masked(tokens, present, segments), expected.prediction_logits, atol=1e-5, rtol=1e-5)
    del old["cls.predictions.bias"]
    opened("BertForMaskedLM", {**values, "architectures": ["BertForMaskedLM"]}, old)
    _, plain = opened("BertModel", {key: value for key, value in values.items() if key != "architectures"}, old)
    torch.testing.assert_close(plain(tokens, present, segments), expected.hidden_states[-1], atol=1e-5, rtol=1e-5)


def test_a_file_without_the_prefix(tmp_path: Path) -> None:
    for name, prefix in (("BertForTokenClassification", "bert."), ("DistilBertForMaskedLM", "distilbert.")):
        values, weights = saved(theirs_of(name), tmp_path / name)
        _, ours = opened(name, values, {key.removeprefix(prefix): tensor for key, tensor in weights.items()})
        _, same = opened(name, values, weights)
        assert torch.equal(ours(batch()[0]), same(batch()[0]))


def test_distilbert_is_our_bert() -> None:
    config = distilbert.import_config(json.loads(theirs_of("DistilBertModel").config.to_json_string()))
    assert config == BertConfig(
        vocabulary=37, layers=3, heads=5, width=30, hidden=44, context=24, segments=0, dropout=0.1
    )


SENTENCES = [
    "That is a happy person",
    "That is a very happy person",
    "That is a happy dog",
    "Today is a sunny day",
    "",
    "Ünïcödé, 東京 & a wörd-that-is-unfathomablylongish " * 9,
]


def test_minilm_is_the_real_one() -> None:
    """Ids, hidden states of every layer and mean-pooled vectors as `transformers` has them; the published cosines."""
    model, tokenizer = minilm.opened()
    folder = data_at_hand.minilm()
    theirs = transformers.BertModel.from_pretrained(folder).eval()
    given = transformers.AutoTokenizer.from_pretrained(folder)(SENTENCES, padding=True, return_tensors="pt")
    rows, notes = vectors.encode(tokenizer, SENTENCES, model.context)
    mask = given["attention_mask"].bool()
    assert rows == [ids[real].tolist() for ids, real in zip(given["input_ids"], mask, strict=True)]
    assert not [note for note in notes if "longer" in note]
    with torch.no_grad():
        expected = theirs(**given, output_hidden_states=True)
        means = [state[real].mean(0) for state, real in zip(expected.last_hidden_state, mask, strict=True)]
    for number, state in enumerate(expected.hidden_states):
        found = vectors.token_vectors(model, rows, layer=number)
        for row in range(len(rows)):
            torch.testing.assert_close(found[row], state[row][mask[row]], atol=1e-5, rtol=1e-5)
    found = vectors.text_vectors(model, rows)
    torch.testing.assert_close(found, torch.stack(means), atol=1e-5, rtol=1e-5)
    near = nn.functional.cosine_similarity(found[:1], found[1:4])
    assert [round(value, 3) for value in near.tolist()] == [0.943, 0.695, 0.257]

"""Whole folders, both ways: what `transformers` saves opens here, what we export opens there, and nothing changes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import qkv
from qkv.errors import InputError, RefusedError
from qkv.generation.writing import Written
from qkv.recipe.bundle import Bundle, save
from text.kinds import TEXT, tokenizer

if not os.environ.get("CI"):
    pytest.importorskip("transformers", reason="parity with Hugging Face needs the extra: pip install 'qkv[hf]'")

import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()

ROWS = 420  # of the models: some more than the tokenizer has tokens, as Qwen's have
DECODER = {
    "vocab_size": ROWS, "hidden_size": 32, "intermediate_size": 44, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip
ENCODER = {
    "vocab_size": ROWS, "hidden_size": 32, "intermediate_size": 44, "num_hidden_layers": 2, "num_attention_heads": 4,
    "max_position_embeddings": 64,
}  # fmt: skip
DISTIL = {"vocab_size": ROWS, "dim": 32, "hidden_dim": 44, "n_layers": 2, "n_heads": 4, "max_position_embeddings": 64}
GPT2 = {"vocab_size": ROWS, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
LABELS = {"id2label": {0: "bad", 1: "good", 2: "odd"}, "label2id": {"bad": 0, "good": 1, "odd": 2}}
MODELS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", GPT2),
    "llama": ("LlamaForCausalLM", "LlamaConfig", DECODER),
    "llama-tied": ("LlamaForCausalLM", "LlamaConfig", {**DECODER, "tie_word_embeddings": True}),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config", DECODER),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", {**DECODER, "head_dim": 8}),
    "gpt2-classes": ("GPT2ForSequenceClassification", "GPT2Config", {**GPT2, **LABELS}),
    "gpt2-tags": ("GPT2ForTokenClassification", "GPT2Config", {**GPT2, **LABELS}),
    "llama-classes": ("LlamaForSequenceClassification", "LlamaConfig", {**DECODER, **LABELS}),
    "llama-tied-classes": (
        "LlamaForSequenceClassification",
        "LlamaConfig",
        {**DECODER, **LABELS, "tie_word_embeddings": True},
    ),
    "llama-tags": ("LlamaForTokenClassification", "LlamaConfig", {**DECODER, **LABELS}),
    "qwen2-classes": ("Qwen2ForSequenceClassification", "Qwen2Config", {**DECODER, **LABELS}),
    "qwen2-tags": ("Qwen2ForTokenClassification", "Qwen2Config", {**DECODER, **LABELS}),
    "qwen3-classes": ("Qwen3ForSequenceClassification", "Qwen3Config", {**DECODER, **LABELS, "head_dim": 8}),
    "qwen3-tags": ("Qwen3ForTokenClassification", "Qwen3Config", {**DECODER, **LABELS, "head_dim": 8}),
    "bert": ("BertModel", "BertConfig", ENCODER),
    "bert-masked": ("BertForMaskedLM", "BertConfig", ENCODER),
    "bert-classes": ("BertForSequenceClassification", "BertConfig", {**ENCODER, **LABELS}),
    "bert-tags": ("BertForTokenClassification", "BertConfig", {**ENCODER, **LABELS}),
    "distilbert": ("DistilBertModel", "DistilBertConfig", DISTIL),
    "distilbert-masked": ("DistilBertForMaskedLM", "DistilBertConfig", DISTIL),
    "distilbert-classes": ("DistilBertForSequenceClassification", "DistilBertConfig", {**DISTIL, **LABELS}),
}
SENTENCES = ["The river keeps the stone.", "Don't ask why: nobody knows!", "Stay"]


def theirs(name: str, folder: Path, shards: str | None = None) -> Any:
    """A random model of theirs with every parameter shaken, saved with a tokenizer."""
    kind, config, values = MODELS[name]
    torch.manual_seed(7)
    model = getattr(transformers, kind)(getattr(transformers, config)(**values)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, mean=0.5 if parameter.dim() == 1 else 0.0, std=0.3)
    model.save_pretrained(folder, **({"max_shard_size": shards} if shards else {}))
    encodes = "bert" in name
    own = tokenizer("wordpiece" if encodes else "bpe")
    own.save(folder / "tokenizer.json")
    if not encodes:
        names = {"bos_token": "<|end|>", "eos_token": "<|end|>", "pad_token": "<|end|>"}
        wrapped = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), **names)
        wrapped.save_pretrained(folder)
        for file in (
            "config.json",
            *(["generation_config.json"] if kind.endswith(("LMHeadModel", "CausalLM")) else []),
        ):
            values = json.loads((folder / file).read_text())
            end = own.separator
            values |= {"bos_token_id": end, "eos_token_id": end, "pad_token_id": end}
            (folder / file).write_text(json.dumps(values))
    return model


def answers(model: Any, ids: list[int]) -> torch.Tensor:
    with torch.no_grad():
        made = model(torch.tensor([ids]))
    return made.logits if hasattr(made, "logits") else made.last_hidden_state


def ours(model: qkv.api.Model, ids: list[int]) -> torch.Tensor:
    tokens = torch.tensor([ids])
    with torch.no_grad():
        return (
            model.bundle.model(tokens) if model.writes else model.bundle.model(tokens, torch.ones_like(tokens).bool())
        )


@pytest.mark.parametrize("name", MODELS)
def test_in_and_out(name: str, tmp_path: Path) -> None:
    """Equal answers at 1e-5; after export and a second reading the weights are the same bits; theirs opens it again."""
    original = theirs(name, tmp_path / "in")
    model = qkv.load(tmp_path / "in")
    for text in SENTENCES:
        ids = [*model.tokenizer.opening, *model.tokenizer.encode(text), *model.tokenizer.closing]
        torch.testing.assert_close(ours(model, ids), answers(original, ids), atol=2e-5, rtol=1e-5)
    compared = model.export(tmp_path / "out")
    assert len(compared) == 2
    assert all(each.passed for each in compared)
    assert all(each.largest < 1e-4 for each in compared)
    before, after = load_file(tmp_path / "in" / "model.safetensors"), load_file(tmp_path / "out" / "model.safetensors")
    assert before.keys() == after.keys()
    assert all(torch.equal(after[key], tensor) for key, tensor in before.items())
    again = qkv.load(tmp_path / "out")
    assert again.bundle.config == model.bundle.config
    assert again.tokenizer.roles.ends == model.tokenizer.roles.ends


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert"])
def test_several_files(name: str, tmp_path: Path) -> None:
    """Sharded weights, as large models have them."""
    original = theirs(name, tmp_path, shards="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    model = qkv.load(tmp_path)
    ids = model.tokenizer.encode(SENTENCES[0])
    torch.testing.assert_close(ours(model, ids), answers(original, ids), atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_half_precision_is_widened(kind: torch.dtype, tmp_path: Path) -> None:
    theirs("llama", tmp_path)
    model = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=kind)
    model.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path, dtype=torch.float32).eval()
    opened = qkv.load(tmp_path)
    ids = opened.tokenizer.encode(SENTENCES[0])
    torch.testing.assert_close(ours(opened, ids), answers(again, ids), atol=2e-5, rtol=1e-5)


def test_a_tied_head_that_is_there_twice(tmp_path: Path) -> None:
    """Some published files hold it, and angles that are computed here."""
    from safetensors.torch import save_file

    original = theirs("llama-tied", tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights["lm_head.weight"] = weights["model.embed_tokens.weight"].clone()
    weights["model.layers.0.self_attn.rotary_emb.inv_freq"] = torch.ones(4)
    save_file(weights, tmp_path / "model.safetensors")
    model = qkv.load(tmp_path)
    ids = model.tokenizer.encode(SENTENCES[0])
    torch.testing.assert_close(ours(model, ids), answers(original, ids), atol=2e-5, rtol=1e-5)


def test_gpt2_as_it_was_published(tmp_path: Path) -> None:
    """The hub's own files: no prefix, masks among the tensors, vocab.json and merges.txt instead of tokenizer.json."""
    from safetensors.torch import save_file

    original = theirs("gpt2", tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    published = {name.removeprefix("transformer."): tensor for name, tensor in weights.items()}
    published |= {f"h.{layer}.attn.bias": torch.ones(1, 1, 64, 64) for layer in range(2)}
    save_file(published, tmp_path / "model.safetensors")
    values = json.loads((tmp_path / "tokenizer.json").read_text())
    vocabulary = dict(values["model"]["vocab"])
    vocabulary["<|endoftext|>"] = vocabulary.pop("<|end|>")
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    merges = [pair if isinstance(pair, str) else " ".join(pair) for pair in values["model"]["merges"]]
    (tmp_path / "merges.txt").write_text("#version: 0.2\n" + "\n".join(merges) + "\n")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / name).unlink()
    model = qkv.load(tmp_path)
    ids = model.tokenizer.encode(SENTENCES[0])
    assert ids == tokenizer("bpe").encode(SENTENCES[0])
    torch.testing.assert_close(ours(model, ids), answers(original, ids), atol=2e-5, rtol=1e-5)


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A gpt, a modern with characters and a modern with BPE, trained by qkv on a real enough text."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "text.txt").write_text(TEXT * 8, encoding="utf-8")
    (folder / "lines.txt").write_text(TEXT * 8, encoding="utf-8")
    shape = {"layers": 2, "heads": 2, "width": 32, "context": 256}
    training = {"steps": 12, "batch": 4, "threads": 1}
    for name, kind, words, data, documents in (
        ("gpt", "gpt", "bpe", "text.txt", "files"),
        ("characters", "modern", "characters", "text.txt", "files"),
        ("bpe", "modern", "bpe", "lines.txt", "lines"),
    ):
        recipe = {
            "model": {"kind": kind, **shape},
            "tokenizer": {"kind": words, **({"size": 400} if words == "bpe" else {})},
            "corpus": {"documents": documents},
            "training": training,
        }
        qkv.train(folder / data, run=folder / name, recipe=recipe)
    return folder


@pytest.mark.parametrize("name", ["gpt", "characters", "bpe"])
def test_what_we_trained_writes_the_same_there(name: str, trained: Path, tmp_path: Path) -> None:
    """The same ids, the same 200 greedy tokens, the same special tokens, by theirs alone."""
    model = qkv.load(trained / name)
    model.export(tmp_path / "out")
    words = AutoTokenizer.from_pretrained(tmp_path / "out", local_files_only=True)
    copy = AutoModelForCausalLM.from_pretrained(tmp_path / "out", local_files_only=True)
    prompt = "The river"
    ids = words(prompt, return_tensors="pt")
    assert ids["input_ids"][0].tolist() == [*model.bundle.opening, *model.tokenizer.encode(prompt)]
    assert words.eos_token_id == copy.generation_config.eos_token_id == model.tokenizer.separator
    written = copy.generate(**ids, max_new_tokens=200, do_sample=False, eos_token_id=None)
    own = Written()
    for _ in model.stream(prompt, length=200, temperature=0.0, precision="f32", ends=(), written=[own]):
        pass
    assert own.tokens == written[0, ids["input_ids"].size(1) :].tolist()
    assert words.decode(written[0], skip_special_tokens=True) == prompt + own.text


def test_what_has_no_twin_gets_a_sentence(tmp_path: Path) -> None:
    from qkv.models.rnn import RecurrentConfig

    words = tokenizer("bpe")
    config = RecurrentConfig(kind="lstm", vocabulary=words.vocabulary, width=16, context=16)
    save(tmp_path / "lstm", Bundle(config.build(), config, words, 1))
    with pytest.raises(InputError, match="a lstm model has no equivalent in Hugging Face transformers"):
        qkv.load(tmp_path / "lstm").export(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_export_that_differs_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name table with a slip, as a bug would make it: two tensors of one shape exchanged."""
    from qkv.interop import export

    theirs("llama", tmp_path / "in")
    honest = export.huggingface_weights

    def exchanged(bundle: Any) -> dict[str, torch.Tensor]:
        weights = honest(bundle)
        one, other = "model.layers.0.mlp.gate_proj.weight", "model.layers.0.mlp.up_proj.weight"
        return {**weights, one: weights[other], other: weights[one]}

    monkeypatch.setattr(export, "huggingface_weights", exchanged)
    with pytest.raises(RefusedError, match="the copy differs from the original"):
        qkv.load(tmp_path / "in").export(tmp_path / "out")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in"]

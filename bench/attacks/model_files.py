"""Hostile names inside model files that others may have made: settings, labels, tokens, metadata."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from safetensors.numpy import load_file, save_file

from attacks.driver import Facts, Worker
from interop import tiny_gguf


def folder(worker: Worker, facts: Facts) -> list[list[str]]:
    """In the files of a Hugging Face folder: settings, labels, tokens, metadata."""
    hostile, place = facts["hostile"].encode("utf-8", "replace").decode(), worker.here / "hf"
    whole = ("hf", "chat")[facts["pick"] % 2]
    shutil.copytree(worker.stage / whole, place)
    config = json.loads((place / "config.json").read_text(encoding="utf-8"))
    what = facts["pick"] // 2 % 6
    if what == 0:
        config["id2label"] = {"0": hostile, "1": f"{hostile}2"}
    elif what == 1:
        config[("model_type", "architectures", "hidden_act", "_name_or_path")[facts["pick"] % 4]] = hostile
    elif what == 2:
        config[hostile] = hostile
    elif what == 3:
        _tokens(place / "tokenizer.json", hostile)
    elif what == 4:
        weights = place / "model.safetensors"
        save_file({**load_file(weights), f"x{hostile}": load_file(weights).popitem()[1]}, weights, {"format": hostile})
    else:
        (place / "tokenizer_config.json").write_text(json.dumps({"eos_token": hostile, "chat_template": hostile}))
    (place / "config.json").write_text(json.dumps(config), encoding="utf-8")
    using = ["classify", str(place), "a dog"] if whole == "hf" else ["generate", str(place), "he", "--length", "3"]
    return [
        using,
        ["inspect", str(place), "he"],
        ["import", str(place), "--to", "{here}/own"],
        ["verify", "{here}/own"] if facts["pick"] % 5 == 0 else ["inspect", "{here}/own", "he"],
        ["tokenize", "he", "--tokenizer", str(place)],
        ["chat", str(place), "he", "--length", "2"],
    ]


def _tokens(path: Path, hostile: str) -> None:
    """Give a token of the vocabulary, or one beside it, another name."""
    found = json.loads(path.read_text(encoding="utf-8"))
    vocabulary = found["model"]["vocab"]
    if isinstance(vocabulary, dict) and hostile not in vocabulary:
        last = max(vocabulary, key=vocabulary.__getitem__)
        vocabulary[hostile] = vocabulary.pop(last)
    path.write_text(json.dumps(found), encoding="utf-8")


def gguf(worker: Worker, facts: Facts) -> list[list[str]]:
    """In the settings of a GGUF file."""
    values = tiny_gguf.values_of("qwen2")
    hostile = facts["hostile"].encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    key = ("general.name", "general.architecture", "tokenizer.ggml.pre", "tokenizer.ggml.model",
           "tokenizer.chat_template", "general.license", "tokens", "new key")[facts["pick"] % 8]  # fmt: skip
    if key == "tokens":
        values["tokenizer.ggml.tokens"] = [*values["tokenizer.ggml.tokens"][:-1], hostile]
    elif key == "new key":
        values[hostile] = hostile
    else:
        values[key] = hostile if facts["pick"] % 3 else [hostile]
    path = worker.here / "tiny.gguf"
    path.write_bytes(tiny_gguf.assembled(values, tiny_gguf.tensors_of("qwen2")))
    return [
        ["inspect", str(path), "he"],
        ["import", str(path), "--to", "{here}/own"],
        ["generate", str(path), "he", "--length", "8"],
        ["tokenize", "he", "--tokenizer", str(path)],
        ["generate", str(path), "he", "--next", "260"],
    ]

"""Small labelled data of every kind, a few steps of training on it, and small models to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from qkv import session as sessions
from qkv.models.bert import BertConfig
from qkv.models.gpt import GPTConfig
from qkv.models.masked import MaskedConfig
from qkv.models.modern import ModernConfig
from qkv.models.rnn import RecurrentConfig
from qkv.recipe import bundle
from qkv.tasks.protocol import Session
from text.kinds import tokenizer

GOOD = ("fine", "bright", "warm", "clever")
BAD = ("dull", "cold", "weak", "stale")
THINGS = ("river", "stone", "film", "book", "café", "song", "play")
TAGS = {"the": "DET", "keeps": "VERB", "and": "CONJ"}
ENCODER = {"layers": 2, "heads": 2, "width": 16, "context": 32}


def sentences(count: int = 160) -> list[tuple[str, bool]]:
    """Texts of unequal lengths and whether they are friendly."""
    drawn = np.random.default_rng(5)
    found = []
    for number in range(count):
        good = number % 2 == 0
        words = [str(drawn.choice(GOOD if good else BAD)), str(drawn.choice(THINGS))]
        more = " and the ".join(str(each) for each in drawn.choice(THINGS, int(drawn.integers(1, 6))))
        found.append((f"The {words[0]} {words[1]} {number} keeps the {more}", good))
    return found


def write(folder: Path, task: str) -> Path:
    """A file, or a folder, of examples for a task."""
    folder.mkdir(parents=True, exist_ok=True)
    rows, path = sentences(), folder / "table.csv"
    match task:
        case "classification":
            lines = ["text,label", *(f"{text},{'good' if good else 'bad'}" for text, good in rows)]
        case "pairs":
            both = [(*one, *other) for one, other in zip(rows, rows[3:] + rows[:3], strict=True)]
            lines = ["sentence1,sentence2,label"]
            lines += [f"{a},{b},{'same' if (i % 3 == 0) else 'other'}" for i, (a, _, b, _) in enumerate(both)]
        case "regression":
            lines = ["text,score", *(f"{text},{3.5 if good else 1.25}" for text, good in rows)]
        case "multi-label":
            lines = ["text\tlabels"]
            lines += [f"{text}\t{'good' if good else 'bad'}{'|long' if len(text) > 60 else ''}" for text, good in rows]
            path = folder / "table.tsv"
        case "tagging":
            path = folder / "words.conll"
            lines = []
            for text, _ in rows:
                lines += [*(f"{word}\t{TAGS.get(word.lower(), 'NOUN')}" for word in text.split()), ""]
        case "images":
            drawn = np.random.default_rng(3)
            pixels = drawn.integers(0, 60, (120, 12, 12), dtype=np.uint8)
            labels = np.arange(120) % 2
            pixels[labels == 1, :6] += 150
            np.savez(folder / "pictures.npz", images=pixels, labels=labels)
            return folder / "pictures.npz"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def begun(data: Path, run: Path, task: str, /, **sections: dict[str, Any]) -> Session:
    """A run before its first step."""
    said = {"task": "classification" if task == "pairs" else task}
    training = {"steps": 30, "threads": 1, "batch": 16, **sections.pop("training", {})}
    corpus = {"files": [str(data)], **said, **sections.pop("corpus", {})}
    small = {"tokenizer": {"kind": "wordpiece", "size": 300}} if task != "images" and not training.get("start") else {}
    if sections.get("model", {}).get("kind") == "linear":  # it is fitted to all examples at once, and reads characters
        training.pop("batch")
        small = {}
    values = {**small, **sections, "corpus": corpus, "training": training}
    return sessions.start(values, run, numbered=False, minutes=5.0)


def trained(data: Path, run: Path, task: str, /, **sections: dict[str, Any]) -> Session:
    session = begun(data, run, task, **sections)
    for _ in session.run.events(session.state, session.objective):
        pass
    return session


def origin(folder: Path, kind: str) -> Path:
    """A small model of a kind, as somebody has trained it before."""
    words = tokenizer("wordpiece" if kind in ("bert", "masked", "distil") else "bpe")
    bert = {"vocabulary": words.vocabulary, **ENCODER}
    configs: dict[str, Any] = {
        "modern": ModernConfig(vocabulary=words.vocabulary, **ENCODER),
        "gpt": GPTConfig(vocabulary=words.vocabulary, **ENCODER),
        "lstm": RecurrentConfig(kind="lstm", vocabulary=words.vocabulary, width=16, context=32),
        "bert": BertConfig(**bert, pooler="first"),
        "distil": BertConfig(**bert, segments=0),
        "masked": MaskedConfig(encoder=BertConfig(**bert, pooler="first"), next_sentence="linear"),
    }
    torch.manual_seed(1)
    model = configs[kind].build()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, mean=1.0 if parameter.dim() == 1 else 0.0, std=0.1)
    bundle.save(folder, bundle.Bundle(model, configs[kind], words, 2))
    return folder

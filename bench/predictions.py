"""Labels of texts: qkv beside Hugging Face's `BertForSequenceClassification`, the same weights, in turns, in one run.

    python bench/predictions.py SENTENCES.tsv [--folder MODEL] [--pairs 7] [--threads 2]

SENTENCES.tsv is SST-2's dev.tsv. MODEL is a BERT classifier as Hugging Face keeps it; without one, random weights of
MiniLM's shape and of bert-tiny's. Both get the ids of all sentences sorted by length and give probabilities: Hugging
Face in f32 in padded batches of 32, qkv by `decisions.predict` in f32 and in bf16.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import qkv
from qkv.data.encode import EncodedRows, encode_texts
from qkv.evaluation import decisions
from qkv.text.tokenizer import TokenizerConfig
from qkv.text.vocabulary import train_tokenizer

BATCH = 32
SHAPES = {
    "MiniLM": {"hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536},
    "bert-tiny": {"hidden_size": 128, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 512},
}


def sentences(path: str) -> list[str]:
    lines = Path(path).read_text(encoding="utf-8").splitlines()[1:]
    return [line.split("\t")[0] for line in lines]


def folders(said: str | None, texts: list[str], aside: Path) -> Iterator[tuple[str, Path]]:
    if said is not None:
        yield Path(said).name, Path(said)
        return
    words = train_tokenizer(TokenizerConfig(kind="wordpiece", size=2000, case="lower"), texts)
    for name, shape in SHAPES.items():
        config = transformers.BertConfig(vocab_size=words.vocabulary, max_position_embeddings=512, **shape)
        model = transformers.BertForSequenceClassification(config)
        model.save_pretrained(aside / name)
        words.save(aside / name / "tokenizer.json")
        yield name, aside / name


def theirs(model: Any, rows: EncodedRows) -> np.ndarray:
    found = np.zeros((len(rows), model.config.num_labels), dtype=np.float32)
    order = np.argsort(-rows.lengths, kind="stable")
    for start in range(0, len(order), BATCH):
        which = order[start : start + BATCH]
        longest = int(rows.lengths[which].max())
        tokens, present = torch.zeros(len(which), longest, dtype=torch.long), torch.zeros(len(which), longest)
        for place, row in enumerate(which.tolist()):
            ids = rows.row(row)
            tokens[place, : len(ids)] = torch.from_numpy(ids.astype(np.int64))
            present[place, : len(ids)] = 1
        with torch.inference_mode():
            found[which] = model(tokens, attention_mask=present.long()).logits.softmax(-1).numpy()
    return found


def seconds(call: Callable[[], object]) -> float:
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("sentences")
    parser.add_argument("--folder")
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    texts = sentences(options.sentences)
    print(f"{len(texts)} sentences, {options.threads} threads, torch {torch.__version__}, "
          f"transformers {transformers.__version__}")  # fmt: skip
    with tempfile.TemporaryDirectory() as aside:
        for name, folder in folders(options.folder, texts, Path(aside)):
            opened = qkv.load(folder)
            ours: Any = opened.bundle.model
            other = transformers.BertForSequenceClassification.from_pretrained(folder).eval()
            rows = encode_texts(opened.tokenizer, [(text, None) for text in texts], ours.context, pairs=False)
            calls: dict[str, Callable[[], np.ndarray]] = {
                "f32": lambda: decisions.predict(ours, rows, "single"),  # noqa: B023
                "bf16": lambda: decisions.predict(ours, rows, "single", precision="bf16"),  # noqa: B023
                "Hugging Face": lambda: theirs(other, rows),  # noqa: B023
            }
            found = {which: call() for which, call in calls.items()}  # warms all
            times: dict[str, list[float]] = {which: [] for which in calls}
            for number in range(options.pairs):
                for which in list(calls)[:: 1 if number % 2 == 0 else -1]:
                    times[which].append(seconds(calls[which]))
            speed = len(texts) / statistics.median(times["Hugging Face"])
            print(f"{name}: {rows.lengths.mean():.1f} tokens a text, Hugging Face f32 {speed:,.0f} texts/s")
            for which in ("f32", "bf16"):
                ratios = sorted(a / b for a, b in zip(times["Hugging Face"], times[which], strict=True))
                gap = np.abs(found[which] - found["Hugging Face"]).max()
                same = (found[which].argmax(1) == found["Hugging Face"].argmax(1)).sum()
                print(
                    f"  qkv {which} {len(texts) / statistics.median(times[which]):,.0f} texts/s; ratio "
                    f"{statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f} in {len(ratios)} rounds); "
                    f"largest difference {gap:.1e}, {same} of {len(texts)} answers the same",
                    flush=True,
                )


if __name__ == "__main__":
    main()

"""The linear model beside scikit-learn's TF-IDF and logistic regression: accuracy and seconds on the same rows.

    python bench/linear.py --data DATA --out linear.jsonl [--seeds 3] [--sets sst2 ag-news sms-spam imdb-5k cola]

Each set is measured in a process of its own, one system after the other in the same run, and both from texts in memory:
theirs is `TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)` and `LogisticRegression`; ours has its choice of
n-grams and penalty on held-out training rows, the counting, and the fit. "words" has the same n-grams as theirs, with
"chosen" letters may help. Seconds depend on what else the machine does, their ratio much less. A seed draws the split
of a set that has none. What the file already holds is not measured again.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

Rows = tuple[list[str], list[str]]
SETS = ("sst2", "ag-news", "sms-spam", "imdb-5k", "cola")


def table(path: Path, text: int, label: int, first: int = 1) -> Rows:
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    lines = content.decode().split("\n")[first:]
    rows = [row for line in lines if len(row := line.split("\t")) > max(text, label)]
    return [row[text] for row in rows], [row[label] for row in rows]


def drawn(rows: Rows, seed: int, share: float) -> tuple[Rows, Rows]:
    order = np.random.default_rng(seed).permutation(len(rows[0]))
    part = int(share * len(order))
    texts, labels = rows
    train, test = (
        ([texts[number] for number in which], [labels[number] for number in which])
        for which in (order[:part].tolist(), order[part:].tolist())
    )
    return train, test


def read(name: str, folder: Path, seed: int) -> tuple[Rows, Rows]:
    """Training rows and test rows."""
    match name:
        case "sst2":
            return table(folder / "sst2/train.tsv.gz", 0, 1), table(folder / "sst2/dev.tsv", 0, 1)
        case "cola":
            return table(folder / "cola/train.tsv", 3, 1, 0), table(folder / "cola/dev.tsv", 3, 1, 0)
        case "ag-news":
            return table(folder / "ag-news/dev.tsv.gz", 0, 1, 0), table(folder / "ag-news/test.tsv.gz", 0, 1, 0)
        case "sms-spam":
            return drawn(table(folder / "sms-spam/SMSSpamCollection", 1, 0, 0), seed, 0.72)
    return drawn(table(folder / "imdb-5k/movie_review.tsv.gz", 2, 1), seed, 0.8)


def theirs(train: Rows, test: Rows) -> dict[str, float]:
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import LogisticRegression

    began = time.perf_counter()
    vectorizer = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
    model = LogisticRegression(max_iter=1000).fit(vectorizer.fit_transform(train[0]), train[1])
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    accuracy = float(np.mean(model.predict(vectorizer.transform(test[0])) == np.array(test[1])))
    return {"accuracy": accuracy, "seconds": seconds, "answering": time.perf_counter() - began}


def ours(train: Rows, test: Rows, letters: int | None) -> dict[str, Any]:
    import torch

    from qkv.data.encode import encode_texts
    from qkv.evaluation.decisions import predict
    from qkv.models.classifier import ClassifierConfig
    from qkv.models.linear import WHOLE, LinearConfig
    from qkv.objectives.classification import ClassificationConfig
    from qkv.objectives.whole_data import WholeData
    from qkv.tasks.classification.ngrams import SOLVER, NgramRows, alphabet_of, rarity
    from qkv.text.tokenizer import TokenizerConfig
    from qkv.text.vocabulary import train_tokenizer
    from qkv.training import loop

    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    labels = sorted(set(train[1]))
    targets = np.array([labels.index(label) for label in train[1]], dtype=np.int32)
    began = time.perf_counter()
    tokenizer = train_tokenizer(TokenizerConfig(kind="characters"), train[0])
    rows = encode_texts(tokenizer, [(text, None) for text in train[0]], WHOLE, pairs=False)
    data = NgramRows(rows, alphabet_of(tokenizer), targets)
    model = ClassifierConfig(encoder=LinearConfig(vocabulary=tokenizer.vocabulary), labels=tuple(labels))
    task = ClassificationConfig()
    choice = data.choose(model, task, letters, None, None)
    chosen = time.perf_counter() - began
    classifier = replace(model, encoder=choice.encoder).build()
    counts = data.counts(choice.encoder, len(labels))
    classifier.encoder.learn_features(data.alphabet, torch.from_numpy(counts.keys), torch.from_numpy(rarity(counts)))
    training = replace(SOLVER, steps=300, weight_decay=choice.weight_decay, tolerance=3e-5)
    state = loop.initial_state(classifier, training)
    objective = WholeData(task, data.weighted(choice.encoder, len(labels)), targets, "single")
    for step in loop.train(state, objective, training):
        if step.converged:
            break
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    asked = encode_texts(tokenizer, [(text, None) for text in test[0]], WHOLE, pairs=False)
    probabilities = predict(classifier, asked, "single").values
    known = {label: number for number, label in enumerate(labels)}
    accuracy = float(np.mean(probabilities.argmax(1) == np.array([known.get(label, -1) for label in test[1]])))
    return {"accuracy": accuracy, "seconds": seconds, "choosing": chosen, "answering": time.perf_counter() - began,
            "steps": state.step, "choice": choice.in_words}  # fmt: skip


def measure(name: str, folder: Path, seed: int) -> dict[str, Any]:
    train, test = read(name, folder, seed)
    load = os.getloadavg()[0]
    known = theirs(train, test)
    own = {way: ours(train, test, letters) for way, letters in (("words", 0), ("chosen", None))}
    ratios = {way: known["seconds"] / found["seconds"] for way, found in own.items()}
    sizes = {"train": len(train[0]), "test": len(test[0])}
    return {"set": name, "seed": seed, **sizes, "theirs": known, **own, "times_as_fast": ratios, "load": load}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, required=True)
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--seeds", type=int, default=3)
    options.add_argument("--sets", nargs="+", default=SETS, choices=SETS)
    options.add_argument("--one", nargs=2, metavar=("SET", "SEED"), help=argparse.SUPPRESS)
    given = options.parse_args()
    if given.one:
        print(json.dumps(measure(given.one[0], given.data, int(given.one[1]))))
        return
    lines = given.out.read_text(encoding="utf-8").splitlines() if given.out.is_file() else []
    done = {(line["set"], line["seed"]) for line in map(json.loads, lines)}
    for name in given.sets:
        for seed in range(given.seeds if name in ("sms-spam", "imdb-5k") else 1):
            if (name, seed) in done:
                continue
            command = [sys.executable, __file__, "--data", str(given.data), "--out", str(given.out)]
            found = subprocess.run([*command, "--one", name, str(seed)], capture_output=True, text=True, check=True)
            with given.out.open("a", encoding="utf-8") as out:
                out.write(found.stdout.splitlines()[-1] + "\n")
            print(found.stdout.splitlines()[-1], flush=True)


if __name__ == "__main__":
    main()

"""Taggers of qkv compared with sklearn-crfsuite and with spaCy from scratch: same split, same minutes, in turns.

    python -m venv peers && peers/bin/pip install sklearn-crfsuite spacy
    python bench/taggers.py --peers peers/bin/python --minutes 2 --out reports/taggers.json \\
        ewt=TRAIN.conllu.gz,DEV.conllu.gz,TEST.conllu.gz wnut=TRAIN.conll,DEV.conll,TEST.conll

Files are CoNLL-U (the tags are UPOS) or have a word and its tag in the first and the last column. Everything is chosen
on DEV; TEST may be left out. One run after the other: each round runs all systems on a set before the next round. What
is done is kept in --out, and a second call goes on after it. CRFsuite has the usual features (word, affixes, shape,
two neighbours to each side), c1 = c2 = 0.1 and 100 iterations, however long they take; spaCy trains its own default
network until the minutes are over and keeps its best epoch. `foreign` is the processor time that other programs took
meanwhile, as a share of the machine: above 0.1 a run is not comparable. Compute: sets x rounds x four systems x
minutes, two cores; two sets, three rounds and two minutes are 48 minutes.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Sentence = list[tuple[str, str]]
SYSTEMS = ("qkv", "qkv linear", "crfsuite", "spacy")
LIMIT = 3  # times the minutes that a run may take before it counts as failed


def read(path: str) -> list[Sentence]:
    """The sentences of a CoNLL or CoNLL-U file: words with their tags."""
    universal, sentences, current = ".conllu" in path, list[Sentence](), Sentence()
    opened = gzip.open(path, "rt", encoding="utf-8") if path.endswith(".gz") else open(path, encoding="utf-8")  # noqa: SIM115
    with opened as lines:
        for line in [*lines, ""]:
            cells = line.rstrip("\n").split("\t")
            if not line.strip():
                if current:
                    sentences.append(current)
                current = []
            elif not universal:
                current.append((cells[0], cells[-1]))
            elif not line.startswith("#") and cells[0].isdigit():
                current.append((cells[1], cells[3]))
    return sentences


def spans(tags: list[str]) -> set[tuple[str, int, int]]:
    """The spans of BIO tags, as conlleval.pl reads them."""
    found, start = set(), None
    for place, tag in enumerate([*tags, "O"]):
        if start is not None and (tag[0] in "BO" or tag[2:] != tags[start][2:]):
            found.add((tags[start][2:], start, place))
            start = None
        if tag[0] == "B" or (tag[0] == "I" and start is None):
            start = place
    return found


def score(true: list[list[str]], predicted: list[list[str]]) -> float:
    """F1 of spans where the tags are BIO, else the share of right tags."""
    if {tag[0] for tags in true for tag in tags} <= set("BIO") and any("-" in tag for tags in true for tag in tags):
        pairs = [(spans(one), spans(other)) for one, other in zip(true, predicted, strict=True)]
        right = sum(len(one & other) for one, other in pairs)
        return 2 * right / max(1, sum(len(one) + len(other) for one, other in pairs))
    pairs_of_tags = [pair for one, other in zip(true, predicted, strict=True) for pair in zip(one, other, strict=True)]
    return sum(one == other for one, other in pairs_of_tags) / len(pairs_of_tags)


def scores(predict: Any, files: list[str]) -> dict[str, float]:
    """The scores on the held-out files, of a function from the words of sentences to their tags."""
    results = {}
    for name, file in zip(("dev", "test"), files[1:], strict=False):
        sentences = read(file)
        true = [[tag for _, tag in sentence] for sentence in sentences]
        results[name] = score(true, predict([[word for word, _ in sentence] for sentence in sentences]))
    return results


def crfsuite(files: list[str], minutes: float, seed: int) -> dict[str, float]:
    import sklearn_crfsuite

    def own(word: str, mark: str) -> list[str]:
        shape = "".join("A" if c.isupper() else "a" if c.islower() else "0" if c.isdigit() else c for c in word)
        kinds = f"{word.istitle()}{word.isupper()}{word.isdigit()}"
        return [f"{mark}lower={word.lower()}", f"{mark}kind={kinds}", f"{mark}shape={shape[:10]}"]

    def features(words: list[str]) -> list[list[str]]:
        rows = []
        for place, word in enumerate(words):
            row = ["bias", f"form={word}", *own(word, "")]
            row += [f"prefix={word[:size].lower()}" for size in (1, 2, 3, 4)]
            row += [f"suffix={word[-size:].lower()}" for size in (1, 2, 3, 4)]
            for offset in (-2, -1, 1, 2):
                near = place + offset
                row += own(words[near], str(offset)) if 0 <= near < len(words) else [f"{offset}border"]
            rows.append(row)
        return rows

    train = read(files[0])
    model = sklearn_crfsuite.CRF(algorithm="lbfgs", c1=0.1, c2=0.1, max_iterations=100, all_possible_transitions=True)
    model.fit(
        [features([word for word, _ in sentence]) for sentence in train],
        [[tag for _, tag in sentence] for sentence in train],
    )
    return scores(lambda sentences: model.predict([features(words) for words in sentences]), files)


def spacy(files: list[str], minutes: float, seed: int) -> dict[str, float]:
    import spacy as library
    from spacy.tokens import Doc
    from spacy.training import Example, biluo_tags_to_spans, iob_to_biluo
    from spacy.util import fix_random_seed, minibatch

    ends_at = time.perf_counter() + 60 * minutes
    fix_random_seed(seed)
    train, dev = read(files[0]), read(files[1])
    names = {tag for sentence in train for _, tag in sentence}
    entities = all(tag == "O" or tag[:2] in ("B-", "I-") for tag in names)
    nlp = library.blank("en")
    pipe = nlp.add_pipe("ner" if entities else "tagger")
    for name in names:
        pipe.add_label(name[2:] if entities else name) if name != "O" or not entities else None

    def example(sentence: Sentence) -> Any:
        words = [word for word, _ in sentence]
        target = Doc(nlp.vocab, words=words)
        tags = [tag for _, tag in sentence]
        if entities:
            target.ents = biluo_tags_to_spans(target, iob_to_biluo(tags))
        else:
            for token, tag in zip(target, tags, strict=True):
                token.tag_ = tag
        return Example(Doc(nlp.vocab, words=words), target)

    def predict(sentences: list[list[str]]) -> list[list[str]]:
        docs = nlp.pipe(Doc(nlp.vocab, words=words) for words in sentences)
        if not entities:
            return [[token.tag_ for token in doc] for doc in docs]
        return [[token.ent_iob_ + (f"-{token.ent_type_}" if token.ent_type_ else "") for token in doc] for doc in docs]

    examples = [example(sentence) for sentence in train]
    optimizer = nlp.initialize(lambda: examples[:1000])
    best: tuple[float, bytes] = (-1.0, b"")
    drawn, true = random.Random(seed), [[tag for _, tag in sentence] for sentence in dev]
    words = [[word for word, _ in sentence] for sentence in dev]
    while time.perf_counter() < ends_at:
        drawn.shuffle(examples)
        for batch in minibatch(examples, 64):
            nlp.update(batch, sgd=optimizer, drop=0.1)
            if time.perf_counter() >= ends_at:
                break
        with nlp.use_params(optimizer.averages):
            value = score(true, predict(words))
            if value > best[0]:
                best = (value, nlp.to_bytes())
    nlp.from_bytes(best[1])
    return scores(predict, files)


def qkv(files: list[str], minutes: float, seed: int, model: str = "") -> dict[str, float]:
    """A run of the command line with its defaults, scored by `evaluate`."""
    with tempfile.TemporaryDirectory() as folder:
        run = f"{folder}/run"
        words = ["train", files[0], "--valid", files[1], "--minutes", str(minutes), "--run", run]
        words += ["--set", f"training.seed={seed}", *(["--model", model] if model else [])]
        subprocess.run([sys.executable, "-m", "qkv", *words], check=True, capture_output=True)
        results = {}
        for name, file in zip(("dev", "test"), files[1:], strict=False):
            command = [sys.executable, "-m", "qkv", "evaluate", run, file, "--json"]
            values = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
            results[name] = values["f1" if values["metric"] == "span_f1" else values["metric"]]
    return results


PEERS = {"crfsuite": crfsuite, "spacy": spacy}


@contextlib.contextmanager
def watched(found: dict[str, Any]) -> Iterator[None]:
    def busy() -> float:
        fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
        own = os.times()
        return (sum(fields[:8]) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK") - sum(own[:4])

    began, before = time.perf_counter(), busy()
    yield
    found["seconds"] = round(time.perf_counter() - began, 1)
    found["foreign"] = round(max(0.0, busy() - before) / found["seconds"] / (os.cpu_count() or 1), 3)


def measured(system: str, files: list[str], options: argparse.Namespace, seed: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    with watched(found):
        if system.startswith("qkv"):
            found |= qkv(files, options.minutes, seed, system.partition(" ")[2])
        else:
            command = [
                options.peers,
                __file__,
                "--worker",
                system,
                "--minutes",
                str(options.minutes),
                "--seed",
                str(seed),
            ]
            done = subprocess.run(
                [*command, ",".join(files)], check=True, capture_output=True, text=True,
                timeout=60 * options.minutes * LIMIT + 600,
            )  # fmt: skip
            found |= json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="+", help="NAME=TRAIN,DEV[,TEST]")
    parser.add_argument("--peers", default=sys.executable)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--systems", nargs="+", default=SYSTEMS, choices=SYSTEMS)
    parser.add_argument("--out", type=Path, default=Path("reports/taggers.json"))
    parser.add_argument("--worker", choices=PEERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        print(json.dumps(PEERS[options.worker](options.sets[0].split(","), options.minutes, options.seed)))
        return
    options.out.parent.mkdir(parents=True, exist_ok=True)
    known: dict[str, Any] = json.loads(options.out.read_text()) if options.out.exists() else {}
    for seed in range(options.rounds):
        for name, files in (given.split("=", 1) for given in options.sets):
            for system in options.systems:
                key = f"{name}, {system}, {options.minutes:g} min, seed {seed}"
                if key not in known:
                    known[key] = measured(system, files.split(","), options, seed)
                    options.out.write_text(json.dumps(known, indent=2) + "\n")
                print(key, known[key], flush=True)
    print(f"\n{'set':8} {'system':12} {'dev':>8} {'test':>8} {'seconds':>8}   medians of {options.rounds} rounds")
    for name in (given.partition("=")[0] for given in options.sets):
        for system in options.systems:
            rows = [
                value for key, value in known.items() if key.startswith(f"{name}, {system}, {options.minutes:g} min")
            ]
            cells = [
                statistics.median(row.get(part, float("nan")) for row in rows) for part in ("dev", "test", "seconds")
            ]
            print(f"{name:8} {system:12} {cells[0]:8.4f} {cells[1]:8.4f} {cells[2]:8.1f}")


if __name__ == "__main__":
    main()

"""What the clearest heads are worth: the loss without the previous-token and the induction head, beside random heads.

    python bench/heads.py MODEL en_ewt-ud-dev.conllu.gz [--drawn 16] [--texts 12]

Texts are of two kinds: sentences of the file (of a text file, its lines), and random pieces that repeat. The heads are
the ones with the highest scores of their role; the others are drawn of all the rest. Each is taken out alone; told is
by how much the loss rises, with an interval of the bootstrap over texts, and how many of the drawn heads move it less.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np

import qkv
from qkv.evaluation.intervals import bootstrap
from qkv.inspection.edges import encode_sentence, read
from qkv.inspection.head_roles import Array, CountedText, Head, find_roles, repeated
from qkv.inspection.head_table import loss, read_texts, without_heads
from qkv.inspection.subject import Subject, main_stack, stacks
from qkv.tasks import inspection_subject

SEED = 3
At = tuple[int, int]
Texts = dict[str, list[CountedText]]


def losses(subject: Subject, texts: Sequence[CountedText]) -> Array:
    """One a text: the nats a token."""
    return np.array([loss(subject, [text]) for text in texts], dtype=float)


def rises(subject: Subject, at: At, texts: Texts, whole: dict[str, Array]) -> dict[str, Array]:
    """By how much each text's loss rises without a head."""
    with without_heads(subject.model, main_stack(stacks(subject.model)).name, at[0], [at[1]]):
        return {name: losses(subject, given) - whole[name] for name, given in texts.items()}


def estimated(values: Array) -> tuple[float, float, float]:
    (found,) = bootstrap(
        np.ones(len(values), dtype=np.int64), lambda counts: (counts @ values / counts.sum(1))[:, None]
    )
    return found.value or 0.0, found.low or 0.0, found.high or 0.0


def best(heads: Sequence[Head], role: str, number: int) -> list[Head]:
    return sorted((each for each in heads if each.role == role), key=lambda each: -each.score)[:number]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model")
    parser.add_argument("data")
    parser.add_argument("--drawn", type=int, default=16)
    parser.add_argument("--texts", type=int, default=12)
    parser.add_argument("--best", type=int, default=3)
    given = parser.parse_args()
    subject = inspection_subject.inspection_subject(qkv.load(given.model).bundle)
    tower = main_stack(stacks(subject.model))
    if given.data.removesuffix(".gz").endswith(".conllu"):
        sentences = [each for each in read(given.data, 10 * given.texts) if len(each.words) > 8][: given.texts]
        natural = [encode_sentence(subject.tokenizer, each)[0] for each in sentences]
    else:
        with open(given.data, encoding="utf-8") as file:
            lines = [line.strip() for line in file if len(line.split()) > 8][: given.texts]
        natural = read_texts(subject, lines)
    table = list(find_roles(subject, tower.name, natural))
    texts: Texts = {"sentences": [(inputs, 0) for inputs in natural], "repeated": repeated(subject, given.texts)}
    whole = {name: losses(subject, each) for name, each in texts.items()}
    print(f"{given.model}: loss " + ", ".join(f"{each.mean():.4f} on {name}" for name, each in whole.items()))
    chosen = [each for role in ("previous", "induction") for each in best(table, role, given.best)]
    named = {(each.layer, each.head) for each in chosen}
    all_heads = [(layer, head) for layer in range(len(tower.layers)) for head in range(tower.heads)]
    rest = [each for each in all_heads if each not in named]
    order = np.random.default_rng(SEED).permutation(len(rest))[: given.drawn]
    others = [rises(subject, rest[place], texts, whole) for place in order]
    for name in texts:
        moved = sorted(float(each[name].mean()) for each in others)
        print(f"{len(moved)} drawn heads, {name}: median {np.median(moved):+.4f}, {moved[0]:+.4f} to {moved[-1]:+.4f}")
    print("| head | role | score (95 %) | baseline | text | rise of the loss (95 %) | drawn heads that move it less |")
    print("| --- | --- | --- | ---: | --- | --- | ---: |")
    for each in chosen:
        found = rises(subject, (each.layer, each.head), texts, whole)
        for name, values in found.items():
            rise, low, high = estimated(values)
            less = sum(abs(float(other[name].mean())) < abs(rise) for other in others)
            print(
                f"| {each.name} | {each.role} | {each.score:.3f} ({each.low:.3f} to {each.high:.3f}) | "
                f"{each.baseline:.3f} | {name} | {rise:+.4f} ({low:+.4f} to {high:+.4f}) | {less} of {len(others)} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

"""Heads that know grammar: gold edges of a CoNLL-U file against what each head attends to most (Clark et al. 2019).

    hit: of a word's attention to other words (summed over their tokens), the largest goes to the other end of the edge

Both directions are tested, from the dependent to its head and back. Each relation's head, and the fixed distance it is
compared with, are chosen on the first half of the sentences; scores are of the second half. "antecedent" are the
file's `ref` edges: from who, which or that to the word it refers to (deck 001, "from a pronoun to its antecedent").
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from qkv.errors import DataError, InputError
from qkv.inspection.attention_pass import AttentionValues, trace_attention
from qkv.inspection.head_roles import Head, shares
from qkv.inspection.subject import Inputs, StackName, Subject, membership, stacks
from qkv.text.tokenizer import Tokenizer

REACH = 10  # words: the fixed distances to compare with
FEWEST = 30  # edges of a relation, in either half
SPACED = ("bpe", "sentencepiece", "unigram")  # vocabularies that keep the space before a word
ANTECEDENT = "antecedent"


@dataclass(frozen=True)
class Sentence:
    """Words, whether a space precedes each, and edges: relation, dependent, head, counted from 0."""

    words: tuple[str, ...]
    spaced: tuple[bool, ...]
    edges: tuple[tuple[str, int, int], ...]


def read(path: str | Path, max_sentences: int | None = None) -> list[Sentence]:
    """The sentences of a .conllu file, .gz or not; multiword tokens and empty nodes are left out."""
    place = Path(path)
    sentences: list[Sentence] = []
    rows: list[list[str]] = []
    try:
        with (
            gzip.open(place, "rt", encoding="utf-8") if place.suffix == ".gz" else place.open(encoding="utf-8") as file
        ):
            for number, line in enumerate(file, 1):
                if line.strip() and not line.startswith("#"):
                    cells = line.rstrip("\n").split("\t")
                    if len(cells) != 10:
                        remedy = "Give a CoNLL-U file, as of Universal Dependencies."
                        raise DataError(f"{place}:{number}", f"expected 10 columns, found {len(cells)}", remedy)
                    rows += [cells] if cells[0].isdecimal() else []
                elif not line.strip() and rows:
                    sentences.append(_sentence(rows))
                    rows = []
                    if max_sentences is not None and len(sentences) == max_sentences:
                        return sentences
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{place}: cannot be read: {error}. Expected a .conllu file in UTF-8.") from None
    return [*sentences, _sentence(rows)] if rows else sentences


def _sentence(rows: list[list[str]]) -> Sentence:
    edges: list[tuple[str, int, int]] = []
    for dependent, cells in enumerate(rows):
        if cells[6].isdecimal() and int(cells[6]) > 0:
            edges.append((cells[7].partition(":")[0], dependent, int(cells[6]) - 1))
        for edge in cells[8].split("|"):
            head, _, relation = edge.partition(":")
            if relation == "ref" and head.isdecimal():
                edges.append((ANTECEDENT, dependent, int(head) - 1))
    joined = ["SpaceAfter=No" in cells[9] for cells in rows]
    spaced = [False, *(not no_space for no_space in joined[:-1])]
    kept = tuple(edge for edge in edges if 0 <= edge[2] < len(rows))
    return Sentence(tuple(cells[1] for cells in rows), tuple(spaced), kept)


def encode_sentence(tokenizer: Tokenizer, sentence: Sentence) -> tuple[Inputs, list[int]]:
    """The tokens of a sentence, and the number of the word of each; -1 for the special tokens around the text."""
    lead = tokenizer.kind in SPACED
    words = tokenizer.encode_batch(
        [" " + word if lead and space else word for word, space in zip(sentence.words, sentence.spaced, strict=True)]
    )
    opening, closing = list(tokenizer.opening), list(tokenizer.closing)
    ids = [*opening, *(token for word in words for token in word), *closing]
    places = [*[-1] * len(opening), *(n for n, word in enumerate(words) for _ in word), *[-1] * len(closing)]
    return Inputs(tuple(ids)), places


def by_word(weights: Tensor, places: Sequence[int], words: int) -> Tensor:
    """(H, T, S) -> (H, W, W): the sum over a word's tokens that are attended to, the mean over those that attend."""
    member = membership(places, words, weights.device)
    mean = member / member.sum(0, keepdim=True).clamp(min=1)
    return mean.T @ weights @ member


def attended_words(
    subject: Subject, stack: StackName, inputs: Inputs, places: Sequence[int], words: int
) -> tuple[NDArray[np.int64], bool]:
    """For each head, (L H, W), the other word that each word attends to most; and whether the attention is causal."""
    best, causal = list[Tensor](), False

    def record(layer: AttentionValues) -> None:
        nonlocal causal
        causal = layer.causal
        table = by_word(layer.weights, places, words)
        table.diagonal(dim1=1, dim2=2).fill_(-1.0)  # a word is no answer to itself
        best.append(table.argmax(-1).cpu())

    trace_attention(subject.reading(inputs), record, layers={stack: None})
    return torch.cat(best).numpy(), causal


def seen_edges(
    subject: Subject, stack: StackName, sentences: Sequence[Sentence]
) -> Iterator[tuple[str, int, int, NDArray[np.bool_]]]:
    """For every edge that heads can attend along, in both directions: relation, sentence, distance, whether each head
    hits."""
    context = subject.context()
    for number, sentence in enumerate(sentences):
        inputs, places = encode_sentence(subject.tokenizer, sentence)
        if len(inputs.tokens) > context or not sentence.edges or len(sentence.words) < 2:
            continue
        guesses, causal = attended_words(subject, stack, inputs, places, len(sentence.words))
        for relation, dependent, head in sentence.edges:
            ways = ((f"{relation} → its head", dependent, head), (f"head → its {relation}", head, dependent))
            for kind, asks, answers in ways:
                if asks != answers and not (causal and answers > asks):
                    yield kind, number, answers - asks, guesses[:, asks] == answers


def find_edges(subject: Subject, stack: StackName, sentences: Sequence[Sentence]) -> list[Head]:
    """The best head for each relation and direction, compared with the best fixed distance; none where edges are
    few."""
    edges, heads = list(seen_edges(subject, stack, sentences)), stacks(subject.model)[stack].heads
    if not edges:
        return []
    kinds, numbers, distances, hits = (np.array(column) for column in zip(*edges, strict=True))
    early, best_heads = numbers < len(sentences) // 2, []
    for kind in np.unique(kinds).tolist():
        first, second = (kinds == kind) & early, (kinds == kind) & ~early
        if min(first.sum(), second.sum()) < FEWEST:
            continue
        best = int(hits[first].mean(0).argmax())
        fixed = max((way for way in range(-REACH, REACH + 1) if way), key=lambda way: (distances[first] == way).sum())
        baseline = float((distances[second] == fixed).mean())
        _, member = np.unique(numbers[second], return_inverse=True)
        (share,) = shares(np.bincount(member, hits[second, best])[:, None], np.bincount(member))
        best_heads.append(Head(stack, *divmod(best, heads), kind, *share, baseline))
    return sorted(best_heads, key=lambda head: head.score - head.baseline, reverse=True)

"""Counts of many documents at once equal those taken one by one, and the estimate of similarity is right."""

from __future__ import annotations

import random
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data.rubbish import good
from qkv.data.clean import measures
from qkv.data.clean.deduplicate import (
    BANDS,
    HASHES,
    KeyRows,
    NearDuplicates,
    RowIndex,
    document_min_hashes,
    min_hashes,
    signatures,
)
from qkv.data.clean.deduplicate import similarity as estimate
from qkv.data.clean.filters import compressed_share, line_shares, markup_share
from qkv.data.clean.measures import NGRAM_SIZES, UNSPACED, document_totals, flags, measure, measure_documents
from qkv.data.identity import fmix64

texts = st.lists(st.text(st.sampled_from("ab Z9\n.,#…字ก้é😀'-\u200b\ufffd"), max_size=40), min_size=1, max_size=6)


def words_of(text: str) -> list[str]:
    """The words of a text, by the definition and one by one."""
    found = []
    for run in re.split(r"[\s\u200b]+", text.lower()):
        for token in re.findall(r"[字ก้]|[^字ก้]+", run):
            if word := "".join(c for c in token if c.isalnum() or c in "ก้"):
                found.append(word)
    return found


@given(texts)
def test_counts_are_those_of_each_text(found: list[str]) -> None:
    counts, words = measure(found)
    names: dict[int, str] = {}
    taken = 0
    for number, text in enumerate(found):
        wanted = words_of(text)
        hashes = words.hashes[words.owner == number].tolist()
        assert len(hashes) == counts.words[number] == len(wanted)
        for word, key in zip(wanted, hashes, strict=True):
            assert names.setdefault(key, word) == word
        taken += len(hashes)
        assert counts.visible[number] == sum(not (c.isspace() or c == "\u200b") for c in text)
        assert counts.broken[number] == text.count("\ufffd")
        assert counts.signs[number] == len(re.findall("[#…]+", text)) + text.count("...")
        spaced = [word for word in wanted if word[0] not in "字ก้"]
        assert counts.spaced_words[number] == len(spaced)
        assert counts.spaced_characters[number] == sum(map(len, spaced))
        for column, size in enumerate(NGRAM_SIZES):
            runs = Counter(tuple(wanted[start : start + size]) for start in range(len(wanted) - size + 1))
            assert counts.top_grams[number, column] == size * max(runs.values(), default=0)
    assert len(set(names.values())) == len(names)
    assert taken == len(words.hashes)


def test_parts_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = ["\n\n".join(good()), "short", " ".join(good()[:9])]
    counts, words = measure(whole)
    first = min_hashes(words, 3)
    monkeypatch.setattr(measures, "PART", 3000)
    groups = list(measure_documents(whole))
    owner = np.concatenate([group[2] for group in groups])
    assert len(owner) > 20
    added = document_totals([group[0] for group in groups], owner)
    for name in ("visible", "letters", "pairs", "consonant_pairs", "words", "spaced_characters"):
        assert getattr(added, name).tolist() == getattr(counts, name).tolist()
    firsts = np.concatenate([min_hashes(words, len(owner)) for _, words, owner in groups])
    near = estimate(signatures(document_min_hashes(firsts, owner)), signatures(first))
    assert (near > 0.95).all()  # shingles across a cut are lost


def shingles(words: list[str]) -> set[tuple[str, ...]]:
    return {tuple(words[start : start + 3]) for start in range(max(1, len(words) - 2))}


def test_the_estimate_is_right() -> None:
    """Against the true Jaccard similarity of 600 pairs: no bias, and the spread of 128 independent draws."""
    chance = random.Random(0)
    vocabulary = sorted({word for text in good() for word in words_of(text)})
    pairs, truth = [], []
    for _ in range(600):
        one = chance.choices(vocabulary, k=chance.choice([4, 30, 100, 300]))
        share = chance.choice([0.01, 0.03, 0.05, 0.1, 0.3])
        other = [chance.choice(vocabulary) if chance.random() < share else word for word in one]
        pairs += [" ".join(one), " ".join(other)]
        truth.append(len(shingles(one) & shingles(other)) / len(shingles(one) | shingles(other)))
    bands = signatures(np.concatenate([min_hashes(words, len(owner)) for _, words, owner in measure_documents(pairs)]))
    assert bands.shape == (1200, BANDS)
    similarity = np.array(truth)
    errors = estimate(bands[0::2], bands[1::2]) - similarity
    expected = np.sqrt(similarity * (1 - similarity) / HASHES)
    assert abs(errors.mean()) < 0.005
    assert 0.9 < np.sqrt((errors**2).mean()) / np.sqrt((expected**2).mean()) < 1.1
    for low, high in ((0.2, 0.5), (0.5, 0.7), (0.7, 0.9)):
        some = (similarity >= low) & (similarity < high)
        assert some.sum() > 20
        assert abs(errors[some].mean()) < 0.02
    assert (errors[similarity == 1] == 0).all()


def test_similar_documents_are_found_and_others_are_not() -> None:
    """Pairs of known similarity: the chance to be found follows the formula of the bands."""
    chance = random.Random(1)
    found = {}
    for share in (0.9, 0.5):
        numbers = iter(range(10**6))
        ones, others = [], []
        for _ in range(150):
            # single words far apart: each shingle is a document's own or both documents'
            common = [f"w{next(numbers)}" for _ in range(300)]
            own = round(300 * (1 - share) / (1 + share) / 3)
            places = chance.sample(range(0, 300, 6), own)
            ones.append(" ".join(common))
            others.append(" ".join(f"x{next(numbers)}" if place in places else w for place, w in enumerate(common)))
        near = NearDuplicates(0.8)
        for batch in (ones, others):
            groups = [min_hashes(words, len(owner)) for _, words, owner in measure_documents(batch)]
            similar = near.find(np.concatenate(groups))
        found[share] = (similar >= 0.8).sum()
    assert found[0.9] >= 148
    assert found[0.5] == 0


def test_documents_without_words_resemble_nothing() -> None:
    _, words = measure(["...", "!!!", "a word", "A, word!"])
    near = NearDuplicates(0.8)
    first = min_hashes(words, 4)
    assert near.find(first).tolist() == [0, 0, 0, 1]
    assert near.find(first).tolist() == [0, 0, 1, 1]
    assert near.known.count == 1


@given(st.lists(st.lists(st.integers(0, 30), max_size=20), max_size=8), st.integers(0, 2**63))
def test_an_index_is_a_dictionary(batches: list[list[int]], spread: int) -> None:
    rows = KeyRows(2)
    index = RowIndex(rows, 1)
    wanted: dict[int, int] = {}
    for batch in batches:
        keys = np.array([[0, key * (spread | 1) % 2**64] for key in batch], dtype=np.uint64).reshape(-1, 2)
        assert index.find(keys[:, 1]).tolist() == [wanted.get(int(key), -1) for key in keys[:, 1]]
        numbers = rows.add(keys)
        index.add(numbers)
        for number, key in zip(numbers.tolist(), keys[:, 1].tolist(), strict=True):
            wanted.setdefault(key, number)
    assert index.used == len(wanted)


def test_an_index_grows() -> None:
    rows = KeyRows(1)
    index = RowIndex(rows)
    keys = fmix64(np.arange(20_000, dtype=np.uint64))[:, None]
    for start in range(0, 20_000, 3000):
        index.add(rows.add(keys[start : start + 3000]))
    assert index.find(keys[:, 0]).tolist() == list(range(20_000))
    assert (index.find(fmix64(np.arange(20_000, 30_000, dtype=np.uint64))) == -1).all()
    assert rows.bytes + index.bytes < 25 * 20_000


def test_memory_a_document() -> None:
    near = NearDuplicates(0.8)
    chance = np.random.default_rng(0)
    for _ in range(10):
        near.find(chance.integers(0, 2**32, (1000, HASHES), dtype=np.uint32))
    assert near.known.count == 10_000
    assert near.remembered_bytes < 345 * 10_000


def test_kinds_of_characters() -> None:
    codes = np.array([ord(character) for character in "字あアกខ𠀀 aß한"], dtype=np.uint32)
    assert ((flags(codes) & UNSPACED) != 0).tolist() == [True] * 6 + [False] * 4


def test_shares() -> None:
    assert line_shares("- a\n* b\nc...\n\n  d…") == (0.5, 0.5, 0.0)
    assert line_shares("aa\nbb\naa \n aa")[2] == 0.5
    assert np.isnan(line_shares("- a\n- b\n- c")).all()
    assert markup_share("<p>ab</p>") == 7 / 9
    assert markup_share("a <unk> b < c > d && e") == 0.0
    assert markup_share('<x y="1">&amp;') == 1.0
    assert np.isnan(compressed_share("short"))
    assert compressed_share("abc" * 1000) < 0.02
    assert 0.3 < compressed_share("\n".join(good())) < 0.7

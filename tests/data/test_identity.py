"""Texts that are parts of one another stay on one side of a split."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from data_at_hand import real
from qkv.data.corpus import ExamplesConfig
from qkv.data.identity import passage_keys, text_key
from qkv.data.read_examples import read_examples


def keys(texts: list[str]) -> np.ndarray:
    own = np.array([text_key(text) for text in texts], dtype=np.uint64)
    return passage_keys(texts, own)


def test_parts_go_with_the_whole_and_others_do_not() -> None:
    whole = "the actors are good but the story is as thin as paper and far too long"
    texts = [
        "as thin as paper and far too long",
        whole,
        "the story is as thin",
        "Story is as",
        "good but",
        "a film that nobody needs to see twice",
    ]
    found = keys(texts)
    assert len(set(found[:4].tolist())) == 1
    assert len(set(found.tolist())) == 3
    assert found[1] == text_key(whole)


def test_chains_end_at_the_longest() -> None:
    words = [f"w{number}" for number in range(30)]
    texts = [" ".join(words[15 - size : 15 + size]) for size in range(2, 15)]
    assert len(set(keys(texts).tolist())) == 1


@given(st.lists(st.lists(st.sampled_from("abcdefghij"), min_size=0, max_size=12), min_size=1, max_size=12))
def test_every_part_follows_one_that_holds_it(sentences: list[list[str]]) -> None:
    texts = [" ".join(words) for words in sentences]
    found = keys(texts)
    own = {text_key(text) for text in texts}
    assert set(found.tolist()) <= own
    longest: dict[int, int] = {}
    for text in texts:
        longest[text_key(text)] = len(text.split())
    assert all(longest[int(key)] >= len(text.split()) for key, text in zip(found, texts, strict=True))
    order = np.argsort([text_key(text) for text in texts], kind="stable")  # the order of the rows changes nothing for
    again = keys([texts[row] for row in order])  # texts without rivals of their own length
    alone = len({len(text.split()) for text in texts}) == len(texts)
    assert not alone or found[order].tolist() == again.tolist()


def test_held_out_phrases_are_no_parts_of_training_sentences(tmp_path: Path) -> None:
    rows = []
    for number in range(60):
        words = [f"word{number}x{place}" for place in range(12)]
        rows += [
            (" ".join(words[start : start + size]), number % 2) for start, size in ((0, 12), (0, 6), (3, 7), (6, 6))
        ]
    path = tmp_path / "phrases.csv"
    path.write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    found = read_examples(ExamplesConfig(files=(str(path),)))
    sentences = [{example.text.split("x")[0] for example in side} for side in (found.train, found.valid)]
    assert len(found.valid) >= 12
    assert not sentences[0] & sentences[1]


def test_sst2_has_hardly_a_held_out_phrase_inside_a_training_sentence() -> None:
    found = read_examples(ExamplesConfig(files=(str(real("sst2") / "train.tsv.gz"),)))
    training = "\n".join(f" {example.text.strip()} " for example in found.train)
    long = [example.text.strip() for example in found.valid if len(example.text.split()) >= 6][:1000]
    inside = sum(f" {text} " in training for text in long)
    assert inside <= 0.01 * len(long)

"""A GRU that others trained, letters to phonemes (g2p-en 2.1.0): its weights in `rnn-translator` say what it says."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from data_at_hand import real
from qkv.generation.beam import Search, translate
from qkv.models.rnn_translator import RNNTranslatorConfig

VOWELS = ["AA", "AE", "AH", "AO", "AW", "AY", "EH", "ER", "EY", "IH", "IY", "OW", "OY", "UH", "UW"]  # with stress
OTHERS = [*"BDFGKLMNPRSTVWYZ", "CH", "DH", "HH", "JH", "NG", "SH", "TH", "UW", "ZH"]
LETTERS = ["<pad>", "<unk>", "</s>", *"abcdefghijklmnopqrstuvwxyz"]
PHONEMES = ["<pad>", "<unk>", "<s>", "</s>", *sorted([*OTHERS, *(vowel + n for vowel in VOWELS for n in "012")])]
NAMES = {
    "embedding.0.weight": "enc_emb",
    "embedding.1.weight": "dec_emb",
    "head.weight": "fc_w",
    "head.bias": "fc_b",
    **{
        f"{ours}.layer.{part}_{way}_l0": f"{theirs}_{part[0]}_{way}"
        for ours, theirs in (("encoder.0.parts.0", "enc"), ("decoder", "dec"))
        for part in ("weight", "bias")
        for way in ("ih", "hh")
    },
}


@cache
def shipped() -> Any:
    found = np.load(real("weights/g2p-en-gru/checkpoint20.npz"), allow_pickle=False)
    config = RNNTranslatorConfig(
        vocabulary=29, target_vocabulary=74, width=256, directions=1, attention="none", bridge="last"
    )
    model = config.build()
    model.load_state_dict({ours: torch.from_numpy(found[theirs]) for ours, theirs in NAMES.items()})
    return model.eval()


def spoken(*words: str, beams: int = 1) -> list[str]:
    sources = [[*(LETTERS.index(letter) for letter in word), LETTERS.index("</s>")] for word in words]
    start, end = PHONEMES.index("<s>"), PHONEMES.index("</s>")
    found = translate(shipped(), sources, Search(beams=beams), start=start, end=end)
    return [" ".join(PHONEMES[token] for token in best.tokens) for best, *_ in found]


def test_the_vocabularies_are_those_of_the_weights() -> None:
    assert (len(LETTERS), len(PHONEMES)) == (29, 74)


@pytest.mark.parametrize("beams", [1, 5])
def test_it_says_what_it_says_at_home(beams: int) -> None:
    found = spoken("transformer", "attention", beams=beams)
    assert found == ["T R AE0 N S F AO1 R M ER0", "AH0 T EH1 N SH AH0 N"]


def test_a_word_does_not_depend_on_its_neighbours() -> None:
    words = ["a", "translation", "decoder", "qkv", "attention"]
    assert spoken(*words) == [spoken(word)[0] for word in words]

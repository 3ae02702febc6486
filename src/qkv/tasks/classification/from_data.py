"""What a model takes from its data: the sizes of images, the scales of numbers, the spellings of tokens, the scheme of
tags."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import torch
from torch import nn

from qkv.data.examples import Array, NumberExamples, TagExamples
from qkv.models.registry import IMAGE_ENCODERS
from qkv.models.table import LinearTable, MLPTable
from qkv.models.tag_schemes import Scheme, scheme_of
from qkv.objectives.classification import Problem
from qkv.recipe.recipe import MutableSection, Section
from qkv.text.tokenizer import Tokenizer

CONTINUED = "##"  # before word pieces that do not begin a word


def token_spellings(tokenizer: Tokenizer | None) -> list[str]:
    """The text of each token of a vocabulary; empty for special tokens."""
    assert tokenizer is not None
    ids = range(tokenizer.vocabulary)
    return ["" if tokenizer.is_special(token) else tokenizer.piece(token) for token in ids]


def word_spellings(tokenizer: Tokenizer | None) -> list[bytes]:
    """How each token of a vocabulary is written: with a blank before those that begin a word; empty if special."""
    assert tokenizer is not None
    spellings = []
    for token in range(tokenizer.vocabulary):
        if tokenizer.is_special(token):
            spellings.append(b"")
        elif tokenizer.kind in ("bpe", "sentencepiece", "unigram"):
            spellings.append(tokenizer.spelled(token))
        else:
            piece = tokenizer.piece(token)
            inside = tokenizer.kind == "wordpiece" and piece.startswith(CONTINUED)
            spellings.append(piece.removeprefix(CONTINUED).encode() if inside else b" " + piece.encode())
    return spellings


def set_image_sizes(encoder: MutableSection, shape: tuple[int, ...], given: Section) -> None:
    """Set the sizes of an encoder of images of this shape and, unless it is given, that of its patches."""
    encoder |= {"height": shape[0], "width_pixels": shape[1], "channels": shape[2] if len(shape) > 2 else 1}
    if encoder["kind"] == "patches" and "patch" not in given:
        preferred = encoder.get("patch", IMAGE_ENCODERS["patches"]().patch)
        encoder["patch"] = patch_size(shape[0], shape[1], preferred)


def patch_size(height: int, width: int, preferred: int) -> int:
    """The side of square patches that divide the image, as near to the preferred one as possible."""
    sides = [side for side in range(1, math.gcd(height, width) + 1) if math.gcd(height, width) % side == 0]
    return min(sides, key=lambda side: (abs(side - preferred), side))


def set_target_scale(model: MutableSection, targets: Array) -> None:
    """Set the mean and the spread of a regression's targets where the section leaves them open."""
    center = 0.0 if model.get("head") == "no-bias" else float(np.mean(targets))  # a constant is a bias, too
    model.setdefault("center", round(center, 6))
    model.setdefault("spread", round(max(float(np.std(targets)), 1e-6), 6))


SOLVED_RATE = 1e-7  # the learning rate of a model that starts at its solution


def is_solved_exactly(kind: str, problem: str) -> bool:
    """Whether a model is a linear regression, whose least-squares solution is computed without training."""
    return kind == "linear-table" and problem == "regression"


def fit_to_table(model: nn.Module, problem: Problem, train: NumberExamples, device: str) -> None:
    """Set the scales of columns and targets from the training rows; a linear regression is solved exactly."""
    assert isinstance(model, LinearTable | MLPTable)
    x, y = torch.from_numpy(train.values).to(device), None
    if problem == "regression":
        y = torch.from_numpy(train.targets.astype(np.float32)).unsqueeze(-1).to(device)
    if y is not None and isinstance(model, LinearTable):
        model.solve(x, y)
    else:
        model.fit_scale(x, y)


def tag_scheme(train: TagExamples) -> Scheme:
    """The scheme that the tags of the training split follow."""
    pairs = {pair for example in train for pair in pairwise((None, *example.tags, None))}
    return scheme_of(train.labels.names, pairs)

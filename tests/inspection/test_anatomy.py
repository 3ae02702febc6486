"""Anatomy of models that are none of the usual Transformers; the parts of those are counted in test_views.py."""

from __future__ import annotations

import torch

from inspection.subjects import LABELS, PIECES
from qkv.inspection.anatomy import anatomy
from qkv.inspection.page import document
from qkv.inspection.subject import Inputs, Subject
from qkv.inspection.word_in_contexts import meaning
from qkv.models.classifier import ClassifierConfig
from qkv.models.recurrent_encoder import RecurrentEncoderConfig


def test_a_recurrence_whose_start_is_learned() -> None:
    """Deck 001's h₀ is handed out as it is: counting must not follow its gradient, nor take it away."""
    torch.manual_seed(0)
    encoder = RecurrentEncoderConfig(vocabulary=PIECES.vocabulary, width=16, cell="rnn", directions=1, start="learned")
    model = ClassifierConfig(encoder=encoder, labels=LABELS).build()
    ids = tuple(PIECES.encode("The river keeps it."))
    parts = {part.path: part for part in anatomy(Subject(model, PIECES, "classifier", Inputs(ids)))}
    layer = next(part for part in parts.values() if part.kind == "RNN")
    weights = 16 * 16 * 2
    assert layer.flops == 2 * weights * len(ids)
    assert parts[""].flops > layer.flops
    assert all(each.requires_grad for each in model.parameters())


def test_a_recurrence_wider_than_its_embedding_has_a_page() -> None:
    """`qkv train TABLE --model lstm` makes such a one; its layers have vectors of two lengths."""
    torch.manual_seed(0)
    encoder = RecurrentEncoderConfig(vocabulary=PIECES.vocabulary, width=16, embedding_width=6)
    model = ClassifierConfig(encoder=encoder, labels=LABELS).build().eval()
    text = "the river bank"
    given = Subject(model, PIECES, "classifier", Inputs(tuple(PIECES.encode(text))), text=text, labels=LABELS)
    found = meaning(given, "bank", [text, "the bank account"])
    assert [point.layer for point in found.points] == [0, 0, 1, 1]
    assert {"embeddings", "meaning", "why"} <= document(given).keys()

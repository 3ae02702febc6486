"""Maps, lens, next words, anatomy and meaning: each against something independent."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
import torch

from inspection.subjects import FAMILIES, subject
from qkv.errors import InputError
from qkv.generation.sampling import Sampling, adjust
from qkv.inspection import logit_lens, maps, word_in_contexts
from qkv.inspection.anatomy import anatomy
from qkv.inspection.subject import forward, stacks
from qkv.inspection.trace import trace
from qkv.models.language_model import count


@pytest.mark.parametrize("family", ["modern", "bert", "transformer", "rnn-translator"])
def test_packed_maps_are_the_weights(family: str) -> None:
    given = subject(family)
    seen = trace(given)
    for each in maps.pack_maps(given):
        said = each.document()
        shape = said["layers"], said["heads"], said["rows"], said["columns"]
        data = np.frombuffer(base64.b64decode(said["data"]), dtype=np.uint8).reshape(shape) / 255
        assert np.abs(data - seen.maps(each.name).numpy()).max() <= 0.5 / 255 + 1e-6
        assert "every weight" in each.exact


def test_large_maps_keep_the_largest() -> None:
    given = subject("modern")
    (whole,) = maps.pack_maps(given)
    (few,) = maps.pack_maps(given, max_weights=600)
    said = few.document()
    assert 0 < said["k"] < said["columns"]
    shape = said["layers"], said["heads"], said["rows"], said["k"]
    index = np.frombuffer(base64.b64decode(said["index"]), dtype="<u2").reshape(shape)
    value = np.frombuffer(base64.b64decode(said["value"]), dtype=np.uint8).reshape(shape)
    data = np.frombuffer(base64.b64decode(whole.document()["data"]), dtype=np.uint8)
    data = data.reshape(*shape[:3], said["columns"])
    assert (np.take_along_axis(data, index.astype(int), -1) == value).all()
    assert (value[..., 0] == data.max(-1)).all()
    assert f"the {said['k']} largest" in few.exact


@pytest.mark.parametrize("family", ["gpt", "modern", "llama", "masked", "transformer", "transformer-pre"])
def test_the_lens_ends_with_the_models_answer(family: str) -> None:
    given = subject(family)
    rows = logit_lens.lens(given, top=3)
    assert len(rows) == 1 + len(stacks(given.model)["decoder" if given.inputs.source else "self"].layers)
    with torch.no_grad():
        expected = forward(given.model, given.inputs)[0].softmax(-1).topk(3)
    for place, top in enumerate(rows[-1].top):
        assert [each.text for each in top] == given.pieces(expected.indices[place].tolist())
        assert [each.p for each in top] == pytest.approx(expected.values[place].tolist(), abs=1e-5)
    assert len(logit_lens.lens(given, positions=[0])[0].top) == 1


@pytest.mark.parametrize("family", ["bert", "classifier", "lstm", "rnn-translator"])
def test_no_lens(family: str) -> None:
    with pytest.raises(InputError, match="no layers that give tokens"):
        logit_lens.lens(subject(family))


@pytest.mark.parametrize("family", ["gpt", "transformer", "lstm"])
def test_next_words_knob_by_knob(family: str) -> None:
    given = subject(family)
    knobs = Sampling(temperature=0.7, top_k=20, top_p=0.8, min_p=0.1, repetition_penalty=1.3)
    found = logit_lens.next_words(given, knobs)
    names = ["the model", "repetition penalty", "temperature", "top-k", "top-p", "min-p"]
    assert [each.name for each in found] == names
    with torch.no_grad():
        logits = forward(given.model, given.inputs)[:, -1]
    last = adjust(logits, knobs, torch.tensor([given.inputs.tokens])).softmax(-1)[0]
    assert found[-1].rows[0].p == pytest.approx(float(last.max()))
    assert found[-1].left == int((last > 0).sum())
    assert [each.left for each in found][3:] == sorted((each.left for each in found[3:]), reverse=True)
    assert found[0].rows[0].p == pytest.approx(float(logits.softmax(-1).max()))
    greedy = logit_lens.next_words(given, Sampling(temperature=0.0))
    assert [(each.name, each.left) for each in greedy][-1] == ("temperature", 1)


def test_no_next_word() -> None:
    with pytest.raises(InputError, match="does not write"):
        logit_lens.next_words(subject("bert"))


@pytest.mark.parametrize("family", [*FAMILIES, "lstm"])
def test_anatomy(family: str) -> None:
    """The first row is the whole; parameters, shapes and lines of source are those of the parts."""
    given = subject(family)
    parts = anatomy(given)
    assert parts[0].path == ""
    assert parts[0].parameters == count(given.model)
    assert parts[0].flops > 0
    assert all(part.flops <= parts[0].flops for part in parts)
    assert not [part for part in parts if part.kind in ("Tap", "Identity", "Dropout")]
    assert all(part.source.startswith(("qkv/", "torch/")) for part in parts)
    assert len({part.path for part in parts}) == len(parts)


def test_anatomy_by_hand() -> None:
    """A gpt of two blocks: 12 d² weights a block; two FLOPs for a product and its sum; attention by hand."""
    given = subject("gpt")
    found = {part.path: part for part in anatomy(given)}
    length, width, pieces = len(given.inputs.tokens), 16, given.tokenizer.vocabulary
    attention, head = found["blocks.0.attention.sublayer"], found["head"]
    assert attention.flops == 2 * length * 4 * width * width + 2 * 2 * length * length * width
    assert head.flops == 2 * length * width * pieces
    assert found["blocks.0.feedforward.sublayer"].flops == 2 * length * 8 * width * width
    assert attention.shape == (1, length, width)
    assert attention.source.startswith("qkv/blocks/attention.py:")
    line = int(attention.source.rpartition(":")[2])
    module: Any = given.model
    import inspect

    assert inspect.getsourcelines(type(module.blocks[0].attention.sublayer))[1] == line
    assert found[""].flops == sum(found[f"blocks.{n}"].flops for n in range(2)) + head.flops


def test_meaning_moves() -> None:
    given = subject("modern", "the river bank")
    found = word_in_contexts.meaning(given)
    assert found.word == "bank"
    assert len(found.alike) == 3
    assert len(found.points) == 3 * 4  # layers 0 to 2, the decks' three texts and this one
    assert found.alike[0] == pytest.approx(1.0, abs=1e-5), (
        "at the start it is the same everywhere: positions are turned"
    )
    assert found.alike[2] < 1.0
    assert word_in_contexts.meaning(given, "river", ["a river", "the old river"]).word == "river"
    assert not word_in_contexts.has_word_vectors(subject("transformer"))


def test_axes_are_the_same_on_every_machine() -> None:
    torch.manual_seed(0)
    x = torch.randn(7, 5)
    flat = word_in_contexts.two_dimensions(x)
    torch.testing.assert_close(flat, word_in_contexts.two_dimensions(x.flip(0)).flip(0))
    assert flat.abs().max(0).values.equal(flat.max(0).values)
    assert word_in_contexts.two_dimensions(torch.ones(1, 4)).shape == (1, 2)

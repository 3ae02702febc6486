"""Attention drawn for papers: what is drawn is what the head looks at, and text stays text."""

from __future__ import annotations

import io
import sys
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from inspection.subjects import subject
from qkv.errors import MissingExtraError
from qkv.inspection.trace import trace
from qkv.studies import attention_picture as drawing
from qkv.studies.picture import Frame, Label, Rectangles

SVG = "{http://www.w3.org/2000/svg}"


@pytest.mark.parametrize("family", ["gpt", "bert", "transformer", "rnn-translator"])
def test_one_head_is_the_weights(family: str) -> None:
    given = subject(family)
    seen = trace(given)
    weights = seen.layer(0).weights[0]
    shapes, width, height = drawing.one_head(given, 0, 0)
    steps = (weights**0.65 * drawing.DARKNESS_STEPS).round()
    frame = next(each for each in shapes if isinstance(each, Frame))
    drawn = [each for each in shapes if isinstance(each, Rectangles) and each.width == frame.width / weights.size(1)]
    assert sum(len(each.corners) for each in drawn) == int((steps > 0).sum())
    words = [each.text for each in shapes if isinstance(each, Label)]
    assert all(drawing.token_label(token.text) in words for token in seen.tokens)
    for each in shapes:
        if isinstance(each, Rectangles):
            assert all(0 <= x < width and 0 <= y < height for x, y in each.corners)


def test_all_heads_are_there() -> None:
    shapes, _, _ = drawing.all_heads(subject("modern"))
    assert sum(isinstance(each, Frame) for each in shapes) == 2 * 4
    assert {"head 1", "head 4"} <= {each.text for each in shapes if isinstance(each, Label)}


def test_long_texts_are_numbered() -> None:
    assert drawing.axis_labels(["x"] * 300, 2.0)[:2] == [(0, "1"), (20, "21")]


def test_files(tmp_path: Path) -> None:
    given = replace(subject("gpt"), name="<script>&\x07")
    drawing.draw(given, (1, 2), to_svg=tmp_path / "a.svg", to_png=tmp_path / "a.png")
    drawing.draw(given, None, to_svg=tmp_path / "b.svg", to_png=tmp_path / "b.png")
    for name in "ab":
        root = ElementTree.parse(tmp_path / f"{name}.svg").getroot()
        assert not list(root.iter(f"{SVG}script"))
        assert any("<script>&" in (each.text or "") for each in root.iter(f"{SVG}text"))
        image = pytest.importorskip("PIL.Image").open(io.BytesIO((tmp_path / f"{name}.png").read_bytes()))
        assert image.width == 2 * int(root.attrib["width"])
        assert len(image.getcolors(1 << 20)) > drawing.DARKNESS_STEPS / 2
    assert {path.name for path in tmp_path.iterdir()} == {"a.svg", "a.png", "b.svg", "b.png"}


def test_without_pillow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(MissingExtraError, match="images"):
        drawing.draw(subject("gpt"), None, to_png=tmp_path / "a.png")
    drawing.draw(subject("gpt"), None, to_svg=tmp_path / "a.svg")


def test_a_weight_is_as_dark_as_the_page_draws_it() -> None:
    (full,) = drawing.weight_cells(torch.ones(1, 1), 0.0, 0.0, 1.0, 1.0)
    assert full == Rectangles(((0.0, 0.0),), 1.0, 1.0, "#1f4fa3")
    assert drawing.weight_cells(torch.zeros(2, 2), 0.0, 0.0, 1.0, 1.0) == []

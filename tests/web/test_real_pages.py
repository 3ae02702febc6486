"""Pages of real models: small, honest about what is exact, offline, without complaint, and quick."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import data_at_hand
import qkv
from qkv.inspection import page
from qkv.inspection.subject import Inputs, Subject
from qkv.tasks import inspection_subject
from web.acts import timed
from web.browser import Browser, executable

pytestmark = [pytest.mark.slow, pytest.mark.skipif(executable() is None, reason="Chromium is not installed")]
RECIPE: dict[str, dict[str, Any]] = {
    "model": {"kind": "modern", "context": 1024, "layers": 4, "heads": 4, "width": 128},
    "training": {"steps": 2, "batch": 2},
}


def cut(given: Subject, length: int) -> Subject:
    """The text's first tokens."""
    assert len(given.inputs.tokens) >= length
    return replace(given, inputs=Inputs(given.inputs.tokens[:length]))


def shakespeare(tmp_path: Path) -> Subject:
    """A small model of 1,024 tokens, trained for two steps."""
    text = data_at_hand.real("tinyshakespeare/input.txt")
    for _ in qkv.train(text, run=tmp_path / "run", recipe=RECIPE, stream=True):
        pass
    read = text.read_text(encoding="utf-8")[:6000]
    return cut(inspection_subject.inspection_subject(qkv.load(tmp_path / "run").bundle, read), 1024)


def smollm2(tmp_path: Path) -> Subject:
    read = data_at_hand.real("tinyshakespeare/input.txt").read_text(encoding="utf-8")[:2000]
    return cut(inspection_subject.inspection_subject(qkv.load(data_at_hand.smollm2()).bundle, read), 256)


def minilm(tmp_path: Path) -> Subject:
    return inspection_subject.inspection_subject(qkv.load(data_at_hand.minilm()).bundle)


@pytest.mark.parametrize(
    ("made", "exact"),
    [(smollm2, "largest weights of each row"), (shakespeare, "largest weights of each row"), (minilm, "every weight")],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_a_page(made: Any, exact: str, browser: Browser, tmp_path: Path) -> None:
    document = page.document(made(tmp_path), explain="")
    path = tmp_path / "page.html"
    page.write(path, document)
    assert path.stat().st_size < 5e6
    assert exact in document["exact"]["attention"]
    browser.open(path)
    shown = browser.run("document.body.innerText")
    assert all(document["exact"][name] in shown for name in ("attention", "worked", "anatomy"))
    figures = timed(browser)
    print(f"{path.stat().st_size / 1e6:.2f} MB", {name: round(value, 1) for name, value in figures.items()})
    assert browser.complaints() == []
    assert browser.requests() == [path.resolve().as_uri()]
    assert "cannot be drawn" not in shown
    assert max(figures.values()) <= 100, figures

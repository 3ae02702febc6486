"""The page in a headless Chromium: no complaint, no request, nothing run that is data, quick, and open to everybody."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from qkv.inspection.page import fill, template
from web.acts import PICK, every_mode, timed
from web.browser import Browser, executable
from web.documents import sample
from web.payloads import payloads

AXE = Path(__file__).resolve().parents[2] / "web" / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = ["walk", "attention", "worked", "heads", "lens", "why", "meaning", "anatomy"]
COLOUR = "[...document.querySelectorAll('[aria-label=Colours] button')].find(b => b.textContent === {!r}).click()"

pytestmark = pytest.mark.skipif(executable() is None, reason="Chromium is not installed")


def show(browser: Browser, folder: Path, document: dict[str, Any], *, policy: bool = True) -> Path:
    page = fill(template(), document)
    if not policy:
        start, rest = page.split('<meta http-equiv="Content-Security-Policy"', 1)
        page = start + rest.split(">", 1)[1]
    path = folder / "page.html"
    path.write_text(page, encoding="utf-8")
    browser.open(path)
    return path


@pytest.mark.parametrize("kind", ["language model", "translator"])
def test_every_view_is_drawn_without_complaint_or_request(browser: Browser, tmp_path: Path, kind: str) -> None:
    path = show(browser, tmp_path, sample(translator=kind == "translator", layers=3, heads=4))
    assert browser.run("[...document.querySelectorAll('main > section')].map(s => s.id)") == VIEWS
    for _ in every_mode(browser):
        browser.run("document.querySelector('[aria-label=\"previous word\"]').click()")
        browser.run("document.querySelector('[aria-label=\"next head\"]').click()")
    for theme in ("dark", "light"):
        browser.run(COLOUR.format(theme))
    assert browser.complaints() == []
    assert browser.requests() == [path.resolve().as_uri()]
    assert "cannot be drawn" not in browser.run("document.body.innerText")


@pytest.mark.parametrize("width", [1280, 360])
def test_nothing_is_wider_than_the_window(browser: Browser, tmp_path: Path, width: int) -> None:
    browser.size(width, 800)
    show(browser, tmp_path, sample())
    try:
        assert browser.run("document.documentElement.scrollWidth") <= width
    finally:
        browser.size(1280, 900)


def test_nothing_is_wider_than_the_paper(browser: Browser, tmp_path: Path) -> None:
    """A4 less its margins."""
    browser.size(718, 1000)
    show(browser, tmp_path, sample(layers=3, heads=4))
    try:
        browser.call("Emulation.setEmulatedMedia", media="print")
        assert browser.run("document.documentElement.scrollWidth") <= 718
        assert browser.run("getComputedStyle(document.querySelector('#meaning .slider')).display") == "none"
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")
        browser.size(1280, 900)


def test_a_translator_is_explained_in_words_of_its_source(browser: Browser, tmp_path: Path) -> None:
    """Also where both texts have as many words."""
    document = sample(translator=True, layers=2, heads=2)
    source = [token["text"].strip() for token in document["source_tokens"]]
    document["tokens"] = [{"id": i, "text": f" said{i}"} for i in range(len(source))]
    document["focus"] = len(source) - 1
    show(browser, tmp_path, document)
    for place in ("#why .text", "#worked tbody"):
        shown = browser.run(
            f"[...document.querySelector({place!r}).querySelectorAll('button')].map(b => b.textContent)"
        )
        assert [text.strip() for text in shown] == source, place


def test_absent_sections_leave_their_views_out(browser: Browser, tmp_path: Path) -> None:
    whole = sample(layers=2, heads=2)
    show(browser, tmp_path, {name: whole[name] for name in ("format", "model", "text", "tokens", "lens")})
    assert browser.run("[...document.querySelectorAll('main > section')].map(s => s.id)") == ["walk", "lens"]
    assert browser.complaints() == []


def test_a_damaged_section_leaves_the_others(browser: Browser, tmp_path: Path) -> None:
    document = sample(layers=2, heads=2)
    document["embeddings"] = {"shape": [3, 3], "data": "AAAA"}
    show(browser, tmp_path, document)
    text = browser.run("document.body.innerText")
    assert "cannot be drawn" in text
    assert "The logit lens" in text


def hostile(texts: list[str]) -> dict[str, Any]:
    """A document whose every text is a payload."""
    document = sample(length=len(texts), layers=2, heads=2, k=4)
    turn = iter(texts * 50)
    document["model"] |= {"name": texts[0], "kind": texts[-1]}
    document["text"] = "\n".join(texts)
    document["tokens"] = [{"id": i, "text": text} for i, text in enumerate(texts)]
    for name in ("explain", "exact"):
        document[name] = {
            view: next(turn) for view in [*VIEWS, "tokens", "embeddings", "positions", "block", "residual", "next"]
        }
    document["anatomy"] = [
        {**document["anatomy"][0], "path": text, "kind": text, "source": text} for text in set(texts)
    ]
    document["heads"] = [{**document["heads"][i % 4], "role": text, "measured": text} for i, text in enumerate(texts)]
    for layer in document["lens"]:
        layer["top"] = [[{"text": next(turn), "p": 0.3} for _ in range(3)] for _ in texts]
    for step in document["next"]["steps"]:
        step |= {"name": next(turn), "knob": next(turn), "rows": [{"text": text, "p": 0.1} for text in texts]}
    document["why"] |= {"target": next(turn), "faithful": next(turn), "words": [next(turn) for _ in texts]}
    for method in document["why"]["methods"]:
        method["name"] = next(turn)
    document["meaning"] = {
        "word": next(turn),
        "points": [{"text": text, "layer": 0, "x": i, "y": i} for i, text in enumerate(texts)],
    }
    return document


def harmless(browser: Browser) -> None:
    """Nothing ran, the policy had nothing to refuse, and no text became an element."""
    assert browser.run("window.ran === undefined")
    assert browser.dialogs() == 0
    assert browser.complaints() == []
    made = (
        "img, iframe, object, embed, base, link, video, audio, math, form, template, marquee, x, body style, "
        "a:not(.skip):not(nav a)"
    )
    assert browser.run(f"document.querySelectorAll({made!r}).length") == 0
    assert browser.run("document.scripts.length") == 2
    handlers = "[...document.querySelectorAll('*')].some(e => e.getAttributeNames().some(n => n.startsWith('on')))"
    assert browser.run(handlers) is False


def test_the_check_of_harm_sees(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    path.write_text("<h1>x</h1><img src=x onerror='window.ran = 1'>", encoding="utf-8")
    browser.open(path)
    browser.wait("window.ran === 1")
    with pytest.raises(AssertionError):
        harmless(browser)


@pytest.mark.parametrize("policy", [True, False], ids=["with the policy", "without it"])
def test_three_hundred_payloads_stay_text(browser: Browser, tmp_path: Path, policy: bool) -> None:
    texts = payloads()
    assert len(set(texts)) >= 300
    show(browser, tmp_path, hostile(texts), policy=policy)
    for _ in every_mode(browser):
        harmless(browser)
    shown = set(browser.run("[...document.querySelectorAll('#walk li button bdi')].map(b => b.textContent)"))
    missing = [text for text in texts if text.strip() == text and text not in shown and "\u2028" not in text]
    assert not missing


@pytest.mark.slow
def test_each_payload_as_the_name_of_a_model(browser: Browser, tmp_path: Path) -> None:
    for text in payloads():
        show(browser, tmp_path, hostile([text, text]))
        assert browser.run("document.querySelector('h1').textContent") == text
        assert text in browser.run("document.title") or text != " ".join(text.split())
        harmless(browser)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_axe_finds_nothing_serious(browser: Browser, tmp_path: Path, theme: str, width: int) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is absent: `make web` fetches it")
    browser.theme(theme)
    browser.size(width, 900)
    try:
        show(browser, tmp_path, sample(layers=3, heads=4))
        browser.run(AXE.read_text(encoding="utf-8"))
        for mode in every_mode(browser):
            answer = browser.run(
                "axe.run(document, {resultTypes: ['violations']}).then(r => JSON.stringify(r.violations))"
            )
            serious = [
                (each["id"], each["nodes"][0]["html"][:200], each["nodes"][0]["failureSummary"][:300])
                for each in json.loads(answer)
                if each["impact"] in ("serious", "critical")
            ]
            assert not serious, f"{mode}: {serious}"
    finally:
        browser.theme("light")
        browser.size(1280, 900)


def test_the_keyboard_reaches_words_heads_and_cells(browser: Browser, tmp_path: Path) -> None:
    show(browser, tmp_path, sample(layers=2, heads=3))

    def press(key: str) -> None:
        for kind in ("keyDown", "keyUp"):
            browser.call("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    browser.run("document.querySelector('#walk li button[tabindex=\"0\"]').focus()")
    press("Home")
    assert browser.run("document.querySelector('#choose-token').value") == "1"
    press("ArrowRight")
    assert browser.run("document.querySelector('#choose-token').value") == "2"
    assert browser.run("document.activeElement.textContent.includes('animal')")
    browser.run(PICK.format("Matrix"))
    browser.wait("document.querySelector('#attention .scroller')")
    browser.run("document.querySelector('#attention .scroller').focus()")
    press("ArrowDown")
    assert "did" in browser.run("document.querySelector('#attention output').textContent")


def test_long_pages_answer_at_once(browser: Browser, tmp_path: Path) -> None:
    """1,024 words: another head, and another place, in 100 ms of work."""
    path = show(browser, tmp_path, sample(length=1024, layers=4, heads=4, k=16))
    assert path.stat().st_size < 5e6
    figures = timed(browser)
    print({name: round(value, 1) for name, value in figures.items()})
    assert max(figures.values()) <= 100, figures


def test_a_page_of_thirty_layers_stays_small(tmp_path: Path) -> None:
    document = sample(length=256, layers=30, heads=9, width=576, k=8)
    assert len(fill(template(), document).encode()) < 5e6

"""Objects that show themselves in a notebook: well-formed HTML, text as text, nothing that runs."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch

from inspection.subjects import subject
from qkv.inspection import notebook
from qkv.inspection.attribution import why
from qkv.inspection.trace import Token, trace
from qkv.inspection.word_in_contexts import meaning
from qkv.visible import html_table
from web.payloads import payloads

KNOWN = {"table", "tr", "td", "th", "p", "span", "u"}


class Reading(HTMLParser):
    """Elements, attributes and texts; every element must be closed in its turn."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: set[str] = set()
        self.attributes: set[str] = set()
        self.texts: list[str] = []
        self.titles: list[str] = []
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.elements.add(tag)
        self.attributes |= {name for name, _ in attrs}
        self.titles += [value or "" for name, value in attrs if name == "title"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def harmless(html: str) -> Reading:
    found = Reading(html)
    assert found.elements <= KNOWN
    assert found.attributes <= {"style", "title"}
    return found


@pytest.mark.parametrize("family", ["gpt", "bert", "transformer", "rnn-translator", "lstm"])
def test_a_trace_shows_its_tokens_and_a_head(family: str) -> None:
    seen = trace(subject(family))
    found = harmless(seen._repr_html_())
    assert [token.text for token in seen.tokens] == found.texts[: len(seen.tokens)]
    if family != "lstm":
        layer = seen.layer(seen.layers[seen.main][-1].layer)
        assert len(found.titles) == layer.weights[0].numel()
        assert found.titles[0].endswith(f"{layer.weights[0, 0, 0]:.3f}")
        assert "scores" in harmless(layer._repr_html_()).texts


def test_nothing_is_asked_for() -> None:
    assert not harmless(trace(subject("gpt"), layers=[])._repr_html_()).titles


def test_payloads_stay_text() -> None:
    texts = payloads()
    seen = trace(subject("gpt"))
    some = texts[: len(seen.tokens)]
    harmless(replace(seen, tokens=[Token(1, text) for text in some])._repr_html_())
    answer = replace(why(subject("classifier")), target=texts[0])
    for start in range(0, len(texts), len(answer.words)):
        words = (texts + texts)[start : start + len(answer.words)]
        harmless(replace(answer, words=words)._repr_html_())
    for text in texts:
        found = harmless(notebook.matrix(torch.ones(1, 1), [text], [text]) + html_table([(text,)], (text,)))
        assert any(text in title for title in found.titles)


def test_long_texts_are_shown_by_their_last_words() -> None:
    names = [f"w{number}" for number in range(100)]
    found = harmless(notebook.matrix(torch.eye(100), names, names))
    assert len(found.titles) == notebook.MAX_WORDS**2
    assert "w59" not in found.texts
    assert "w60" in found.texts


def test_why_and_meaning() -> None:
    made = why(subject("classifier"))
    assert set(made.words) <= set(harmless(made._repr_html_()).texts)
    assert "mean cosine" in harmless(meaning(subject("bert"))._repr_html_()).texts[1]

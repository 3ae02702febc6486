"""Data in the page are data, and nothing but the page's own script may run."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from qkv.inspection.page import (
    DATA_MARK,
    FORMAT,
    POLICY_MARK,
    content_security_policy,
    fill,
    script_json,
    template,
)

SMALL = f"<head>{POLICY_MARK}<style>a{{}}</style></head><body>{DATA_MARK}<script type=module>1<2</script></body>"


class Elements(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        self.texts.append("")

    def handle_data(self, data: str) -> None:
        if self.texts:
            self.texts[-1] += data


def data(page: str) -> Any:
    parsed = Elements(page)
    return json.loads(parsed.texts[[attributes.get("id") for _, attributes in parsed.found].index("qkv-data")])


def document(**more: Any) -> dict[str, Any]:
    return {"format": FORMAT, "model": {"name": "m"}, "tokens": [], **more}


@given(some.text())
def test_any_text_comes_back_and_makes_no_element(text: str) -> None:
    page = fill(SMALL, document(text=text))
    assert data(page)["text"] == text
    assert [tag for tag, _ in Elements(page).found] == ["head", "meta", "style", "body", "script", "script"]


def test_no_text_ends_the_element() -> None:
    encoded = script_json({"a": "</script><!--<script>&amp;\u2028\u2029\ud800"})
    assert not re.search("[<>&\u2028\u2029\ud800]", encoded)
    assert json.loads(encoded)["a"] == "</script><!--<script>&amp;\u2028\u2029\ud800"


def test_marks_in_the_data_stay_text() -> None:
    page = fill(SMALL, document(text=POLICY_MARK + DATA_MARK))
    assert data(page)["text"] == POLICY_MARK + DATA_MARK


def test_what_is_not_finite_is_null() -> None:
    assert json.loads(script_json({"a": [float("nan"), float("inf"), 1.5], "b": (True, None)})) == {
        "a": [None, None, 1.5],
        "b": [True, None],
    }


def test_the_policy_names_script_and_style_by_hash() -> None:
    def digest(text: str) -> str:
        return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()

    policy = content_security_policy(SMALL)
    assert "default-src 'none'" in policy
    assert f"script-src 'sha256-{digest('1<2')}';" in policy
    assert f"style-src 'sha256-{digest('a{}')}';" in policy
    assert "unsafe" not in policy


def test_the_policy_of_the_page_comes_before_all_it_rules() -> None:
    page = fill(template(), document())
    assert page.index("Content-Security-Policy") < page.index("<style")
    assert page.index("<meta charset") < 1024


def test_another_format_is_refused() -> None:
    with pytest.raises(ValueError, match="qkv-inspect/1"):
        fill(SMALL, document(format="qkv-inspect/2"))


def test_a_template_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="make web"):
        fill("<html></html>", document())

"""Text is always text: the page's source never makes markup from a string, and runs none."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

WEB = Path(__file__).resolve().parents[2] / "web"
FORBIDDEN = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|createContextualFragment|DOMParser|setHTML|\{@html|document\s*\.\s*write"
    r"|\beval\s*\(|new\s+Function\b|set(?:Timeout|Interval)\(\s*['\"`]|javascript:|srcdoc|\bon\w+=\"|\bstyle=|\bfetch\("
    r"|XMLHttpRequest|WebSocket|https?://"
)


def test_the_source_makes_no_markup_from_strings() -> None:
    files = [path for path in (WEB / "src").rglob("*") if path.suffix in (".ts", ".svelte", ".css")]
    assert len(files) > 20
    hits = [
        f"{path.relative_to(WEB)}:{number}: {line.strip()}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if FORBIDDEN.search(line)
    ]
    assert not hits, "\n".join(hits)


@pytest.mark.parametrize(
    "line",
    ["node.innerHTML = x", "{@html text}", "document.write(x)", "eval (x)", 'setTimeout("x", 1)', '<a onclick="x()">'],
)
def test_the_check_sees(line: str) -> None:
    assert FORBIDDEN.search(line)


def test_the_lock_file_pins_every_package_and_names_no_host() -> None:
    packages = json.loads((WEB / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    pinned = {name: entry for name, entry in packages.items() if name}
    assert len(pinned) > 50
    assert not [name for name, entry in pinned.items() if not (entry.get("version") and entry.get("integrity"))]
    assert not [name for name, entry in pinned.items() if "resolved" in entry]

"""The page of data sets used is complete: the sets that qkv names, those of the tests, the list of public inputs."""

from __future__ import annotations

import hashlib
import json
import re
import tomllib
from pathlib import Path

from qkv.data import catalog

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "data-used.md"
FOLDERS = {"ece1786": "ECE 1786", "coarsewsd20": "CoarseWSD-20", "wic": "WiC"}
"""How the page names folders of the real data that `qkv data list` does not have."""
NO_DATA = {"weights", "tokenizers", "SHA256SUMS"}


def test_every_set_of_the_catalog_and_of_the_tests_is_listed() -> None:
    page = PAGE.read_text(encoding="utf-8")
    tests = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))
    folders = set(re.findall(r'\breal\(f?"([\w.-]+)[/"]', tests)) - NO_DATA
    assert len(folders) > 15
    names = {FOLDERS.get(folder, f"`{folder}`") for folder in folders} | {f"`{name}`" for name in catalog.sets()}
    assert not [name for name in sorted(names) if name not in page]


def test_the_list_of_public_inputs_is_as_it_was_written_down() -> None:
    """What was expected of them before they were read may not be changed afterwards."""
    entries = tomllib.loads((ROOT / "bench" / "strangers.toml").read_text(encoding="utf-8"))
    assert len(entries) == 25
    digest = hashlib.sha256(json.dumps(entries, sort_keys=True, ensure_ascii=False).encode()).hexdigest()
    assert digest == "6d36dfbdcb4a3633772bd2ef5cedbe965da8a2bc8301548a34094fe6700924c2"
    assert "bench/strangers.toml" in PAGE.read_text(encoding="utf-8")

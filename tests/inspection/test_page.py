"""The document behind a page: the contract qkv-inspect/1 for every family, text as text, and a page's policy."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from inspection.subjects import FAMILIES, subject
from qkv.errors import InputError
from qkv.inspection import page
from qkv.inspection.head_roles import Head
from qkv.inspection.page import DATA_MARK, POLICY_MARK, script_json
from qkv.inspection.trace import trace

ALWAYS = {"format", "model", "text", "answer", "focus", "views", "tokens", "exact", "explain", "anatomy"}
VIEWS = {
    "gpt": {"embeddings", "positions", "block", "residual", "attention", "worked", "lens", "next", "why", "meaning"},
    "bert": {"embeddings", "positions", "block", "residual", "attention", "worked", "meaning"},
    "classifier": {"embeddings", "positions", "block", "residual", "attention", "worked", "why", "meaning"},
    "transformer": {
        "source_tokens",
        "embeddings",
        "positions",
        "block",
        "residual",
        "attention",
        "worked",
        "lens",
        "next",
        "why",
    },
    "rnn-translator": {"source_tokens", "embeddings", "attention", "worked", "next", "why"},
    "lstm": {"embeddings", "next", "why"},
}
HEAD = Head("self", 0, 1, "previous", 0.9, 0.8, 0.95, 0.2)


@pytest.mark.parametrize("family", [*FAMILIES, "lstm"])
def test_the_contract(family: str) -> None:
    given = subject(family)
    found = page.document(given, heads=[HEAD])
    assert found["format"] == "qkv-inspect/1"
    if family in VIEWS:
        assert found.keys() == ALWAYS | VIEWS[family] | {"heads"}
    model = {"name", "kind", "layers", "heads", "width", "parameters", "vocabulary", "context"}
    assert found["model"].keys() == model
    assert set(found["views"]) <= found.keys()
    assert found["explain"].keys() == set(found["views"])
    assert all("deck" in line for line in found["explain"].values())
    assert set(found["exact"]) >= set(found["views"]) - {"tokens"}
    assert {"path", "kind", "shape", "parameters", "flops", "source"} <= found["anatomy"][0].keys()
    assert found["heads"][0]["layer"] == 1, "people count from 1"
    again = json.loads(script_json(found))
    assert again["tokens"] == found["tokens"]


def test_values_are_the_models() -> None:
    given = subject("gpt")
    found, seen = page.document(given, head=(1, 2)), trace(given)
    data = np.frombuffer(base64.b64decode(found["embeddings"]["data"]), dtype="<f2")
    assert seen.embeddings is not None
    np.testing.assert_allclose(data.reshape(found["embeddings"]["shape"]), seen.embeddings.numpy(), atol=2e-3)
    norms = np.array(found["residual"]["norms"])
    np.testing.assert_allclose(norms, [each.norm(dim=-1).tolist() for each in seen.residual()], atol=1e-3)
    assert (found["worked"]["layer"], found["worked"]["head"]) == (2, 3)
    assert found["worked"]["size"] == seen.layer(1).queries.size(-1)
    item = found["worked"]["items"][-1]
    np.testing.assert_allclose(item["weights"], seen.layer(1).weights[2, item["token"]].tolist(), atol=1e-4)
    assert len(found["lens"]) == 3
    assert all(len(layer["top"]) == len(found["tokens"]) for layer in found["lens"])
    assert found["next"]["steps"][0]["name"] == "the model"
    assert {"methods", "target", "p", "faithful"} <= found["why"].keys()
    assert page.document(given, explain="").keys() == found.keys() - {"why"}


def test_text_is_always_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = replace(subject("gpt"), name="</script><script>alert(1)</script>", text="<!--<script>&amp;")
    template = f"<head>{POLICY_MARK}<style>a{{}}</style></head>{DATA_MARK}<script type=module>1</script>"
    monkeypatch.setattr(page, "template", lambda: template)
    page.write(tmp_path / "page.html", page.document(given))
    shown = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert shown.count("<script") == 2
    data = re.search(r'id="qkv-data">(.*?)</script>', shown, re.DOTALL)
    assert data is not None
    assert json.loads(data[1])["model"]["name"] == given.name
    assert json.loads(data[1])["text"] == given.text


def test_no_page_to_fill(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def absent() -> str:
        raise FileNotFoundError

    monkeypatch.setattr(page, "template", absent)
    with pytest.raises(InputError, match="no page to fill"):
        page.write(tmp_path / "page.html", {"format": "qkv-inspect/1"})

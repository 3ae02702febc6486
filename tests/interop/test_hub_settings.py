"""What names a hub and opens it: refused in its own name, and never shown where it is secret."""

from __future__ import annotations

import pytest

from qkv.errors import InputError
from qkv.interop import hub


@pytest.mark.parametrize("source", ["hf:aé/b", "hf:a/b²", "hf:a/b@é"])
def test_names_are_ascii(source: str) -> None:
    with pytest.raises(InputError, match=r"expected hf:org/name"):
        hub.fetch(source)


@pytest.mark.parametrize("key", ["hf_é", "hf_a b", "hf_a\nb", "hf_\u202e"])
def test_a_key_that_cannot_be_sent(key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the variable, and keeps the key to itself."""
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("HF_TOKEN", key)
    with pytest.raises(InputError, match=r"^HF_TOKEN: ") as caught:
        hub.fetch("hf:a/b")
    assert key not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    ["http://me:secret@127.0.0.1:9", "http://secret@127.0.0.1:9/x", "htp://me:secret@host", "http://me:secret@hosté"],
)
def test_a_password_is_not_shown(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", address)
    with pytest.raises(InputError, match=r"^HF_ENDPOINT = ") as caught:
        hub.fetch("hf:a/b")
    assert "secret" not in str(caught.value)


def test_a_port_that_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:port")
    with pytest.raises(InputError, match=r"Check HF_ENDPOINT|cannot be reached"):
        hub.fetch("hf:a/b")

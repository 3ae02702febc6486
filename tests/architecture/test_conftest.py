"""The suite's own promises: no network, its own cache, annotations checked."""

from __future__ import annotations

import os
import socket
import tempfile
from pathlib import Path

import pytest

from qkv import config


def test_the_network_is_out_of_reach() -> None:
    with socket.socket() as out, pytest.raises(PermissionError, match="no network"):
        out.connect(("192.0.2.1", 80))


def test_this_machine_can_be_called() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        assert client.getpeername() == server.getsockname()


def test_the_cache_is_temporary() -> None:
    assert Path(os.environ["QKV_CACHE"]).is_relative_to(
        os.environ.get("PYTEST_DEBUG_TEMPROOT") or tempfile.gettempdir()
    )


def test_annotations_are_checked() -> None:
    with pytest.raises(Exception, match="parse_assignment"):
        config.parse_assignment(3)  # type: ignore[arg-type]

"""The nursery, and tiny runs on real text, for every reliability test."""

from __future__ import annotations

import gzip
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from data_at_hand import real


@pytest.fixture(scope="session")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The beginning of Shakespeare's plays: real text, and little of it."""
    whole = real("tinyshakespeare/input.txt").read_bytes()
    path = tmp_path_factory.mktemp("text") / "plays.txt"
    path.write_bytes(whole[:40_000])
    return path


@pytest.fixture(scope="session")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The first captions of Multi30k in two languages."""
    folder, paths = tmp_path_factory.mktemp("pairs"), []
    for ending in ("en", "de"):
        whole = gzip.decompress(real(f"multi30k/train.{ending}.gz").read_bytes())
        paths.append(folder / f"captions.{ending}")
        paths[-1].write_bytes(b"".join(whole.splitlines(keepends=True)[:240]))
    return paths


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[[int], Path]]:
    """A disk of so many bytes."""
    mounted: list[Path] = []

    def make(size: int, *options: str) -> Path:
        place = tmp_path / f"disk-{len(mounted)}"
        place.mkdir()
        words = ["mount", "-t", "tmpfs", "-o", ",".join([f"size={size}", *options]), "tmpfs", str(place)]
        if subprocess.run(words, capture_output=True, check=False).returncode:
            pytest.skip("this machine mounts no tmpfs")
        mounted.append(place)
        return place

    yield make
    for place in mounted:
        subprocess.run(["umount", "-l", str(place)], check=True)

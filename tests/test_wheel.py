"""The wheel, as a stranger has it: built, installed into an environment of its own, used outside the tree."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from data.bad_inputs import prose
from qkv.generation import compiler

ROOT = Path(__file__).resolve().parents[1]
GUARD = 1800  # seconds: against hanging only


def done(words: list[str | Path], cwd: Path, **more: str) -> str:
    """What a command prints; nothing of the tree or of the tests' own settings reaches it."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "QKV_"))}
    environment |= {"QKV_CACHE": str(cwd / "cache"), "OMP_NUM_THREADS": "1", **more}
    ended = subprocess.run(words, capture_output=True, text=True, cwd=cwd, env=environment, timeout=GUARD)
    assert ended.returncode == 0, f"{words}: {ended.stderr[-3000:]}"
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("hatchling", reason="building the wheel needs hatchling: make dev")
    place = tmp_path_factory.mktemp("wheel")
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place]
    subprocess.run(words, check=True, capture_output=True, cwd=ROOT, timeout=GUARD)
    (built,) = place.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of a fresh environment, which sees the packages of this one behind its own."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    paths = sysconfig.get_paths(vars={"base": str(home), "platbase": str(home)}, scheme="venv")
    own, scripts = Path(paths["purelib"]), Path(paths["scripts"])
    pip = [sys.executable, "-m", "pip", f"--python={scripts / 'python'}", "install", "--no-deps", "--no-index", wheel]
    done(pip, home)
    (own / "others.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return scripts


def test_everything_but_code_is_in_it(wheel: Path) -> None:
    """Whatever lies in the package's folder: recipes, C sources, the page, the catalog, the marker of its types."""
    with zipfile.ZipFile(wheel) as archive:
        there = {name for name in archive.namelist() if name.startswith("qkv/")}
        (entry,) = (name for name in archive.namelist() if name.endswith("/METADATA"))
        metadata = archive.read(entry).decode()
    source = ROOT / "src"
    kept = {path for path in (source / "qkv").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    assert there == {path.relative_to(source).as_posix() for path in kept}
    for name in (
        "recipes/gpt-nano.toml",
        "generation/decode.c",
        "generation/norm.h",
        "inspection/page.html",
        "py.typed",
    ):
        assert f"qkv/{name}" in there
    for group in ("test", "check", "bench", "dev"):
        assert f"Provides-Extra: {group}\n" not in metadata


def test_it_works_outside_the_tree(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_text(prose())
    qkv = installed / "qkv"
    where = done([installed / "python", "-c", "import qkv; print(qkv.__file__)"], tmp_path).strip()
    assert Path(where).is_relative_to(installed.parent), "the environment's own copy is used"
    run = ["--recipe", "gpt-nano", "--steps", "3", "--run", "run", "--json"]
    trained = json.loads(done([qkv, "train", "book.txt", *run], tmp_path))
    assert trained["model"] == "gpt"
    words = prose().split()[0]
    assert json.loads(done([qkv, "generate", "run", words, "--length", "5", "--json"], tmp_path))["notes"] == []
    if os.environ.get("CC") or any(map(shutil.which, compiler.COMPILERS)):
        assert list((tmp_path / "cache").rglob(compiler.NAME)), "its own C sources are compiled"
    assert json.loads(done([qkv, "evaluate", "run", "book.txt", "--json"], tmp_path))["loss"] > 0
    done([qkv, "inspect", "run", words, "--html", "page.html"], tmp_path)
    assert "<html" in (tmp_path / "page.html").read_text(encoding="utf-8")

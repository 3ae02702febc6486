"""The site of the documentation: it is built without a warning and holds what it promises."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from html import unescape
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    for package in ("mkdocs", "material", "mkdocstrings_handlers.python"):
        pytest.importorskip(package, reason="building the site needs the dependency group docs: make dev")
    folder = tmp_path_factory.mktemp("site")
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_MKDOCS_2_WARNING": "1"}
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, env=environment, timeout=900)
    assert done.returncode == 0, done.stderr
    assert not done.stderr.strip(), done.stderr
    return folder


def test_the_front_door_is_documented(site: Path) -> None:
    import qkv

    anchors = set(re.findall(r'id="([^"]+)"', (site / "reference" / "python.html").read_text(encoding="utf-8")))
    names = [name for name in qkv.__all__ if name != "__version__"]
    methods = [name for name in dir(qkv.Model) if not name.startswith("_")]
    assert not {*(f"qkv.{name}" for name in names), *(f"qkv.Model.{name}" for name in methods)} - anchors


def test_every_recipe_key_is_documented(site: Path) -> None:
    from qkv.data.corpus import CorpusConfig, ExamplesConfig, ParallelConfig
    from qkv.models.registry import MODELS
    from qkv.recipe.recipe import SHIPPED
    from qkv.tasks.registry import TASKS
    from qkv.text.tokenizer import TokenizerConfig
    from qkv.training.settings import TrainingConfig

    page = (site / "reference" / "recipe.html").read_text(encoding="utf-8")
    listed = set(re.findall(r"<td><code>([^<]+)</code></td>", page))
    configs = {CorpusConfig, ExamplesConfig, ParallelConfig, TokenizerConfig, TrainingConfig}
    models = {kind: config for kind, config in MODELS.items() if config.__module__.startswith("qkv.")}  # not users' own
    configs |= {*models.values(), *(task.task_config for task in TASKS.values())}
    assert not {field.name for config in configs for field in dataclasses.fields(config)} - listed
    assert not {path.stem for path in SHIPPED.glob("*.toml")} - listed
    text = unescape(re.sub(r"<[^>]+>", "", page))
    missing = [name for name in [*models, *TASKS] if f'"{name}"' not in text]
    assert not missing
    assert "integer, from 1 to 1,024" in text  # the bounds of model.layers
    assert "largest norm of the gradient" in text  # a comment as description


def test_every_block_and_model_has_a_page(site: Path) -> None:
    for package in ("blocks", "models"):
        for path in (ROOT / "src" / "qkv" / package).glob("[!_]*.py"):
            page = site / "reference" / package / f"{path.stem}.html"
            assert f"qkv.{package}.{path.stem}" in page.read_text(encoding="utf-8")


def test_no_reference_is_left_unresolved(site: Path) -> None:
    """The build calls a cross-reference without a target no warning: it stays as [text][name]."""
    left = {
        (page.relative_to(site), found)
        for page in site.rglob("*.html")
        for found in re.findall(
            r"\]\[[\w.-]+\]", re.sub(r"<(pre|code)\b.*?</\1>", "", page.read_text("utf-8"), flags=re.S)
        )
    }
    assert not left


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r'(?:<script|<link|<img)[^>]*?(?:src|href)="(https?://[^"]+)"', page.read_text("utf-8"))
        assert not loaded, (page, loaded)

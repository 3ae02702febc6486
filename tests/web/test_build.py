"""The page in the package is the one that the source gives."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WEB = ROOT / "web"
PAGE = ROOT / "src" / "qkv" / "inspection" / "page.html"


@pytest.fixture
def npm() -> str:
    found = shutil.which("npm")
    if not found:
        pytest.skip("npm is not installed")
    if not (WEB / "node_modules" / "vite").is_dir():
        pytest.skip("web/node_modules is absent: `make web` fetches it")
    return found


def test_the_page_is_built_from_the_source(npm: str, tmp_path: Path) -> None:
    command = [npm, "run", "--silent", "build", "--", "--outDir", str(tmp_path)]
    done = subprocess.run(command, cwd=WEB, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr
    built = (tmp_path / "page.html").read_bytes()
    assert built == PAGE.read_bytes(), "src/qkv/inspection/page.html is not what web/ gives: run `make web`"


def test_the_units_of_the_page(npm: str) -> None:
    done = subprocess.run([npm, "test", "--silent"], cwd=WEB, capture_output=True, text=True, timeout=1800)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_template_is_small_and_whole() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert PAGE.stat().st_size < 150_000
    assert text.count("<!--qkv:policy-->") == text.count("<!--qkv:data-->") == 1
    assert text.count("<script") == text.count("</script>") == text.count("<style") == 1
    assert "://" not in text.replace("https://svelte.dev/e/", "").replace("http://www.w3.org/", "")

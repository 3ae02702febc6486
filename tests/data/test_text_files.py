"""Which files of folders and archives are text for a language model."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from qkv.data.findings import Findings
from qkv.data.text_files import ABOUT_OTHERS, GENERATED, MIXED, find_text_files
from qkv.tasks import detected_as

TREE = {
    "package.json": '{"name": "app", "version": "1"}',
    "package-lock.json": '{"lockfileVersion": 3}',
    "LICENSE": "Permission is granted.",
    "README.md": "An app.",
    "src/app.js": "export const answer = 42;\n" * 40,
    "src/vendor.min.js": "var a=1;",
    "src/bundled.js": "var a=1;" * 1000,
    "src/logo.svg": "<svg></svg>",
    "dist/app.js": "const answer=42",
    "node_modules/left-pad/index.js": "module.exports = leftPad",
    "build/tool.js": "const tool = 1;\n",
    "src/build/steps.js": "const steps = 2;\n",
    "__pycache__/app.pyc": "x",
}
PAGES = {"README.md": "Start here.", "guide.md": "How it works.", "COPYING": "Permission is granted."}
DATA = {"train.jsonl": '{"text": "a long line of text"}\n' * 50, "load.py": "import json\n", "README.md": "Lines."}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def names(path: Path, findings: Findings, pattern: str | None = None) -> list[str]:
    return [
        str(source.member or source.path.relative_to(path))
        for source in find_text_files([str(path)], pattern, findings)
    ]


@pytest.mark.parametrize(
    ("files", "expected", "skipped"),
    [
        (
            TREE,
            ["src/app.js", "src/build/steps.js"],
            {GENERATED: 7, ABOUT_OTHERS: 2, MIXED: 1, "not text": 1},
        ),
        (PAGES, ["README.md", "guide.md"], {ABOUT_OTHERS: 1}),
        (DATA, ["train.jsonl"], {ABOUT_OTHERS: 1, MIXED: 1}),
        ({"README.md": "All that there is."}, ["README.md"], {}),
        ({"LICENSE": "Permission is granted.", "README": "Read me."}, ["LICENSE", "README"], {}),
        (
            {"licences-of-taxis.txt": "A report.", "readmes.txt": "Another."},
            ["licences-of-taxis.txt", "readmes.txt"],
            {},
        ),
    ],
    ids=["source code", "pages", "data with code", "README alone", "about nothing", "other names"],
)
def test_what_is_not_the_text_is_left_out(
    files: dict[str, str], expected: list[str], skipped: dict[str, int], tmp_path: Path
) -> None:
    write(tmp_path, files)
    findings = Findings()
    assert names(tmp_path, findings) == expected
    assert findings.skipped == skipped


def test_in_an_archive_as_in_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "app.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in TREE.items():
            archive.writestr(f"app/{name}", text)
    assert names(path, Findings()) == ["app/src/app.js", "app/src/build/steps.js"]


def test_a_filter_selects_any_text(tmp_path: Path) -> None:
    write(tmp_path, TREE)
    assert names(tmp_path, Findings(), "*LICENSE") == ["LICENSE"]
    assert len(names(tmp_path, Findings(), "*.js")) == 7


TABLE = "text,label\n" + "a good film,1\na bad film,0\n" * 40


@pytest.mark.parametrize(
    ("files", "content"),
    [
        ({"films.csv": TABLE, "README.md": "Films. " * 1000, "load.py": "import csv\n"}, "examples"),
        ({"films.csv": TABLE, "notes.txt": "Remember the milk.\n"}, "examples"),
        ({"films.csv": TABLE, "book.txt": "A long chapter.\n" * 500}, "text"),
        ({"films.csv": TABLE, **{f"page-{number}.md": "A page.\n" for number in range(12)}}, "text"),
    ],
    ids=["code and README", "a short note", "a book", "many pages"],
)
def test_tables_among_texts(files: dict[str, str], content: str, tmp_path: Path) -> None:
    write(tmp_path, files)
    assert detected_as({"files": [str(tmp_path)]}).content == content

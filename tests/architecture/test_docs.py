"""What the documents say is there: trees, links, verbs. And nothing of the machine they were written on."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from qkv.cli.app import VERBS

FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
MACHINE = re.compile(r"(?<![\w./-])/(?:work|tmp|root|opt)(?![\w-])")


def tracked(root: Path, pattern: str = "*") -> list[Path]:
    done = subprocess.run(["git", "ls-files", "-z", pattern], cwd=root, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not a git checkout")
    return [path for name in done.stdout.split("\0") if name and (path := root / name).is_file()]


def names_of_tree(block: str) -> Iterator[tuple[Path, str]]:
    """Folder and name of every file and folder that a drawn tree names.

    Names come first on a line, one space between them; two spaces or a # begin the remark. A deeper name lies in the
    last folder above it.
    """
    folders: list[tuple[int, Path]] = []
    for line in block.splitlines():
        bare = re.sub(r"[│├└─]", " ", line)
        column = len(bare) - len(bare.lstrip())
        names = re.split(r" {2,}|\s#|\t", bare.strip(), maxsplit=1)[0].split()
        if not names or not all(re.fullmatch(r"[\w.*-]*[/.][\w./*-]*|[A-Z]+|Makefile", name) for name in names):
            continue
        folders = [(depth, path) for depth, path in folders if depth < column]
        parent = folders[-1][1] if folders else Path()
        for name in names:
            yield parent, name
            if name.endswith("/"):
                folders.append((column, parent / name))


def trees(text: str) -> Iterator[str]:
    """Fenced blocks that draw folders of this repository; a run's folder is drawn from `runs/` on."""
    for _, block in FENCE.findall(text):
        first = block.strip().split(maxsplit=1)[0] if block.strip() else ""
        if (first.endswith("/") or re.search("[├└]", block)) and not first.startswith("runs/"):
            yield block


def exists(root: Path, place: Path) -> bool:
    # the tree may start at the repository, at its name (`qkv/`) or at the package
    spots = [place, Path("src/qkv") / place, *([Path(*place.parts[1:])] if place.parts[:1] == ("qkv",) else [])]
    return any((root / spot).exists() if "*" not in str(spot) else any(root.glob(str(spot))) for spot in spots)


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md"])
def test_trees_name_what_exists(root: Path, name: str) -> None:
    missing = [
        str(folder / entry)
        for block in trees((root / name).read_text(encoding="utf-8"))
        for folder, entry in names_of_tree(block)
        if not exists(root, folder / entry)
    ]
    assert not missing, f"{name} names what does not exist: {missing}"


def blocks_of_folders(tree: str) -> dict[Path, str]:
    """Every folder that a drawn tree names, with its own line and all lines beneath it."""
    open_folders: list[tuple[int, Path]] = []
    blocks: dict[Path, str] = {}
    for line in tree.splitlines():
        bare = re.sub(r"[│├└─]", " ", line)
        column = len(bare) - len(bare.lstrip())
        folder = re.match(r"([\w./-]+)/(?=\s|$)", bare.strip())
        if folder:
            open_folders = [(depth, path) for depth, path in open_folders if depth < column]
            parent = open_folders[-1][1] if open_folders else Path()
            open_folders.append((column, parent / folder[1]))
            blocks[parent / folder[1]] = ""
        for _, path in open_folders:
            blocks[path] += line + "\n"
    return blocks


def test_every_source_file_is_on_the_map(root: Path, source: Path) -> None:
    tree = next(trees((root / "ARCHITECTURE.md").read_text(encoding="utf-8")))
    blocks = blocks_of_folders(tree)
    missing = []
    for path in sorted(source.rglob("*.py")):
        place = path.relative_to(root)
        nearest = next(folder for folder in place.parents if folder in blocks)
        if path.name != "__init__.py" and not re.search(rf"(?<![\w/]){re.escape(path.name)}\b", blocks[nearest]):
            missing.append(str(place))
    assert not missing, f"ARCHITECTURE.md does not name: {missing}"


def test_relative_links_resolve(root: Path) -> None:
    broken = []
    for path in tracked(root, "*.md"):
        text = FENCE.sub("", path.read_text(encoding="utf-8"))
        for link in re.findall(r"\]\(<?([^)\s>]+)", text) + re.findall(r"(?:src|href)=\"([^\"]+)\"", text):
            target = link.partition("#")[0]
            if target and not re.match(r"[a-z]+:", target) and not (path.parent / target).exists():
                broken.append(f"{path.relative_to(root)}: {link}")
    assert not broken, "\n".join(broken)


def test_readme_uses_existing_verbs(root: Path) -> None:
    text = (root / "README.md").read_text(encoding="utf-8")
    shell = [block for language, block in FENCE.findall(text) if language in ("", "sh", "bash", "shell", "console")]
    spans = re.findall(r"(?<!`)`([^`\n]+)`(?!`)", FENCE.sub("", text))
    called = re.findall(r"^\s*(?:\$ )?(?:\S*/)?qkv +([a-z]\w*)(?![\w,])", "\n".join([*shell, *spans]), re.MULTILINE)
    called += re.findall(r"\| *qkv +([a-z]\w*)", "\n".join(shell))
    assert not set(called) - set(VERBS)


def test_no_machine_paths(root: Path) -> None:
    hits = []
    for path in tracked(root):
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except UnicodeDecodeError:
            continue  # a picture
        seen = ((number, line.strip()) for number, line in enumerate(lines, 1) if MACHINE.search(line))
        hits += [f"{path.relative_to(root)}:{number}: {line}" for number, line in seen]
    assert not hits, "\n".join(hits)


def test_a_tree_is_read() -> None:
    block = (
        "qkv/\n├── src/qkv/   the package\n│   ├── text/   no torch\n│   └── config.py errors.py   strict\n└── Makefile"
    )
    found = [str(folder / name) for folder, name in names_of_tree(block)]
    package = "qkv/src/qkv"
    assert found[:3] == ["qkv", package, f"{package}/text"]
    assert found[3:] == [f"{package}/config.py", f"{package}/errors.py", "qkv/Makefile"]


def test_a_machine_path_is_seen() -> None:
    folder = "/" + "tmp"
    assert MACHINE.search(f"see {folder}/x")
    assert not MACHINE.search(f"https://example.org{folder}/x")
    assert not MACHINE.search(f"{folder}late")

"""A reader of docs/lectures.md: its commands, its blocks of Python, its sources, and the data that its commands name.

The sets are real; a reader in a hurry has the first lines of each (`cut`), in a folder of the set's name, which goes
before the catalog's. Commands stay as they are written; only trainings are made short (`shortened`).
"""

from __future__ import annotations

import ast
import gzip
import io
import re
import shlex
import struct
import zipfile
from pathlib import Path

from data_at_hand import real
from qkv.data import catalog

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "lectures.md"
DECKS = ("000", "001", "002", "003", "004")
SETS = (
    *(
        "small-simple-corpus",
        "larger-corpus",
        "tinyshakespeare",
        "names",
        "sotu",
        "sst2",
        "cola",
        "mrpc",
        "rte",
        "stsb",
    ),
    *("multi30k", "wnut17", "mnist-10k"),
)
LINES = {"train": 240, "dev": 40, "val": 8}  # of a set, by side
PICTURES = 200
CHARACTERS = 40_000  # of a text
TINY = ["model.width=32", "model.hidden=32", "model.layers=1", "task.tokens=256", "training.evaluate_every=1000"]


def section(name: str) -> str:
    """A part of the page by the beginning of its heading; "" is what stands before the first."""
    parts = PAGE.read_text(encoding="utf-8").split("\n## ")
    return parts[0] if not name else next(part for part in parts if part.startswith(name))


def blocks(name: str) -> list[str]:
    return re.findall(r"```python\n(.*?)```", section(name), re.DOTALL)


def commands(name: str) -> list[list[str]]:
    """The commands of a section's table, each once, in their order."""
    text = re.sub(r"```.*?```", "", section(name), flags=re.DOTALL)
    found = dict.fromkeys(re.findall(r"`((?:qkv|python) [^`]+)`", text))
    return [shlex.split(each) for each in found]


def sources() -> list[tuple[str, str]]:
    """File and name of every source that the page gives."""
    return re.findall(r"`([\w/]+\.py):([\w.]+)`", PAGE.read_text(encoding="utf-8"))


def defines(path: Path, name: str) -> bool:
    """Whether a file defines a function, class, method or value of this name."""
    body: list[ast.stmt] = ast.parse(path.read_text(encoding="utf-8")).body
    for part in name.split("."):
        inside = next((each for each in body if part in _names(each)), None)
        if inside is None:
            return False
        body = getattr(inside, "body", [])
    return True


def _names(statement: ast.stmt) -> list[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return [statement.name]
    if isinstance(statement, ast.Assign):
        return [each.id for each in statement.targets if isinstance(each, ast.Name)]
    if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
        return [statement.target.id]
    return []


def named_sets(words: list[list[str]]) -> list[str]:
    said = {word for command in words for word in command}
    return [name for name in SETS if name in said]


def whole(name: str) -> None:
    """Skips, saying so, where a set is absent."""
    entry = catalog.find(name)
    assert entry is not None, f"{name} is no named set"
    for file in (*entry.train, *entry.valid):
        real(file.path)


def sentences(path: Path, most: int = 150) -> None:
    """The first sentences of the treebank's development side."""
    text = gzip.decompress(real("ud-english-ewt/en_ewt-ud-dev.conllu.gz").read_bytes()).decode("utf-8")
    path.write_text("\n\n".join(text.split("\n\n")[:most]) + "\n\n", encoding="utf-8")


def cut(name: str, place: Path) -> None:
    """The beginning of a named set, in a folder of its name."""
    entry = catalog.find(name)
    assert entry is not None, f"{name} is no named set"
    folder = place / name
    folder.mkdir()
    for side, files in (("train", entry.train), ("dev", entry.valid)):
        for file in files:
            whole = real(file.path)
            if entry.task == "images" or "idx" in whole.name:
                (folder / whole.name.removesuffix(".gz")).write_bytes(_pictures(gzip.decompress(whole.read_bytes())))
            elif whole.suffix == ".zip":
                _documents(whole, folder)
            else:
                _lines(whole, folder, side, entry.task)


def _lines(whole: Path, folder: Path, side: str, task: str) -> None:
    data = gzip.decompress(whole.read_bytes()) if whole.suffix == ".gz" else whole.read_bytes()
    text = data.decode("utf-8")
    plain = whole.name.removesuffix(".gz")
    if task == "language modelling":
        (folder / plain).write_text(text[:CHARACTERS], encoding="utf-8")
        return
    if task == "translation":
        side = plain.partition(".")[0]
    else:
        plain = f"{side}{Path(plain).suffix}"
    lines = text.split("\n")[: LINES[side] * (8 if plain.endswith("conll") else 1)]
    while plain.endswith("conll") and lines[-1].strip():  # a sentence is whole
        lines.pop()
    (folder / plain).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _documents(whole: Path, folder: Path) -> None:
    with zipfile.ZipFile(whole) as archive:
        for name in [each for each in archive.namelist() if each.endswith(".txt")][:3]:
            text = io.TextIOWrapper(archive.open(name), "utf-8").read()
            (folder / Path(name).name).write_text(text[: CHARACTERS // 3], encoding="utf-8")


def _pictures(data: bytes) -> bytes:
    """The first pictures, or labels, of an idx file: its head says how many there are."""
    head = 4 * (1 + data[3])
    sizes = struct.unpack(f">{data[3]}I", data[4:head])
    one = 1
    for each in sizes[1:]:
        one *= each
    return data[:4] + struct.pack(f">{data[3]}I", PICTURES, *sizes[1:]) + data[head : head + PICTURES * one]


def shortened(words: list[str]) -> list[str]:
    """The same command with a small time: two steps, a small translator, one system, one trial, short texts."""
    match words[1:]:
        case ["train" | "finetune", *_]:
            settings = ["training.threads=1", *(TINY if "multi30k" in words else [])]
            if any("rnn-translator" in word for word in words):
                settings.remove("model.hidden=32")
            return [*words, "--steps", "2", *(word for value in settings for word in ("--set", value))]
        case ["compare", *_]:
            return [*_without(words, "--minutes"), *_cheap(words)]
        case ["tune", *_]:
            return [*_without(words, "--trials"), "--trials", "1", "--each", "0.02"]
        case ["bench/cost.py", *_]:
            return [*_without(_without(words, "--longest"), "--widths"), "--longest", "128", "--widths", "16"]
    return words


def _cheap(words: list[str]) -> list[str]:
    """One system; the linear one ends before its time."""
    minutes, model = ("0.15", "mlp") if "tinyshakespeare" in words else ("0.5", "linear")
    return ["--minutes", minutes, "--models", model]


def _without(words: list[str], option: str) -> list[str]:
    if option not in words:
        return words
    place = words.index(option)
    return words[:place] + words[place + 2 :]

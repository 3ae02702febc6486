"""D1 through `qkv train`: every bad table, tagged file or set of pictures is refused with 2, a place and a remedy, or
accepted with a note; what is refused leaves nothing behind.
"""

from __future__ import annotations

import gzip
import importlib.util
import io
import os
from pathlib import Path
from typing import Any

import pytest

from data.bad_examples import FILMS, Case, build, conll, csv, every, jsonl
from data.bad_inputs import state
from reliability.nursery import Done, Nursery
from reliability.report import record
from reliability.test_bad_inputs import clear

CASES = list(every())
AS_TEXT = [
    *(
        "texts",
        "prose.txt",
        "nothing",
        "stdin",
        "bad-byte-in-folder",
        "one-folder",
        "one-empty-file",
        "no-folder",
        "folder.csv",
    ),
    *("lists.jsonl", "strings.jsonl", "number.json", "null-labels.jsonl", "object-labels.jsonl"),
]
"""What is text for a language model, where nobody says that it has labels."""
TASKS = {**dict.fromkeys(AS_TEXT, "classification"), "picture.png": "images"}
SMALL = ["--set", "training.threads=1", "--steps", "2"]
OPTIONS = {"text": "--text", "text2": "--text2", "label": "--label", "task": "--task", "encoding": "--encoding"}


def words(case: Case, options: dict[str, Any]) -> list[str]:
    """The options of a case as a person types them."""
    found = [*options["files"], *(["--task", TASKS[case.name]] if case.name in TASKS else [])]
    for side in ("valid", "test"):
        for name in options.get(side, ()):
            found += [f"--{side}", name]
    for name, option in OPTIONS.items():
        if name in options:
            found += [option, options[name]]
    return found


def complaint(case: Case, done: Done, left: list[str], card: Path) -> str | None:
    """What is wrong with the answer, or None. Notes beyond the third are in the card alone."""
    said = done.err + done.out
    for word in ("Traceback", "bug in qkv", "panicked", "Warning", "Error:"):
        if word in said:
            return f"shows {word}"
    if done.code == 0:
        if case.refused:
            return "accepted"
        return None if case.mention in done.err + card.read_text(encoding="utf-8") else "accepted without its note"
    if done.code != 2:
        return f"exit {done.code}"
    if not case.refused:
        return "refused"
    if left:
        return f"left behind: {left}"
    last = done.err.rstrip().splitlines()[-1]
    if not last.startswith("qkv: "):
        return "does not end with what is wrong"
    if case.mention not in last:
        return f"does not mention {case.mention!r}"
    return None if any(mark in last for mark in (". ", "; ", "expected", "--")) else "names no remedy"


@pytest.mark.parametrize("refused", [True, False])
def test_every_bad_table(nursery: Nursery, tmp_path: Path, refused: bool) -> None:
    cases = [case for case in CASES if case.refused == refused]
    failures, counts = [], {"refused": 0, "accepted": 0}
    place = tmp_path / "place"
    place.mkdir()
    for number, case in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        options = build(case, folder)
        before = state(folder)
        done = nursery.qkv("train", *words(case, options), *SMALL, "--run", "run", cwd=place)
        counts["refused" if done.code else "accepted"] += 1
        left = sorted(path.name for path in place.iterdir())
        if problem := complaint(case, done, left, place / "run" / "card.md"):
            failures.append(f"{case.name}: {problem}: exit {done.code}: {done.err[-300:]}")
        if state(folder) != before:
            failures.append(f"{case.name}: its files were changed")
        clear(place)
    record(f"D1 {'bad' if refused else 'odd'} tables, train", len(cases), len(failures), **counts)
    assert not failures, f"{len(failures)} of {len(cases)}\n" + "\n".join(failures)


def tables() -> dict[str, bytes]:
    """Sound ones of every kind; long enough that half of each would do for a training."""
    rows = FILMS * 3
    found = {
        "table.csv": csv(rows),
        "table.tsv": csv(rows, mark="\t"),
        "table.csv.gz": gzip.compress(csv(rows)),
        "table.jsonl": jsonl([{"text": text, "label": label} for text, label in rows]),
        "numbers.csv": csv([(n, n * 0.5, "ab"[n % 2]) for n in range(400)], "x,y,class"),
        "words.conll": conll(300),
    }
    if importlib.util.find_spec("pyarrow"):
        import pyarrow
        import pyarrow.parquet

        out = io.BytesIO()
        columns = {"text": [text for text, _ in rows], "label": [label for _, label in rows]}
        pyarrow.parquet.write_table(pyarrow.table(columns), out)
        found["table.parquet"] = out.getvalue()
    return found


@pytest.mark.parametrize("done", ["deleted", "cut"])
@pytest.mark.parametrize("name", tables())
def test_a_table_that_somebody_meddles_with(nursery: Nursery, tmp_path: Path, name: str, done: str) -> None:
    """Deleted, or cut in half, each time that it is opened: while columns are guessed, and while rows are read."""
    folder, place, content = tmp_path / "data", tmp_path / "place", tables()[name]
    folder.mkdir()
    place.mkdir()
    path, trials, refused = folder / name, 0, 0
    for trials in range(1, 20):
        path.write_bytes(content)
        words = ["train", str(path), *SMALL, "--run", "run"]
        found = nursery.call("meddled", words=words, path=str(path), time_opened=trials, done=done, cwd=place)
        if "meddled" not in found.err:  # it was not opened so often
            assert found.code == 0, found.err
            break
        last = found.err.rstrip().splitlines()[-1]
        assert "Traceback" not in found.err
        if (
            done == "cut" and found.code == 0
        ):  # before the rows were read: what is left of it is a table, and is counted
            assert "rows left out" in found.err, found.err
            clear(place)
            continue
        assert found.code == 2, found.err
        refused += 1
        assert last.startswith(f"qkv: {path}: "), last
        assert ". " in last, f"names no remedy: {last}"
        if done == "deleted":
            assert "vanished while it was being read. Put it back" in last or "no such file. Check the name" in last
        elif name.endswith((".gz", ".parquet")):
            assert "again" in last
        else:
            assert "changed while it was being read. Start again" in last
        assert not list(place.iterdir()), sorted(each.name for each in place.iterdir())
    record(f"D1 {name} {done} while it is read", trials - 1, 0, refused=refused)
    assert refused, "nobody noticed"


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_by_name(nursery: Nursery, tmp_path: Path) -> None:
    """The ones that people meet most, word for word."""
    good, one = csv(FILMS), csv([(text, "good") for text, _ in FILMS])
    files = {
        "one.csv": one,
        "prose.csv": csv(
            [(f"a long text of its own as {n} others to read and to go on from",) for n in range(90)], "a"
        ),
        "unlabelled.csv": csv(
            [(text, f"remark {n}: {text} as others") for n, (text, _) in enumerate(FILMS)], "text,remark"
        ),
        "train.csv": good,
        "dev.csv": csv([(f"{text} indeed", "maybe") for text, _ in FILMS]),
        "folder/a.txt": b"one text\n",
        "folder/b.txt": b"another text\n",
    }
    (tmp_path / "folder").mkdir()
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    os.mkfifo(tmp_path / "pipe.csv")
    for given, mention in (
        (["one.csv"], "one.csv:2: only one class"),
        (["unlabelled.csv"], "--label"),
        (["train.csv", "--valid", "dev.csv"], "dev.csv:2"),
        (["pipe.csv"], "named pipe"),
        (["folder", "--task", "classification"], "labels"),
        (["prose.csv"], "is for a language model: give it as .txt"),
    ):
        before = state(tmp_path)
        done = nursery.qkv("train", *given, *SMALL, cwd=tmp_path)
        assert done.code == 2, (given, done.err[-400:])
        assert mention in done.err.splitlines()[-1], (given, done.err[-400:])
        assert state(tmp_path) == before

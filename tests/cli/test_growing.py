"""`--json` of verbs that answer text by text: one document, written as answers come, and nothing of it held."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import small_pairs
from cli.commands import run
from qkv.cli.output import StreamedJson, print_json
from small_tasks import origin, sentences, trained, write

PEAK = """
import re, sys
from pathlib import Path
from qkv.cli import app
code = app.run(sys.argv[1:], False)
print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1], file=sys.stderr)
sys.exit(code)
"""
SMALL = {"kind": "gru", "width": 16}
TEXTS = [text for text, _ in sentences(9)]
FEW = 24_576  # more than a megabyte, which is read at once


@pytest.fixture(scope="module")
def classifier(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("classifier")
    trained(write(folder, "classification"), folder / "run", "classification", model=SMALL, training={"steps": 6})
    return str(folder / "run")


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("tagger")
    trained(write(folder, "tagging"), folder / "run", "tagging", model=SMALL, training={"steps": 6})
    return str(folder / "run")


@pytest.fixture(scope="module")
def translator(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("translator")
    words = ["train", *small_pairs.write(folder), *small_pairs.settings("rnn-translator"), "--steps", "2"]
    assert run([*words, "--run", str(folder / "run"), "--seed", "1"], True) == 0
    return str(folder / "run")


@pytest.fixture(scope="module")
def models(classifier: str, tagger: str, translator: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    masked = str(origin(tmp_path_factory.mktemp("masked") / "model", "masked"))
    return {"classify": classifier, "tag": tagger, "translate": translator, "fill": masked, "embed": masked}


@pytest.mark.parametrize("after", [{}, {"notes": []}, {"notes": ["one"], "more": 2}])
@pytest.mark.parametrize("items", [[], [{"a": 1.5}], [{"text": "a\nb\u2028é", "p": {"x": float("nan")}, "e": []}] * 3])
def test_the_same_document(
    items: list[dict[str, Any]], after: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    print_json({"model": "m", "layer": -1, "texts": items, **after})
    whole = json.loads(capsys.readouterr().out)
    grown = StreamedJson({"model": "m", "layer": -1}, "texts")
    grown.add(items[:1])
    grown.add(items[1:])
    grown.end(after)
    found = capsys.readouterr().out
    assert json.loads(found) == whole
    lines = [line.lstrip(" ,") for line in found.split("\n")]
    assert [json.loads(line) for line in lines if line.startswith('{"')] == whole["texts"]


def test_what_ends_early_is_not_json(capsys: pytest.CaptureFixture[str]) -> None:
    grown = StreamedJson({"model": "m"}, "texts")
    assert capsys.readouterr().out == ""
    grown.add([{"text": "one"}])
    with pytest.raises(json.JSONDecodeError):
        json.loads(capsys.readouterr().out)


@pytest.mark.skipif(os.name == "nt", reason="there, whether a pipe has more is not known")
@pytest.mark.parametrize("verb", ["classify", "tag", "translate", "fill", "embed"])
def test_a_pipe_gets_its_first_answer_before_its_end(verb: str, models: dict[str, str]) -> None:
    texts = [f"{text} [MASK]" for text in TEXTS] if verb == "fill" else TEXTS
    command = [sys.executable, "-m", "qkv", verb, models[verb], "-", "--json"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as child:
        assert child.stdin
        assert child.stdout
        seen = ""
        for text in texts[:2]:
            child.stdin.write(f"{text}\n")
            child.stdin.flush()
            while json.dumps(text, ensure_ascii=False) not in seen and json.dumps(text) not in seen:
                line = child.stdout.readline()
                assert line, seen
                seen += line
        child.stdin.write("\n".join(texts[2:]))
        child.stdin.close()
        seen += child.stdout.read()
        assert child.wait() == 0
    assert [each["text"] for each in json.loads(seen)["texts"]] == texts


def _long(path: Path, count: int) -> Path:
    with path.open("w", encoding="utf-8") as out:
        out.writelines(f"{TEXTS[0]} number {number}\n" for number in range(count))
    return path


def _peak(verb: str, model: str, file: Path, out: Path) -> int:
    """Of a process that answers the file: the most memory it ever had, in bytes."""
    command = [sys.executable, "-c", PEAK, verb, model, "--file", str(file), "--json"]
    with out.open("wb") as written:
        done = subprocess.run(command, stdout=written, stderr=subprocess.PIPE, text=True, check=True)
    return 1024 * int(done.stderr.split()[-1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the kernel does not tell a process's peak here")
@pytest.mark.parametrize("verb", ["classify", "tag"])
@pytest.mark.parametrize(("count", "most"), [(65_536, 16), pytest.param(400_000, 24, marks=pytest.mark.slow)])
def test_memory_does_not_grow_with_the_file(
    verb: str, count: int, most: int, models: dict[str, str], tmp_path: Path
) -> None:
    few = _peak(verb, models[verb], _long(tmp_path / "few.txt", FEW), tmp_path / "few.json")
    long = _long(tmp_path / "many.txt", count)
    # the allocator's reserves differ by some MiB from run to run, mostly on a busy machine: what is held shows in each
    runs = (_peak(verb, models[verb], long, tmp_path / "many.json") for _ in range(3))
    many = next((peak for peak in runs if peak - few < most * 2**20), math.inf)
    assert len(json.loads((tmp_path / "many.json").read_text(encoding="utf-8"))["texts"]) == count
    assert many - few < most * 2**20, f"{few / 2**20:.0f} MiB for {FEW:,} texts, {most} MiB more for {count:,}"


@pytest.mark.parametrize("verb", ["classify", "tag"])
def test_a_failure_in_the_middle(verb: str, models: dict[str, str], tmp_path: Path) -> None:
    """What was answered stands there, it does not look whole, and the command says why."""
    file = _long(tmp_path / "texts.txt", 2 * FEW)
    size = file.stat().st_size
    with file.open("ab") as more:
        more.write(bytes(size))  # as after a crash of the program that wrote it
    done = subprocess.run(
        [sys.executable, "-m", "qkv", verb, models[verb], "--file", str(file), "--json"],
        capture_output=True, text=True, encoding="utf-8", check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert f"texts.txt:{2 * FEW + 1}" in done.stderr
    assert TEXTS[0] in done.stdout
    with pytest.raises(json.JSONDecodeError):
        json.loads(done.stdout)

"""D3: a damaged model folder is refused with 5 and the file's name; never a traceback, never a guess."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from reliability.nursery import Nursery
from reliability.report import record
from reliability.runs import command

Damage = Callable[[Path], str]  # damages a folder, gives the name of the file that must be named
FILES = ("model.safetensors", "config.json", "tokenizer.json", "manifest.json")


@pytest.fixture(scope="module")
def models(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory, text: Path) -> list[Path]:
    """Three models: the second of the same shape and text, the third of another shape and text."""
    folder = tmp_path_factory.mktemp("models")
    small = {"steps": 3, "model__layers": 1, "model__width": 12, "model__heads": 1}
    other = folder / "other.txt"
    other.write_text("the quick brown fox jumps over the lazy dog\n" * 60)
    first = command(text, folder / "one", "gpt", **small)
    second = command(text, folder / "two", "gpt", **small, training__seed=5)
    third = command(other, folder / "three", "gpt", **small | {"model__width": 16})
    for words in (first, second, third):
        done = nursery.qkv(*words)
        assert done.code == 0, done.err
    return [(folder / name / "best").resolve() for name in ("one", "two", "three")]


def flip(chance: random.Random, name: str) -> Damage:
    def damage(folder: Path) -> str:
        data = bytearray((folder / name).read_bytes())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        (folder / name).write_bytes(data)
        return name

    return damage


def cut(chance: random.Random, name: str) -> Damage:
    def damage(folder: Path) -> str:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: chance.randrange(len(data))])
        return name

    return damage


def swap(source: Path, name: str, *, recompute: bool) -> Damage:
    def damage(folder: Path) -> str:
        shutil.copy(source / name, folder / name)
        if recompute:
            recomputed(folder)
        return name

    return damage


def edit(name: str, change: Callable[[dict[str, Any]], None], *, recompute: bool) -> Damage:
    def damage(folder: Path) -> str:
        values = json.loads((folder / name).read_text())
        change(values)
        (folder / name).write_text(json.dumps(values))
        if recompute:
            recomputed(folder)
        return name

    return damage


def recomputed(folder: Path) -> None:
    """A manifest that agrees with the altered files: now only the format itself can notice."""
    import hashlib

    names = [path for path in sorted(folder.iterdir()) if path.name != "manifest.json"]
    facts = {p.name: {"sha256": hashlib.sha256(p.read_bytes()).hexdigest(), "bytes": p.stat().st_size} for p in names}
    (folder / "manifest.json").write_text(json.dumps({"files": facts}, indent=2) + "\n")


def swapped_ids(values: dict[str, Any]) -> None:
    ids = values["model"]["vocab"]
    ids["a"], ids["b"] = ids["b"], ids["a"]


def tensors(change: Callable[[dict[str, Any]], None]) -> Damage:
    """Alter the header of the weights, keep their bytes, and let the manifest agree."""

    def damage(folder: Path) -> str:
        path = folder / "model.safetensors"
        data = path.read_bytes()
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + length])
        change(header)
        new = json.dumps(header).encode()
        path.write_bytes(len(new).to_bytes(8, "little") + new + data[8 + length :])
        recomputed(folder)
        return path.name

    return damage


def rename_tensor(header: dict[str, Any]) -> None:
    name = next(key for key in header if key != "__metadata__")
    header["other"] = header.pop(name)


def half_precision(header: dict[str, Any]) -> None:
    entry = header[next(key for key in header if key != "__metadata__")]
    entry["dtype"], entry["shape"] = "F16", [*entry["shape"][:-1], entry["shape"][-1] * 2]


def beyond_the_end(header: dict[str, Any]) -> None:
    entry = header[next(key for key in header if key != "__metadata__")]
    entry["data_offsets"] = [0, 2**40]


def setting(section: str | None, key: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(values: dict[str, Any]) -> None:
        (values[section] if section else values)[key] = value

    return change


def without(key: str) -> Callable[[dict[str, Any]], None]:
    return lambda values: values.pop(key)  # type: ignore[no-any-return,return-value]


def damages(models: list[Path], count: int) -> Iterator[tuple[str, Damage]]:
    chance = random.Random("damage")
    for number in range(count):
        name = FILES[number % 4]
        yield (f"flip {name}", flip(chance, name)) if number % 3 else (f"cut {name}", cut(chance, name))
    same, other = models[1:]
    for name in FILES[:1] + FILES[3:]:
        yield f"{name} of a model of the same shape", swap(same, name, recompute=False)
    for name in FILES:
        yield f"{name} of another model", swap(other, name, recompute=False)
    for name in FILES[:3]:
        yield f"{name} of another model, manifest agrees", swap(other, name, recompute=True)
    yield "token ids swapped", edit("tokenizer.json", swapped_ids, recompute=False)
    # the manifest agrees: the reader of each format must notice
    yield "token id twice", edit("tokenizer.json", lambda v: v["model"]["vocab"].update(a=5), recompute=True)
    yield "token id huge", edit("tokenizer.json", lambda v: v["model"]["vocab"].update(a=10**9), recompute=True)
    yield "token id text", edit("tokenizer.json", lambda v: v["model"]["vocab"].update(a="5"), recompute=True)
    yield "token gone", edit("tokenizer.json", lambda v: v["model"]["vocab"].pop("a"), recompute=True)
    yield "tokenizer of no kind", edit("tokenizer.json", setting("model", "type", "Unigram"), recompute=True)
    yield "tokenizer without model", edit("tokenizer.json", without("model"), recompute=True)
    yield "no separator", edit("tokenizer.json", setting(None, "added_tokens", []), recompute=True)
    yield "a tensor renamed", tensors(rename_tensor)
    yield "a tensor of another dtype", tensors(half_precision)
    yield "a tensor beyond the end", tensors(beyond_the_end)
    yield "no tensors", tensors(lambda header: header.clear())
    for section, key, value in (
        (None, "format", "qkv/2"),
        (None, "documents", "many"),
        (None, "step", -1),
        (None, "step", None),
        (None, "model", {}),
        (None, "model", []),
        ("model", "kind", "exec"),
        ("model", "layers", 10**9),
        ("model", "layers", 2),
        ("model", "width", 2**30),
        ("model", "width", 24),
        ("model", "heads", 0),
        ("model", "heads", 5),
        ("model", "context", 2**40),
        ("model", "context", 0),
        ("model", "vocabulary", 7),
        ("model", "vocabulary", 2**31),
        ("model", "dropout", 2.0),
        ("model", "auto_map", {"AutoModel": "evil.py"}),
    ):
        yield f"config {section} {key} = {value}", edit("config.json", setting(section, key, value), recompute=True)
    for name in FILES[:1] + FILES[2:]:
        yield f"{name} missing", lambda folder, name=name: ((folder / name).unlink(), name)[1]
    yield "a folder for a file", lambda folder: _folder_instead(folder, "tokenizer.json")
    yield "the manifest lists nothing", lambda folder: _write(folder, "manifest.json", '{"files": {}}')
    yield "the manifest lists ../", lambda folder: _write(folder, "manifest.json", '{"files": {"../x": {}}}')
    yield "the manifest is a list", lambda folder: _write(folder, "manifest.json", "[]")
    yield "the manifest is deep", lambda folder: _write(folder, "manifest.json", "[" * 100_000)
    yield "the config is deep", lambda folder: _write(folder, "config.json", '{"a":' * 100_000)
    yield "the config is not UTF-8", lambda folder: _write(folder, "config.json", b"\xff\xfe{}")


def _write(folder: Path, name: str, content: str | bytes) -> str:
    (folder / name).write_bytes(content.encode() if isinstance(content, str) else content)
    return name


def _folder_instead(folder: Path, name: str) -> str:
    (folder / name).unlink()
    (folder / name).mkdir()
    return name


def refused(nursery: Nursery, folder: Path, models: list[Path], count: int, figure: str) -> None:
    cases, commands = [], []
    for number, (what, damage) in enumerate(damages(models, count)):
        copy = folder / f"{number:05d}"
        shutil.copytree(models[0], copy)
        cases.append((what, damage(copy)))
        verb = ["evaluate", str(copy), str(models[0] / "config.json")] if number % 5 == 4 else ["generate", str(copy)]
        commands.append({"words": verb + (["--length", "1"] if verb[0] == "generate" else [])})
    report = folder / "report.jsonl"
    done = nursery.call("several", commands=commands, report=str(report))
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    failures = []
    for (what, name), line in zip(cases, lines, strict=False):
        err = line["err"]
        good = line["code"] == 5 and name in err and err.count("\n") == 1 and "Traceback" not in err
        # a damaged manifest may accuse the file it describes
        if name == "manifest.json" and line["code"] == 5 and any(each in err for each in FILES):
            good = "Traceback" not in err
        if not good:
            failures.append(f"{what}: exit {line['code']}: {err[:400]}")
    if len(lines) < len(cases):
        failures.append(f"{cases[len(lines)]}: the process ended with {done.code}: {done.err[-500:]}")
    record(figure, len(cases), len(failures), flips_and_cuts=count)
    assert not failures, "\n".join(failures)


def test_damaged_models_are_refused(nursery: Nursery, tmp_path: Path, models: list[Path]) -> None:
    refused(nursery, tmp_path, models, 250, "D3 damaged model folders")


@pytest.mark.slow
def test_many_damaged_models_are_refused(nursery: Nursery, tmp_path: Path, models: list[Path]) -> None:
    refused(nursery, tmp_path, models, 2700, "D3 damaged model folders, slow")


def test_damaged_checkpoints_are_refused(nursery: Nursery, tmp_path: Path, models: list[Path]) -> None:
    """A run whose only checkpoint is damaged is not resumed; with an older whole one it is."""
    run = models[0].parent
    chance = random.Random("checkpoint")
    names = sorted(path.name for path in next(p for p in (run / "checkpoints").iterdir()).iterdir())
    failures, trials = [], 0
    for number in range(20):
        copy = tmp_path / f"{number}"
        shutil.copytree(run, copy, symlinks=True)
        newest = max((copy / "checkpoints").iterdir(), key=lambda path: int(path.name))
        damage = (flip if number % 2 else cut)(chance, names[number % len(names)])
        name = damage(newest)
        done = nursery.qkv("train", "--run", copy, "--resume", "--json")
        trials += 1
        if done.code != 5 or "Traceback" in done.err or (name not in done.err and name != "manifest.json"):
            failures.append(f"{name}: exit {done.code}: {done.err}")
    record("D3 damaged checkpoints", trials, len(failures))
    assert not failures, "\n".join(failures)

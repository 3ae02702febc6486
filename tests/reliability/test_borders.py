"""D3 beyond our own training: damaged copies of imported and of exported models are refused with 5, each of them."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from interop import tiny_folder
from reliability.injection import attached
from reliability.nursery import Nursery
from reliability.report import record
from reliability.test_damage import Damage, edit, flip, recomputed, setting, swap, without

FILES = ("model.safetensors", "config.json", "tokenizer.json", "manifest.json")
EXPORTED = (*FILES, "generation_config.json", "tokenizer_config.json", "special_tokens_map.json", "README.md")


class Models(NamedTuple):
    """One model on its way: brought in, taken out, brought in again; and another of the same shape, brought in."""

    imported: Path
    exported: Path
    again: Path
    other: Path
    other_exported: Path


@pytest.fixture(scope="module")
def models(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Models:
    folder = tmp_path_factory.mktemp("borders")
    found = Models(*(folder / name for name in Models._fields))
    steps = [
        ["import", str(tiny_folder.write(folder / "one")), "--to", str(found.imported)],
        ["export", str(found.imported), str(found.exported)],
        ["import", str(found.exported), "--to", str(found.again)],
        ["import", str(tiny_folder.write(folder / "two", seed=1)), "--to", str(found.other)],
        ["export", str(found.other), str(found.other_exported)],
        *(["verify", str(path)] for path in found[:3]),
    ]
    report = folder / "report.jsonl"
    nursery.call("several", commands=[{"words": words} for words in steps], report=str(report))
    for line in map(json.loads, report.read_text().splitlines()):
        assert line["code"] == 0, line["err"]
    return found


def cut(chance: random.Random, name: str) -> Damage:
    """At least two bytes shorter: the last one is the end of a line."""

    def damage(folder: Path) -> str:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: chance.randrange(len(data) - 1)])
        return name

    return damage


def payload(chance: random.Random) -> Damage:
    """One bit of the weights themselves, where safetensors has no checksum (M1)."""

    def damage(folder: Path) -> str:
        path = folder / "model.safetensors"
        data = bytearray(path.read_bytes())
        start = 8 + int.from_bytes(data[:8], "little")
        data[chance.randrange(start, len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
        return path.name

    return damage


def exchange(first: str, second: str) -> Damage:
    """Two files under each other's name."""

    def damage(folder: Path) -> str:
        (folder / first).rename(folder / "aside")
        (folder / second).rename(folder / first)
        (folder / "aside").rename(folder / second)
        return ""

    return damage


def swapped(values: dict[str, Any]) -> None:
    ids = values["model"]["vocab"]
    ids["a"], ids["b"] = ids["b"], ids["a"]


def role(name: str, value: Any) -> Any:
    return lambda values: values["roles"].update({name: value})


def some(chance: random.Random, files: tuple[str, ...], count: int) -> Iterator[tuple[str, Damage]]:
    """Flips in every file, a third of them in the weights' own numbers, and every fourth a cut."""
    for number in range(count):
        name = files[number % len(files)]
        if number % 4 == 3:
            yield f"cut {name}", cut(chance, name)
        elif name == "model.safetensors" or number % 3 == 0:
            yield "flip a weight", payload(chance)
        else:
            yield f"flip {name}", flip(chance, name)


def edits(other: Path) -> Iterator[tuple[str, Damage]]:
    for name in ("model.safetensors", "config.json", "manifest.json"):
        # where two models have a file in common, nothing is altered by exchanging it
        if name != "config.json":
            yield f"{name} of another model", swap(other, name, recompute=False)
    yield "ids exchanged", edit("tokenizer.json", swapped, recompute=False)
    yield "another start", edit("config.json", role("start", 5), recompute=False)
    yield "another end", edit("config.json", role("ends", [5]), recompute=False)
    yield "another name", edit("config.json", setting(None, "source", "somebody"), recompute=False)
    yield "files exchanged", exchange("config.json", "tokenizer.json")
    yield "weights and words exchanged", exchange("model.safetensors", "tokenizer.json")
    # the manifest agrees: the reader of each format must notice
    for name, value in (
        ("start", 10**6),
        ("start", -1),
        ("start", True),
        ("start", "0"),
        ("start", [0]),
        ("ends", []),
        ("ends", [10**6]),
        ("ends", 0),
        ("ends", None),
        ("ends", [0.0]),
        ("padding", 261),
        ("opening", [261]),
        ("opening", [0] * 200),
        ("more", 1),
    ):
        yield f"roles: {name} = {str(value)[:20]}", edit("config.json", role(name, value), recompute=True)
    for value in (None, [], {}, 7):
        yield f"roles = {value}", edit("config.json", setting(None, "roles", value), recompute=True)
        if value is not None:
            yield f"source = {value}", edit("config.json", setting(None, "source", value), recompute=True)
    yield "no roles", edit("config.json", without("roles"), recompute=True)
    yield "another size", edit("config.json", setting("model", "hidden", 32), recompute=True)
    yield "more rows", edit("config.json", setting("model", "vocabulary", 300), recompute=True)
    yield "fewer rows", edit("config.json", setting("model", "vocabulary", 260), recompute=True)
    yield "a token gone", edit("tokenizer.json", lambda v: v["model"]["vocab"].pop("a"), recompute=True)
    yield "an id twice", edit("tokenizer.json", lambda v: v["model"]["vocab"].update(a=5), recompute=True)


def exported_edits(other: Path) -> Iterator[tuple[str, Damage]]:
    yield "model.safetensors of another model", swap(other, "model.safetensors", recompute=False)
    yield "manifest.json of another model", swap(other, "manifest.json", recompute=False)
    yield "ids exchanged", edit("tokenizer.json", swapped, recompute=False)
    yield "another end", edit("config.json", setting(None, "eos_token_id", 5), recompute=False)
    yield "another end there", edit("generation_config.json", setting(None, "eos_token_id", 5), recompute=False)
    yield "a file missing", lambda folder: ((folder / "README.md").unlink(), "README.md")[1]


def refused(
    nursery: Nursery, folder: Path, trials: list[tuple[str, Path, Damage, str]]
) -> tuple[list[str], dict[str, int]]:
    """Damage a copy for each trial and open all of them: what was not refused as it should be, and counts."""
    commands, named = [], []
    for number, (_, model, damage, verb) in enumerate(trials):
        copy = folder / f"{number:04d}"
        shutil.copytree(model, copy)
        named.append(damage(copy))
        commands.append({"words": [verb, str(copy)] + (["--length", "1"] if verb == "generate" else [])})
    report = folder / "report.jsonl"
    done = nursery.call("several", commands=commands, report=str(report))
    lines = [json.loads(line) for line in report.read_text().splitlines()]
    failures = []
    for (what, model, _, verb), name, line in zip(trials, named, lines, strict=False):
        known = name in line["err"] or (name == "manifest.json" and any(each in line["err"] for each in EXPORTED))
        if line["code"] != 5 or not known or line["err"].count("\n") != 1 or "Traceback" in line["err"]:
            failures.append(f"{verb} {model.name}, {what}: exit {line['code']}: {line['err'][:300]}")
    if len(lines) < len(trials):
        failures.append(f"{trials[len(lines)][0]}: the process ended with {done.code}: {done.err[-500:]}")
    return failures, {verb: sum(trial[3] == verb for trial in trials) for verb in ("generate", "verify")}


def own_trials(models: Models, count: int) -> list[tuple[str, Path, Damage, str]]:
    chance = random.Random("borders")
    made = []
    for model in (models.imported, models.again):
        each = [*some(chance, FILES, count), *edits(models.other)]
        made += [
            (what, model, damage, "verify" if number % 2 else "generate") for number, (what, damage) in enumerate(each)
        ]
    return made


def exported_trials(models: Models, count: int) -> list[tuple[str, Path, Damage, str]]:
    each = [*some(random.Random("exported"), EXPORTED, count), *exported_edits(models.other_exported)]
    return [(what, models.exported, damage, "verify") for what, damage in each]


def test_damaged_imports_are_refused(nursery: Nursery, tmp_path: Path, models: Models) -> None:
    trials = own_trials(models, 120)
    assert len(trials) >= 300
    failures, counts = refused(nursery, tmp_path, trials)
    record("D3 damaged copies of imported and exported models", len(trials), len(failures), **counts)
    assert not failures, f"{len(failures)} of {len(trials)}\n" + "\n".join(failures)


def test_damaged_exports_are_refused_by_verify(nursery: Nursery, tmp_path: Path, models: Models) -> None:
    """A folder for Hugging Face has a manifest too; others do not look at it, `qkv verify` does."""
    trials = exported_trials(models, 16)
    failures, counts = refused(nursery, tmp_path, trials)
    record("D3 damaged folders for Hugging Face, qkv verify", len(trials), len(failures), **counts)
    assert not failures, f"{len(failures)} of {len(trials)}\n" + "\n".join(failures)


@pytest.mark.slow
def test_many_damaged_copies_are_refused(nursery: Nursery, tmp_path: Path, models: Models) -> None:
    trials = own_trials(models, 1000) + exported_trials(models, 300)
    failures, counts = refused(nursery, tmp_path, trials)
    record("D3 damaged copies of imported and exported models, slow", len(trials), len(failures), **counts)
    assert not failures, f"{len(failures)} of {len(trials)}\n" + "\n".join(failures)


def test_a_copy_that_is_whole_is_not_refused(nursery: Nursery, tmp_path: Path, models: Models) -> None:
    """A manifest that was made anew over the same files: refusing everything would pass the tests above."""
    shutil.copytree(models.imported, tmp_path / "copy")
    recomputed(tmp_path / "copy")
    for words in (["generate", "--length", "1"], ["verify"]):
        done = nursery.qkv(words[0], tmp_path / "copy", *words[1:])
        assert done.code == 0, done.err


@pytest.mark.root
def test_nobody_is_called(nursery: Nursery, tmp_path: Path) -> None:
    """C4: every verb that crosses a border, with `transformers` as it comes, not told to stay offline."""
    source = tiny_folder.write(tmp_path / "source")
    model, copy, report = (str(tmp_path / name) for name in ("model", "copy", "report.jsonl"))
    verbs = [
        ["import", str(source), "--to", model],
        ["export", model, copy],
        ["verify", copy],
        ["chat", model, "Hello <|im_end|>", "--length", "2"],
        ["generate", copy, "Hello", "--length", "2"],
    ]
    given = {"commands": [{"words": words} for words in verbs], "report": report, "go": str(tmp_path / "go")}
    child = nursery.start("watched", environment={"HF_HUB_OFFLINE": "0"}, **given)
    log = attached(child, tmp_path, "connect,sendto,bind")
    codes = [json.loads(line)["code"] for line in Path(report).read_text().splitlines()]
    called = [line for line in log.splitlines() if "AF_INET" in line]
    record("C4 nobody is called by import, export, verify, chat", len(verbs), len(called))
    assert codes == [0] * len(verbs)
    assert not called, "\n".join(called)

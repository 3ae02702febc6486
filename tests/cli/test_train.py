"""`qkv train`, `generate` and `evaluate`, as a user runs them: a process each, real text."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import pytest

from data_at_hand import real
from qkv.models.registry import LANGUAGE_MODELS, presets
from qkv.text.pipelines import ONLY_READ, Kind
from reliability.nursery import Done, Nursery

SETTINGS = ("training.threads=1", "model.layers=2", "model.heads=2", "model.width=24", "model.context=16")
SMALL = [word for setting in SETTINGS for word in ("--set", setting)]
Command = Callable[..., Done]


@pytest.fixture(scope="module")
def qkv(nursery: Nursery, tmp_path_factory: pytest.TempPathFactory) -> Command:
    def run(*words: str | Path, cwd: Path, stdin: str = "", code: int = 0) -> Done:
        given = tmp_path_factory.mktemp("input") / "stdin"
        given.write_text(stdin, encoding="utf-8", newline="")
        done = nursery.call("cli", words=list(map(str, words)), stdin=str(given), cwd=cwd)
        assert done.code == code, done.err
        assert "Traceback" not in done.err
        return done

    return run


@pytest.fixture(scope="module")
def trained(qkv: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("work")
    words = ["train", str(real("names/names.txt")), "--tokenizer", "characters", "--steps", "30", *SMALL]
    done = qkv(*words, cwd=folder)
    assert "validation loss" in done.out
    assert "bits per byte" in done.out
    assert "qkv generate runs/names-modern" in done.out
    return folder


def test_the_run_folder_is_as_promised(trained: Path) -> None:
    run = trained / "runs" / "names-modern"
    assert {path.name for path in run.iterdir() if not path.name.startswith(".")} == {
        "recipe.toml", "best", "checkpoints", "metrics.jsonl", "timings.jsonl", "card.md",
    }  # fmt: skip
    assert sorted(path.name for path in (run / "best").iterdir()) == [
        "config.json", "manifest.json", "model.safetensors", "tokenizer.json",
    ]  # fmt: skip
    config = json.loads((run / "best" / "config.json").read_text())
    assert config["format"] == "qkv/1"
    card = (run / "card.md").read_text()
    assert "bits per byte" in card
    assert "fingerprint" in card
    assert "┤" in card


def test_generate_streams_and_repeats(qkv: Command, trained: Path) -> None:
    first = qkv("generate", "runs/names-modern", "an", "--length", "30", "--seed", "3", cwd=trained).out
    again = qkv("generate", "runs/names-modern", "an", "--length", "30", "--seed", "3", "--no-cache", cwd=trained)
    other = qkv("generate", "runs/names-modern", "an", "--length", "30", "--seed", "4", cwd=trained).out
    assert first.startswith("an")
    assert first == again.out
    assert first != other


def test_generate_as_json(qkv: Command, trained: Path) -> None:
    words = ["generate", "runs/names-modern/best", "", "--samples", "3", "--length", "20", "--json", "--stop", "\n"]
    answer = json.loads(qkv(*words, cwd=trained).out)
    assert len(answer["samples"]) == 3
    for sample in answer["samples"]:
        assert "\n" not in sample["text"]
        assert len(sample["tokens"]) == len(sample["logprobs"]) == len(sample["pieces"])
        assert all(value <= 0 for value in sample["logprobs"])
        assert sample["finish"] in ("stop", "length", "end")


def test_unknown_characters_are_named(qkv: Command, trained: Path) -> None:
    done = qkv("generate", "runs/names-modern", "añ€", "--length", "3", cwd=trained)
    assert "'ñ', '€'" in done.err


def test_a_prompt_from_standard_input(qkv: Command, trained: Path) -> None:
    words = ["--length", "5", "--seed", "1"]
    given = qkv("generate", "runs/names-modern", "an", *words, cwd=trained).out
    assert qkv("generate", "runs/names-modern", "-", *words, cwd=trained, stdin="an").out == given
    done = qkv("generate", "runs/names-modern", "-", *words, cwd=trained, stdin="\ufeffan\r\n")
    assert "note:" in done.err
    for wrong in (["--lenght", "5"], ["an", "--lenght", "5"]):
        assert "did you mean --length?" in qkv("generate", "runs/names-modern", *wrong, cwd=trained, code=2).err


def test_next_table(qkv: Command, trained: Path) -> None:
    done = qkv("generate", "runs/names-modern", "an", "--next", "5", "--json", cwd=trained)
    found = json.loads(done.out)["next"]
    assert len(found) == 5
    assert found == sorted(found, key=lambda row: -row["probability"])


def test_evaluate(qkv: Command, trained: Path) -> None:
    data = str(real("names/names.txt"))
    plain = qkv("evaluate", "runs/names-modern", data, "--window", "16", cwd=trained).out
    answer = json.loads(qkv("evaluate", "runs/names-modern", data, "--window", "16", "--json", cwd=trained).out)
    assert f"{answer['loss']:.4f}" in plain
    for name in ("loss", "perplexity", "bits_per_byte", "bits_per_character"):
        assert answer[f"{name}_low"] < answer[name] < answer[f"{name}_high"]
        assert f"{answer[f'{name}_low']:.4f} to {answer[f'{name}_high']:.4f}" in plain
    # bytes = characters here, and there is one token a character
    assert answer["bits_per_byte"] == pytest.approx(answer["loss"] / 0.6931, rel=1e-3)
    strided = json.loads(qkv("evaluate", "runs/names-modern", data, "--json", cwd=trained).out)
    assert strided["tokens"] == answer["tokens"]


def test_a_second_run_gets_a_number(qkv: Command, trained: Path) -> None:
    words = ["train", str(real("names/names.txt")), "--tokenizer", "characters", "--steps", "2", *SMALL]
    answer = json.loads(qkv(*words, "--json", cwd=trained).out)
    assert answer["run"] == "runs/names-modern-2"
    assert answer["steps"] == 2


def test_an_interrupted_command_resumes_to_the_same_bits(qkv: Command, trained: Path) -> None:
    """The run is made shorter by its recipe, then taken up again as it was."""
    again = trained / "again"
    words = ["--recipe", "runs/names-modern/recipe.toml", "--run", "again"]
    qkv("train", *words, cwd=trained)
    whole = (trained / "runs/names-modern/metrics.jsonl").read_bytes()
    assert (again / "metrics.jsonl").read_bytes() == whole
    assert "this run exists" in qkv("train", *words, cwd=trained, code=2).err
    qkv("train", "--run", "again", "--resume", cwd=trained)
    assert (again / "metrics.jsonl").read_bytes() == whole


def test_standard_input_and_minutes(qkv: Command, tmp_path: Path) -> None:
    text = "the dog sees the cat. the cat sees the dog. " * 60
    done = qkv("train", "-", "--minutes", "0.05", *SMALL, cwd=tmp_path, stdin=text)
    assert (tmp_path / "runs" / "stdin-modern" / "best").is_dir()
    assert re.search(r"words|characters", done.err)


@pytest.mark.parametrize("kind", [kind for kind in LANGUAGE_MODELS if kind != "modern"])
def test_every_model_trains_from_the_command_line(qkv: Command, tmp_path: Path, kind: str) -> None:
    (tmp_path / "a.txt").write_text("abc def ghi. " * 100)
    words = ["--model", kind, "--steps", "3", "--tokenizer", "bpe", "--tensorboard"]
    for setting in ("tokenizer.size=280", "model.width=24", "training.threads=1"):
        words += ["--set", setting]
    qkv("train", "a.txt", *words, cwd=tmp_path)
    assert list((tmp_path / "runs" / f"a-{kind}" / "tensorboard").iterdir())


def test_help_names_every_model_and_tokenizer(qkv: Command, tmp_path: Path) -> None:
    shown = qkv("train", "--help", cwd=tmp_path).out
    learned = set(get_args(Kind)) - {*ONLY_READ, "own"}
    for name in (*LANGUAGE_MODELS, *presets(LANGUAGE_MODELS), *learned):
        assert re.search(rf"\b{name}\b", shown), name
    shown = qkv("tokenize", "--help", cwd=tmp_path).out
    for name in learned:
        assert name in shown


def test_words_are_joined_to_the_prompt(qkv: Command, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("I hold the dog. I hold the cat. " * 60)
    qkv("train", "a.txt", "--tokenizer", "words", "--steps", "3", *SMALL, cwd=tmp_path)
    for prompt in ("I hold the", "I hold the "):
        words = ["generate", "runs/a-modern", prompt, "--length", "1", "--greedy"]
        assert re.fullmatch(r"I hold the( \w+|[.])?\n", qkv(*words, cwd=tmp_path).out.replace("the .", "the."))


def test_a_recipe_serves_another_text(qkv: Command, tmp_path: Path) -> None:
    """Its vocabulary is the new text's, more or fewer; --minutes stands above its steps."""
    (tmp_path / "few.txt").write_text("abab " * 200)
    (tmp_path / "many.txt").write_text("the quick brown fox jumps over the lazy dog. " * 40)
    qkv("train", "few.txt", "--tokenizer", "characters", "--steps", "2", *SMALL, cwd=tmp_path)
    recipe = ["--recipe", "runs/few-modern/recipe.toml"]
    done = qkv("train", "many.txt", *recipe, cwd=tmp_path)
    assert "this text's tokenizer has" in done.err
    assert "step 2/2 " in done.err
    done = qkv("train", "few.txt", "--recipe", "runs/many-modern/recipe.toml", "--minutes", "0.02", cwd=tmp_path)
    assert "this text's tokenizer has" in done.err
    assert "step 2/2 " not in done.err


@pytest.mark.parametrize(
    ("words", "mention"),
    [
        (["train", "a.txt", "--steps", "0"], "--steps 0"),
        (["train", "a.txt", "--steps", "3", "--minutes", "1"], "Give one"),
        (["train", "--resume", "--run", "runs/x", "--minutes", "3"], "--minutes"),
        (["train", "--resume", "--run", "runs/x", "--recipe", "r.toml"], "--recipe"),
        (["train", "--resume", "--run", "runs/x", "--tokenizer", "bpe"], "--tokenizer"),
        (["train", "a.txt", "--tokenizer", "gone"], "no tokenizer here"),
        (["train", "a.txt", "--set", "model.heads=5", "--set", "model.width=48"], "heads"),
    ],
)
def test_commands_that_contradict_themselves(qkv: Command, tmp_path: Path, words: list[str], mention: str) -> None:
    (tmp_path / "a.txt").write_text("abc def ghi. " * 100)
    assert mention in qkv(*words, cwd=tmp_path, code=2).err
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["modern", "gpt", "lstm"])
def test_a_compiled_model_learns_the_same(qkv: Command, tmp_path: Path, kind: str) -> None:
    (tmp_path / "a.txt").write_text("abc def ghi. " * 100)
    losses = []
    for choice in ("off", "on"):
        words = ["--model", kind, "--steps", "4", "--run", choice, "--set", f"training.compile={choice}"]
        words += ["--set", "training.dtype=f32"]  # compiled code rounds to bf16 in fewer places
        qkv("train", "a.txt", *words, "--set", "training.threads=1", "--set", "model.dropout=0.0", cwd=tmp_path)
        lines = [json.loads(line) for line in (tmp_path / choice / "metrics.jsonl").read_text().splitlines()]
        losses.append([line["loss"] for line in lines if "loss" in line])
    assert losses[0] == pytest.approx(losses[1], abs=1e-4)


def test_library(trained: Path) -> None:
    import qkv as library

    model = library.load(trained / "runs" / "names-modern", device="cpu")
    streamed = "".join(model.generate("an", stream=True, length=25, seed=5))
    assert streamed == model.generate("an", length=25, seed=5)
    assert model.evaluate("anna\nbob\n").tokens == 10
    assert sum(row.probability for row in model.next("an", top=100)) == pytest.approx(1.0)
    steps = list(library.train(real("names/names.txt"), run=trained / "library", stream=True, recipe={
        "model": {"layers": 1, "heads": 1, "width": 8, "context": 8},
        "training": {"steps": 3, "threads": 1},
    }))  # fmt: skip
    assert sum(type(event).__name__ == "Step" for event in steps) == 3
    assert (trained / "library" / "card.md").is_file()

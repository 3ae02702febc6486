"""Recipes: strict, complete, saved and read back; rules that never touch what the user set."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import small_pairs
import small_tasks
from qkv import session as sessions
from qkv.config import parse_assignment
from qkv.data.corpus import CorpusConfig
from qkv.errors import ConfigError
from qkv.models.gpt import GPTConfig
from qkv.models.modern import ModernConfig
from qkv.models.registry import LANGUAGE_MODELS, presets
from qkv.objectives.language_modelling import LanguageModellingConfig
from qkv.recipe import resolve, time_budget
from qkv.recipe.draft import Draft
from qkv.recipe.recipe import (
    SHIPPED,
    Recipe,
    Section,
    check_sections,
    language_model_section,
    parse_model,
    parse_recipe,
    read_sections,
)
from qkv.tasks.registry import load_recipe
from qkv.text.tokenizer import TokenizerConfig
from qkv.training.settings import TrainingConfig

LANGUAGE_PRESETS = presets(LANGUAGE_MODELS)


def made(**training: object) -> Recipe:
    return Recipe(
        model=ModernConfig(vocabulary=9),
        tokenizer=TokenizerConfig(kind="words"),
        corpus=CorpusConfig(files=("a.txt", "ü b.txt")),
        task=LanguageModellingConfig(),
        training=TrainingConfig(steps=7, batch=4, optimizer="adamw", learning_rate=0.01, **training),
    )


def resolved(values: dict[str, Section], vocabulary: int, tokens: int) -> Draft:
    """By the rules of language models, for a text of so many tokens."""
    draft = Draft.parse(values, "here")
    model = resolve.language_model(language_model_section(draft.model, "here"), vocabulary, tokens)
    return replace(draft, model=model, training=resolve.language_model_training(draft.training, model, tokens))


def completed(draft: Draft, tokens: int, steps: int) -> Recipe:
    draft = resolve.language_model_steps(draft, tokens, steps)
    known = {"corpus": {"files": ["a"]}, "tokenizer": {}}
    return checked({**known, "model": draft.model, "task": draft.task, "training": draft.training.values()})


def test_a_recipe_is_read_back_as_it_was(tmp_path: Path) -> None:
    made(betas=(0.8, 0.9)).save(tmp_path / "recipe.toml")
    assert load_recipe(tmp_path / "recipe.toml") == made(betas=(0.8, 0.9))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"modell": {}}, "did you mean 'model'"),
        ({"model": {"kind": "gtp"}}, "did you mean 'gpt'"),
        ({"model": {"kind": "gpt", "layer": 3}}, "did you mean 'layers'"),
        ({"model": {"kind": "gpt", "layers": "3"}}, "model.layers = '3'"),
        ({"model": {"kind": "gpt", "layers": 0}}, "greater than or equal to 1"),
        ({"model": {"kind": "gpt", "width": 50, "heads": 3}}, "does not divide into 3 heads"),
        ({"model": {"kind": "modern", "heads": 4, "key_heads": 3}}, "multiple of key_heads"),
        ({"model": {"kind": "lstm", "heads": 3}}, "unknown key"),
        ({"training": {"learning_rate": -1.0}}, "training.learning_rate"),
        ({"training": {"dtype": "f64"}}, "f32"),
        ({"training": {"batch": 5, "accumulate": 2}}, "multiple of accumulate"),
        ({"model": 3}, "a section"),
        ({"model": {"kind": ["bert"]}}, "unknown model"),
    ],
)
def test_mistakes_are_named(values: dict[str, Any], message: str) -> None:
    training = {"steps": 1, "batch": 4, "optimizer": "adamw", "learning_rate": 0.1, **values.get("training", {})}
    sections = {"corpus": {"files": ["a"]}, "tokenizer": {}, "task": {}, "model": {"kind": "modern"}}
    with pytest.raises(ConfigError, match=message):
        checked({**sections, **values, "training": training})


def checked(values: dict[str, Section]) -> Recipe:
    check_sections(values, "here")
    values = {**values, "model": language_model_section(values["model"], "here")}
    return parse_recipe(values, LANGUAGE_MODELS, CorpusConfig, LanguageModellingConfig, "here")


def test_set_values() -> None:
    numbers = ("model.layers=4", "training.learning_rate=1e-3", "training.clip=.5")
    assert dict(map(parse_assignment, (*numbers, "model.kind=gpt", "corpus.files=['a', 'b']"))) == {
        "model.layers": 4,
        "model.kind": "gpt",
        "training.learning_rate": 1e-3,
        "training.clip": 0.5,
        "corpus.files": ["a", "b"],
    }
    for wrong in ("layers=4", "model.layers", "=3", "model.=3"):
        with pytest.raises(ConfigError, match=r"section\.key=value"):
            parse_assignment(wrong)


def test_presets_unfold_and_can_be_changed() -> None:
    model = language_model_section({"kind": "gpt-nano", "width": 96}, "here")
    assert model == {"kind": "gpt", "layers": 3, "heads": 3, "width": 96}
    assert language_model_section({"kind": "gpt2"}, "here")["context"] == 1024
    assert LANGUAGE_PRESETS["gpt2-xl"] == GPTConfig(layers=48, heads=25, width=1600, context=1024)


@pytest.mark.parametrize("kind", [*LANGUAGE_MODELS, *LANGUAGE_PRESETS])
@pytest.mark.parametrize("tokens", [40, 5_000, 100_000, 5_000_000])
def test_the_rules_complete_every_recipe(kind: str, tokens: int) -> None:
    recipe = completed(resolved({"model": {"kind": kind}}, 100, tokens), tokens, 500)
    training = recipe.training
    assert recipe.model.vocabulary == 100
    assert training.steps >= 1
    assert training.evaluate_every >= 1
    assert training.optimizer in ("muon", "adamw")
    assert training.dtype in ("f32", "bf16")
    assert training.device != "auto"
    assert min(training.learning_rate, training.batch, training.threads) > 0


@pytest.mark.parametrize("kind", ["modern", "gpt", "modern-fast"])
@pytest.mark.parametrize("row", [*time_budget.SIZES, time_budget.DEFAULT_SIZE])
@pytest.mark.parametrize(
    "said", [{"width": 64}, {"width": 200}, {"width": 6}, {"width": 256}, {"heads": 12}, {"heads": 5}]
)
def test_every_size_preset_takes_a_width_or_heads(kind: str, row: time_budget.SizePreset, said: dict[str, int]) -> None:
    model = resolve.language_model({"kind": kind, **said}, 100, 1_000_000, row)
    parse_model(model, "here").build()
    assert model.items() >= said.items()


def test_the_rules_leave_what_the_user_set() -> None:
    said = {"layers": 7, "heads": 2, "width": 64, "context": 16, "dropout": 0.0}
    values = {
        "model": {"kind": "gpt", **said},
        "training": {"learning_rate": 0.5, "patience": 0, "batch": 6, "accumulate": 3},
    }
    draft = resolve.language_model_steps(resolved(values, 10, 1000), 1000, 10)
    assert {name: draft.model[name] for name in said} == said
    assert draft.training.learning_rate == 0.5
    assert draft.training.patience == 0
    assert draft.training.batch == 6


def test_zero_is_a_number_and_no_mark() -> None:
    assert resolved({"model": {}, "training": {"momentum": 0}}, 50, 10**6).training.momentum == 0
    for name, value in {"batch": 0, "steps": 0, "learning_rate": 0.0, "warmup": -1, "dtype": "auto"}.items():
        with pytest.raises(ConfigError, match=f"{name} = {value!r} does not fit"):
            Draft.parse({"training": {name: value}}, "here")


@pytest.mark.parametrize("kind", ["modern", "gpt", "lstm"])
def test_rates_follow_the_optimizer(kind: str) -> None:
    rates = {}
    for optimizer in ("muon", "adamw"):
        draft = resolved({"model": {"kind": kind}, "training": {"optimizer": optimizer}}, 50, 10**6)
        rates[optimizer] = draft.training.learning_rate
    assert rates["muon"] != rates["adamw"]


OF_EXAMPLES = {
    "mean-pooled-classifier": "classification",
    "rnn-classifier": "classification",
    "transformer-classifier": "classification",
    "sentiment": "classification",
    "glue": "pairs",
    "picture-cnn": "images",
    "picture-patches": "images",
    "tagger": "tagging",
}
OF_NUMBERS = ("regression", "mlp")
OF_PAIRS = ("rnn-translator", "translator", "multilingual")


def test_a_recipe_is_a_file_or_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mlp").mkdir()
    for name in ("gpt-nano", "mlp"):  # a folder of that name is no recipe
        assert read_sections(Path(name)) == read_sections(SHIPPED / f"{name}.toml")
    (tmp_path / "gpt-nano").write_text("[training]\nsteps = 3\n")  # a file of that name is the one that is meant
    assert read_sections(Path("gpt-nano")) == {"training": {"steps": 3}}


@pytest.mark.parametrize(
    ("given", "near"), [("gpt-nan", "gpt-nano"), ("recipes/mlp.toml", "mlp"), ("x" * 300, ""), ("a\0b", "")]
)
def test_an_unknown_recipe_names_those_that_there_are(given: str, near: str) -> None:
    with pytest.raises(ConfigError) as refused:
        read_sections(Path(given))
    assert (f"did you mean {near!r}?" in str(refused.value)) == bool(near)
    assert all(path.stem in str(refused.value) for path in SHIPPED.glob("*.toml"))


@pytest.mark.parametrize("path", sorted(SHIPPED.glob("*.toml")), ids=lambda path: path.stem)
def test_the_shipped_recipes_are_sound(path: Path, tmp_path: Path) -> None:
    """Each names its deck first, and completes."""
    assert path.read_text().startswith("# ")
    assert "Deck" in path.read_text().partition("\n\n")[0]
    values: dict[str, Any] = read_sections(path)
    if path.stem in OF_EXAMPLES:
        if path.stem in ("sentiment", "glue"):
            kind = "modern" if path.stem == "sentiment" else "bert"
            values["training"]["start"] = str(small_tasks.origin(tmp_path / "corpus", kind))
        if path.stem == "picture-patches":
            values["model"]["patch"] = 4  # the test's pictures are smaller
        task = OF_EXAMPLES[path.stem]
        data = small_tasks.write(tmp_path / "data", task)
        small_tasks.begun(data, tmp_path / "run", task, **values)
        return
    if path.stem in OF_PAIRS or path.stem in OF_NUMBERS:
        files = small_pairs.write(tmp_path / "pairs")
        if path.stem in OF_NUMBERS:
            files = [str(tmp_path / "numbers.csv")]
            rows = [f"{n % 7},{n % 5},{n % 7 + 0.5 * (n % 5)}" for n in range(100)]
            Path(files[0]).write_text("\n".join(["height,weight,score", *rows]) + "\n")
        values |= {"corpus": {**values.get("corpus", {}), "files": files}, "training": {"steps": 2}}
        sessions.start(values, tmp_path / "run", numbered=False, minutes=1.0)
        return
    if path.stem == "bert-mini":
        text = tmp_path / "a.txt"
        text.write_text("\n".join(f"The {number}th river runs by. Nobody sees it!" for number in range(400)))
        values |= {
            "corpus": {"files": [str(text)]},
            "training": {"steps": 2},
            "tokenizer": {"kind": "wordpiece", "size": 300},
        }
        sessions.start(values, tmp_path / "run", numbered=False, minutes=1.0)
        return
    completed(resolved(values, 65, 100_000), 100_000, 100)

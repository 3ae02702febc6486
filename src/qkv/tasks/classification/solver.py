"""Models that have an optimum, in a classification task: the linear model on texts, which a solver fits to all examples
at once; and models of tables, of which linear regression is solved before the first step."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import nn

from qkv.blocks.embeddings import SpelledEmbedding
from qkv.blocks.word_features import Spelling
from qkv.config import parse, toml_values
from qkv.data.examples import NumberExamples
from qkv.data.findings import Assumption
from qkv.data.prepare_examples import PreparedExamples, TextKind
from qkv.errors import ConfigError
from qkv.models.classifier import ClassifierConfig
from qkv.models.defaults import ClassifierDefaults
from qkv.models.linear import Linear
from qkv.objectives.classification import ClassificationConfig
from qkv.objectives.whole_data import WholeData
from qkv.recipe import resolve
from qkv.recipe.draft import Draft, TrainingDraft
from qkv.recipe.recipe import MutableSection, Recipe, Section, parse_model
from qkv.tasks.classification import from_data, systems
from qkv.tasks.classification.ngrams import NgramRows, alphabet_of, encoder_of, rarity
from qkv.tasks.protocol import expect

if TYPE_CHECKING:
    from qkv.tasks.classification.task import ClassificationTask


def with_solver(training: TrainingDraft, system: ClassifierDefaults, examples: int) -> TrainingDraft:
    """The training section of a model that a solver fits to all examples at once; its penalty is chosen elsewhere."""
    whole = resolve.whole_batch(examples, training.accumulate)
    if training.batch not in (None, whole):
        raise ConfigError(
            f"training.batch = {training.batch} (--batch): the linear model is fitted to all {whole:,} examples at "
            "once. Leave it out; training.accumulate divides the computation into parts."
        )
    if training.optimizer not in (None, system.solver):
        raise ConfigError(f"training.optimizer = {training.optimizer!r}: expected {system.solver!r}. Leave it out.")
    training = replace(
        training,
        optimizer=system.solver,
        learning_rate=training.learning_rate or system.learning_rate,
        batch=whole,
        layer_decay=1.0,
        warmup=0,
        betas=training.betas or (0.9, 0.95),
        patience=0,
        dtype=training.dtype or "f32",
        others={"clip": 0.0, "final_fraction": 1.0, **training.others},
    )
    return resolve.on_machine(training)


def read_as_wanted(prepared: PreparedExamples, system: ClassifierDefaults, draft: Draft) -> PreparedExamples:
    """The examples with the kind of tokens that the system needs."""
    wanted, tokenizer = system.tokenizer, prepared.tokenizer
    if wanted is None or tokenizer is None or tokenizer.kind == wanted:
        return prepared
    if draft.tokenizer.kind not in (None, wanted):
        raise ConfigError(
            f"{draft.where}: --tokenizer {draft.tokenizer.kind}: the linear model finds words and letters itself, "
            f"from {wanted}. Leave it out."
        )
    return prepared.read_as(wanted)


def with_choices(task: ClassificationTask, draft: Draft, ends_at: float | None) -> tuple[MutableSection, TrainingDraft]:
    """The sections [model] and [training], with what held-out training rows choose: the n-grams of letters and the
    penalty, where they are open."""
    config = expect(parse_model(draft.model, draft.where), ClassifierConfig)
    objective = parse(ClassificationConfig, draft.task, f"{draft.where}: [task]")
    seconds = None if ends_at is None else max(1.0, ends_at - time.perf_counter())
    letters, decay = draft.model["encoder"].get("letters"), draft.training.weight_decay
    choice = ngram_rows(task).choose(config, objective, letters, decay, seconds)
    if letters is None or decay is None:
        task.add_note(Assumption(choice.in_words))
    model = {**draft.model, "encoder": toml_values(choice.encoder)}
    return model, replace(draft.training, weight_decay=choice.weight_decay)


def ngram_rows(task: ClassificationTask) -> NgramRows:
    """The n-grams of the training rows."""
    train, tokenizer = task.prepared.labelled.train, task.prepared.tokenizer
    assert tokenizer is not None
    if task.ngrams is None or len(task.ngrams.targets) != len(train):
        task.ngrams = NgramRows(task.split_rows("train"), alphabet_of(tokenizer), train.targets)
    return task.ngrams


def prepare_model(task: ClassificationTask, recipe: Recipe, model: nn.Module) -> None:
    """Set the parts of a new model that come from the data."""
    train, tokenizer = task.prepared.labelled.train, task.prepared.tokenizer
    if isinstance(train, NumberExamples):
        from_data.fit_to_table(model, task.problem, train, recipe.training.device)
    for part in model.modules():
        if isinstance(part, SpelledEmbedding) and not recipe.training.start:
            part.spell(from_data.token_spellings(tokenizer))
        if isinstance(part, Spelling) and not recipe.training.start:
            part.spell(from_data.word_spellings(tokenizer))
        if isinstance(part, Linear):
            learn_features(task, recipe, part)


def learn_features(task: ClassificationTask, recipe: Recipe, model: Linear) -> None:
    """Let a new model know the n-grams of the training rows."""
    rows = ngram_rows(task)
    counts = rows.counts(encoder_of(expect(recipe.model, ClassifierConfig)), model.width)
    model.learn_features(rows.alphabet, torch.from_numpy(counts.keys), torch.from_numpy(rarity(counts)))


def whole_data(task: ClassificationTask, recipe: Recipe) -> WholeData:
    """The objective on all training rows at once."""
    config, rows = expect(recipe.task, ClassificationConfig), ngram_rows(task)
    counted = rows.weighted(encoder_of(expect(recipe.model, ClassifierConfig)), len(task.labels))
    return WholeData(config, counted, rows.targets, task.problem, rows.rows.lengths)


def text_tokenizer(model: Section) -> TextKind | None:
    """The kind of tokenizer that the system of a section reads texts with; None for the default one."""
    encoder = model.get("encoder")
    kind = str(encoder.get("kind") if isinstance(encoder, dict) else model.get("kind"))
    return systems.TEXT_SYSTEMS[kind].tokenizer if kind in systems.TEXT_SYSTEMS.names else None


def number_model(task: ClassificationTask, draft: Draft, train: NumberExamples) -> tuple[MutableSection, TrainingDraft]:
    """The section of a model for a table of numbers."""
    if draft.training.start:
        raise ConfigError("models of numbers are trained from scratch: qkv train FILE.")
    model, task.system = systems.number_section(draft.model, draft.where)
    model |= {"labels": list(task.labels.names), "problem": task.problem, "columns": list(train.columns)}
    model["target"] = task.prepared.labelled.columns["label"]
    if from_data.is_solved_exactly(model["kind"], task.problem):
        task.add_note("linear regression starts from its closed form, the least squares; steps hardly move it.")
        task.system = replace(task.system, learning_rate=from_data.SOLVED_RATE, epochs=0.0)
    # bf16 would round the numbers to three digits, and the models are too small to gain from its speed
    return model, replace(draft.training, dtype=draft.training.dtype or "f32")

"""From a recipe to a run: read the text, fill the gaps, build the model, claim the folder.

`begin` starts a new run and writes `recipe.toml`; `resume` takes one up and decides nothing again.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from qkv.config import parse, plain
from qkv.data.prepare import Prepared, prepare, require
from qkv.errors import ConfigError, DataError, InputError
from qkv.evaluation.formats import check
from qkv.evaluation.language import Score, score
from qkv.generation import native
from qkv.models.language_model import LanguageModel, count
from qkv.recipe import bundle, choices, dial
from qkv.recipe.bundle import Bundle
from qkv.recipe.memory import require_room
from qkv.recipe.recipe import Recipe, load, parse_section, sections
from qkv.storage import PARTIAL, advised, flush, verify, writing
from qkv.tasks.language_modelling import LanguageModelling
from qkv.text.tokenizer import Tokenizer
from qkv.training import devices
from qkv.training.clock import Clock
from qkv.training.journal import REMEDY
from qkv.training.loop import TrainingState, start, train
from qkv.training.run import Run, Scores
from qkv.training.settings import TrainingConfig

Progress = Callable[[str, int, int | None], None]


@dataclass(frozen=True)
class Session:
    """A run that is ready to go on."""

    planned: Recipe
    prepared: Prepared
    task: LanguageModelling
    state: TrainingState
    run: Run

    @property
    def recipe(self) -> Recipe:
        """As it stands now: a clock may have moved the end."""
        return replace(self.planned, training=self.run.config)

    @property
    def model(self) -> LanguageModel:
        return self.state.model  # type: ignore[return-value]

    def final_score(self) -> Score:
        """The best model on the validation text, in independent windows of the context's length."""
        best = bundle.load(self.run.folder, self.recipe.training.device)
        self._check_format(best)
        limit = choices.last_tokens(self.recipe.training, self.recipe.model.context)
        return evaluate(self.recipe, self.prepared, limit, best.model)  # type: ignore[arg-type]

    def _check_format(self, best: Bundle) -> None:
        """Keep with a model of many weights how well it would write with int8 ones."""
        model: Any = best.model
        if best.checked is None and count(model) >= native.MANY and native.fits(model):
            bundle.keep_best(self.run.folder, replace(best, checked=check(model, self.prepared.valid, "int8")))


def begin(
    values: dict[str, Any],
    folder: Path,
    *,
    numbered: bool,
    minutes: float,
    began: float | None = None,
    progress: Progress | None = None,
) -> Session:
    """Resolve `values` into a recipe and start a run in `folder` (or in `folder-2` and so on when `numbered`).

    The minutes count from `began` on (a moment of `time.perf_counter`), or from now.
    """
    began = time.perf_counter() if began is None else began
    where = "the recipe"
    values = copy.deepcopy(sections(values, where))
    for name in ("task", "training"):  # a wrong word is reported before a long text is read
        parse_section(name, values, where)
    _check_model(values, where)
    corpus = parse_section("corpus", values, where)
    prepared = prepare(corpus, parse_section("tokenizer", values, where), progress=progress)
    tokens = len(prepared.train.tokens)
    timed = not values.get("training", {}).get("steps", 0)
    ends_at = began + 60 * minutes * (1 - dial.SPARE)
    row, threads, dropout = dial.USUAL, 0, 0.0
    epochs = choices.epochs_worth(tokens)
    if timed and tokens >= choices.TINY:
        found = dial.pace(*choices.device_and_dtype(values.get("training", {})))
        seconds = found.speed * (ends_at - time.perf_counter())
        row, threads = dial.rung(seconds, tokens), found.threads
        if not row.shape.keys() & values.get("model", {}).keys():  # a size that was set is not the row's
            epochs = min(epochs, dial.enough(row))
        dropout = dial.dropout(min(epochs, row.epochs(seconds, tokens)))
    said = values.get("model", {}).get("vocabulary", 0)
    choices.choose_model(values, prepared.tokenizer.vocabulary, tokens, row, dropout)
    if said not in (0, prepared.tokenizer.vocabulary):
        has = f"{prepared.tokenizer.vocabulary:,}"
        note = f"model.vocabulary = {said!r} was asked for; this text's tokenizer has {has}, and so has the model."
        prepared = replace(prepared, notes=(*prepared.notes, note))
    context = values["model"]["context"]
    require(prepared.train, context + 1, f"training with a context of {context}")
    require(prepared.valid, 2, "validation")
    choices.choose_training(values, tokens, row, threads)
    recipe = _recipe(values, prepared)
    require_room(recipe)
    clock = None
    if timed:
        with devices.enough_memory(recipe.training, recipe.model.context):
            steps, clock = _plan(recipe, prepared, ends_at, choices.steps_worth(values, tokens, epochs))
        choices.choose_steps(values, tokens, min(steps, clock.longest), choices.LAST_IN_TIME)
        if steps > clock.longest:
            note = f"more than {epochs:g} epochs of this text would not help: the run will be over before its time"
            prepared = replace(prepared, notes=(*prepared.notes, note))
    else:
        choices.choose_steps(values, tokens, recipe.training.steps)
    recipe = _recipe(values, prepared)
    folder = _claim(folder, numbered)
    with advised(REMEDY), writing(folder):
        recipe.save(folder / "recipe.toml")
    return _session(recipe, prepared, folder, clock)


def resume(folder: Path, progress: Progress | None = None) -> Session:
    """Take up the run of `folder` where its newest checkpoint left it."""
    if not (folder / "recipe.toml").is_file():
        raise InputError(f"{folder}: no run to resume here (no recipe.toml). Start one without --resume.")
    recipe = load(folder / "recipe.toml")
    known = folder / "best" / bundle.TOKENIZER
    if known.is_file():
        verify(known.parent, bundle.TOKENIZER)
    tokenizer = Tokenizer.load(known) if known.is_file() else None
    prepared = prepare(recipe.corpus, recipe.tokenizer, given_tokenizer=tokenizer, progress=progress, resumed=True)
    if prepared.corpus.fingerprint != recipe.corpus.fingerprint:
        raise DataError(
            ", ".join(recipe.corpus.files),
            "the text is not the one this run was started with",
            f"Put the old text back, or start a new run without --resume (the recipe is {folder / 'recipe.toml'}).",
        )
    return _session(recipe, prepared, folder)


def _check_model(values: dict[str, Any], where: str) -> None:
    """Refuse a model that fits no amount of text: sizes that are not set follow from it, and it is not read yet."""
    refusals = []
    for tokens in (choices.TINY, 0):
        tried = copy.deepcopy(values)
        choices.choose_model(tried, 2, tokens)
        try:
            parse_section("model", tried, where)
        except ConfigError as error:
            refusals.append(error)
    if len(refusals) == 2:
        raise refusals[0]


def _recipe(values: dict[str, Any], prepared: Prepared) -> Recipe:
    known = {"corpus": plain(prepared.corpus), "tokenizer": plain(prepared.tokenizer_config), "task": {}}
    return parse(Recipe, {**known, **values, "corpus": known["corpus"], "tokenizer": known["tokenizer"]}, "the recipe")


def _claim(folder: Path, numbered: bool) -> Path:
    """Make the run's folder, under a name that no other run has."""
    with advised(REMEDY), writing(folder):
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise InputError(f"{folder}: a file is in the way of this folder. Choose another --run.") from None
        if not numbered:
            if folder.exists() and not folder.is_dir():
                raise InputError(f"{folder}: a file of this name is in the way. Choose another --run.")
            if (folder / "recipe.toml").exists():
                raise InputError(f"{folder}: a run is there. Continue it with --resume, or choose another --run.")
            # a run that was killed before it had a recipe leaves only what it had put aside
            if folder.is_dir() and any(path.suffix != PARTIAL for path in folder.iterdir()):
                raise InputError(f"{folder}: not empty, and not a run. Choose another --run.")
            folder.mkdir(exist_ok=True)
            flush(folder.parent)
            return folder
        for number in range(1, 100_000):
            candidate = folder if number == 1 else folder.with_name(f"{folder.name}-{number}")
            try:
                candidate.mkdir()
            except FileExistsError:
                continue
            flush(folder.parent)
            return candidate
    raise InputError(f"{folder}: too many runs of this name. Choose another with --run.")


def _session(recipe: Recipe, prepared: Prepared, folder: Path, clock: Clock | None = None) -> Session:
    training = recipe.training
    devices.set_threads(training.threads)
    state = fresh_state(recipe)
    task = LanguageModelling(recipe.task, prepared.train.tokens, recipe.model.context, training.seed)

    def keep(model: nn.Module, step: int) -> None:
        made = Bundle(model, recipe.model, prepared.tokenizer, prepared.train.documents, step)
        bundle.keep_best(folder, made)

    def scores(model: nn.Module) -> Scores:
        found = evaluate(recipe, prepared, training.evaluate_tokens, model)  # type: ignore[arg-type]
        parts = [round(part, 5) for part in found.parts]
        return {"loss": found.loss, "bits_per_byte": found.bits_per_byte, "parts": parts}

    def keep_plan(changed: TrainingConfig) -> None:
        with advised(REMEDY), writing(folder):
            replace(recipe, training=changed).save(folder / "recipe.toml")

    return Session(recipe, prepared, task, state, Run(folder, training, scores, keep, keep_plan, clock))


def fresh_state(recipe: Recipe) -> TrainingState:
    """The state before the first step."""
    return start(_build(recipe), recipe.training)


def _build(recipe: Recipe) -> nn.Module:
    """The model before its first step: a function of the recipe alone."""
    torch.manual_seed(recipe.training.seed)
    model = recipe.model.build()
    return model.to(recipe.training.device)


def evaluate(recipe: Recipe, prepared: Prepared, limit: int | None, model: LanguageModel) -> Score:
    window = min(recipe.model.context, len(prepared.valid.tokens) - 1)
    training = recipe.training
    rows = training.batch // training.accumulate if training.accumulate > 1 else None  # parts of a batch save memory
    with devices.enough_memory(training, recipe.model.context):
        return score(model, prepared.valid, window=window, limit=limit, rows=rows, autocast=autocast_of(training))


def autocast_of(training: TrainingConfig) -> Callable[[], AbstractContextManager[object]]:
    return partial(devices.autocast, training.device, training.dtype)


def _plan(recipe: Recipe, prepared: Prepared, ends_at: float, longest: int) -> tuple[int, Clock]:
    """How many steps fit into the time: measured on a copy of the run, which is then forgotten; and the run's clock."""
    probe = replace(recipe.training, steps=1_000_000, warmup=10, compile="off")
    devices.set_threads(probe.threads)
    state = start(_build(recipe), probe)
    task = LanguageModelling(recipe.task, prepared.train.tokens, recipe.model.context, probe.seed)
    left = ends_at - time.perf_counter()
    a_step = dial.typical(train(state, task, probe), least=3, seconds=min(6.0, 0.03 * left))
    mark = time.perf_counter()
    probed = evaluate(recipe, prepared, 2048, state.model)  # type: ignore[arg-type]
    a_token = (time.perf_counter() - mark) / probed.tokens
    a_step += a_token * probe.batch * recipe.model.context * choices.EVALUATIONS * choices.EVALUATED
    left = ends_at - time.perf_counter() - dial.SAMPLES
    run = left / a_step * probe.batch * recipe.model.context  # tokens, if there were no last evaluation
    closing = dial.SAMPLES + a_token * min(len(prepared.valid.tokens), max(choices.LAST_IN_TIME, run / 10))
    fits = max(1, int((ends_at - time.perf_counter() - closing) / a_step))
    return fits, Clock(ends_at, closing=closing, longest=longest)

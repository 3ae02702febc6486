"""Comparison of language models on the same text: n-grams, MLP and CNN, recurrent networks, Transformers.

The best step and the best system are chosen on the first half of the held-out text; the second half is reported, with
the same independent windows for all systems. Deck 000 remarks: "maybe a big MLP or CNN does the same".
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from qkv.config import parse
from qkv.data.corpus import CorpusConfig
from qkv.data.object_names import name_of
from qkv.data.prepare import Prepared, prepare
from qkv.data.tokens import TokenStream, require
from qkv.errors import InputError
from qkv.evaluation import ngram_model
from qkv.evaluation.perplexity import MAX_TOKENS, WindowPlan, batches, window_losses
from qkv.evaluation.significance import RowStatistics
from qkv.evaluation.text_baselines import MAX_COUNTED, ORDER, around, spread
from qkv.models.registry import defaults, is_recurrent
from qkv.recipe import bundle
from qkv.recipe.draft import Draft
from qkv.recipe.origin import matched_width
from qkv.recipe.recipe import language_model_section
from qkv.studies.compared_system import ComparedSystem, ScoredRun, network_system, sorted_systems
from qkv.studies.comparison import SystemComparison
from qkv.studies.study import ComparisonPlan, TrainedRun
from qkv.tasks.language_modelling.task import LanguageModellingTask
from qkv.tasks.protocol import Session, expect

Array = NDArray[Any]
DEFAULT_MODELS = ("mlp", "cnn", "rnn", "lstm", "gpt", "modern")
MAX_SCORED_TOKENS = 65_536  # of a half
MIN_HALF_TOKENS = 256


def compare(plan: ComparisonPlan) -> SystemComparison:
    if plan.starts:
        raise InputError("--from: models are fine-tuned to labelled data; on text, models are compared from scratch.")
    if plan.metric != "auto":
        raise InputError(f"--metric {plan.metric}: text is evaluated by bits per byte. Leave it out.")
    names = plan.models or DEFAULT_MODELS
    for name in names:
        language_model_section({"kind": name}, "--models")
    tokenizer = Draft.parse({"tokenizer": plan.tokenizer}, "the options").tokenizer
    corpus: CorpusConfig = parse(CorpusConfig, plan.corpus, "the options: [corpus]")
    data = prepare(corpus, tokenizer, progress=plan.progress)
    plan.note_data(data.notes)
    require(data.valid, 2 * MIN_HALF_TOKENS, "a comparison", "Give more text.")
    minutes = plan.minutes_per_run(len(names) * plan.seeds)
    common_parameters = 0  # with --equal parameters, the number of parameters of the first network

    def train(name: str) -> list[TrainedRun]:
        nonlocal common_parameters
        section = {"kind": name, **(_equal_size(name, common_parameters, data) if common_parameters else {})}
        runs = plan.train_seeds(
            name, {"model": section}, minutes, lambda run, session, model: run, _validate_on_first_half
        )
        if plan.equal == "parameters" and not common_parameters:
            common_parameters = runs[0].parameters
        return runs

    modern_first = sorted(names, key=lambda name: plan.equal == "parameters" and name != "modern")
    trained, failed = plan.train_all(modern_first, train)
    window = min((run.context for runs in trained.values() for run in runs), default=64)
    first, second = (HalfScorer(half, min(window, len(half.tokens) - 1)) for half in halves(data.valid))
    networks = [
        network_system(name, [_score_run(run, first, second) for run in runs]) for name, runs in trained.items()
    ]
    ngrams = _score_ngrams(data, first, second)
    return SystemComparison(
        data=tuple(map(name_of, corpus.files)),
        task="language-modelling",
        systems=sorted_systems([ngrams, *networks], lower_is_better=True),
        failed=failed,
        reported_count=len(second.positions),
        held_out_count=len(first.positions),
        unit="tokens",
        minutes_each=minutes,
        notes=data.notes,
        baseline=ngrams.name,
        lower_is_better=True,
    )


def _validate_on_first_half(session: Session) -> None:
    task = expect(session.task, LanguageModellingTask)
    task.prepared = replace(task.prepared, valid=halves(task.prepared.valid)[0])


def _equal_size(name: str, parameters: int, data: Prepared) -> dict[str, int]:
    """Layers and width of a model with about this number of parameters; nothing if its width cannot be chosen."""
    recurrent, default_layers = is_recurrent(name), defaults(name).layers
    layers = default_layers or (1 if recurrent else 2)
    section = {"kind": name, "vocabulary": data.tokenizer.vocabulary, "layers": layers, "context": 64}
    heads = {} if recurrent or default_layers else {"heads": 1}
    width = matched_width({**section, **heads}, parameters)
    return {"layers": layers, "width": width} if width else {}


def halves(stream: TokenStream) -> tuple[TokenStream, TokenStream]:
    """Divide a text in the middle; the counts of bytes, characters and unknown tokens are divided in proportion."""
    middle = len(stream.tokens) // 2

    def half(tokens: Array) -> TokenStream:
        share = len(tokens) / len(stream.tokens)
        counts = {name: round(share * getattr(stream, name)) for name in ("bytes", "characters", "unknown")}
        return TokenStream(tokens, documents=1, **counts)

    return half(stream.tokens[:middle]), half(stream.tokens[middle:])


class HalfScorer:
    """Scores systems on the windows of one half, in bits per byte."""

    def __init__(self, stream: TokenStream, window: int) -> None:
        self.stream = stream
        plan = WindowPlan(len(stream.tokens), window, window)
        chosen = plan.evenly_spaced(MAX_SCORED_TOKENS)
        self.windows = [plan[index] for index in chosen]
        self.positions, self.context_lengths = plan.predictions_of(chosen)
        self.token_counts = np.array([window.counted for window in self.windows])
        tokens_per_byte = (len(stream.tokens) - 1) / max(1, stream.bytes)
        self.bits_factor = tokens_per_byte / math.log(2)  # turns nats per token into bits per byte

    def statistics(self, nats: Iterable[float]) -> RowStatistics:
        """The statistics of the windows from the sum of the losses of each."""
        factor = self.bits_factor
        rows = np.stack([np.array(list(nats)), self.token_counts], axis=1)
        highest = factor * float((rows[:, 0] / rows[:, 1]).max())
        score = lambda totals, rows: factor * totals[:, 0] / totals[:, 1]  # noqa: E731
        return RowStatistics("bits_per_byte", rows, score, (0.0, highest))

    def score_model(self, model: Any) -> RowStatistics:
        batch_size = max(1, MAX_TOKENS // self.windows[0].length)
        nats: list[float] = []
        with torch.inference_mode():
            for batch in batches(self.windows, batch_size):
                losses = window_losses(model, self.stream.tokens, batch)
                nats += [
                    float(row[-window.counted :].double().sum()) for row, window in zip(losses, batch, strict=True)
                ]
        return self.statistics(nats)

    def score_probabilities(self, probabilities: Array) -> RowStatistics:
        """Score the probabilities that a model gives to the tokens at `positions`."""
        starts = np.concatenate([[0], np.cumsum(self.token_counts)[:-1]])
        return self.statistics(np.add.reduceat(-np.log(probabilities), starts))


def _score_ngrams(data: Prepared, held_out: HalfScorer, reported: HalfScorer) -> ComparedSystem:
    """The n-gram model of the order that is best on the first half."""
    started_at = time.perf_counter()
    train_tokens, vocabulary = spread(data.train.tokens, MAX_COUNTED), data.tokenizer.vocabulary
    by_order = []
    for half in (held_out, reported):
        tokens, positions = around(half.stream.tokens, half.positions, ORDER - 1)
        probabilities = ngram_model.probabilities(
            train_tokens, vocabulary, ORDER, tokens, positions, half.context_lengths
        )
        by_order.append([half.score_probabilities(row) for row in probabilities])
    best = int(np.argmin([statistics.value for statistics in by_order[0]]))
    return ComparedSystem(
        name="unigram" if best == 0 else f"{best + 1}-gram",
        is_network=False,
        statistics=(by_order[1][best],),
        held_out_score=by_order[0][best].value,
        train_seconds=time.perf_counter() - started_at,  # counting and scoring are one pass
        more_values={"training_tokens_counted": len(train_tokens)},
    )


def _score_run(run: TrainedRun, held_out: HalfScorer, reported: HalfScorer) -> ScoredRun:
    model: Any = bundle.load(run.folder).model
    held_out_score = held_out.score_model(model).value
    started_at = time.perf_counter()
    statistics = reported.score_model(model)
    speed = len(reported.positions) / max(time.perf_counter() - started_at, 1e-9)
    return ScoredRun(run, statistics, held_out_score, speed)

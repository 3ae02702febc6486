"""Language models on the same text: n-grams, networks that look at a few words, recurrent ones, Transformers.

Half of the held-out text says which step and which system is best; the other half is reported, in the same independent
windows for all. Deck 000's aside: "maybe a big MLP or CNN does the same".
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
from qkv.data.prepare import Prepared, prepare
from qkv.data.tokens import TokenStream, require
from qkv.errors import InputError
from qkv.evaluation import ngram_model
from qkv.evaluation.perplexity import TOKENS, batches, losses_of
from qkv.evaluation.perplexity import WindowPlan as Windows
from qkv.evaluation.text_baselines import COUNTED, ORDER, around, spread
from qkv.models.registry import defaults, is_recurrent
from qkv.recipe import bundle
from qkv.recipe.draft import Draft
from qkv.recipe.origin import matched_width
from qkv.recipe.recipe import language_model_section
from qkv.studies.comparison import Entry, ScoredRun, SystemComparison, in_order, network_entry
from qkv.studies.significance import Measure
from qkv.studies.study import ComparisonPlan, TrainedRun
from qkv.tasks.language_modelling.task import LanguageModellingTask
from qkv.tasks.protocol import Session, expect

Array = NDArray[Any]
LANGUAGE_MODELS = ("mlp", "cnn", "rnn", "lstm", "gpt", "modern")  # by default
REPORTED = 65_536  # tokens that are evaluated, at most
FEWEST = 256  # tokens of a half


def compare(plan: ComparisonPlan) -> SystemComparison:
    if plan.starts:
        raise InputError("--from: models are fine-tuned to labelled data; a comparison on text starts from nothing.")
    if plan.metric != "auto":
        raise InputError(f"--metric {plan.metric}: text is evaluated by bits per byte. Leave it out.")
    names = plan.models or LANGUAGE_MODELS
    for name in names:
        language_model_section({"kind": name}, "--models")
    tokenizer = Draft.parse({"tokenizer": plan.tokenizer}, "the options").tokenizer
    corpus: CorpusConfig = parse(CorpusConfig, plan.corpus, "the options: [corpus]")
    data = prepare(corpus, tokenizer, progress=plan.progress)
    for note in data.notes:
        plan.note(note)
    require(data.valid, 2 * FEWEST, "a comparison", "Give more text.")
    minutes = plan.share(len(names) * plan.seeds)
    parameters = 0  # of the first network, where all are to have as many

    def train(name: str) -> list[TrainedRun]:
        nonlocal parameters
        section = {"kind": name, **(_shape(name, parameters, data) if parameters else {})}
        runs = plan.trained(name, {"model": section}, minutes, lambda run, session, model: run, _keep_first_half)
        parameters = parameters or (runs[0].parameters if plan.equal == "parameters" else 0)
        return runs

    ordered = sorted(names, key=lambda name: plan.equal == "parameters" and name != "modern")
    trained, failed = plan.each(ordered, train)
    window = min((run.context for runs in trained.values() for run in runs), default=64)
    scored_halves = [ScoredHalf(half, min(window, len(half.tokens) - 1)) for half in halves(data.valid)]
    networks = [network_entry(name, [_scored(run, *scored_halves) for run in runs]) for name, runs in trained.items()]
    ngrams = _ngrams(data, scored_halves)
    return SystemComparison(
        data=tuple(corpus.files),
        task="language-modelling",
        entries=in_order([ngrams, *networks], lower=True),
        failed=failed,
        reported=len(scored_halves[1].places),
        chosen_on=len(scored_halves[0].places),
        unit="tokens",
        minutes_each=minutes,
        notes=data.notes,
        baseline=ngrams.name,
        lower=True,
    )


def _keep_first_half(session: Session) -> None:
    """The best step is chosen on the first half of the held-out text."""
    task = expect(session.task, LanguageModellingTask)
    task.prepared = replace(task.prepared, valid=halves(task.prepared.valid)[0])


def _shape(name: str, parameters: int, data: Prepared) -> dict[str, int]:
    """Layers and width that give about this number of parameters, where the model's width is open."""
    recurrent, own = is_recurrent(name), defaults(name).layers
    layers = own or (1 if recurrent else 2)
    shape = {"kind": name, "vocabulary": data.tokenizer.vocabulary, "layers": layers, "context": 64}
    heads = {} if recurrent or own else {"heads": 1}
    width = matched_width({**shape, **heads}, parameters)
    return {"layers": layers, "width": width} if width else {}


def halves(stream: TokenStream) -> tuple[TokenStream, TokenStream]:
    """A text in two; bytes and characters are divided by the share of tokens."""
    middle = len(stream.tokens) // 2

    def part(tokens: Array) -> TokenStream:
        share = len(tokens) / len(stream.tokens)
        size, characters, unknown = (
            round(share * count) for count in (stream.bytes, stream.characters, stream.unknown)
        )
        return TokenStream(tokens, size, characters, 1, unknown)

    return part(stream.tokens[:middle]), part(stream.tokens[middle:])


class ScoredHalf:
    """The windows of a half, the tokens that count in them, and how nats become bits per byte."""

    def __init__(self, stream: TokenStream, window: int) -> None:
        self.stream = stream
        windows = Windows(len(stream.tokens), window, window)
        self.windows = [windows[index] for index in windows.spread(REPORTED)]
        self.places, self.reach = windows.predictions_of(windows.spread(REPORTED))
        self.counts = np.array([window.fresh for window in self.windows])
        self.bits = (len(stream.tokens) - 1) / max(1, stream.bytes) / math.log(2)

    def measure(self, nats: Iterable[float]) -> Measure:
        """From what each window costs."""
        bits = self.bits
        rows = np.stack([np.array(list(nats)), self.counts], axis=1)
        return Measure("bits_per_byte", rows, lambda totals, rows: bits * totals[:, 0] / totals[:, 1])

    def of_model(self, model: Any) -> Measure:
        together = max(1, TOKENS // self.windows[0].length)
        nats: list[float] = []
        with torch.inference_mode():
            for batch in batches(self.windows, together):
                losses = losses_of(model, self.stream.tokens, batch)
                nats += [float(own[-place.fresh :].double().sum()) for own, place in zip(losses, batch, strict=True)]
        return self.measure(nats)

    def of_shares(self, shares: Array) -> Measure:
        """From the probability of every token that counts."""
        starts = np.concatenate([[0], np.cumsum(self.counts)[:-1]])
        return self.measure(np.add.reduceat(-np.log(shares), starts))


def _ngrams(data: Prepared, both: list[ScoredHalf]) -> Entry:
    """The n-gram model of the order that does best on the first half."""
    began = time.perf_counter()
    known, vocabulary = spread(data.train.tokens, COUNTED), data.tokenizer.vocabulary
    measures = []
    for half in both:
        asked = around(half.stream.tokens, half.places, ORDER - 1)
        shares = ngram_model.probabilities(known, vocabulary, ORDER, *asked, half.reach)
        measures.append([half.of_shares(share) for share in shares])
    order = int(np.argmin([measure.value for measure in measures[0]]))
    return Entry(
        name="unigram" if order == 0 else f"{order + 1}-gram",
        learned=False,
        measures=(measures[1][order],),
        held_out=measures[0][order].value,
        train_seconds=time.perf_counter() - began,  # it counts while it is asked
        more={"training_tokens_counted": len(known)},
    )


def _scored(run: TrainedRun, held_out: ScoredHalf, reported: ScoredHalf) -> ScoredRun:
    model: Any = bundle.load(run.folder).model
    chosen = held_out.of_model(model).value
    began = time.perf_counter()
    measure = reported.of_model(model)
    speed = len(reported.places) / max(time.perf_counter() - began, 1e-9)
    return ScoredRun(run, measure, chosen, speed)

"""Language models on the same text: n-grams, networks that look at a few words, recurrent ones, Transformers.

Half of the held-out text says which step and which system is best; the other half is reported, in the same independent
windows for all. Deck 000's aside: "maybe a big MLP or CNN does the same".
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from qkv.config import parse
from qkv.data.corpus import CorpusConfig
from qkv.data.prepare import Prepared, prepare
from qkv.data.tokens import TokenStream, require
from qkv.errors import InputError, InterruptedRun, QkvError
from qkv.evaluation import ngram_model
from qkv.evaluation.perplexity import TOKENS, batches, losses_of
from qkv.evaluation.perplexity import WindowPlan as Windows
from qkv.evaluation.text_baselines import COUNTED, ORDER, around, spread
from qkv.models.language_model import count
from qkv.models.registry import defaults
from qkv.recipe import bundle
from qkv.recipe.draft import Draft
from qkv.recipe.origin import matched_width
from qkv.recipe.recipe import language_model_section
from qkv.studies.comparison import Comparison, Entry, Measure, Plan, in_order
from qkv.tasks.language_modelling.task import LanguageModellingTask
from qkv.tasks.protocol import Session, expect
from qkv.training import devices
from qkv.training.loop import training_flops

Array = NDArray[Any]
USUAL = ("mlp", "cnn", "rnn", "lstm", "gpt", "modern")
REPORTED = 65_536  # tokens that are looked at, at most
FEWEST = 256  # tokens of a half


class TextPlan(Plan):
    def before(self, session: Session) -> None:
        """The best step is chosen on the first half of the held-out text."""
        task = expect(session.task, LanguageModellingTask)
        task.prepared = replace(task.prepared, valid=halves(task.prepared.valid)[0])


@dataclass(frozen=True)
class Taught:
    """A trained model, until all are there and the windows are known."""

    folder: Path
    parameters: int
    context: int
    flops: float
    seconds: float
    values: dict[str, Any]


def compare(asked: Plan) -> Comparison:
    plan = TextPlan(**vars(asked))
    if plan.starts:
        raise InputError("--from: models are fine-tuned to labelled data; a comparison on text starts from nothing.")
    if plan.metric != "auto":
        raise InputError(f"--metric {plan.metric}: text is judged by bits per byte. Leave it out.")
    names = plan.models or USUAL
    for name in names:
        language_model_section({"kind": name}, "--models")
    tokenizer = Draft.parse({"tokenizer": plan.tokenizer}, "the options").tokenizer
    corpus: CorpusConfig = parse(CorpusConfig, plan.corpus, "the options: [corpus]")
    data = prepare(corpus, tokenizer, progress=plan.progress)
    for note in data.notes:
        plan.say(note)
    require(data.valid, 2 * FEWEST, "a comparison", "Give more text.")
    minutes = plan.share(len(names) * plan.seeds)
    taught: dict[str, list[Taught]] = {}
    failed: dict[str, str] = {}
    wanted = 0
    for name in sorted(names, key=lambda name: plan.equal == "parameters" and name != "modern"):
        try:
            taught[name] = [_taught(plan, name, seed, minutes, data, wanted) for seed in plan.all_seeds()]
        except InterruptedRun:
            raise
        except QkvError as error:
            failed[name] = str(error)
            plan.say(f"{name} is left out: {error}")
            continue
        wanted = wanted or (taught[name][0].parameters if plan.equal == "parameters" else 0)
    window = min((each.context for runs in taught.values() for each in runs), default=64)
    sides = [Side(half, min(window, len(half.tokens) - 1)) for half in halves(data.valid)]
    entries = [_counted(data, sides), *(_entry(name, runs, sides) for name, runs in taught.items())]
    return Comparison(
        data=tuple(corpus.files),
        task="language-modelling",
        entries=in_order(entries, lower=True),
        failed=failed,
        reported=len(sides[1].places),
        chosen_on=len(sides[0].places),
        unit="tokens",
        minutes_each=minutes,
        notes=data.notes,
        yardstick=entries[0].name,
        lower=True,
    )


def halves(stream: TokenStream) -> tuple[TokenStream, TokenStream]:
    """A text in two; bytes and characters go by the share of tokens."""
    middle = len(stream.tokens) // 2

    def part(tokens: Array) -> TokenStream:
        share = len(tokens) / len(stream.tokens)
        size, characters, unknown = (round(share * each) for each in (stream.bytes, stream.characters, stream.unknown))
        return TokenStream(tokens, size, characters, 1, unknown)

    return part(stream.tokens[:middle]), part(stream.tokens[middle:])


class Side:
    """The windows of a half, the tokens that count in them, and how nats become bits per byte."""

    def __init__(self, stream: TokenStream, window: int) -> None:
        self.stream = stream
        windows = Windows(len(stream.tokens), window, window)
        self.windows = [windows[index] for index in windows.spread(REPORTED)]
        self.places, self.reach = windows.predictions(REPORTED)
        self.counts = np.array([each.fresh for each in self.windows])
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
                found = losses_of(model, self.stream.tokens, batch)
                nats += [float(own[-place.fresh :].double().sum()) for own, place in zip(found, batch, strict=True)]
        return self.measure(nats)

    def of_shares(self, shares: Array) -> Measure:
        """From the probability of every token that counts."""
        starts = np.concatenate([[0], np.cumsum(self.counts)[:-1]])
        return self.measure(np.add.reduceat(-np.log(shares), starts))


def _counted(data: Prepared, sides: list[Side]) -> Entry:
    """The n-gram model of the order that does best on the first half."""
    mark = time.perf_counter()
    known, vocabulary = spread(data.train.tokens, COUNTED), data.tokenizer.vocabulary
    found = []
    for side in sides:
        asked = around(side.stream.tokens, side.places, ORDER - 1)
        shares = ngram_model.probabilities(known, vocabulary, ORDER, *asked, side.reach)
        found.append([side.of_shares(each) for each in shares])
    order = int(np.argmin([each.value for each in found[0]]))
    return Entry(
        name="unigram" if order == 0 else f"{order + 1}-gram",
        learned=False,
        measures=(found[1][order],),
        chosen_by=found[0][order].value,
        macro_f1=None,
        parameters=None,
        flops=None,
        train_seconds=time.perf_counter() - mark,  # it counts while it is asked
        predictions_per_second=None,
        more={"training_tokens_counted": len(known)},
    )


def _taught(plan: Plan, name: str, seed: int, minutes: float, data: Prepared, wanted: int) -> Taught:
    plan.say(f"{name}, seed {seed}: {minutes:.2f} minutes")
    section: dict[str, Any] = {"kind": name}
    if wanted:
        recurrent, own = name in ("rnn", "gru", "lstm"), defaults(name).layers
        layers = own or (1 if recurrent else 2)
        shape = {"kind": name, "vocabulary": data.tokenizer.vocabulary, "layers": layers, "context": 64}
        heads = {} if recurrent or own else {"heads": 1}
        if width := matched_width({**shape, **heads}, wanted):
            section |= {"layers": layers, "width": width}
    session, spent = plan.trained({"model": section}, name, seed, minutes)
    best: Any = bundle.load(session.run.folder, session.recipe.training.device).model
    flops = training_flops(best, session.objective, session.recipe.training.batch, session.state.samples)
    values = {"run": str(session.run.folder), "seed": seed, "steps": session.state.step}
    values["epochs"] = session.state.samples / session.objective.samples
    made = Taught(session.run.folder, count(best), session.recipe.model.context, flops, spent, values)
    del session, best
    devices.give_back()
    return made


def _entry(name: str, runs: list[Taught], sides: list[Side]) -> Entry:
    measures, held, speeds = [], [], []
    for run in runs:
        model: Any = bundle.load(run.folder).model
        held.append(sides[0].of_model(model).value)
        mark = time.perf_counter()
        measures.append(sides[1].of_model(model))
        speeds.append(len(sides[1].places) / max(time.perf_counter() - mark, 1e-9))
    return Entry(
        name=name,
        learned=True,
        measures=tuple(measures),
        chosen_by=float(np.mean(held)),
        macro_f1=None,
        parameters=runs[0].parameters,
        flops=float(np.mean([run.flops for run in runs])),
        train_seconds=float(np.mean([run.seconds for run in runs])),
        predictions_per_second=float(np.mean(speeds)),
        more={"runs": [run.values for run in runs]},
    )

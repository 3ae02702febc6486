"""Proofs that a user can run: what a model's files and its answers must hold, each with the largest difference found.

files       every file has the sha256 of the manifest
words       text to ids and back is the same text; every id has its row in the model
finite      no answer is anything but a number
cache       token by token with the state, and by the compiled step, = the whole text at once
padding     a text with padding = the text alone
batch       a text among others = the text alone
causality   a later token never changes an earlier answer
window      attention over a window as long as the text = attention over all of it
export      written for Hugging Face and opened again = the model
resume      a run that is saved and resumed = one that went on, bit for bit

A translator reads a source and writes a target: its cache and causality are those of the target, its padding is that of
the source, and pairs of unequal length make its batch.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from qkv import session as sessions
from qkv.api import Model
from qkv.errors import InputError, QkvError, RefusedError
from qkv.generation import native
from qkv.generation.beam import Translator
from qkv.interop import export
from qkv.interop.parity import SENTENCES, TOLERANCE, reads, sources, texts
from qkv.interop.tensors import filled
from qkv.models.language_model import LanguageModel
from qkv.objectives.objective import padded
from qkv.storage import MANIFEST, verify_files
from qkv.training import checkpoints
from qkv.training.loop import TrainingState, train

STEPS = 2  # before the save, and after it
LONGEST = 64  # tokens of a text that is read one by one
MORE = 8  # tokens of padding


@dataclass(frozen=True)
class Proof:
    """One line of the table. `passed` is None where there was nothing to show."""

    name: str
    passed: bool | None
    largest: float | None  # difference found; None where it is not one of numbers
    compared: str


class NothingToShow(Exception):  # noqa: N818  (a fact, not a mistake)
    """Why a proof does not concern this model."""


Result = tuple[float | None, str]  # the largest difference, and what was compared


class Proofs:
    """The proofs of one opened model."""

    def __init__(self, model: Model) -> None:
        self.opened, self.bundle = model, model.bundle
        assert isinstance(self.bundle.model, nn.Module)
        self.module: nn.Module = self.bundle.model.eval()
        self.tokenizer, self.context = self.bundle.tokenizer, self.bundle.config.context
        self.writes = isinstance(self.module, LanguageModel)
        opening = self.bundle.opening if self.writes else self.tokenizer.opening
        closing = () if self.writes else self.tokenizer.closing
        self.rows = texts(self.tokenizer, opening, closing, min(self.context, LONGEST))
        self.scale = 1.0

    def all(self) -> Iterator[Proof]:
        """One after the other, as they are found."""
        steps: list[Callable[[], Result]] = [
            self.files, self.words, self.finite, self.cache, self.padding, self.batch, self.causality, self.window,
            self.export, self.resume,
        ]  # fmt: skip
        for step in steps:
            name = step.__name__
            try:
                with torch.inference_mode(name != "resume"):
                    largest, compared = step()
            except NothingToShow as reason:
                yield Proof(name, None, None, str(reason))
            except QkvError as error:
                yield Proof(name, False, None, str(error))
            else:
                yield Proof(name, largest is None or largest <= TOLERANCE * max(1.0, self.scale), largest, compared)

    def files(self) -> Result:
        folder = self.bundle.folder
        if folder is None or not (folder / MANIFEST).is_file():
            raise NothingToShow("there is no manifest; `qkv import` writes a folder that has one")
        verify_files(folder)
        return None, "every file is the one that was written"

    def words(self) -> Result:
        rows = self.bundle.config.vocabulary
        if self.tokenizer.vocabulary > rows:
            raise InputError(f"{self.tokenizer.vocabulary:,} tokens, but {rows:,} rows in the model.")
        for text in SENTENCES:
            if self.tokenizer.lossless and not self.tokenizer.unknown_characters(text):
                again = self.tokenizer.decode(self.tokenizer.encode(text))
                if again != text:
                    raise InputError(f"{text[:40]!a} becomes {again[:40]!a}.")
        return None, f"{self.tokenizer.vocabulary:,} tokens, {rows:,} rows"

    def finite(self) -> Result:
        answers = self.answers()
        self.scale = max(float(answer.abs().max()) for answer in answers)
        if not all(answer.isfinite().all() for answer in answers):
            raise InputError("some answers are not numbers.")
        return None, f"answers up to {self.scale:.3g}"

    def answers(self) -> list[Tensor]:
        """What the model gives for each text alone."""
        return [self._alone(row) for row in self.rows]

    def cache(self) -> Result:
        module = self.module
        if not isinstance(module, LanguageModel):
            raise NothingToShow("a model that reads whole texts has no cache")
        gaps, compared = [], "the state"
        for row in self.rows[:2]:
            state = module.state(1)
            steps = [module(torch.tensor([[token]]), state) for token in row]
            gaps.append(gap(torch.cat(steps, 1)[0], self._alone(row)))
        if native.fits(module):
            compiled, compared = native.Native(module, "f32"), "the state, and the compiled step"
            own = compiled.state(1)
            steps = [compiled(torch.tensor([[token]]), own)[0, -1] for token in self.rows[0]]
            gaps.append(gap(torch.stack(steps), self._alone(self.rows[0])))
        return max(gaps), f"{compared} = the whole text"

    def padding(self) -> Result:
        fill = self.tokenizer.padding if self.tokenizer.padding is not None else self.tokenizer.separator
        gaps = []
        for row in (row[: max(1, self.context - MORE)] for row in self.rows):
            tokens, present = padded([row, [fill] * min(self.context, len(row) + MORE)], fill)
            present[1] = True
            gaps.append(gap(reads(self.module)(tokens, present)[0], self._alone(row)))
        return max(gaps), "a padded text = the text alone"

    def batch(self) -> Result:
        shortest = min(len(row) for row in self.rows)
        tokens = torch.tensor([row[:shortest] for row in self.rows])
        together = reads(self.module)(tokens, torch.ones_like(tokens, dtype=torch.bool))
        largest = max(map(gap, together, (self._alone(row.tolist()) for row in tokens)))
        return largest, f"{len(self.rows)} texts together = each alone"

    def causality(self) -> Result:
        if not self.writes:
            raise NothingToShow("a model that reads whole texts looks both ways")
        return self._causal(self.rows[0], self._alone), "another token later = the same answer before it"

    def _causal(self, row: list[int], answer: Callable[[list[int]], Tensor]) -> float:
        """The largest difference that another token makes to the answers before it."""
        expected, gaps = answer(row), [0.0]
        for place in range(1, len(row)):
            changed = [*row[:place], (row[place] + 1) % self.tokenizer.vocabulary, *row[place + 1 :]]
            gaps.append(gap(answer(changed)[:place], expected[:place]))
        return max(gaps)

    def window(self) -> Result:
        config: Any = self.bundle.config
        if not hasattr(config, "window"):
            raise NothingToShow("this model has no attention window")
        longest = max(len(row) for row in self.rows)
        plain, windowed = (
            filled(replace(config, window=reach), self.module.state_dict(), "cpu") for reach in (0, longest)
        )
        largest = max(gap(plain(row), windowed(row)) for row in (torch.tensor([row]) for row in self.rows[:2]))
        return largest, f"a window of {longest} over {longest} tokens = no window"

    def export(self) -> Result:
        with tempfile.TemporaryDirectory(prefix="qkv-verify-") as folder:
            try:
                compared = export.write(Path(folder) / "copy", self.bundle, "copy")
            except InputError as error:  # a model without an equivalent
                raise NothingToShow(str(error)) from None
        return max(parity.largest for parity in compared), "; ".join(parity.reader for parity in compared)

    def resume(self) -> Result:
        folder = self.bundle.folder
        run = folder.parent if folder is not None else None
        if run is None or not (run / "recipe.toml").is_file():
            raise NothingToShow("not a run folder")
        return None, resumed(run)

    def _alone(self, row: list[int]) -> Tensor:
        tokens = torch.tensor([row])
        return reads(self.module)(tokens, torch.ones_like(tokens, dtype=torch.bool))[0]


def gap(answers: Tensor, expected: Tensor) -> float:
    """The largest difference; a padded text has more answers than are expected."""
    return float((answers[: len(expected)] - expected).abs().max())


def proofs_of(model: Model) -> Proofs:
    """The proofs that concern this kind of model."""
    return TranslatorProofs(model) if model.translates else Proofs(model)


class TranslatorProofs(Proofs):
    """The target of each source is the next sentence: its answers show the sums as well as a translation does."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        most = min(self.context, LONGEST)
        self.start, self.end = self.bundle.start_and_end
        self.rows = sources(self.bundle, most)
        self.targets = [[self.start, *row[:-1][: most - 1]] for row in (*self.rows[1:], self.rows[0])]

    def answers(self) -> list[Tensor]:
        pairs = zip(self.rows, self.targets, strict=True)
        return [self._answer(torch.tensor([row]), torch.tensor([target])) for row, target in pairs]

    def cache(self) -> Result:
        model, gaps = self.module, []
        assert isinstance(model, Translator)
        for row, target, expected in list(zip(self.rows, self.targets, self.answers(), strict=True))[:2]:
            source = torch.tensor([row])
            present = torch.ones_like(source, dtype=torch.bool)
            memory, state = model.encode(source, present), model.state(1)
            steps = [model.decode(torch.tensor([[token]]), memory, present, state) for token in target]
            gaps.append(gap(torch.cat(steps, 1)[0], expected))
        return max(gaps), "the state = the whole target"

    def padding(self) -> Result:
        gaps = []
        for row, target, expected in zip(self.rows, self.targets, self.answers(), strict=True):
            given = row[: max(1, self.context - MORE)]
            if len(given) < len(row):
                expected = self._answer(torch.tensor([given]), torch.tensor([target]))
            source, present = padded([given, [self.end] * (len(given) + MORE)], self.end)
            gaps.append(gap(self.module(source[:1], present[:1], torch.tensor([target]))[0], expected))
        return max(gaps), "a padded source = the source alone"

    def batch(self) -> Result:
        source, present = padded(self.rows, self.end)
        tokens, _ = padded(self.targets, self.end)
        largest = max(map(gap, self.module(source, present, tokens), self.answers()))
        return largest, f"{len(self.rows)} pairs of unequal length together = each alone"

    def causality(self) -> Result:
        source = torch.tensor(self.rows[:1])
        largest = self._causal(self.targets[0], lambda target: self._answer(source, torch.tensor([target])))
        return largest, "another token of the target later = the same answer before it"

    def _answer(self, source: Tensor, target: Tensor) -> Tensor:
        answer: Tensor = self.module(source, torch.ones_like(source, dtype=torch.bool), target)[0]
        return answer


def resumed(run: Path) -> str:
    """A few steps of a run, straight through and with a save and a load between, must be equal: gives what was
    compared; RefusedError where the two differ. Nothing in the run's folder is changed."""
    session = sessions.resume(run)
    config = session.recipe.training
    device = config.device
    last = config.length - 2 * STEPS
    kept = [path for path in checkpoints.list_checkpoints(run / "checkpoints") if int(path.name) <= last]
    longer = replace(config, steps=max(config.steps, 2 * STEPS), steps_changes=config.steps_changes if kept else ())

    def fresh() -> TrainingState:
        state = sessions.fresh_state(session.recipe)
        if kept:
            checkpoints.load(kept[-1], state, device)
        else:
            torch.manual_seed(config.seed)
        return state

    def go(state: TrainingState, steps: int) -> None:
        for _ in islice(train(state, session.objective, longer), steps):
            pass

    straight = fresh()
    go(straight, 2 * STEPS)
    interrupted = fresh()
    go(interrupted, STEPS)
    with tempfile.TemporaryDirectory(prefix="qkv-verify-") as folder:
        saved = checkpoints.save(Path(folder), interrupted, {}, device, keep=1)
        again = sessions.fresh_state(session.recipe)
        checkpoints.load(saved, again, device)
    go(again, STEPS)
    for name, tensor in straight.model.state_dict().items():
        if not torch.equal(tensor, again.model.state_dict()[name]):
            raise RefusedError(f"{run}: a resumed run differs from an uninterrupted one in {name}.")
    return f"steps {straight.step - 2 * STEPS + 1} to {straight.step}, saved and loaded in the middle: equal bits"

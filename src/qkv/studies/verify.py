"""The proofs of `qkv verify`; each returns the largest difference that it found.

files       every file has the sha256 of the manifest
words       text to ids and back gives the same text; every id has a row in the model
finite      all outputs are finite numbers
cache       token by token with the state, and with the compiled step = the whole text at once
padding     a text with padding = the text alone
batch       a text among others = the text alone
causality   a later token never changes an earlier output
window      attention over a window as long as the text = attention over the whole text
export      the model exported for Hugging Face and opened again = the model
resume      a run that is saved and resumed = an uninterrupted one, bit for bit

For a translator, cache and causality concern the target, padding the source, and the batch has pairs of unequal length.
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
from qkv.interop.parity import SENTENCES, TOLERANCE, reader_of, sources, texts
from qkv.interop.tensors import build_model
from qkv.models.language_model import LanguageModel
from qkv.objectives.objective import padded
from qkv.storage import MANIFEST, verify_files
from qkv.training import checkpoints
from qkv.training.loop import TrainingState, train

RESUME_STEPS = 2  # before the checkpoint, and after it
MAX_TOKENS = 64  # of a text
PADDING_TOKENS = 8


@dataclass(frozen=True)
class Proof:
    """The result of a proof. `passed` is None if the proof does not apply to the model."""

    name: str
    passed: bool | None
    largest: float | None  # the largest difference; None if no numbers were compared
    compared: str


class NotApplicable(Exception):  # noqa: N818  (not an error)
    """Says why a proof does not apply to a model."""


Result = tuple[float | None, str]  # the largest difference, and what was compared


class Proofs:
    """The proofs of a model; each method that is named like a proof returns its result."""

    def __init__(self, model: Model) -> None:
        self.opened, self.bundle = model, model.bundle
        assert isinstance(self.bundle.model, nn.Module)
        self.module: nn.Module = self.bundle.model.eval()
        self.tokenizer, self.context = self.bundle.tokenizer, self.bundle.config.context
        self.writes = isinstance(self.module, LanguageModel)
        opening = self.bundle.opening if self.writes else self.tokenizer.opening
        closing = () if self.writes else self.tokenizer.closing
        self.rows = texts(self.tokenizer, opening, closing, min(self.context, MAX_TOKENS))
        self.scale = 1.0

    def all(self) -> Iterator[Proof]:
        """Run all proofs in their order."""
        proofs: list[Callable[[], Result]] = [
            self.files, self.words, self.finite, self.cache, self.padding, self.batch, self.causality, self.window,
            self.export, self.resume,
        ]  # fmt: skip
        for proof in proofs:
            name = proof.__name__
            try:
                with torch.inference_mode(name != "resume"):
                    largest, compared = proof()
            except NotApplicable as reason:
                yield Proof(name, None, None, str(reason))
            except QkvError as error:
                yield Proof(name, False, None, str(error))
            else:
                yield Proof(name, largest is None or largest <= TOLERANCE * max(1.0, self.scale), largest, compared)

    def files(self) -> Result:
        folder = self.bundle.folder
        if folder is None or not (folder / MANIFEST).is_file():
            raise NotApplicable("there is no manifest; `qkv import` writes a folder that has one")
        verify_files(folder)
        return None, "every file is as it was written"

    def words(self) -> Result:
        rows = self.bundle.config.vocabulary
        if self.tokenizer.vocabulary > rows:
            raise InputError(f"{self.tokenizer.vocabulary:,} tokens, but {rows:,} rows in the model.")
        for text in SENTENCES:
            if self.tokenizer.lossless and not self.tokenizer.unknown_characters(text):
                decoded = self.tokenizer.decode(self.tokenizer.encode(text))
                if decoded != text:
                    raise InputError(f"{text[:40]!a} becomes {decoded[:40]!a}.")
        return None, f"{self.tokenizer.vocabulary:,} tokens, {rows:,} rows"

    def finite(self) -> Result:
        outputs = self.outputs()
        self.scale = max(float(output.abs().max()) for output in outputs)
        if not all(output.isfinite().all() for output in outputs):
            raise InputError("some outputs are not finite numbers.")
        return None, f"outputs up to {self.scale:.3g}"

    def outputs(self) -> list[Tensor]:
        """The output of the model for each text alone."""
        return [self._output(row) for row in self.rows]

    def cache(self) -> Result:
        module = self.module
        if not isinstance(module, LanguageModel):
            raise NotApplicable("a model that reads whole texts has no cache")
        differences, compared = [], "the state"
        for row in self.rows[:2]:
            state = module.state(1)
            steps = [module(torch.tensor([[token]]), state) for token in row]
            differences.append(max_difference(torch.cat(steps, 1)[0], self._output(row)))
        if native.fits(module):
            compiled, compared = native.Native(module, "f32"), "the state, and the compiled step"
            state = compiled.state(1)
            steps = [compiled(torch.tensor([[token]]), state)[0, -1] for token in self.rows[0]]
            differences.append(max_difference(torch.stack(steps), self._output(self.rows[0])))
        return max(differences), f"{compared} = the whole text"

    def padding(self) -> Result:
        fill = self.tokenizer.padding if self.tokenizer.padding is not None else self.tokenizer.separator
        differences = []
        for row in (row[: max(1, self.context - PADDING_TOKENS)] for row in self.rows):
            tokens, present = padded([row, [fill] * min(self.context, len(row) + PADDING_TOKENS)], fill)
            present[1] = True
            differences.append(max_difference(reader_of(self.module)(tokens, present)[0], self._output(row)))
        return max(differences), "a padded text = the text alone"

    def batch(self) -> Result:
        shortest = min(len(row) for row in self.rows)
        tokens = torch.tensor([row[:shortest] for row in self.rows])
        together = reader_of(self.module)(tokens, torch.ones_like(tokens, dtype=torch.bool))
        largest = max(map(max_difference, together, (self._output(row.tolist()) for row in tokens)))
        return largest, f"{len(self.rows)} texts together = each alone"

    def causality(self) -> Result:
        if not self.writes:
            raise NotApplicable("a model that reads whole texts attends in both directions")
        return self._causality_of(self.rows[0], self._output), "a later token changed = the same output before it"

    def _causality_of(self, row: list[int], output: Callable[[list[int]], Tensor]) -> float:
        """The largest difference that a changed token makes to the outputs before it."""
        expected, differences = output(row), [0.0]
        for position in range(1, len(row)):
            changed = [*row[:position], (row[position] + 1) % self.tokenizer.vocabulary, *row[position + 1 :]]
            differences.append(max_difference(output(changed)[:position], expected[:position]))
        return max(differences)

    def window(self) -> Result:
        config: Any = self.bundle.config
        if not hasattr(config, "window"):
            raise NotApplicable("this model has no attention window")
        longest = max(len(row) for row in self.rows)
        plain, windowed = (
            build_model(replace(config, window=window), self.module.state_dict(), "cpu") for window in (0, longest)
        )
        tokens = [torch.tensor([row]) for row in self.rows[:2]]
        largest = max(max_difference(plain(row), windowed(row)) for row in tokens)
        return largest, f"a window of {longest} over {longest} tokens = no window"

    def export(self) -> Result:
        with tempfile.TemporaryDirectory(prefix="qkv-verify-") as folder:
            try:
                parities = export.write(Path(folder) / "copy", self.bundle, "copy")
            except InputError as error:  # transformers has no such architecture
                raise NotApplicable(str(error)) from None
        return max(parity.largest for parity in parities), "; ".join(parity.reader for parity in parities)

    def resume(self) -> Result:
        folder = self.bundle.folder
        run = folder.parent if folder is not None else None
        if run is None or not (run / "recipe.toml").is_file():
            raise NotApplicable("not a run folder")
        return None, check_resume(run)

    def _output(self, row: list[int]) -> Tensor:
        tokens = torch.tensor([row])
        return reader_of(self.module)(tokens, torch.ones_like(tokens, dtype=torch.bool))[0]


def max_difference(outputs: Tensor, expected: Tensor) -> float:
    """The largest absolute difference; outputs of padding, behind the expected ones, are ignored."""
    return float((outputs[: len(expected)] - expected).abs().max())


def proofs_of(model: Model) -> Proofs:
    return TranslatorProofs(model) if model.translates else Proofs(model)


class TranslatorProofs(Proofs):
    """The proofs of a translator. The next sentence serves as the target of each source, as any target would."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        max_tokens = min(self.context, MAX_TOKENS)
        self.start, self.end = self.bundle.start_and_end
        self.rows = sources(self.bundle, max_tokens)
        self.targets = [[self.start, *row[:-1][: max_tokens - 1]] for row in (*self.rows[1:], self.rows[0])]

    def outputs(self) -> list[Tensor]:
        pairs = zip(self.rows, self.targets, strict=True)
        return [self._pair_output(torch.tensor([row]), torch.tensor([target])) for row, target in pairs]

    def cache(self) -> Result:
        model, differences = self.module, []
        assert isinstance(model, Translator)
        for row, target, expected in list(zip(self.rows, self.targets, self.outputs(), strict=True))[:2]:
            source = torch.tensor([row])
            present = torch.ones_like(source, dtype=torch.bool)
            memory, state = model.encode(source, present), model.state(1)
            steps = [model.decode(torch.tensor([[token]]), memory, present, state) for token in target]
            differences.append(max_difference(torch.cat(steps, 1)[0], expected))
        return max(differences), "the state = the whole target"

    def padding(self) -> Result:
        differences = []
        for row, target, expected in zip(self.rows, self.targets, self.outputs(), strict=True):
            shortened = row[: max(1, self.context - PADDING_TOKENS)]
            if len(shortened) < len(row):
                expected = self._pair_output(torch.tensor([shortened]), torch.tensor([target]))
            source, present = padded([shortened, [self.end] * (len(shortened) + PADDING_TOKENS)], self.end)
            differences.append(
                max_difference(self.module(source[:1], present[:1], torch.tensor([target]))[0], expected)
            )
        return max(differences), "a padded source = the source alone"

    def batch(self) -> Result:
        source, present = padded(self.rows, self.end)
        tokens, _ = padded(self.targets, self.end)
        largest = max(map(max_difference, self.module(source, present, tokens), self.outputs()))
        return largest, f"{len(self.rows)} pairs of unequal length together = each alone"

    def causality(self) -> Result:
        source = torch.tensor(self.rows[:1])
        largest = self._causality_of(self.targets[0], lambda target: self._pair_output(source, torch.tensor([target])))
        return largest, "a later token of the target changed = the same output before it"

    def _pair_output(self, source: Tensor, target: Tensor) -> Tensor:
        return self.module(source, torch.ones_like(source, dtype=torch.bool), target)[0]


def check_resume(run: Path) -> str:
    """Train a few steps of a run without a break, and again with a checkpoint saved and loaded in the middle;
    return what was compared, or raise a RefusedError if the weights differ. The run's folder is not changed."""
    session = sessions.resume(run)
    config = session.recipe.training
    device = config.device
    last_start = config.length - 2 * RESUME_STEPS
    usable = [path for path in checkpoints.list_checkpoints(run / "checkpoints") if int(path.name) <= last_start]
    steps_changes = config.steps_changes if usable else ()
    config = replace(config, steps=max(config.steps, 2 * RESUME_STEPS), steps_changes=steps_changes)

    def initial_state() -> TrainingState:
        state = sessions.fresh_state(session.recipe)
        if usable:
            checkpoints.load(usable[-1], state, device)
        else:
            torch.manual_seed(config.seed)
        return state

    def train_steps(state: TrainingState, steps: int) -> None:
        for _ in islice(train(state, session.objective, config), steps):
            pass

    uninterrupted = initial_state()
    train_steps(uninterrupted, 2 * RESUME_STEPS)
    interrupted = initial_state()
    train_steps(interrupted, RESUME_STEPS)
    with tempfile.TemporaryDirectory(prefix="qkv-verify-") as folder:
        checkpoint = checkpoints.save(Path(folder), interrupted, {}, device, keep=1)
        resumed = sessions.fresh_state(session.recipe)
        checkpoints.load(checkpoint, resumed, device)
    train_steps(resumed, RESUME_STEPS)
    for name, tensor in uninterrupted.model.state_dict().items():
        if not torch.equal(tensor, resumed.model.state_dict()[name]):
            raise RefusedError(f"{run}: a resumed run differs from an uninterrupted one in {name}.")
    steps = f"steps {uninterrupted.step - 2 * RESUME_STEPS + 1} to {uninterrupted.step}"
    return f"{steps}, saved and loaded in the middle: equal bits"

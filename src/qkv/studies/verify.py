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
resume      a run that is saved and taken up = one that went on, bit for bit
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from qkv.api import Model
from qkv.errors import InputError, QkvError
from qkv.generation import compilable, native
from qkv.interop import export
from qkv.interop.imported import filled
from qkv.interop.parity import SENTENCES, TOLERANCE, padded, reads, texts
from qkv.models.language_model import LanguageModel
from qkv.storage import MANIFEST, verify
from qkv.studies.resuming import resumed

LONGEST = 64  # tokens of a text that is read one by one


@dataclass(frozen=True)
class Proof:
    """One line of the table. `passed` is None where there was nothing to show."""

    name: str
    passed: bool | None
    largest: float | None  # difference found; None where it is not one of numbers
    said: str


class NothingToShow(Exception):  # noqa: N818  (a fact, not a mistake)
    """Why a proof does not concern this model."""


Found = tuple[float | None, str]


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
        steps: list[Callable[[], Found]] = [
            self.files, self.words, self.finite, self.cache, self.padding, self.batch, self.causality, self.window,
            self.export, self.resume,
        ]  # fmt: skip
        for step in steps:
            name = step.__name__
            try:
                with torch.inference_mode(name != "resume"):
                    largest, said = step()
            except NothingToShow as reason:
                yield Proof(name, None, None, str(reason))
            except QkvError as error:
                yield Proof(name, False, None, str(error))
            else:
                yield Proof(name, largest is None or largest <= TOLERANCE * max(1.0, self.scale), largest, said)

    def files(self) -> Found:
        folder = self.bundle.folder
        if folder is None or not (folder / MANIFEST).is_file():
            raise NothingToShow("there is no manifest; `qkv import` writes a folder that has one")
        verify(folder)
        return None, "every file is the one that was written"

    def words(self) -> Found:
        rows = self.bundle.config.vocabulary
        if self.tokenizer.vocabulary > rows:
            raise InputError(f"{self.tokenizer.vocabulary:,} tokens, but {rows:,} rows in the model.")
        for text in SENTENCES:
            if self.tokenizer.lossless and not self.tokenizer.unknown_characters(text):
                again = self.tokenizer.decode(self.tokenizer.encode(text))
                if again != text:
                    raise InputError(f"{text[:40]!a} becomes {again[:40]!a}.")
        return None, f"{self.tokenizer.vocabulary:,} tokens, {rows:,} rows"

    def finite(self) -> Found:
        answers = self.answers()
        self.scale = max(float(answer.abs().max()) for answer in answers)
        if not all(answer.isfinite().all() for answer in answers):
            raise InputError("some answers are not numbers.")
        return None, f"answers up to {self.scale:.3g}"

    def answers(self) -> list[Tensor]:
        """What the model says to each text alone."""
        return [self._alone(row) for row in self.rows]

    def cache(self) -> Found:
        module = self.module
        if not isinstance(module, LanguageModel):
            raise NothingToShow("a model that reads whole texts has no cache")
        largest, said = 0.0, "the state"
        for row in self.rows[:2]:
            expected = self._alone(row)
            state = module.state(1)
            stepped = torch.cat([module(torch.tensor([[token]]), state) for token in row], 1)[0]
            largest = max(largest, float((stepped - expected).abs().max()))
        if compilable.fits(module):
            compiled, said = native.Native(module, "f32"), "the state, and the compiled step"
            own = compiled.state(1)
            steps = [compiled(torch.tensor([[token]]), own)[0, -1] for token in self.rows[0]]
            largest = max(largest, float((torch.stack(steps) - self._alone(self.rows[0])).abs().max()))
        return largest, f"{said} = the whole text"

    def padding(self) -> Found:
        fill = self.tokenizer.padding if self.tokenizer.padding is not None else self.tokenizer.separator
        room = self.context - min(self.context, 8)
        rows = [row[: max(1, room)] for row in self.rows]
        largest = 0.0
        for row in rows:
            tokens, present = padded([row, [fill] * min(self.context, len(row) + 8)], fill)
            present[1] = True
            largest = max(largest, self._gap(reads(self.module)(tokens, present)[0], self._alone(row)))
        return largest, "a padded text = the text alone"

    def batch(self) -> Found:
        shortest = min(len(row) for row in self.rows)
        tokens = torch.tensor([row[:shortest] for row in self.rows])
        together = reads(self.module)(tokens, torch.ones_like(tokens, dtype=torch.bool))
        gaps = [self._gap(answer, self._alone(row.tolist())) for answer, row in zip(together, tokens, strict=True)]
        return max(gaps), f"{len(self.rows)} texts together = each alone"

    def causality(self) -> Found:
        if not self.writes:
            raise NothingToShow("a model that reads whole texts looks both ways")
        row = self.rows[0]
        expected, largest = self._alone(row), 0.0
        for place in range(1, len(row)):
            changed = [*row[:place], (row[place] + 1) % self.tokenizer.vocabulary, *row[place + 1 :]]
            largest = max(largest, float((self._alone(changed)[:place] - expected[:place]).abs().max()))
        return largest, "another token later = the same answer before it"

    def window(self) -> Found:
        config: Any = self.bundle.config
        if not hasattr(config, "window"):
            raise NothingToShow("this model has no attention window")
        longest = max(len(row) for row in self.rows)
        largest = 0.0
        plain, windowed = (replace(config, window=reach) for reach in (0, longest))
        copies = [filled(each, self.module.state_dict(), "cpu") for each in (plain, windowed)]
        for row in self.rows[:2]:
            answers = [copy(torch.tensor([row])) for copy in copies]
            largest = max(largest, float((answers[0] - answers[1]).abs().max()))
        return largest, f"a window of {longest} over {longest} tokens = no window"

    def export(self) -> Found:
        with tempfile.TemporaryDirectory(prefix="qkv-verify-") as folder:
            try:
                found = export.write(Path(folder) / "copy", self.bundle, "copy")
            except InputError as error:  # a model without a twin
                raise NothingToShow(str(error)) from None
        return max(each.largest for each in found), "; ".join(each.reader for each in found)

    def resume(self) -> Found:
        folder = self.bundle.folder
        run = folder.parent if folder is not None else None
        if run is None or not (run / "recipe.toml").is_file():
            raise NothingToShow("not a run folder")
        return None, resumed(run)

    def _alone(self, row: list[int]) -> Tensor:
        tokens = torch.tensor([row])
        return reads(self.module)(tokens, torch.ones_like(tokens, dtype=torch.bool))[0]

    @staticmethod
    def _gap(found: Tensor, alone: Tensor) -> float:
        """Answers for each token, or one for the text."""
        return float((found[: len(alone)] - alone).abs().max())

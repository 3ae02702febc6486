"""The front of the library: `qkv.load` gives a model with a method for each thing one does with it.

import qkv
model = qkv.load("runs/shakespeare")
for piece in model.generate("O Romeo", stream=True):
    print(piece, end="")
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import torch

from qkv import ranges
from qkv.blocks.fast_paths import evaluating
from qkv.data.corpus import CorpusConfig
from qkv.data.prepare import require, stream, stream_text
from qkv.errors import InputError, require_type
from qkv.evaluation.perplexity import Score, score
from qkv.generation.beam import Translator
from qkv.generation.sampling import TEMPERATURE, Sampling
from qkv.generation.writing import Next, Picked, Precision, Writers, Written, write
from qkv.models.language_model import LanguageModel, count
from qkv.recipe import bundle
from qkv.tasks.predictor import Predictor
from qkv.text.chat_formats import Message, conversation
from qkv.text.decoding import StoppedStream
from qkv.text.pipelines import ONLY_READ
from qkv.training import devices

if TYPE_CHECKING:
    from qkv.interop.parity import Parity
    from qkv.training.run import Event


class Model(Predictor):
    """A trained model, ready for use."""

    def __init__(self, opened: bundle.Bundle, device: str) -> None:
        super().__init__(opened)
        self.device = device
        self._writers: Writers | None = None

    def __repr__(self) -> str:
        config = self.bundle.config
        return f"<qkv model: {config.kind}, {self.parameters:,} parameters, context {config.context}>"

    @property
    def module(self) -> torch.nn.Module:
        """The model itself, an ordinary `nn.Module`."""
        assert isinstance(self.bundle.model, torch.nn.Module)
        return self.bundle.model

    @property
    def language(self) -> LanguageModel:
        """The same, where it is one that writes."""
        if not isinstance(self.bundle.model, LanguageModel):
            raise InputError(
                f"a {self.bundle.config.kind} model reads texts and does not write them; embed turns texts into "
                "vectors with it. Writing and scoring need a language model, as modern or gpt."
            )
        return self.bundle.model

    @property
    def writes(self) -> bool:
        """Whether it is a language model; others read whole texts."""
        return isinstance(self.bundle.model, LanguageModel)

    @property
    def translates(self) -> bool:
        """Whether it reads a text and writes another."""
        return isinstance(self.bundle.model, Translator)

    @property
    def parameters(self) -> int:
        return count(self.module)

    def writer(self, precision: Precision = "auto") -> LanguageModel:
        """The model as it writes: compiled where that gives the same, in the number format that suits it."""
        if self._writers is None or self._writers.model is not self.language:
            self._writers = Writers(self.language)
        passed = self.bundle.checked is not None and self.bundle.checked.passed
        return self._writers.writer(precision, int8_passed=passed)

    @overload
    def generate(self, prompt: str = "", *, stream: Literal[True], **options: Any) -> Iterator[str]: ...
    @overload
    def generate(self, prompt: str = "", *, stream: Literal[False] = False, **options: Any) -> str: ...
    def generate(self, prompt: str = "", *, stream: bool = False, **options: Any) -> str | Iterator[str]:
        """The text that follows `prompt`; with `stream`, piece by piece. Options are those of `samples`."""
        if stream:
            return (piece for pieces in self.stream(prompt, 1, **options) for piece in pieces)
        return self.samples(prompt, 1, **options)[0].text

    def samples(self, prompt: str = "", number: int = 1, **options: Any) -> list[Written]:
        """Several continuations in one batch."""
        written = [Written() for _ in range(int(ranges.SAMPLES.require("samples", number)))]
        for _ in self.stream(prompt, number, written=written, **options):
            pass
        return written

    def stream(
        self,
        prompt: str | list[int] = "",
        number: int = 1,
        *,
        length: int = 200,
        temperature: float = TEMPERATURE,
        seed: int = 0,
        stop: Sequence[str] = (),
        cached: bool = True,
        precision: Precision = "auto",
        ends: Collection[int] | None = None,
        written: list[Written] | None = None,
        **knobs: Any,
    ) -> Iterator[list[str]]:
        """For each step, the text that every sample can show now. `knobs` are the other ones of `Sampling`.

        The prompt is a text, or its tokens. `ends`: the tokens that end a text, by default the tokenizer's.
        """
        sampling = Sampling(temperature=temperature, **knobs)
        ranges.require_writing(length, number)
        written = [Written() for _ in range(number)] if written is None else written
        tokens, ends = self._prompt(prompt), self.tokenizer.ends if ends is None else ends
        streams = [StoppedStream(self.tokenizer, stop, self._last_word(prompt, tokens)) for _ in range(number)]
        with evaluating(self.module):
            steps = write(
                self.writer(precision) if cached else self.language,
                tokens,
                sampling,
                length=length,
                rows=number,
                seed=seed,
                ends=ends,
                cached=cached,
                vocabulary=self.tokenizer.vocabulary,
            )
            self._report_compiler()
            for step in steps:
                yield [self._advance(*row, ends) for row in zip(step, streams, written, strict=True)]
                if all(row.finish != "length" for row in written):
                    break
        last = []
        for own, row in zip(streams, written, strict=True):
            piece = own.finish()
            row.text += piece
            row.finish = "stop" if own.stopped else row.finish
            last.append(piece)
        yield last

    def _advance(self, picked: Picked | None, own: StoppedStream, row: Written, ends: Collection[int]) -> str:
        if picked is None or row.finish != "length":
            return ""
        row.tokens.append(picked.token)
        row.logprobs.append(picked.logprob)
        if picked.token in ends:
            row.finish = "end"
            return ""
        piece = own.push(picked.token)
        row.text += piece
        if own.stopped:
            row.finish = "stop"
        return piece

    def next(self, prompt: str = "", top: int = 10) -> list[Next]:
        """The next-word table: the likeliest tokens after `prompt`, with their probabilities."""
        tokens = self._prompt(prompt)
        with evaluating(self.module), torch.inference_mode():
            logits = self.language(torch.tensor([tokens], device=self.device))[0, -1]
        found = logits.float().softmax(-1).topk(min(top, logits.numel()))
        pairs = zip(found.indices.tolist(), found.values.tolist(), strict=True)
        return [Next(self.tokenizer.piece(token), token, probability) for token, probability in pairs]

    def export(self, folder: str | Path, to: str = "huggingface", *, force: bool = False) -> list[Parity]:
        """Write the model for others to open; gives what was compared before the folder got its name."""
        from qkv.interop import export as shipping

        if to not in shipping.FORMATS:
            raise InputError(f"format {to!r}: expected one of {', '.join(shipping.FORMATS)}.")
        own = self.bundle.folder
        card = None if own is None or self.bundle.source else own.parent / "card.md"
        story = card.read_text(encoding="utf-8") if card is not None and card.is_file() else ""
        name = self.bundle.source or Path(folder).resolve().name
        return shipping.write(Path(folder), self.bundle, name, story, force=force)

    def chat(
        self, messages: Sequence[Message], *, format: str = "auto", length: int = 400, **options: Any
    ) -> Iterator[str]:
        """The answer to a conversation, piece by piece. Where it is too long, its oldest turns are left out."""
        room = max(1, self.language.context - min(length, self.language.context // 2))
        ids, ends, left_out = conversation(self.tokenizer, messages, format, self.bundle.source, room)
        pieces = self.stream(ids, 1, length=length, ends=ends, **options)
        if left_out:
            self.notes.append(f"the conversation is longer than the context; its oldest {left_out} turns are left out")
        return (piece for step in pieces for piece in step)

    def evaluate(
        self,
        text: str | Path | None = None,
        *,
        corpus: CorpusConfig | None = None,
        window: int | None = None,
        **more: Any,
    ) -> Score:
        """Loss, perplexity and bits per byte on a text, on a file (its path, or a name of one that exists), or on the
        files of a corpus."""
        self.notes = []
        require_type("text", text, str, Path, type(None))
        require_type("corpus", corpus, CorpusConfig, type(None))
        if (text is None) == (corpus is None):
            raise InputError("evaluate needs a text or a file, or a corpus, and takes one of them.")
        if window is not None and not 1 <= window <= self.language.context:
            raise InputError(f"window {window}: expected 1 to {self.language.context}, the model's context.")
        if isinstance(text, str) and names_file(text):
            self.notes.append(f"{text}: this file is evaluated, not its name.")
            text = Path(text)
        if isinstance(text, Path):
            corpus = CorpusConfig(files=(str(text),))
        if corpus is not None:
            found, notes = stream(self.tokenizer, corpus)
            self.notes += notes
        else:
            assert isinstance(text, str)
            found = stream_text(self.tokenizer, text)
            if found.unknown:
                self.notes.append(f"{found.unknown:,} tokens of the text are not in the vocabulary and become UNK.")
        require(found, 2, "an evaluation")
        return score(self.language, found, window=window, **more)

    def _prompt(self, prompt: str | list[int]) -> list[int]:
        """The prompt's tokens, at the start of a document; where the model knows only one document, of a line."""
        require_type("prompt", prompt, str, list)
        for token in prompt if isinstance(prompt, list) else ():
            require_type("a token of the prompt", token, int)
        self.notes = []
        tokens = prompt if isinstance(prompt, list) else self._opened(prompt)
        if len(tokens) > self.language.context:
            kept = max(1, self.language.context // 2)
            self.notes.append(
                f"the prompt has {len(tokens):,} tokens, the model's context is {self.language.context:,}; "
                f"the last {kept:,} are used"
            )
            tokens = tokens[-kept:]
        return tokens

    def _opened(self, prompt: str) -> list[int]:
        unknown = self.tokenizer.unknown_characters(prompt)
        if unknown:
            named = ", ".join(repr(piece) for piece in unknown[:10]) + (" and more" if len(unknown) > 10 else "")
            self.notes.append(f"not in the model's vocabulary, read as unknown: {named}")
        tokens = self.tokenizer.encode(prompt)
        opening = list(self.bundle.opening)
        if not opening and not tokens and not self.bundle.source:
            tokens = [token for token in self.tokenizer.encode("\n") if token != self.tokenizer.unknown]
        return [*opening, *tokens] or [self.tokenizer.start]

    def _last_word(self, prompt: str | list[int], tokens: list[int]) -> int | None:
        """The token that what follows is joined to; none after a space, which joins by itself."""
        if not isinstance(prompt, str) or not prompt:
            return None
        if prompt[-1].isspace() and self.tokenizer.kind not in ONLY_READ:
            return None
        return next((token for token in reversed(tokens) if not self.tokenizer.is_special(token)), None)


def names_file(text: str) -> bool:
    """Whether a text is really the name of a file: then nobody wants the letters of the name scored."""
    try:
        return len(text) < 256 and "\n" not in text and Path(text).is_file()
    except (OSError, ValueError):  # a name that no system takes
        return False


def load(model: str | Path, device: str = "auto") -> Model:
    """Open the model of a run folder, a model folder, a Hugging Face folder, a GGUF file or one of llama2.c."""
    require_type("model", model, str, Path)
    chosen = devices.choose_device(device)
    return Model(bundle.load(model, chosen), chosen)


def train(
    data: str | Path | Sequence[str | Path],
    run: str | Path,
    *,
    minutes: float = 5.0,
    recipe: dict[str, dict[str, Any]] | None = None,
) -> Iterator[Event]:
    """Train a model on text, labelled examples or parallel text into the folder `run`, and yield each event."""
    from qkv.session import finish, start

    require_type("data", data, str, Path, list, tuple)
    files = [data] if isinstance(data, str | Path) else list(data)
    for file in files:
        require_type("a file of data", file, str, Path)
    corpus = {**(recipe or {}).get("corpus", {}), "files": [str(file) for file in files]}
    session = start({**(recipe or {}), "corpus": corpus}, Path(run), numbered=False, minutes=minutes)
    doctor = session.task.examine(session)
    yield from session.run.events(session.state, session.objective)
    finish(session, doctor)

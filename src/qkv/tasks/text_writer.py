"""What a language model does with a prompt, one half of what `qkv.load` gives: it continues texts and conversations."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal, TypedDict, Unpack, overload

import torch

from qkv import ranges
from qkv.blocks.fast_paths import evaluating
from qkv.errors import require_type
from qkv.generation.sampling import TEMPERATURE, Sampling
from qkv.generation.writing import Next, Picked, Precision, Writers, Written, write
from qkv.models.language_model import LanguageModel
from qkv.recipe import bundle
from qkv.tasks.language_modelling.evaluate import language
from qkv.tasks.predictor import Predictor
from qkv.text.chat_formats import Message, conversation
from qkv.text.decoding import StoppedStream
from qkv.text.pipelines import ONLY_READ


class ChatOptions(TypedDict, total=False):
    """How the next token is chosen."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    stop: Sequence[str]
    seed: int
    cached: bool
    precision: Precision


class GenerationOptions(ChatOptions, total=False):
    length: int


class TextWriter(Predictor):
    def __init__(self, opened: bundle.Bundle, device: str) -> None:
        super().__init__(opened)
        self.device = device
        self._writers: Writers | None = None

    @property
    def module(self) -> torch.nn.Module:
        """The model itself, an ordinary `nn.Module`."""
        assert isinstance(self.bundle.model, torch.nn.Module)
        return self.bundle.model

    @property
    def language(self) -> LanguageModel:
        """The same, where it is one that writes."""
        return language(self.bundle)

    @property
    def writes(self) -> bool:
        """Whether it is a language model; others read whole texts."""
        return isinstance(self.bundle.model, LanguageModel)

    def writer(self, precision: Precision = "auto") -> LanguageModel:
        """The model as it writes: compiled where that gives the same, in the number format that suits it."""
        if self._writers is None or self._writers.model is not self.language:
            self._writers = Writers(self.language)
        passed = self.bundle.checked is not None and self.bundle.checked.passed
        return self._writers.writer(precision, int8_passed=passed)

    @overload
    def generate(
        self, prompt: str = "", *, stream: Literal[True], **options: Unpack[GenerationOptions]
    ) -> Iterator[str]: ...
    @overload
    def generate(
        self, prompt: str = "", *, stream: Literal[False] = False, **options: Unpack[GenerationOptions]
    ) -> str: ...
    @overload
    def generate(
        self,
        prompt: list[str] | tuple[str, ...],
        *,
        stream: Literal[False] = False,
        **options: Unpack[GenerationOptions],
    ) -> list[str]: ...
    def generate(
        self,
        prompt: str | Sequence[str] = "",
        *,
        length: int = 200,
        temperature: float = TEMPERATURE,
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
        stop: Sequence[str] = (),
        seed: int = 0,
        cached: bool = True,
        precision: Precision = "auto",
        stream: bool = False,
    ) -> str | list[str] | Iterator[str]:
        """The text that follows `prompt`; of several prompts, a list.

        Args:
            prompt: The text to continue, or several texts.
            length: Tokens to write, at most.
            temperature: Below 1 safer, above 1 wilder, 0 greedy.
            top_k: Choose among the k likeliest tokens only; 0 for all.
            top_p: Choose among the likeliest tokens that together reach this share.
            min_p: Leave out tokens below this share of the likeliest one's probability.
            repetition_penalty: Above 1, tokens already written become less likely.
            stop: End before one of these texts.
            seed: The same seed writes the same text.
            cached: Keep what was computed for earlier tokens; the text is the same without.
            precision: How the weights are kept while writing.
            stream: Yield the text as it is written.
        """
        options: GenerationOptions = {
            "length": length,
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "min_p": min_p,
            "repetition_penalty": repetition_penalty,
            "stop": stop,
            "seed": seed,
            "cached": cached,
            "precision": precision,
        }
        if stream:
            require_type("prompt of a stream", prompt, str)
            return (part for parts in self.stream(str(prompt), 1, **options) for part in parts)
        if isinstance(prompt, str):
            return self.samples(prompt, 1, **options)[0].text
        require_type("prompt", prompt, str, Sequence)
        for index, text in enumerate(prompt):
            require_type(f"prompt {index}", text, str)
        return [self.samples(text, 1, **options)[0].text for text in prompt]

    def samples(self, prompt: str = "", number: int = 1, **options: Unpack[GenerationOptions]) -> list[Written]:
        """Several continuations in one batch; the options are those of `generate`."""
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
        top_k: int = 0,
        top_p: float = 1.0,
        min_p: float = 0.0,
        repetition_penalty: float = 1.0,
    ) -> Iterator[list[str]]:
        """For each step, the text that every sample can show now; the options are those of `generate`.

        The prompt is a text, or its tokens. `ends`: the tokens that end a text, by default the tokenizer's.
        """
        sampling = Sampling(temperature, top_k, top_p, min_p, repetition_penalty)
        ranges.LENGTH.require("length", length)
        ranges.SAMPLES.require("samples", number)
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

    def chat(
        self,
        messages: Sequence[Message],
        *,
        format: str = "auto",
        length: int = 400,
        **options: Unpack[ChatOptions],
    ) -> Iterator[str]:
        """The answer to a conversation, piece by piece. Where it is too long, its oldest turns are left out."""
        room = max(1, self.language.context - min(length, self.language.context // 2))
        ids, ends, left_out = conversation(self.tokenizer, messages, format, self.bundle.source, room)
        pieces = self.stream(ids, 1, length=length, ends=ends, **options)
        if left_out:
            self.notes.append(f"the conversation is longer than the context; its oldest {left_out} turns are left out")
        return (piece for step in pieces for piece in step)

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

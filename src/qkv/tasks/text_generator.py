"""The methods of `qkv.Model` that generate text: continuations, samples, the next-word table, chat."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Literal, TypedDict, Unpack, overload

import torch

from qkv import ranges
from qkv.blocks.fast_paths import evaluating
from qkv.generation.sampling import TEMPERATURE, Sampling
from qkv.generation.writing import Next, Picked, Precision, Writers, Written, write
from qkv.models.language_model import LanguageModel
from qkv.recipe import bundle
from qkv.tasks.language_modelling.evaluate import require_language_model
from qkv.tasks.predictor import Predictor
from qkv.tasks.python_calls import checked, python_call
from qkv.text.chat_formats import Message, conversation
from qkv.text.decoding import StoppedStream
from qkv.text.pipelines import ONLY_READ


class ChatOptions(TypedDict, total=False):
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


class TextGenerator(Predictor):
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
    def language_model(self) -> LanguageModel:
        """The model itself; models that are not language models are refused."""
        return require_language_model(self.bundle)

    @property
    def writes(self) -> bool:
        """Whether it is a language model."""
        return isinstance(self.bundle.model, LanguageModel)

    @python_call
    def generation_model(self, precision: Precision = "auto") -> LanguageModel:
        """What generates: a compiled copy with weights in this precision, or the model itself where it has none."""
        if self._writers is None or self._writers.model is not self.language_model:
            self._writers = Writers(self.language_model)
        int8_passed = self.bundle.int8_check is not None and self.bundle.int8_check.passed
        return self._writers.writer(precision, int8_passed=int8_passed)

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
    @python_call
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
        """The text that follows `prompt`; for several prompts, a list of texts.

        Args:
            prompt: The text to continue, or several texts.
            length: The maximum number of tokens to generate.
            temperature: Below 1 the text is more predictable, above 1 more varied; 0 always takes the likeliest token.
            top_k: Sample from the k likeliest tokens only; 0 means all.
            top_p: Sample from the smallest set of likeliest tokens with at least this total probability.
            min_p: Leave out tokens that are less likely than this fraction of the likeliest token's probability.
            repetition_penalty: Above 1, tokens that were already generated become less likely.
            stop: End before any of these texts.
            seed: The same seed gives the same text.
            cached: Keep the state of earlier tokens; without it generation is slower and the text the same.
            precision: The number format of the weights during generation.
            stream: Yield the text piece by piece.
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
            text: str = checked("model.generate(stream=True)", "prompt", str, prompt)
            return (part for parts in self.stream(text, 1, **options) for part in parts)
        if isinstance(prompt, str):
            return self.samples(prompt, 1, **options)[0].text
        return [self.samples(text, 1, **options)[0].text for text in prompt]

    @python_call
    def samples(self, prompt: str = "", number: int = 1, **options: Unpack[GenerationOptions]) -> list[Written]:
        """Several continuations in one batch; the options are those of `generate`."""
        written = [Written() for _ in range(int(ranges.SAMPLES.require("samples", number)))]
        for _ in self.stream(prompt, number, written=written, **options):
            pass
        return written

    @python_call
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
        """Yield, for each step, the new text of every sample; the options are those of `generate`.

        The prompt is a text or a list of token ids. A sample ends with any token of `ends`, by default the tokenizer's
        end tokens. `written` is filled with the samples, their tokens and log-probabilities.
        """
        sampling = Sampling(temperature, top_k, top_p, min_p, repetition_penalty)
        ranges.LENGTH.require("length", length)
        ranges.SAMPLES.require("samples", number)
        written = [Written() for _ in range(number)] if written is None else written
        tokens, ends = self._prompt(prompt), self.tokenizer.ends if ends is None else ends
        streams = [StoppedStream(self.tokenizer, stop, self._last_word(prompt, tokens)) for _ in range(number)]
        with evaluating(self.module):
            steps = write(
                self.generation_model(precision) if cached else self.language_model,
                tokens,
                sampling,
                length=length,
                rows=number,
                seed=seed,
                ends=ends,
                cached=cached,
                vocabulary=self.tokenizer.vocabulary,
            )
            self._note_compiler_failure()
            for step in steps:
                yield [self._append(*row, ends) for row in zip(step, streams, written, strict=True)]
                if all(sample.finish != "length" for sample in written):
                    break
        last = []
        for stream, sample in zip(streams, written, strict=True):
            piece = stream.finish()
            sample.text += piece
            sample.finish = "stop" if stream.stopped else sample.finish
            last.append(piece)
        yield last

    def _append(self, picked: Picked | None, stream: StoppedStream, sample: Written, ends: Collection[int]) -> str:
        """Add a token to a sample, and return the text that it makes certain."""
        if picked is None or sample.finish != "length":
            return ""
        sample.tokens.append(picked.token)
        sample.logprobs.append(picked.logprob)
        if picked.token in ends:
            sample.finish = "end"
            return ""
        piece = stream.push(picked.token)
        sample.text += piece
        if stream.stopped:
            sample.finish = "stop"
        return piece

    @python_call
    def next(self, prompt: str = "", top: int = 10) -> list[Next]:
        """The next-word table: the likeliest tokens after `prompt`, with their probabilities."""
        tokens = self._prompt(prompt)
        with evaluating(self.module), torch.inference_mode():
            logits = self.language_model(torch.tensor([tokens], device=self.device))[0, -1]
        likeliest = logits.float().softmax(-1).topk(min(top, logits.numel()))
        pairs = zip(likeliest.indices.tolist(), likeliest.values.tolist(), strict=True)
        return [Next(self.tokenizer.piece(token), token, probability) for token, probability in pairs]

    @python_call
    def chat(
        self,
        messages: Sequence[Message],
        *,
        format: str = "auto",
        length: int = 400,
        **options: Unpack[ChatOptions],
    ) -> Iterator[str]:
        """The answer to a conversation, piece by piece. If the conversation is too long, its oldest turns are left
        out."""
        room = max(1, self.language_model.context - min(length, self.language_model.context // 2))
        ids, ends, left_out = conversation(self.tokenizer, messages, format, self.bundle.source, room)
        pieces = self.stream(ids, 1, length=length, ends=ends, **options)
        if left_out:
            self.notes.append(f"the conversation is longer than the context; its oldest {left_out} turns are left out")
        return (piece for step in pieces for piece in step)

    def _prompt(self, prompt: str | list[int]) -> list[int]:
        """The ids of the prompt with the opening tokens; of a prompt that is too long, the last half of a context."""
        self.notes = []
        tokens = prompt if isinstance(prompt, list) else self._encoded_prompt(prompt)
        if len(tokens) > self.language_model.context:
            kept = max(1, self.language_model.context // 2)
            self.notes.append(
                f"the prompt has {len(tokens):,} tokens, the model's context is {self.language_model.context:,}; "
                f"the last {kept:,} are used"
            )
            tokens = tokens[-kept:]
        return tokens

    def _encoded_prompt(self, prompt: str) -> list[int]:
        """The prompt's ids after the tokens that open a document. A model of a single document has no such tokens: its
        empty prompt is a line break."""
        unknown = self.tokenizer.unknown_characters(prompt)
        if unknown:
            listed = ", ".join(map(repr, unknown[:10])) + (" and more" if len(unknown) > 10 else "")
            self.notes.append(f"not in the model's vocabulary, read as unknown: {listed}")
        tokens = self.tokenizer.encode(prompt)
        opening = list(self.bundle.opening)
        if not opening and not tokens and not self.bundle.source:
            tokens = [token for token in self.tokenizer.encode("\n") if token != self.tokenizer.unknown]
        return [*opening, *tokens] or [self.tokenizer.start]

    def _last_word(self, prompt: str | list[int], tokens: list[int]) -> int | None:
        """The last token of the prompt, which decides how the first new word is joined to it; None after a space."""
        if not isinstance(prompt, str) or not prompt:
            return None
        if prompt[-1].isspace() and self.tokenizer.kind not in ONLY_READ:
            return None
        return next((token for token in reversed(tokens) if not self.tokenizer.is_special(token)), None)

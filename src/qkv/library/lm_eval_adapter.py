"""`QkvLM`: a language model of qkv in EleutherAI's lm-evaluation-harness.

    lm_eval.simple_evaluate(QkvLM("runs/book"), tasks=["lambada_openai"])
    python -m qkv.library.lm_eval_adapter --model qkv --model_args model=runs/book --tasks lambada_openai

Texts are split into tokens and windows as in the harness's Hugging Face class, so that scores can be compared: blanks
at the end of a context belong to the continuation, and each token of a long text is predicted once, those of the last
window with a full context. A text begins with the special tokens used in training, or else the document separator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import torch

from qkv.api import Model, load
from qkv.blocks.fast_paths import evaluating
from qkv.errors import InputError, MissingExtraError, require_type
from qkv.evaluation.perplexity import MAX_LOGITS, MAX_TOKENS

if TYPE_CHECKING:  # the harness has no types

    class LM: ...


try:
    if not TYPE_CHECKING:
        from lm_eval.api.model import LM
    from lm_eval.api.registry import register_model
except ImportError:
    raise MissingExtraError("lm-evaluation-harness", "lm-eval") from None


@runtime_checkable
class ScoringRequest(Protocol):
    """A request of the harness: a context and a continuation, or one text."""

    @property
    def args(self) -> tuple[str, ...]: ...


@runtime_checkable
class WritingRequest(Protocol):
    """A request of the harness: a prompt and how to continue it."""

    @property
    def args(self) -> tuple[str, Mapping[str, object]]: ...


class QkvLM(LM):
    """A language model for `lm_eval.simple_evaluate`.

    Args:
        model: A loaded model, or whatever `qkv.load` opens.
        device: auto, cpu, cuda, mps. Default: auto; that of a loaded model.
        batch_size: The number of windows in a batch. Default: auto, by their length.
        length: The largest number of tokens to write, if a task does not set it.
    """

    def __init__(
        self,
        model: str | Path | Model,
        device: str | None = None,
        batch_size: int | str = "auto",
        max_batch_size: int | None = None,
        length: int = 256,
    ) -> None:
        super().__init__()
        require_type("model", model, str, Path, Model)
        if device and device.startswith("cuda") and not torch.cuda.is_available():
            device = None  # the harness's command line asks for cuda:0 by default
        self.model = model if isinstance(model, Model) else load(model, device or "auto")
        if batch_size != "auto" and not str(batch_size).isdecimal():
            raise InputError(f"batch_size {batch_size!r}: expected a number, or 'auto'.")
        self.batch_size, self.length = batch_size, length
        self.context = self.model.language_model.context
        self.opening = list(self.model.bundle.opening)

    def loglikelihood(self, requests: Sequence[ScoringRequest]) -> list[tuple[float, bool]]:
        """For each (context, continuation), the continuation's log probability and whether it is the greedy one."""
        return self._scores([self._joined(*request.args) for request in requests])

    def loglikelihood_rolling(self, requests: Sequence[ScoringRequest]) -> list[float]:
        """The log probability of each text as a whole."""
        return [score for score, _ in self._scores([self._joined("", request.args[0]) for request in requests])]

    def generate_until(self, requests: Sequence[WritingRequest]) -> list[str]:
        """What the model writes after each prompt, up to one of the texts in `until`."""
        return [self._written(*request.args, seed=seed) for seed, request in enumerate(requests)]

    def _written(self, prompt: str, options: Mapping[str, object], seed: int) -> str:
        until, sample = options.get("until"), options.get("do_sample")
        stop = until if isinstance(until, list | tuple) else [until]
        temperature = options.get("temperature", 1.0 if sample else 0.0) if sample is not False else 0.0
        names = ("max_gen_toks", "max_new_tokens", "max_tokens")
        length = next((options[name] for name in names if name in options), self.length)
        return self.model.generate(
            prompt,
            length=int(str(length)),
            temperature=float(str(temperature)),
            top_k=int(str(options.get("top_k", 0))),
            top_p=float(str(options.get("top_p", 1.0))),
            stop=[str(text) for text in stop if text],
            seed=seed,
        )

    def _joined(self, context: str, continuation: str) -> tuple[list[int], int]:
        """The tokens of both, and the position of the first one that is scored."""
        stripped = context.rstrip()
        continuation = context[len(stripped) :] + continuation
        encode = self.model.tokenizer.encode
        before = [*self.opening, *encode(stripped)] or [self.model.tokenizer.separator]
        whole = [*self.opening, *encode(stripped + continuation)] if stripped else [*before, *encode(continuation)]
        return whole, max(1, min(len(before), len(whole) - 1))

    def _windows(self, tokens: list[int], start: int) -> Iterator[tuple[list[int], int]]:
        """Windows, with the number of predictions at the end of each that are scored; together, all from `start` on."""
        for first in range(start, len(tokens), self.context):
            end = min(first + self.context, len(tokens))
            yield tokens[max(0, end - 1 - self.context) : end], end - first

    def _scores(self, texts: Sequence[tuple[list[int], int]]) -> list[tuple[float, bool]]:
        sums, greedy = [0.0] * len(texts), [True] * len(texts)
        windows = [(index, *window) for index, text in enumerate(texts) for window in self._windows(*text)]
        windows.sort(key=lambda window: len(window[1]), reverse=True)
        while windows:
            size = self._rows_per_batch(len(windows[0][1]))
            batch, windows = windows[:size], windows[size:]
            for (index, tokens, scored), logits in zip(batch, self._logits([row for _, row, _ in batch]), strict=True):
                targets = torch.tensor(tokens[-scored:])
                predictions = logits[len(tokens) - 1 - scored : len(tokens) - 1]
                log_probabilities = predictions.double().log_softmax(-1).gather(-1, targets[:, None])
                sums[index] += float(log_probabilities.sum())
                greedy[index] &= bool((predictions.argmax(-1) == targets).all())
        return list(zip(sums, greedy, strict=True))

    def _rows_per_batch(self, length: int) -> int:
        if self.batch_size != "auto":
            return max(1, int(self.batch_size))
        return max(1, min(MAX_TOKENS, MAX_LOGITS // self.model.language_model.vocabulary) // length)

    def _logits(self, rows: list[list[int]]) -> torch.Tensor:
        """(B, T, V); shorter rows are padded at their end, to which no scored prediction attends."""
        longest = max(map(len, rows)) - 1
        tokens = torch.tensor([[*row[:-1], *[row[0]] * (longest + 1 - len(row))] for row in rows])
        with evaluating(self.model.module), torch.inference_mode():
            return self.model.language_model(tokens.to(self.model.device)).float().cpu()


register_model("qkv")(QkvLM)

if __name__ == "__main__":
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()

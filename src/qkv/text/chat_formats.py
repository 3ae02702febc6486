"""Conversations as tokens. The list of formats is fixed: the chat templates in a model's files are programs, and are
not run.

    chatml    <|im_start|>user\\nHello<|im_end|>\\n<|im_start|>assistant\\n           Qwen3 and many others
    smollm2, qwen2    the same, with the system message that these models were trained with
    llama3    <|start_header_id|>user<|end_header_id|>\\n\\nHello<|eot_id|> ...      Llama 3
    llama2    [INST] Hello [/INST] ...                                             Llama 2, never chosen automatically

Special tokens are inserted as ids. A message is always encoded as text: even if it contains the name of a special
token, it cannot end its turn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from qkv.errors import InputError
from qkv.text.tokenizer import Tokenizer

Role = Literal["system", "user", "assistant"]


@dataclass(frozen=True)
class Message:
    role: Role
    text: str


@dataclass(frozen=True)
class Format:
    """A chat format: a function that encodes a conversation, and the tokens that it needs."""

    needs: tuple[str, ...]
    ids: Callable[[Tokenizer, Sequence[Message]], list[int]]
    ends: tuple[str, ...]  # tokens that end an answer, as far as the vocabulary has them
    model: str = ""  # a part of the names of its models, in lower case
    system: str = ""  # the default system message, if the models were trained with one


def _chatml(tokenizer: Tokenizer, messages: Sequence[Message]) -> list[int]:
    start, end = (tokenizer.named[name] for name in _MARKS)
    ids = []
    for message in messages:
        ids += [start, *tokenizer.encode(f"{message.role}\n{message.text}"), end, *tokenizer.encode("\n")]
    return [*ids, start, *tokenizer.encode("assistant\n")]


def _llama3(tokenizer: Tokenizer, messages: Sequence[Message]) -> list[int]:
    start, end, over = (tokenizer.named[name] for name in _LLAMA3)
    ids = list(tokenizer.opening)
    for message in messages:
        ids += [start, *tokenizer.encode(message.role), end, *tokenizer.encode(f"\n\n{message.text.strip()}"), over]
    return [*ids, start, *tokenizer.encode("assistant"), end, *tokenizer.encode("\n\n")]


def _llama2(tokenizer: Tokenizer, messages: Sequence[Message]) -> list[int]:
    system = "".join(f"<<SYS>>\n{message.text}\n<</SYS>>\n\n" for message in messages if message.role == "system")
    # a question and its answer are one text, because the tokenizer adds a space before each; with whether it has ended
    texts: list[tuple[str, bool]] = []
    for message in messages:
        if message.role == "user":
            texts.append((f"[INST] {system}{message.text.strip()} [/INST]", False))
            system = ""
        elif message.role == "assistant":
            question = texts.pop()[0] if texts and not texts[-1][1] else ""
            texts.append((f"{question} {message.text.strip()} ", True))
    end = tokenizer.named.get("</s>", tokenizer.ends[0])
    ids = []
    for text, ended in texts:
        ids += [*tokenizer.opening, *tokenizer.encode(text), *([end] if ended else [])]
    return ids


_SMOL = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
_QWEN = "You are a helpful assistant."
_MARKS, _ENDS = ("<|im_start|>", "<|im_end|>"), ("<|im_end|>", "<|endoftext|>")
_LLAMA3 = ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>")
FORMATS = {
    "smollm2": Format(_MARKS, _chatml, _ENDS, "smollm2", _SMOL),
    "qwen2": Format(_MARKS, _chatml, _ENDS, "qwen2", _QWEN),
    "chatml": Format(_MARKS, _chatml, _ENDS),
    "llama3": Format(_LLAMA3, _llama3, ("<|eot_id|>", "<|end_of_text|>")),
    "llama2": Format((), _llama2, ("</s>",)),
}


def choose(tokenizer: Tokenizer, name: str = "auto", model: str = "") -> tuple[str, Format]:
    """The format with this name; for "auto", the first that fits the vocabulary and `model`, the name of the model."""
    if name == "auto":
        for known, form in FORMATS.items():
            if form.needs and form.model in model.lower() and tokenizer.named.keys() >= set(form.needs):
                return known, form
        raise InputError(
            "no known chat format fits this model: its vocabulary lacks the tokens of chatml and of llama3. "
            "Name another format with `format`, or use generate, which continues a text."
        )
    if name not in FORMATS:
        raise InputError(f"format {name!r}: expected auto or one of {', '.join(FORMATS)}.")
    for token in FORMATS[name].needs:
        if token not in tokenizer.named:
            problem = f"the model's vocabulary has no {token}. Leave the format out, or name another"
            raise InputError(f"format {name!r}: {problem}.")
    return name, FORMATS[name]


def conversation(
    tokenizer: Tokenizer, messages: Sequence[Message], format: str, model: str, room: int
) -> tuple[list[int], set[int], int]:
    """The ids of a conversation, the ids that end an answer, and the number of turns left out.

    The oldest turns are left out until at most `room` tokens remain.
    """
    _, form = choose(tokenizer, format, model)
    turns = list(messages)
    if form.system and not any(message.role == "system" for message in turns):
        turns.insert(0, Message("system", form.system))
    left_out = 0
    while len(ids := form.ids(tokenizer, turns)) > room:
        oldest = next((at for at, turn in enumerate(turns[:-1]) if turn.role != "system"), None)
        if oldest is None:
            break
        answered = oldest + 1 < len(turns) - 1 and turns[oldest + 1].role == "assistant"
        count = 2 if turns[oldest].role == "user" and answered else 1  # a question is left out with its answer
        del turns[oldest : oldest + count]
        left_out += count
    return ids, {*tokenizer.ends, *(tokenizer.named[name] for name in form.ends if name in tokenizer.named)}, left_out

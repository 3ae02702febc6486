"""Conversations as tokens. The formats are a fixed list: what a model's files say about templates is never run.

    chatml    <|im_start|>user\\nHello<|im_end|>\\n<|im_start|>assistant\\n           Qwen3 and many others
    smollm2, qwen2    the same, with the system message that these were trained with
    llama3    <|start_header_id|>user<|end_header_id|>\\n\\nHello<|eot_id|> ...      Llama 3
    llama2    [INST] Hello [/INST] ...                                             Llama 2, asked for by name

Special tokens are put in as ids. What a person types is text, whatever it spells, and cannot end their turn.
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
    """How a conversation is written down, and which tokens it needs."""

    needs: tuple[str, ...]
    ids: Callable[[Tokenizer, Sequence[Message]], list[int]]
    ends: tuple[str, ...]  # what ends the answer, where the vocabulary has it
    model: str = ""  # which models have it: a part of their name, in small letters
    system: str = ""  # the default system message: some models were trained with it


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
    # a question with its answer is one text: a space begins every text; ended or not
    texts: list[tuple[str, bool]] = []
    for message in messages:
        if message.role == "user":
            texts.append((f"[INST] {system}{message.text.strip()} [/INST]", False))
            system = ""
        elif message.role == "assistant":
            asked = texts.pop()[0] if texts and not texts[-1][1] else ""
            texts.append((f"{asked} {message.text.strip()} ", True))
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
    """The format of this name, or the one whose tokens the vocabulary has; `model` is what the model is called."""
    if name == "auto":
        for known, form in FORMATS.items():
            if form.needs and form.model in model.lower() and tokenizer.named.keys() >= set(form.needs):
                return known, form
        raise InputError(
            "this model has no chat format that is known here: its vocabulary lacks the tokens of "
            "chatml and of llama3. generate continues a text; `format` names a format."
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
    """The tokens to go on from, those that end the answer, and how many of the oldest turns had no room."""
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
        gone = 2 if turns[oldest].role == "user" and answered else 1  # an answer goes with its question
        del turns[oldest : oldest + gone]
        left_out += gone
    return ids, {*tokenizer.ends, *(tokenizer.named[name] for name in form.ends if name in tokenizer.named)}, left_out

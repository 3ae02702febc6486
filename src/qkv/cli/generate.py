"""`qkv generate` writes text with a language model; `qkv chat` is a conversation in the terminal."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any, Literal

import qkv
from qkv import ranges
from qkv.cli.options import (
    AnyModel,
    Flag,
    Length,
    Prompt,
    Repeatable,
    Seed,
    Temperature,
    TopK,
    TopP,
    in_range,
    joined_text,
    positionals,
)
from qkv.cli.output import Json, print_answer, print_json, print_message, print_notes, print_sections, print_text
from qkv.errors import InputError
from qkv.tasks.report import TableSection

if TYPE_CHECKING:
    from qkv.api import Model


def generate(
    model: AnyModel,
    *prompt: Prompt,
    length: Length = 200,
    samples: Annotated[int, in_range(ranges.SAMPLES)] = 1,
    temperature: Temperature = 0.8,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    min_p: Annotated[float, in_range(ranges.FRACTION)] = 0.0,
    repetition_penalty: Annotated[float, in_range(ranges.REPETITION_PENALTY)] = 1.0,
    greedy: Flag = False,
    stop: Repeatable = None,
    seed: Seed = 0,
    next: Annotated[int | None, in_range(ranges.COUNT)] = None,
    cache: bool = True,
    precision: Literal["auto", "f32", "bf16", "int8"] = "auto",
    json: Json = False,
) -> None:
    """Write text with a language model. The text appears as it is generated.

    qkv generate runs/book-modern "Once upon a time"
    qkv generate runs/book-modern --samples 4 --temperature 0.6 --stop "."
    qkv generate runs/book-modern "The dog" --next 10

    A file or a pipe gets the text as it is; on a terminal, control characters in it are shown as escapes (\\x1b).

    Args:
        prompt: The text to continue. - reads it from standard input.
        length: The largest number of tokens to write.
        samples: How many continuations to write, in one batch.
        temperature: Below 1 the text becomes more predictable, above 1 more varied; 0 is greedy.
        min_p: Leave out tokens whose probability is below this share of the largest one.
        repetition_penalty: Above 1, tokens that were already written become less likely.
        greedy: Always take the most likely token, like --temperature 0.
        stop: Stop before this text. May be repeated.
        seed: The same seed writes the same text.
        next: Write nothing; show a table of the N most likely next tokens.
        cache: Keep keys and values between tokens. Without it, all of them are computed again for each token, in f32.
        precision: How weights are stored while writing. auto: unchanged (f32); those of large models as int8 if a
            check at the end of training allowed it, else as bf16.
    """
    text = joined_text(prompt, "generate")
    opened = qkv.load(model)
    if next is not None:
        return print_next_tokens(opened, text, next, json)
    options: dict[str, Any] = {
        "length": length,
        "seed": seed,
        "stop": stop or [],
        "cached": cache,
        "precision": precision,
        "temperature": 0.0 if greedy else temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
    }
    if json:
        return print_samples_as_json(opened, text, samples, options)
    if samples == 1:
        return stream_text(opened, text, options)
    for number, sample in enumerate(opened.samples(text, samples, **options), 1):
        print_answer(f"--- sample {number} ---")
        print_text(f"{text}{sample.text}\n")
    print_notes(*opened.notes)
    return None


def stream_text(model: Model, prompt: str, options: dict[str, Any]) -> None:
    pieces = model.generate(prompt, stream=True, **options)
    for index, piece in enumerate(pieces):
        if index == 0:
            print_notes(*model.notes)
            print_text(prompt)
        print_text(piece)
    print_answer()


def print_samples_as_json(model: Model, prompt: str, count: int, options: dict[str, Any]) -> None:
    rows = [
        {
            "text": sample.text,
            "tokens": sample.tokens,
            "pieces": [model.tokenizer.piece(token) for token in sample.tokens],
            "logprobs": sample.logprobs,
            "finish": sample.finish,
        }
        for sample in model.samples(prompt, count, **options)
    ]
    print_json({"prompt": prompt, "samples": rows, "notes": model.notes})


def print_next_tokens(model: Model, prompt: str, count: int, json: bool) -> None:
    rows = model.next(prompt, count)
    print_notes(*model.notes)
    if json:
        return print_json({"prompt": prompt, "next": [asdict(row) for row in rows], "notes": model.notes})
    cells = [(repr(r.piece), r.token, f"{r.probability:.4f}", f"{math.log(r.probability or 1e-45):.3f}") for r in rows]
    return print_sections(TableSection(f"after {prompt!r}", ("token", "id", "probability", "log"), cells))


MAX_MESSAGE_BYTES = 2**20


def chat(
    model: str,
    *message: Prompt,
    system: str | None = None,
    format: str = "auto",
    length: Length = 400,
    temperature: Temperature = 0.8,
    top_p: TopP = 0.95,
    seed: Seed = 0,
    json: Json = False,
) -> None:
    """Talk with a model that has a chat format. An empty line or Ctrl-D ends it.

    qkv chat SmolLM2-135M-Instruct.gguf
    qkv chat models/smollm2 "Name three rivers."

    A file or a pipe gets the answer as it is; on a terminal, control characters in it are shown as escapes (\\x1b).

    Args:
        model: A model trained for conversation, such as SmolLM2-Instruct.
        message: Ask once and exit. Without it, each line that you type is answered.
        system: The system prompt, before everything else.
        format: smollm2, qwen2, chatml, llama3 or llama2. auto: by the model's vocabulary and name.
        length: The largest number of tokens in an answer.
        temperature: Below 1 answers become more predictable, above 1 more varied; 0 is greedy.
        seed: The same seed gives the same answers.
    """
    from qkv.text.chat_formats import Message, choose

    only_question = " ".join(positionals(message, "chat"))
    opened = qkv.load(model)
    print_notes(*opened.notes)
    opened.language_model.eval()  # refuses a model that cannot write text
    format_name, chat_format = choose(opened.tokenizer, format, opened.bundle.source)
    system_prompt = chat_format.system if system is None else system
    turns = [Message("system", system_prompt)] if system is not None or system_prompt else []
    if json and not only_question:
        raise InputError('--json answers one message: qkv chat MODEL "message" --json')
    if not only_question and sys.stdin.isatty():
        print_message(f"{opened.bundle.source or model}, format {format_name}. An empty line or Ctrl-D ends it.")
    for turn, question in enumerate([only_question] if only_question else _typed_lines()):
        turns.append(Message("user", question))
        answer = ""
        for piece in opened.chat(
            turns, format=format_name, length=length, temperature=temperature, top_p=top_p, seed=seed + turn
        ):
            answer += piece
            if not json:
                print_text(piece)
        print_notes(*opened.notes)
        turns.append(Message("assistant", answer))
        if json:
            return print_json({"message": question, "answer": answer, "format": format_name, "notes": opened.notes})
        print_answer()
    return None


def _typed_lines() -> Iterator[str]:
    """The lines of standard input up to an empty one; on a terminal, with a prompt before each."""
    while True:
        if sys.stdin.isatty():
            print_message("> ", end="")
        line = sys.stdin.buffer.readline(MAX_MESSAGE_BYTES)
        if len(line) == MAX_MESSAGE_BYTES:
            raise InputError(f"standard input: a line of {MAX_MESSAGE_BYTES:,} bytes or more. Give a shorter message.")
        if not line.strip():
            return
        try:
            yield line.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise InputError(
                f"the message is not UTF-8 at byte {error.start} ({line[error.start]:#04x}). Type or pipe it as UTF-8."
            ) from None

"""`qkv generate`: write with a model.

`qkv chat`: a small conversation in the terminal.
"""

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
    positionals,
    typed_text,
    within,
)
from qkv.cli.output import Json, document, notes, print_answer, print_message, print_text, show
from qkv.errors import InputError
from qkv.tasks.report import TableSection

if TYPE_CHECKING:
    from qkv.api import Model


def generate(
    model: AnyModel,
    *prompt: Prompt,
    length: Length = 200,
    samples: Annotated[int, within(ranges.SAMPLES)] = 1,
    temperature: Temperature = 0.8,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    min_p: Annotated[float, within(ranges.FRACTION)] = 0.0,
    repetition_penalty: Annotated[float, within(ranges.REPETITION_PENALTY)] = 1.0,
    greedy: Flag = False,
    stop: Repeatable = None,
    seed: Seed = 0,
    next: Annotated[int | None, within(ranges.COUNT)] = None,
    cache: bool = True,
    precision: Literal["auto", "f32", "bf16", "int8"] = "auto",
    json: Json = False,
) -> None:
    """Write with a model. The text appears as it is generated.

    qkv generate runs/book-modern "Once upon a time"
    qkv generate runs/book-modern --samples 4 --temperature 0.6 --stop "."
    qkv generate runs/book-modern "The dog" --next 10

    A file or a pipe gets the text as it is; on a terminal, control characters in it are shown as escapes (\\x1b).

    Args:
        prompt: The text to continue. - reads it from standard input.
        length: Tokens to write, at most.
        samples: How many continuations, written in one batch.
        temperature: Below 1 safer, above 1 wilder, 0 greedy.
        min_p: Leave out what is less likely than this share of the likeliest.
        repetition_penalty: Above 1, what was written becomes less likely.
        greedy: Always the likeliest token, as --temperature 0.
        stop: End before this text. Repeat it for several.
        seed: The same seed writes the same text.
        next: Write nothing. Show the table of the N likeliest next tokens.
        cache: Remember keys and values between tokens. Without it all is computed again for each, in f32.
        precision: How the weights are kept while writing. auto: as they are (f32); large models as int8 where a check
            at the end of training allowed it, else as bf16.
    """
    words = typed_text(prompt, "generate")
    opened = qkv.load(model)
    if next is not None:
        return show_next(opened, words, next, json)
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
        return write_json(opened, words, samples, options)
    if samples == 1:
        return write_stream(opened, words, options)
    for number, written in enumerate(opened.samples(words, samples, **options), 1):
        print_answer(f"--- sample {number} ---")
        print_text(f"{words}{written.text}\n")
    notes(opened.notes)
    return None


def write_stream(model: Model, prompt: str, options: dict[str, Any]) -> None:
    pieces = model.generate(prompt, stream=True, **options)
    for index, piece in enumerate(pieces):
        if index == 0:
            notes(model.notes)
            print_text(prompt)
        print_text(piece)
    print_answer()


def write_json(model: Model, prompt: str, samples: int, options: dict[str, Any]) -> None:
    written = model.samples(prompt, samples, **options)
    rows = [
        {
            "text": sample.text,
            "tokens": sample.tokens,
            "pieces": [model.tokenizer.piece(token) for token in sample.tokens],
            "logprobs": sample.logprobs,
            "finish": sample.finish,
        }
        for sample in written
    ]
    document({"prompt": prompt, "samples": rows, "notes": model.notes})


def show_next(model: Model, prompt: str, top: int, json: bool) -> None:
    rows = model.next(prompt, top)
    notes(model.notes)
    if json:
        return document({"prompt": prompt, "next": [asdict(row) for row in rows], "notes": model.notes})
    cells = [(repr(r.piece), r.token, f"{r.probability:.4f}", f"{math.log(r.probability or 1e-45):.3f}") for r in rows]
    return show(TableSection(f"after {prompt!r}", ("token", "id", "probability", "log"), cells))


LONGEST = 2**20  # bytes of a line that is typed or piped in


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
        model: A model trained for conversation, as SmolLM2-Instruct.
        message: Ask once and exit. Without it, what you type is answered line by line.
        system: The system prompt, before everything else.
        format: smollm2, qwen2, chatml, llama3 or llama2. auto: by the model's vocabulary and name.
        length: Tokens of an answer, at most.
        temperature: Below 1 safer, above 1 wilder, 0 greedy.
        seed: The same seed gives the same answers.
    """
    from qkv.text.chat_formats import Message, choose

    words = " ".join(positionals(message, "chat"))
    opened = qkv.load(model)
    notes(opened.notes)
    opened.language_model.eval()  # a model that only reads is refused here, in its own words
    chosen, form = choose(opened.tokenizer, format, opened.bundle.source)
    turns = [Message("system", form.system if system is None else system)] if system is not None or form.system else []
    once = bool(words)
    if json and not once:
        raise InputError('--json answers one message: qkv chat MODEL "message" --json')
    if not once and sys.stdin.isatty():
        print_message(f"{opened.bundle.source or model}, format {chosen}. An empty line or Ctrl-D ends it.")
    for number, asked in enumerate([words] if once else _lines()):
        turns.append(Message("user", asked))
        answer = ""
        for piece in opened.chat(
            turns, format=chosen, length=length, temperature=temperature, top_p=top_p, seed=seed + number
        ):
            answer += piece
            if not json:
                print_text(piece)
        notes(opened.notes)
        turns.append(Message("assistant", answer))
        if json:
            return document({"message": asked, "answer": answer, "format": chosen, "notes": opened.notes})
        print_answer()
    return None


def _lines() -> Iterator[str]:
    """What a person types, line by line, with a prompt before each on a terminal."""
    while True:
        if sys.stdin.isatty():
            print_message("> ", end="")
        line = sys.stdin.buffer.readline(LONGEST)
        if len(line) == LONGEST:
            raise InputError(f"standard input: a line of {LONGEST:,} bytes or more. Give a shorter message.")
        if not line.strip():
            return
        try:
            yield line.decode("utf-8").strip()
        except UnicodeDecodeError as error:
            raise InputError(
                f"the message is not UTF-8 at byte {error.start} ({line[error.start]:#04x}). Type or pipe it as UTF-8."
            ) from None

"""`qkv chat`: a small conversation in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

from cyclopts import Parameter

from qkv.cli.options import Length, Seed, Temperature, TopP, named
from qkv.cli.output import Json, document, notes, print_answer, print_message, print_text

LONGEST = 2**20  # bytes of a line that is typed or piped in


def chat(
    model: str,
    *message: Annotated[str, Parameter(allow_leading_hyphen=True)],
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

    Parameters
    ----------
    model
        A model that was taught to converse, as SmolLM2-Instruct.
    message
        Ask once and go. Without it, what you type is answered line by line.
    system
        What the model is told before everything else.
    format
        smollm2, qwen2, chatml, llama3 or llama2. auto: by the model's vocabulary and name.
    length
        Tokens of an answer, at most.
    temperature
        Below 1 safer, above 1 wilder, 0 always the likeliest.
    top_p
        Choose among the likeliest tokens that together reach this share.
    seed
        The same seed gives the same answers.
    """
    import qkv
    from qkv.errors import InputError
    from qkv.text.chat_formats import Message, choose

    words = " ".join(named(message, "chat"))
    opened = qkv.load(model)
    notes(opened.notes)
    opened.language.eval()  # a model that only reads is refused here, in its own words
    chosen, form = choose(opened.tokenizer, format, opened.bundle.source)
    turns = [Message("system", form.system if system is None else system)] if system is not None or form.system else []
    options = {"format": chosen, "length": length, "temperature": temperature, "top_p": top_p}
    once = bool(words)
    if json and not once:
        raise InputError('--json answers one message: qkv chat MODEL "message" --json')
    if not once and sys.stdin.isatty():
        print_message(f"{opened.bundle.source or model}, format {chosen}. An empty line or Ctrl-D ends it.")
    for number, asked in enumerate([words] if once else _lines()):
        turns.append(Message("user", asked))
        answer = ""
        for piece in opened.chat(turns, seed=seed + number, **options):
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
    """What a person types, line by line, with a mark before each on a terminal."""
    from qkv.errors import InputError

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

"""`qkv generate`: write with a model."""

from __future__ import annotations

import math
import sys
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from qkv.cli.output import Json, document, notes, table

if TYPE_CHECKING:
    from qkv.api import Model


def generate(
    model: str,
    prompt: Annotated[str, Parameter(help="What to go on from; - reads it from standard input.")] = "",
    *,
    length: Annotated[int, Parameter(help="Tokens to write, at most.")] = 200,
    samples: Annotated[int, Parameter(help="How many continuations, written in one batch.")] = 1,
    temperature: Annotated[float, Parameter(help="Below 1 safer, above 1 wilder, 0 greedy.")] = 0.8,
    top_k: Annotated[int, Parameter(help="Choose among the k likeliest only; 0 for all.")] = 0,
    top_p: Annotated[float, Parameter(help="Choose among the likeliest that together reach this share.")] = 1.0,
    min_p: Annotated[float, Parameter(help="Leave out what is less likely than this share of the likeliest.")] = 0.0,
    repetition_penalty: Annotated[float, Parameter(help="Above 1, what was written becomes less likely.")] = 1.0,
    greedy: Annotated[bool, Parameter(help="Always the likeliest token; the same as --temperature 0.", negative="")] = False,
    stop: Annotated[list[str] | None, Parameter(help="End before this text. Repeat it for several.", negative="")] = None,
    seed: Annotated[int, Parameter(help="The same seed writes the same text.")] = 0,
    next: Annotated[int | None, Parameter(help="Write nothing; show the table of the N likeliest next pieces.")] = None,
    cache: Annotated[bool, Parameter(help="Remember keys and values between tokens. The text is the same without, only slower.")] = True,
    json: Json = False,
) -> None:
    """Write with a model: the text appears as it is made.

    MODEL is a run folder or a model folder. Examples:

        qkv generate runs/book-modern "Once upon a time"
        qkv generate runs/book-modern --samples 4 --temperature 0.6 --stop "."
        qkv generate runs/book-modern "The dog" --next 10
    """
    import qkv
    from qkv.errors import InputError

    if prompt == "-":
        prompt = sys.stdin.read()
    if seed < 0 or seed > 2**40:
        raise InputError(f"--seed {seed}: expected a whole number from 0 to 2^40.")
    opened = qkv.load(model)
    if next is not None:
        return show_next(opened, prompt, next, json)
    options: dict[str, Any] = {
        "length": length,
        "seed": seed,
        "stop": stop or [],
        "cached": cache,
        "temperature": 0.0 if greedy else temperature,
        "top_k": top_k,
        "top_p": top_p,
        "min_p": min_p,
        "repetition_penalty": repetition_penalty,
    }
    if json:
        return write_json(opened, prompt, samples, options)
    if samples == 1:
        return write_stream(opened, prompt, options)
    for number, written in enumerate(opened.samples(prompt, samples, **options), 1):
        print(f"--- sample {number} ---\n{prompt}{written.text}")
    notes(opened.notes)
    return None


def write_stream(model: Model, prompt: str, options: dict[str, Any]) -> None:
    pieces = model.generate(prompt, stream=True, **options)
    for index, piece in enumerate(pieces):
        if index == 0:
            notes(model.notes)
            sys.stdout.write(prompt)
        sys.stdout.write(piece)
        sys.stdout.flush()
    print()


def write_json(model: Model, prompt: str, samples: int, options: dict[str, Any]) -> None:
    written = model.samples(prompt, samples, **options)
    rows = [
        {
            "text": row.text,
            "tokens": row.tokens,
            "pieces": [model.tokenizer.piece(token) for token in row.tokens],
            "logprobs": row.logprobs,
            "finish": row.finish,
        }
        for row in written
    ]
    document({"prompt": prompt, "samples": rows, "notes": model.notes})


def show_next(model: Model, prompt: str, top: int, json: bool) -> None:
    from qkv.errors import InputError

    if top < 1:
        raise InputError(f"--next {top}: expected at least 1.")
    rows = model.next(prompt, top)
    notes(model.notes)
    if json:
        found = [{"piece": r.piece, "token": r.token, "probability": r.probability} for r in rows]
        return document({"prompt": prompt, "next": found, "notes": model.notes})
    cells = [(repr(row.piece), row.token, f"{row.probability:.4f}", f"{math.log(row.probability or 1e-45):.3f}") for row in rows]
    return table(f"after {prompt!r}", ("piece", "id", "probability", "log"), cells)

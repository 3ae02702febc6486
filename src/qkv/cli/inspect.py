"""`qkv inspect`: a model's parts and what it does with a text, in the terminal, as JSON, or as a page.

What `qkv inspect --decks` shows: the decks' numbers, their ladder on your sentence, their variants in numbers.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from qkv.cli.options import Flag, within
from qkv.cli.output import Json, document, notes, print_answer, table
from qkv.ranges import Range
from qkv.visible import counted, shortened

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qkv.inspection.head_roles import Head
    from qkv.inspection.logit_lens import LikelyToken
    from qkv.inspection.subject import Subject
    from qkv.inspection.worked_example import Decks

SHOWN = 16  # rows of a table on a terminal
TOKENS = 64  # of a text
WORDS = 40  # words of an attribution
TEXTS = 200  # sentences that the finder reads of a file
PAIRS = 20_000  # and pairs: the dictionary that marks alignments learns from them


def inspect(
    model: str,
    text: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    *,
    second: str | None = None,
    target: str | None = None,
    head: str | None = None,
    token: Annotated[int, within(Range(-(2**20), 2**20), allow_leading_hyphen=True)] = -1,
    heads: Flag = False,
    data: str | None = None,
    ablate: Annotated[int, within(Range(0, 1_000_000))] = 5,
    lens: Flag = False,
    why: Flag = False,
    decks: Flag = False,
    html: Path | None = None,
    svg: Path | None = None,
    png: Path | None = None,
    json: Json = False,
) -> None:
    """Look inside a model: its parts, and what each does with a text.

    qkv inspect runs/book-modern "The animal didn't cross the street because it was too tired"
    qkv inspect MODEL "she sat on the river bank" --head 2.5
    qkv inspect MODEL --heads --data en_ewt-ud-dev.conllu.gz
    qkv inspect MODEL "the film is" --lens --why --html page.html
    qkv inspect MODEL "she sat on the river bank" --head 2.5 --svg head.svg

    Parameters
    ----------
    model
        A run folder, a model folder, a Hugging Face folder or a .gguf file.
    text
        The text to inspect; without one, deck 004's sentence.
    second
        The second text, where the model classifies pairs.
    target
        The translation to inspect. Default: the model's own.
    head
        LAYER.HEAD, both from 1, as 2.5: the worked example of that head, with every number.
    token
        The token that asks in the worked example, from 0; -1 is the last.
    heads
        The head finder: what every head attends to, with intervals, and the loss without it.
    data
        For --heads: a CoNLL-U file (grammar too), or a file with one text a line; for a translator, pairs with a tab.
    ablate
        For --heads: how many of the first heads are taken out, one at a time.
    lens
        What the model would predict after each layer.
    why
        Which words made the answer.
    decks
        The lectures' sums: deck 002's numbers, from nothing learned to several heads, the variants' costs.
    html
        Write one page that opens from disk, with all of it.
    svg
        Draw the attention into this file: of --head, or of every head, small.
    png
        The same as PNG; needs the extra images.
    """
    import qkv
    from qkv.errors import require_package
    from qkv.inspection import page
    from qkv.inspection.worked_example import decks as lectures
    from qkv.studies.attention_picture import draw
    from qkv.tasks.inspected import inspected as subject_of

    if png is not None:
        require_package("PIL", "--png (--svg needs nothing)")
    given: Any = text if second is None else (text or "", second)
    subject = subject_of(qkv.load(model).bundle, given, target=target)
    at = parsed(subject, head) if head is not None else None
    pictures = [path for path in (svg, png) if path is not None]
    if pictures:
        draw(subject, at, to_svg=svg, to_png=png)
    table_of_heads = finder(subject, data, ablate) if heads else []
    if heads and data is None:
        notes(["without --data the heads are measured on this text and the decks' sentences: a file tells more."])
    noted = [*subject.notes, *(f"the picture is {path}" for path in pictures)]
    if json or html is not None:
        content = page.document(
            subject, heads=table_of_heads, head=at, explain="whole" if why else "quick" if html else ""
        )
        if html is not None:
            page.write(html, content)
        if json:
            more = {"decks": lectures(subject, token).document()} if decks else {}
            return document({**content, **more, "notes": list(subject.notes)})
        return notes([*noted, f"the page is {html}"])
    notes(noted)
    if pictures and not (heads or lens or why):
        return None
    show_essentials(subject)
    if at is None and not (heads or lens or why or decks):
        show_anatomy(subject)
        show_next(subject)
    if at is not None:
        show_worked(subject, *at, token)
    if heads:
        show_heads(table_of_heads)
    if lens:
        show_lens(subject)
    if why:
        show_why(subject)
    if decks:
        show_decks(lectures(subject, token))
    return None


def parsed(subject: Subject, head: str) -> tuple[int, int]:
    """Layer and head, counted from 0, of what people write counted from 1."""
    from qkv.errors import InputError
    from qkv.inspection.subject import main_stack, stacks

    tower = main_stack(stacks(subject.model))
    match = re.fullmatch(r"(\d+)\.(\d+)", head)
    if match is None or not (1 <= int(match[1]) <= len(tower.layers) and 1 <= int(match[2]) <= tower.heads):
        raise InputError(
            f"--head {head}: expected LAYER.HEAD, counted from 1, as 1.1; this model has {len(tower.layers)} layers of "
            f"{tower.heads} heads."
        )
    return int(match[1]) - 1, int(match[2]) - 1


def finder(subject: Subject, data: str | None, ablate: int) -> list[Head]:
    """Every head's clearest role, relations of a CoNLL-U file, alignments of a translator; the first ones ablated."""
    from qkv.inspection import head_table

    if data is None:
        return head_table.found(subject, ablate=ablate)
    if data.removesuffix(".gz").endswith(".conllu"):
        from qkv.inspection.edges import read

        return head_table.found(subject, sentences=read(data, TEXTS), ablate=ablate)
    from itertools import islice

    from qkv.cli.lines import lines

    most = TEXTS if subject.inputs.source is None else PAIRS
    return head_table.found(subject, texts=list(islice(lines([], data, "inspect"), most)), ablate=ablate)


def show_essentials(subject: Subject) -> None:
    from qkv.inspection.page import described

    facts = described(subject)
    attention = "no attention"
    if facts["heads"]:
        attention = f"{counted(facts['layers'], 'layer')}, {counted(facts['heads'], 'head')}"
    print_answer(
        f"{facts['name']}: {facts['kind']}, {attention}, "
        f"width {facts['width']}, {facts['parameters']:,} parameters, context {facts['context']:,}"
    )
    read = subject.inputs.read
    tokens = " | ".join(shortened(token, 30) or repr(token) for token in subject.pieces(read[:TOKENS]))
    more = f" … and {len(read) - TOKENS:,} more" if len(read) > TOKENS else ""
    print_answer(f"{counted(len(read), 'token')}: {tokens}{more}")
    if subject.inputs.source is not None:
        print_answer(f"output: {subject.tokenizer.decode(subject.inputs.tokens)}")


def show_anatomy(subject: Subject) -> None:
    from qkv.inspection.anatomy import anatomy

    rows = []
    for part in anatomy(subject):
        if re.search(r"(blocks|encoder|decoder)\.[1-9]\d*\.", part.path):
            continue  # as the first block, line for line
        name = " " * part.depth + (part.path.rsplit(".", 1)[-1] or "model")
        shape = "x".join(map(str, part.shape)) or "-"
        cells = (short(part.parameters), short(part.flops), short(part.memory), part.source.removeprefix("qkv/"))
        rows.append((name, part.kind, shape, *cells))
    columns = ("part", "kind", "gives", "numbers", "FLOPs", "bytes", "source")
    table("", columns, rows, words=("kind", "source"))


def short(number: int) -> str:
    """1234567 as 1.23M."""
    for power, letter in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if number >= 10**power:
            return f"{number / 10**power:.3g}{letter}"
    return str(number)


def likeliest(rows: Iterable[LikelyToken]) -> str:
    return "  ".join(f"{row.text!r} {row.p:.3f}" for row in rows)


def show_next(subject: Subject) -> None:
    from qkv.inspection.logit_lens import next_words

    if subject.answer != "next":
        return
    rows = []
    for step in next_words(subject, top=5):
        knob = step.name if step.knob is None else f"{step.name} {step.knob:g}"
        rows.append((knob, f"{step.left:,}", likeliest(step.rows)))
    table("the next word, knob by knob", ("step", "left", "likeliest"), rows, words=("likeliest",))


def show_worked(subject: Subject, layer: int, head: int, token: int) -> None:
    from qkv.inspection.trace import trace
    from qkv.inspection.worked_example import slide, worked

    seen = trace(subject, layers=[layer], heads=[head]).layer(layer)
    made = worked(seen, head, token)
    asking = subject.pieces(subject.inputs.tokens)
    answering = asking if seen.stack in ("self", "decoder") else subject.pieces(subject.inputs.source or ())
    rows = []
    for place, piece in enumerate(answering):
        may = bool(made.allowed[place])
        value = " ".join(f"{each:+.2f}" for each in made.values[place, :4].tolist())
        weight = f"{made.weights[place]:.4f}" if may else "masked"
        rows.append(
            (f"{place} {piece!r}", f"{made.dots[place]:.4f}", f"{made.scaled[place]:.4f}", weight, value + " …")
        )
    where = f"layer {layer + 1}, head {head + 1}"
    title = f"{where}: {asking[made.token]!r} asks; scale {made.scale:.4f} (deck 002, steps 1 to 4)"
    table(title, ("answers", "q·k", "scaled", "weight", "value"), rows)
    print_answer("mixed: " + " ".join(f"{each:+.4f}" for each in made.mixed[:8].tolist()) + " …")
    notes([f"deck 002: {slide().note}"])


def show_heads(found: list[Head]) -> None:
    rows = []
    for each in found[:SHOWN]:
        worth = [f"{value:.3f}" if value is not None else "-" for value in (each.whole, each.without, each.only)]
        name = each.name if each.stack == "self" else f"{each.stack} {each.name}"
        interval = f"{each.low:.3f}-{each.high:.3f}"
        rows.append(
            (name, each.role, f"{each.score:.3f}", interval, f"{each.baseline:.3f}", *worth, each.measured or "-")
        )
    columns = ("head", "role", "score", "95 %", "baseline", "loss", "without it", "only it", "loss on")
    table("heads, the clearest first", columns, rows, words=("role", "loss on"))
    if len(found) > SHOWN:
        notes([f"{SHOWN} of {len(found)} rows are shown; --json gives all."])


def show_lens(subject: Subject) -> None:
    from qkv.inspection.logit_lens import lens

    last = len(subject.inputs.tokens) - 1
    rows = [(each.layer, likeliest(each.top[0])) for each in lens(subject, places=[last])]
    table("after each layer, the next word would be", ("layer", "likeliest"), rows, words=("likeliest",))


def show_why(subject: Subject) -> None:
    from qkv.inspection.attribution import why

    found = why(subject)
    each = [found.of_words(method) for method in found.methods]
    ranked = sorted(range(len(found.words)), key=lambda place: -abs(each[0][place]))[:WORDS]
    rows = [(found.words[place], *(f"{values[place]:+.4f}" for values in each)) for place in sorted(ranked)]
    table(f"why {found.target!r} ({found.p:.3f})", ("word", *(method.name for method in found.methods)), rows)
    some = f"of {len(found.words):,} words the {WORDS} that count most are shown; --json gives all."
    notes([found.verdict, found.how, *([some] if len(found.words) > WORDS else [])])


RUNGS = ("nothing", "U", "Q K V", "scaled", "masked", "all heads")


def show_decks(found: Decks) -> None:
    one = found.slide
    rows = [
        (word, f"{dot:g}", f"{scaled:g}", f"{true:.3f}", f"{printed:.2f}")
        for word, dot, scaled, true, printed in zip(one.words, one.dots, one.scaled, one.true, one.printed, strict=True)
    ]
    table("deck 002, step 3: 'brown' asks", ("word", "q·k", "over 8", "softmax", "printed"), rows)
    notes([one.note])
    shares = [found.shares(each) for each in found.ladder]
    rungs = [
        (f"{place} {piece!r}", *(f"{each[place]:.3f}" for each in shares)) for place, piece in enumerate(found.tokens)
    ]
    print_answer()
    table(f"from nothing learned to several heads: {found.tokens[found.token]!r} asks", ("word", *RUNGS), rungs)
    for name, step in zip(RUNGS, found.ladder, strict=True):
        print_answer(f"{name}: {step.formula} (deck {step.deck})")
    sizes = []
    for each in found.variants:
        weights, flops = (each.parameters, each.more_parameters), (each.flops, each.more_flops)
        sizes.append((each.name, each.deck, *(f"{a:,} ({b:+,})" for a, b in (weights, flops))))
    columns = ("variant", "deck", "weights (more)", "FLOPs (more)")
    print_answer()
    table("one layer's attention in the decks' variants, at this model's sizes", columns, sizes, words=("deck",))

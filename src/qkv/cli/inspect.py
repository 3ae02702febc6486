"""`qkv inspect`: a model's parts and what it does with a text, in the terminal, as JSON, or as a page.

What `qkv inspect --decks` shows: the decks' numbers, their ladder on your sentence, their variants in numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

import qkv
from qkv.cli.lines import lines as lines_of
from qkv.cli.options import AnyModel, Flag, refuse, within
from qkv.cli.output import Json, document, notes, show
from qkv.errors import InputError, require_package
from qkv.ranges import Range
from qkv.tasks.report import ReportSection, TableSection, lines
from qkv.visible import counted, shortened

if TYPE_CHECKING:
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
    model: AnyModel,
    text: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    *,
    second: str | None = None,
    target: str | None = None,
    head: str | None = None,
    token: Annotated[int | None, within(Range(-(2**20), 2**20), allow_leading_hyphen=True)] = None,
    heads: Flag = False,
    data: str | None = None,
    ablate: Annotated[int | None, within(Range(0, 1_000_000))] = None,
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

    Args:
        text: The text to inspect. Default: deck 004's sentence.
        second: The second text, where the model classifies pairs.
        target: The translation to inspect. Default: the model's own.
        head: LAYER.HEAD, both from 1, as 2.5: the worked example of that head, every number.
        token: For --head and --decks: the token that asks, from 0. Default: -1, the last.
        heads: The head finder: what every head attends to, with intervals, and the loss without it.
        data: For --heads: a CoNLL-U file (grammar too), or a file with one text a line; for a translator, pairs with a
            tab.
        ablate: For --heads: how many of the first heads are taken out, one at a time. Default: 5.
        lens: What the model would predict after each layer.
        why: Which words made the answer.
        decks: The lectures' sums: deck 002's numbers, from nothing learned to several heads, the variants' costs.
        html: Write one page that opens from disk, with all of it.
        svg: Draw the attention into this file: of --head, or of every head, small.
        png: The same as PNG; needs the extra images.
    """
    from qkv.inspection import page
    from qkv.inspection.worked_example import decks as lectures
    from qkv.studies.attention_picture import draw
    from qkv.tasks.inspected import inspected

    if not heads:
        refuse({"data": data, "ablate": ablate}, "only --heads uses it")
    if head is None and not decks:
        refuse({"token": token}, "only --head and --decks use it")
    asking = -1 if token is None else token
    if png is not None:
        require_package("PIL", "--png (--svg needs nothing)")
    given: Any = text if second is None else (text or "", second)
    subject = inspected(qkv.load(model).bundle, given, target=target)
    place = parse_head(subject, head) if head is not None else None
    pictures = [path for path in (svg, png) if path is not None]
    if pictures:
        draw(subject, place, to_svg=svg, to_png=png)
    head_table = find_heads(subject, data, 5 if ablate is None else ablate) if heads else []
    if heads and data is None:
        notes(["without --data the heads are measured on this text and the decks' sentences: a file tells more."])
    noted = [*subject.notes, *(f"the picture is {path}" for path in pictures)]
    if json or html is not None:
        explain: page.Explain = "whole" if why else "quick" if html else ""
        content = page.document(subject, heads=head_table, head=place, explain=explain)
        if html is not None:
            page.write(html, content)
        if json:
            more = {"decks": lectures(subject, asking).document()} if decks else {}
            return document({**content, **more, "notes": list(subject.notes)})
        return notes([*noted, f"the page is {html}"])
    notes(noted)
    if pictures and not (heads or lens or why):
        return None
    show(*essentials(subject))
    if place is None and not (heads or lens or why or decks):
        show(anatomy_table(subject), *next_table(subject))
    if place is not None:
        show_worked(subject, *place, asking)
    if heads:
        show(heads_table(head_table))
        if len(head_table) > SHOWN:
            notes([f"{SHOWN} of {len(head_table)} rows are shown; --json gives all."])
    if lens:
        show(lens_table(subject))
    if why:
        show_why(subject)
    if decks:
        show_decks(lectures(subject, asking))
    return None


def parse_head(subject: Subject, head: str) -> tuple[int, int]:
    """Layer and head, counted from 0, of what people write counted from 1."""
    from qkv.inspection.subject import main_stack, stacks

    tower = main_stack(stacks(subject.model))
    match = re.fullmatch(r"(\d+)\.(\d+)", head)
    if match is None or not (1 <= int(match[1]) <= len(tower.layers) and 1 <= int(match[2]) <= tower.heads):
        raise InputError(
            f"--head {head}: expected LAYER.HEAD, counted from 1, as 1.1; this model has {len(tower.layers)} layers of "
            f"{tower.heads} heads."
        )
    return int(match[1]) - 1, int(match[2]) - 1


def find_heads(subject: Subject, data: str | None, ablate: int) -> list[Head]:
    """Every head's clearest role, relations of a CoNLL-U file, alignments of a translator; the first ones ablated."""
    from qkv.inspection import edges, head_table

    if data is None:
        return head_table.found(subject, ablate=ablate)
    if data.removesuffix(".gz").endswith(".conllu"):
        return head_table.found(subject, sentences=edges.read(data, TEXTS), ablate=ablate)
    most = TEXTS if subject.inputs.source is None else PAIRS
    return head_table.found(subject, texts=list(islice(lines_of([], data, "inspect"), most)), ablate=ablate)


def essentials(subject: Subject) -> Iterator[ReportSection]:
    from qkv.inspection.page import described

    facts = described(subject)
    attention = "no attention"
    if facts["heads"]:
        attention = f"{counted(facts['layers'], 'layer')}, {counted(facts['heads'], 'head')}"
    yield lines(
        f"{facts['name']}: {facts['kind']}, {attention}, "
        f"width {facts['width']}, {facts['parameters']:,} parameters, context {facts['context']:,}"
    )
    read = subject.inputs.read
    tokens = " | ".join(shortened(token, 30) or repr(token) for token in subject.pieces(read[:TOKENS]))
    more = f" … and {len(read) - TOKENS:,} more" if len(read) > TOKENS else ""
    yield lines(f"{counted(len(read), 'token')}: {tokens}{more}")
    if subject.inputs.source is not None:
        yield lines(f"output: {subject.tokenizer.decode(subject.inputs.tokens)}")


def anatomy_table(subject: Subject) -> TableSection:
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
    return TableSection("", columns, rows, words=("kind", "source"))


def short(number: int) -> str:
    """1234567 as 1.23M."""
    for power, letter in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if number >= 10**power:
            return f"{number / 10**power:.3g}{letter}"
    return str(number)


def likeliest(rows: Iterable[LikelyToken]) -> str:
    return "  ".join(f"{row.text!r} {row.p:.3f}" for row in rows)


def next_table(subject: Subject) -> Iterator[TableSection]:
    from qkv.inspection.logit_lens import next_words

    if subject.answer != "next":
        return
    rows = []
    for step in next_words(subject, top=5):
        knob = step.name if step.knob is None else f"{step.name} {step.knob:g}"
        rows.append((knob, f"{step.left:,}", likeliest(step.rows)))
    yield TableSection("the next word, knob by knob", ("step", "left", "likeliest"), rows, words=("likeliest",))


def show_worked(subject: Subject, layer: int, head: int, token: int) -> None:
    from qkv.inspection.trace import trace
    from qkv.inspection.worked_example import slide, worked

    attended = trace(subject, layers=[layer], heads=[head]).layer(layer)
    example = worked(attended, head, token)
    asking = subject.pieces(subject.inputs.tokens)
    answering = asking if attended.stack in ("self", "decoder") else subject.pieces(subject.inputs.source or ())
    rows = []
    for place, piece in enumerate(answering):
        value = " ".join(f"{number:+.2f}" for number in example.values[place, :4].tolist())
        weight = f"{example.weights[place]:.4f}" if bool(example.allowed[place]) else "masked"
        scores = f"{example.dots[place]:.4f}", f"{example.scaled[place]:.4f}"
        rows.append((f"{place} {piece!r}", *scores, weight, f"{value} …"))
    where = f"layer {layer + 1}, head {head + 1}"
    title = f"{where}: {asking[example.token]!r} asks; scale {example.scale:.4f} (deck 002, steps 1 to 4)"
    mixed = " ".join(f"{number:+.4f}" for number in example.mixed[:8].tolist())
    show(TableSection(title, ("answers", "q·k", "scaled", "weight", "value"), rows), lines(f"mixed: {mixed} …"))
    notes([f"deck 002: {slide().note}"])


def heads_table(heads: list[Head]) -> TableSection:
    rows = []
    for head in heads[:SHOWN]:
        worth = [f"{value:.3f}" if value is not None else "-" for value in (head.whole, head.without, head.only)]
        name = head.name if head.stack == "self" else f"{head.stack} {head.name}"
        scores = (f"{head.score:.3f}", f"{head.low:.3f}-{head.high:.3f}", f"{head.baseline:.3f}")
        rows.append((name, head.role, *scores, *worth, head.measured or "-"))
    columns = ("head", "role", "score", "95 %", "baseline", "loss", "without it", "only it", "loss on")
    return TableSection("heads, the clearest first", columns, rows, words=("role", "loss on"))


def lens_table(subject: Subject) -> TableSection:
    from qkv.inspection.logit_lens import lens

    last = len(subject.inputs.tokens) - 1
    rows = [(layer.layer, likeliest(layer.top[0])) for layer in lens(subject, places=[last])]
    return TableSection("after each layer, the next word would be", ("layer", "likeliest"), rows, words=("likeliest",))


def show_why(subject: Subject) -> None:
    from qkv.inspection.attribution import why

    answer = why(subject)
    scores = [answer.of_words(method) for method in answer.methods]
    ranked = sorted(range(len(answer.words)), key=lambda place: -abs(scores[0][place]))[:WORDS]
    rows = [(answer.words[place], *(f"{values[place]:+.4f}" for values in scores)) for place in sorted(ranked)]
    columns = ("word", *(method.name for method in answer.methods))
    show(TableSection(f"why {answer.target!r} ({answer.p:.3f})", columns, rows))
    some = f"of {len(answer.words):,} words the {WORDS} that count most are shown; --json gives all."
    notes([answer.verdict, answer.how, *([some] if len(answer.words) > WORDS else [])])


RUNGS = ("nothing", "U", "Q K V", "scaled", "masked", "all heads")


def show_decks(decks: Decks) -> None:
    slide = decks.slide
    numbers = zip(slide.words, slide.dots, slide.scaled, slide.true, slide.printed, strict=True)
    rows = [
        (word, f"{dot:g}", f"{scaled:g}", f"{true:.3f}", f"{printed:.2f}")
        for word, dot, scaled, true, printed in numbers
    ]
    show(TableSection("deck 002, step 3: 'brown' asks", ("word", "q·k", "over 8", "softmax", "printed"), rows))
    notes([slide.note])
    shares = [decks.shares(step) for step in decks.ladder]
    rungs = [
        (f"{place} {piece!r}", *(f"{rung[place]:.3f}" for rung in shares)) for place, piece in enumerate(decks.tokens)
    ]
    title = f"from nothing learned to several heads: {decks.tokens[decks.token]!r} asks"
    formulas = [f"{name}: {step.formula} (deck {step.deck})" for name, step in zip(RUNGS, decks.ladder, strict=True)]
    sizes = []
    for variant in decks.variants:
        costs = ((variant.parameters, variant.more_parameters), (variant.flops, variant.more_flops))
        sizes.append((variant.name, variant.deck, *(f"{all_:,} ({more:+,})" for all_, more in costs)))
    columns = ("variant", "deck", "weights (more)", "FLOPs (more)")
    variants = "one layer's attention in the decks' variants, at this model's sizes"
    show(
        lines(""),
        TableSection(title, ("word", *RUNGS), rungs),
        lines(*formulas, ""),
        TableSection(variants, columns, sizes, words=("deck",)),
    )

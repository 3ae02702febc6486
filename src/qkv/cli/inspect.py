"""`qkv inspect`: show the parts of a model and its computation on a text as tables, JSON, pictures or a page."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

import qkv
from qkv.cli.batches import read_texts
from qkv.cli.deck_tables import print_decks
from qkv.cli.options import AnyModel, Flag, in_range
from qkv.cli.output import Json, print_json, print_notes, print_sections
from qkv.errors import InputError, require_package
from qkv.ranges import Range
from qkv.tasks.report import ReportSection, TableSection, lines
from qkv.visible import counted, shortened

if TYPE_CHECKING:
    from qkv.inspection.head_roles import Head
    from qkv.inspection.logit_lens import LikelyToken
    from qkv.inspection.subject import Subject

SHOWN_HEADS = 16
SHOWN_TOKENS = 64
SHOWN_WORDS = 40
MAX_TEXTS = 200  # sentences of a file, for --heads
MAX_PAIRS = 20_000  # pairs of texts, for the --heads of a translator; a word dictionary is learned from them


def inspect(
    model: AnyModel,
    text: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    *,
    second: str | None = None,
    target: str | None = None,
    head: str | None = None,
    token: Annotated[int | None, in_range(Range(-(2**20), 2**20), allow_leading_hyphen=True)] = None,
    heads: Flag = False,
    data: str | None = None,
    ablate: Annotated[int | None, in_range(Range(0, 1_000_000))] = None,
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
        text: The text to inspect. Default: the sentence of deck 004.
        second: The second text, if the model classifies pairs.
        target: The translation to inspect. Default: the model's own.
        head: LAYER.HEAD, both counted from 1, such as 2.5: show every number of that head's attention.
        token: With --head or --decks: the position of the query token, counted from 0. Default: -1, the last.
        heads: Show what every head attends to, with intervals, and the loss without it.
        data: With --heads: a CoNLL-U file (also gives grammatical relations), or a file with one text per line; for a
            translator, with one pair per line, separated by a tab.
        ablate: With --heads: how many of the listed heads to remove, one at a time. Default: 5.
        lens: Show what the model would predict after each layer.
        why: Show which words contributed to the answer.
        decks: Show the calculations of the lecture decks: the example of deck 002, attention built up from
            no parameters to several heads, and the costs of its variants.
        html: Write all views into one page that opens from disk.
        svg: Draw the attention of --head, or small pictures of all heads, into this file.
        png: The same as a PNG; needs the extra images.
    """
    from qkv.inspection import page
    from qkv.inspection.worked_example import decks as deck_examples
    from qkv.studies.attention_picture import draw
    from qkv.tasks.inspection_subject import inspection_subject

    query_token = -1 if token is None else token
    if png is not None:
        require_package("PIL", "--png (--svg needs nothing)")
    given_text: Any = text if second is None else (text or "", second)
    subject = inspection_subject(qkv.load(model).bundle, given_text, target=target)
    layer_and_head = parse_head(subject, head) if head is not None else None
    pictures = [path for path in (svg, png) if path is not None]
    if pictures:
        draw(subject, layer_and_head, to_svg=svg, to_png=png)
    head_rows = find_heads(subject, data, 5 if ablate is None else ablate) if heads else []
    if heads and data is None:
        texts = "this text and the sentences of the decks" if subject.inputs.source is None else "this text"
        print_notes(f"without --data the heads are measured only on {texts}; a file gives better estimates.")
    notes = [*subject.notes, *(f"the picture is {path}" for path in pictures)]
    if json or html is not None:
        explain: page.Explain = "whole" if why else "quick" if html else ""
        content = page.document(subject, heads=head_rows, head=layer_and_head, explain=explain)
        if html is not None:
            page.write(html, content)
        if json:
            decks_part = {"decks": deck_examples(subject, query_token).document()} if decks else {}
            return print_json({**content, **decks_part, "notes": list(subject.notes)})
        return print_notes(*notes, f"the page is {html}")
    print_notes(*notes)
    if pictures and not (heads or lens or why):
        return None
    print_sections(*summary_lines(subject))
    if layer_and_head is None and not (heads or lens or why or decks):
        print_sections(anatomy_table(subject), *next_token_table(subject))
    if layer_and_head is not None:
        print_worked_example(subject, *layer_and_head, query_token)
    if heads:
        print_sections(heads_table(head_rows))
        if len(head_rows) > SHOWN_HEADS:
            print_notes(f"{SHOWN_HEADS} of {len(head_rows)} rows are shown; --json gives all.")
    if lens:
        print_sections(lens_table(subject))
    if why:
        print_attribution(subject)
    if decks:
        print_decks(deck_examples(subject, query_token))
    return None


def parse_head(subject: Subject, head: str) -> tuple[int, int]:
    """Parse LAYER.HEAD, counted from 1, into a layer and a head counted from 0."""
    from qkv.inspection.subject import main_stack, stacks

    stack = main_stack(stacks(subject.model))
    match = re.fullmatch(r"(\d+)\.(\d+)", head)
    if match is None or not (1 <= int(match[1]) <= len(stack.layers) and 1 <= int(match[2]) <= stack.heads):
        raise InputError(
            f"--head {head}: expected LAYER.HEAD, counted from 1, such as 1.1; this model has "
            f"{len(stack.layers)} layers of {stack.heads} heads."
        )
    return int(match[1]) - 1, int(match[2]) - 1


def find_heads(subject: Subject, data: str | None, ablate: int) -> list[Head]:
    """Find the role of every head, also for relations of a CoNLL-U file or a translator's alignments; ablate some."""
    from qkv.inspection import edges, head_table

    if data is None:
        return head_table.rank_heads(subject, ablate=ablate)
    if data.removesuffix(".gz").endswith(".conllu"):
        return head_table.rank_heads(subject, sentences=edges.read(data, MAX_TEXTS), ablate=ablate)
    max_lines = MAX_TEXTS if subject.inputs.source is None else MAX_PAIRS
    return head_table.rank_heads(subject, texts=list(islice(read_texts(data, "inspect"), max_lines)), ablate=ablate)


def summary_lines(subject: Subject) -> Iterator[ReportSection]:
    """The size of the model and the tokens of the text."""
    from qkv.inspection.page import model_summary

    facts = model_summary(subject)
    attention = "no attention"
    if facts["heads"]:
        attention = f"{counted(facts['layers'], 'layer')}, {counted(facts['heads'], 'head')}"
    yield lines(
        f"{facts['name']}: {facts['kind']}, {attention}, "
        f"width {facts['width']}, {facts['parameters']:,} parameters, context {facts['context']:,}"
    )
    ids = subject.inputs.read
    tokens = " | ".join(shortened(token, 30) or repr(token) for token in subject.pieces(ids[:SHOWN_TOKENS]))
    more = f" … and {len(ids) - SHOWN_TOKENS:,} more" if len(ids) > SHOWN_TOKENS else ""
    yield lines(f"{counted(len(ids), 'token')}: {tokens}{more}")
    if subject.inputs.source is not None:
        yield lines(f"output: {subject.tokenizer.decode(subject.inputs.tokens)}")


def anatomy_table(subject: Subject) -> TableSection:
    from qkv.inspection.anatomy import anatomy

    rows = []
    for part in anatomy(subject):
        if re.search(r"(blocks|encoder|decoder)\.[1-9]\d*\.", part.path):
            continue  # all blocks have the parts of the first one
        name = " " * part.depth + (part.path.rsplit(".", 1)[-1] or "model")
        shape = "x".join(map(str, part.shape)) or "-"
        sizes = (with_unit(part.parameters), with_unit(part.flops), with_unit(part.memory))
        rows.append((name, part.kind, shape, *sizes, part.source.removeprefix("qkv/")))
    columns = ("part", "kind", "output", "parameters", "FLOPs", "bytes", "source")
    return TableSection("", columns, rows, words=("kind", "source"))


def with_unit(number: int) -> str:
    """1234567 as 1.23M."""
    for power, letter in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if number >= 10**power:
            return f"{number / 10**power:.3g}{letter}"
    return str(number)


def tokens_with_probabilities(tokens: Iterable[LikelyToken]) -> str:
    return "  ".join(f"{token.text!r} {token.p:.3f}" for token in tokens)


def next_token_table(subject: Subject) -> Iterator[TableSection]:
    """The most likely next tokens after each sampling setting, if the model predicts the next token."""
    from qkv.inspection.logit_lens import next_words

    if subject.answer != "next":
        return
    rows = []
    for step in next_words(subject, top=5):
        setting = step.name if step.knob is None else f"{step.name} {step.knob:g}"
        rows.append((setting, f"{step.left:,}", tokens_with_probabilities(step.rows)))
    title = "the next token after each sampling setting"
    yield TableSection(title, ("setting", "tokens left", "most likely"), rows, words=("most likely",))


def print_worked_example(subject: Subject, layer: int, head: int, query_token: int) -> None:
    """Print the attention of one head from one query token: scores, weights and values of all key tokens."""
    from qkv.inspection.trace import trace
    from qkv.inspection.worked_example import attention_example, slide

    attention = trace(subject, layers=[layer], heads=[head]).layer(layer)
    example = attention_example(attention, head, query_token)
    queries = subject.pieces(subject.inputs.tokens)
    keys = queries if attention.stack in ("self", "decoder") else subject.pieces(subject.inputs.source or ())
    rows = []
    for position, key in enumerate(keys):
        value = " ".join(f"{number:+.2f}" for number in example.values[position, :4].tolist())
        weight = f"{example.weights[position]:.4f}" if bool(example.allowed[position]) else "masked"
        scores = f"{example.dots[position]:.4f}", f"{example.scaled[position]:.4f}"
        rows.append((f"{position} {key!r}", *scores, weight, f"{value} …"))
    head_name = f"layer {layer + 1}, head {head + 1}"
    query = repr(queries[example.token])
    title = f"{head_name}: query {query}; scale {example.scale:.4f} (deck 002, steps 1 to 4)"
    output = " ".join(f"{number:+.4f}" for number in example.mixed[:8].tolist())
    table = TableSection(title, ("key", "q·k", "scaled", "weight", "value"), rows)
    print_sections(table, lines(f"output of the head: {output} …"))
    print_notes(f"deck 002: {slide().note}")


def heads_table(heads: list[Head]) -> TableSection:
    rows = []
    for head in heads[:SHOWN_HEADS]:
        losses = [f"{loss:.3f}" if loss is not None else "-" for loss in (head.whole, head.without, head.only)]
        name = head.name if head.stack == "self" else f"{head.stack} {head.name}"
        scores = (f"{head.score:.3f}", f"{head.low:.3f}-{head.high:.3f}", f"{head.baseline:.3f}")
        rows.append((name, head.role, *scores, *losses, head.measured or "-"))
    columns = ("head", "role", "score", "95 %", "baseline", "loss", "without it", "only it", "loss on")
    return TableSection("heads, the clearest first", columns, rows, words=("role", "loss on"))


def lens_table(subject: Subject) -> TableSection:
    from qkv.inspection.logit_lens import lens

    last = len(subject.inputs.tokens) - 1
    rows = [(layer.layer, tokens_with_probabilities(layer.top[0])) for layer in lens(subject, positions=[last])]
    title = "the next token, predicted after each layer"
    return TableSection(title, ("layer", "most likely"), rows, words=("most likely",))


def print_attribution(subject: Subject) -> None:
    """Print how much each word contributed to the answer, by every method."""
    from qkv.inspection.attribution import why

    answer = why(subject)
    scores = [answer.of_words(method) for method in answer.methods]
    strongest = sorted(range(len(answer.words)), key=lambda word: -abs(scores[0][word]))[:SHOWN_WORDS]
    rows = [(answer.words[word], *(f"{values[word]:+.4f}" for values in scores)) for word in sorted(strongest)]
    columns = ("word", *(method.name for method in answer.methods))
    print_sections(TableSection(f"why {answer.target!r} ({answer.p:.3f})", columns, rows))
    print_notes(answer.verdict, answer.how)
    if len(answer.words) > SHOWN_WORDS:
        print_notes(f"the {SHOWN_WORDS} strongest of {len(answer.words):,} words are shown; --json gives all.")

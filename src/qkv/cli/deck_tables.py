"""The tables of `qkv inspect --decks`: the calculations of the lecture decks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qkv.cli.output import print_notes, print_sections
from qkv.tasks.report import TableSection, lines

if TYPE_CHECKING:
    from qkv.inspection.worked_example import Decks

LADDER_COLUMNS = ("nothing", "U", "Q K V", "scaled", "masked", "all heads")


def print_decks(decks: Decks) -> None:
    """Print the slide of deck 002, the steps from no parameters to several heads, and the costs of the variants."""
    slide = decks.slide
    numbers = zip(slide.words, slide.dots, slide.scaled, slide.true, slide.printed, strict=True)
    slide_rows = [
        (word, f"{dot:g}", f"{scaled:g}", f"{true:.3f}", f"{printed:.2f}")
        for word, dot, scaled, true, printed in numbers
    ]
    slide_columns = ("word", "q·k", "over 8", "softmax", "printed")
    print_sections(TableSection("deck 002, step 3: query 'brown'", slide_columns, slide_rows))
    print_notes(slide.note)
    weights_by_step = [decks.shares(step) for step in decks.ladder]
    ladder_rows = [
        (f"{position} {token!r}", *(f"{weights[position]:.3f}" for weights in weights_by_step))
        for position, token in enumerate(decks.tokens)
    ]
    ladder_title = f"attention from no parameters to several heads: query {decks.tokens[decks.token]!r}"
    formulas = [
        f"{column}: {step.formula} (deck {step.deck})"
        for column, step in zip(LADDER_COLUMNS, decks.ladder, strict=True)
    ]
    variant_rows = []
    for variant in decks.variants:
        costs = ((variant.parameters, variant.more_parameters), (variant.flops, variant.more_flops))
        variant_rows.append((variant.name, variant.deck, *(f"{cost:,} ({more:+,})" for cost, more in costs)))
    variants_title = "one attention layer of this model's size, in the variants of the decks"
    variant_columns = ("variant", "deck", "parameters (more)", "FLOPs (more)")
    print_sections(
        lines(""),
        TableSection(ladder_title, ("word", *LADDER_COLUMNS), ladder_rows),
        lines(*formulas, ""),
        TableSection(variants_title, variant_columns, variant_rows, words=("deck",)),
    )

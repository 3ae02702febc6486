"""What `qkv inspect --decks` shows: the decks' numbers, their ladder on your sentence, their variants in numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qkv.cli.output import notes, print_answer, table

if TYPE_CHECKING:
    from qkv.inspection.worked_example import Decks

RUNGS = ("nothing", "U", "Q K V", "scaled", "masked", "all heads")


def show_decks(found: Decks) -> None:
    one = found.slide
    rows = [
        (word, f"{dot:g}", f"{scaled:g}", f"{true:.3f}", f"{printed:.2f}")
        for word, dot, scaled, true, printed in zip(one.words, one.dots, one.scaled, one.true, one.printed, strict=True)
    ]
    table("deck 002, step 3: 'brown' asks", ("word", "q·k", "over 8", "softmax", "printed"), rows)
    notes([one.said])
    shares = [found.shares(each) for each in found.ladder]
    rungs = [
        (f"{place} {piece!r}", *(f"{each[place]:.3f}" for each in shares)) for place, piece in enumerate(found.pieces)
    ]
    print_answer()
    table(f"from nothing learned to several heads: {found.pieces[found.token]!r} asks", ("word", *RUNGS), rungs)
    for name, step in zip(RUNGS, found.ladder, strict=True):
        print_answer(f"{name}: {step.formula} (deck {step.deck})")
    sizes = []
    for each in found.variants:
        weights, flops = (each.parameters, each.more_parameters), (each.flops, each.more_flops)
        sizes.append((each.name, each.deck, *(f"{a:,} ({b:+,})" for a, b in (weights, flops))))
    columns = ("variant", "deck", "weights (more)", "FLOPs (more)")
    print_answer()
    table("one layer's attention in the decks' variants, at this model's sizes", columns, sizes, words=("deck",))

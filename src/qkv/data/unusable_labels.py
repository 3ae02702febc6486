"""Labels that cannot be learned: examples with them are left out with a note up to a share, and refused above it.

A sentence of tagged words is left out as a whole, so sentences are counted there. Each has many words and one unknown
tag is enough, and in a treebank with hundreds of tags nobody can repair it: hence the larger share.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from qkv.data.findings import Caution, Findings
from qkv.data.formats.rows import MAX_BAD_SHARE
from qkv.errors import DataError

if TYPE_CHECKING:
    from qkv.data.examples import Mask, Numbers
    from qkv.data.labels import RawLabels

MAX_BAD_SENTENCES_SHARE = 0.2
"""The largest share of sentences of a split that is left out because the training sentences lack one of their tags."""


def most_left_out(tagged: bool) -> float:
    """The share of examples that may be left out because nobody has learned their labels."""
    return MAX_BAD_SENTENCES_SHARE if tagged else MAX_BAD_SHARE


def report_unusable(
    raw: RawLabels,
    usable: Mask,
    split: str,
    problem: Sequence[str],
    known: str,
    starts: Numbers | None,
    findings: Findings,
) -> None:
    """Note the examples that are left out, or refuse them if they are too many. `usable` says it of each distinct
    label; `problem`: what is wrong with one label, and with several; `starts`: where each sentence of tagged words
    begins."""
    unusable = np.flatnonzero(~usable)
    bad = np.isin(raw.array(), unusable)
    where, label = raw.place(int(unusable[0])), raw.shown_name(int(unusable[0]))
    if bad.all() and label == "-1":
        hidden = f"every label of the {split} examples is -1, which stands for unpublished labels"
        raise DataError(where, hidden, "Leave the file out, or give one with labels.")
    noun, unit, within, most = "label", "rows", "on", most_left_out(starts is not None)
    remedy = f"Known are {known}. Repair the labels, or use another --task."
    if starts is not None:
        bad = np.logical_or.reduceat(bad, starts[:-1])
        noun, unit, within = "tag", "sentences", "in"
        remedy = f"Known are {known}. Up to one sentence in {1 / most:.0f} is left out; give training sentences with "
        remedy += "these tags, or learn those of another column with --label."
    others = "" if len(unusable) == 1 else f" and {len(unusable) - 1:,} other{'s' * (len(unusable) > 2)}"
    what = f"the {noun} {label!r}{others} {problem[bool(others)]}"
    count = int(bad.sum())
    if count > most * len(bad):
        raise DataError(where, f"{what}; so {within} {count:,} of {len(bad):,} {split} {unit}", remedy)
    findings.add_note(Caution(f"{where}: {count:,} of {len(bad):,} {split} {unit} left out: {what}."))

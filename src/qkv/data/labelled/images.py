"""Pictures with labels, whatever they come in: idx files, npz archives, folders of pictures."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qkv.data.findings import Findings
from qkv.data.labelled import picture_files
from qkv.data.labelled.finding import Item
from qkv.data.labelled.npz import from_npz
from qkv.data.labelled.pictures import Pictures, from_idx, holds_labels
from qkv.data.progress import Watch
from qkv.errors import DataError


def gather(items: Sequence[Item], findings: Findings, watch: Watch | None = None) -> Pictures:
    found = [from_idx(item, items) for item in items if item.kind == "idx" and not holds_labels(item)]
    found += [from_npz(item) for item in items if item.kind == "npz"]
    if pictures := [item for item in items if item.kind == "picture"]:
        found.append(picture_files.gather(pictures, findings, watch))
    if not found:
        raise DataError(items[0].source.shown, "labels without pictures", "Give the file of pictures beside it.")
    shapes = {each.pixels.shape[1:] for each in found}
    if len(shapes) > 1:
        raise DataError(items[0].source.shown, f"pictures of unlike sizes: {sorted(shapes)}", "Give files of one size.")
    if len(found) == 1:
        return found[0]
    whole = Pictures(np.concatenate([each.pixels for each in found]))
    for each in found:
        for code in each.values.codes:
            whole.values.append(each.values.names[code], *each.values.places[code])
    return whole

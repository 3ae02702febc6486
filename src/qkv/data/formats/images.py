"""Pictures with labels, whatever they come in: idx files, npz archives, folders of files (with Pillow)."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from qkv.data.files.unpack import read_bytes
from qkv.data.findings import Caution, Findings, Watch
from qkv.data.formats.arrays import MOST_BYTES, Pictures, from_idx, from_npz, holds_labels, too_large
from qkv.data.formats.rows import Rows
from qkv.data.labelled.gathering import Item
from qkv.errors import DataError, require_package

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

LARGEST_FILE = 2**26
_GREY = ("1", "L", "I", "F", "I;16", "LA")


def gather(items: Sequence[Item], findings: Findings, watch: Watch | None = None) -> Pictures:
    found = [from_idx(item, items) for item in items if item.kind == "idx" and not holds_labels(item)]
    found += [from_npz(item) for item in items if item.kind == "npz"]
    if pictures := [item for item in items if item.kind == "picture"]:
        found.append(_from_files(pictures, findings, watch))
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


def _from_files(items: Sequence[Item], findings: Findings, watch: Watch | None = None) -> Pictures:
    """All pictures, made the size that most of them have; grey when all are, else in colour."""
    for item in items:
        if item.label is None:
            raise DataError(item.source.shown, "a picture without a label", "Put it into a folder named for its label.")
    known: list[tuple[Item, tuple[int, int]]] = []
    rows = Rows(f"{items[0].source.shown} and {len(items) - 1:,} more", None, findings)
    grey = True
    for number, item in enumerate(items, 1):
        rows.rows += 1
        opened = _opened(item, watch)
        if isinstance(opened, str):
            rows.reject(number, f"{item.source.shown} {opened}")
            continue
        known.append((item, opened.size))
        grey = grey and opened.mode in _GREY
    rows.finish()
    size, usual = Counter(size for _, size in known).most_common(1)[0]
    if usual < len(known):
        findings.say(
            Caution(
                f"{len(known) - usual:,} of {len(known):,} pictures were made {size[0]} x {size[1]}, as the others are."
            )
        )
    shape = (len(known), size[1], size[0], *(() if grey else (3,)))
    if (total := int(np.prod(shape, dtype=object))) > MOST_BYTES:
        raise too_large(items[0].source.shown, total)
    found = Pictures(np.zeros(shape, dtype=np.uint8))
    for row, (item, _) in enumerate(known):
        opened = _opened(item, None)
        if isinstance(opened, str):
            raise DataError(item.source.shown, "changed while it was being read", "Start again when it rests.")
        converted = opened.convert("L" if grey else "RGB")
        found.pixels[row] = np.asarray(converted if converted.size == size else converted.resize(size))
        found.values.append(item.label or "", item.source.shown, 0)
    return found


def _opened(item: Item, watch: Watch | None) -> Picture | str:
    """The picture, decoded; or words for what is wrong with it."""
    require_package("PIL", f"{item.source.shown}: reading pictures")
    import io

    from PIL import Image, UnidentifiedImageError

    content = b""
    for chunk in read_bytes(item.source):
        content += chunk
        if len(content) > LARGEST_FILE:
            return f"is larger than {LARGEST_FILE:,} bytes"
    if watch is not None:
        watch(len(content))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            picture = Image.open(io.BytesIO(content))
            picture.load()
    except UnidentifiedImageError:
        return "is no picture that Pillow knows"
    except Exception as error:  # Pillow's readers fail in as many ways as there are formats
        return f"cannot be read: {' '.join(str(error).split())[:100]}"
    return picture

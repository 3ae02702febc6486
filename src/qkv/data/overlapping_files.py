"""Files of one split that hold the same examples in part, such as train.json and train_full.json.

They are read together, as files of one folder are; a note says how much of one stands in the other.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePath

import numpy as np

from qkv.data.findings import Caution, Findings
from qkv.data.identity import Keys
from qkv.data.split_files import ExampleFile

_ADDED_WORD = re.compile(r"(.+)([-_. ][^\W_]+)")


def note_overlapping_files(files: Sequence[ExampleFile], starts: Sequence[int], keys: Keys, findings: Findings) -> None:
    """Note files whose examples are also in a file beside them of the same name with one more word. The examples of
    file i begin at `starts[i]`."""
    keys_of = {
        (str(path.parent), path.stem, path.suffix): keys[start:end]
        for file, start, end in zip(files, starts, [*starts[1:], len(keys)], strict=True)
        for path in [PurePath(file.display_name)]
    }
    counts: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    first: dict[str, str] = {}
    for (folder, stem, suffix), longer in keys_of.items():
        match = _ADDED_WORD.fullmatch(stem)
        shorter = keys_of.get((folder, match[1], suffix)) if match else None
        if match is None or shorter is None or not (shared := int(np.isin(shorter, longer).sum())):
            continue
        ending = f"{match[2]}{suffix}"
        for place, number in enumerate((1, shared, len(shorter))):
            counts[ending][place] += number
        first.setdefault(ending, f"{match[1]}{suffix} and {stem}{suffix}")
    for ending, (pairs, shared, total) in counts.items():
        others = f" and {pairs - 1:,} more such pairs" if pairs > 1 else ""
        those = f"{shared:,} of the {total:,} examples in the files without {ending!r} are in those with it"
        remedy = f"--filter '*{ending}' reads only these"
        findings.add_note(Caution(f"{first[ending]}{others} are read together: {those}; {remedy}."))

"""Layouts of labelled examples in folders and archives, which are tried one after the other.

A layout is a function that gets the names, sizes and first lines of all files, and returns the files of examples with
their splits and labels, or None. The first certain layout is used: one that a person would recognise without help. If
none is certain, and an option asks for labelled examples, the first that returns files is used.
"""

from __future__ import annotations

from pathlib import Path

from qkv.data.corpus import ExamplesConfig
from qkv.data.files.discover import list_files
from qkv.data.findings import Findings
from qkv.data.formats.kinds import FilePreviews
from qkv.data.layouts.labels_elsewhere import files_listed_in_a_table, texts_and_labels_by_id, texts_and_labels_by_line
from qkv.data.layouts.labels_in_files import files_with_labels, tables_named_for_labels
from qkv.data.layouts.labels_in_names import lines_in_named_files, texts_in_folders, texts_with_labels_in_names
from qkv.data.layouts.listing import ExampleLayout, FindLayout, Listing
from qkv.errors import DataError

LAYOUTS: tuple[FindLayout, ...] = (
    texts_and_labels_by_line,
    texts_and_labels_by_id,
    files_listed_in_a_table,
    tables_named_for_labels,
    files_with_labels,
    texts_in_folders,
    lines_in_named_files,
    texts_with_labels_in_names,
)
LAYOUTS_IN_WORDS = (
    "tables, CoNLL, idx or npz files; sub-folders or files named for the labels; "
    "or texts and labels in files such as train_text.txt and train_labels.txt"
)


def find_layout(path: Path, config: ExamplesConfig, previews: FilePreviews, findings: Findings) -> ExampleLayout | None:
    """The layout of a folder or archive, certain or not; None if there is none. What is left out is noted."""
    key = _key(path, config)
    if key not in previews.layouts:
        listed = Findings()
        files = tuple(list_files(path, config.filter, listed))
        listing = Listing(path, files, previews, listed, bool(config.filter), config.header)
        previews.layouts[key] = listing, _first_layout(listing)
    listing, layout = previews.layouts[key]
    findings.merge(listing.findings)
    if layout is not None:
        used = layout.sources
        for file in listing.files:
            if file.source not in used:
                findings.leave_out("not among the examples", file.path)
    return layout


def label_folders(path: Path, previews: FilePreviews) -> list[str]:
    """The names of the sub-folders of texts that may be labels; none if files are anywhere else but above them."""
    config = ExamplesConfig(files=(str(path),))
    layout = find_layout(path, config, previews, Findings())
    if layout is None:
        return []
    listing: Listing = previews.layouts[_key(path, config)][0]
    examples = [file for file in listing.files if file.source in layout.sources]
    others = [file for file in listing.files if file.source not in layout.sources]
    labels = {file.label for file in layout.files if file.label is not None}
    return sorted(labels) if listing.are_side_files(others, examples) else []


def _key(path: Path, config: ExamplesConfig) -> object:
    return str(path), config.filter, config.header


def _first_layout(listing: Listing) -> ExampleLayout | None:
    uncertain: ExampleLayout | None = None
    for find in LAYOUTS:
        try:
            layout = find(listing)
        except DataError:  # a file that cannot be read, which is reported when the examples are read
            continue
        if layout is not None and layout.certain:
            return layout
        uncertain = uncertain or layout
    return uncertain

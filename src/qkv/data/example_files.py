"""Finds the files of labelled examples: files, folders, archives and sets of the catalog."""

from __future__ import annotations

from pathlib import Path

from qkv.data.corpus import ExamplesConfig
from qkv.data.files.discover import catalog_entry
from qkv.data.files.unpack import Source, require_packages
from qkv.data.findings import Assumption, Findings, Progress, display_name, no_progress
from qkv.data.formats.column_names import Split, split_of
from qkv.data.formats.kinds import FilePreviews
from qkv.data.layouts import LAYOUTS_IN_WORDS, find_layout
from qkv.data.split_files import ExampleFile, SplitFiles, is_container
from qkv.errors import DataError


def find_examples(
    config: ExamplesConfig, findings: Findings, progress: Progress = no_progress, previews: FilePreviews | None = None
) -> SplitFiles[ExampleFile]:
    """The files of labelled examples, by split; DataError for a name that has none."""
    previews = previews or FilePreviews(config.encoding)
    if not config.files:
        raise DataError("the examples", "no files were named", "Name a file, a folder, or a set from `qkv data list`.")
    files, valid, test = (
        [file for name in names for file in _example_files(name, config, findings, progress, previews)]
        for names in (config.files, config.valid, config.test)
    )
    require_packages(file.source for file in (*files, *valid, *test))
    return SplitFiles.assign(files, valid, test, findings)


def _example_files(
    name: str, config: ExamplesConfig, findings: Findings, progress: Progress, previews: FilePreviews
) -> list[ExampleFile]:
    """The files of labelled examples in a file, folder, archive or set of the catalog."""
    if entry := catalog_entry(name):
        if entry.task in ("language modelling", "translation"):
            raise DataError(name, f"is a set for {entry.task}: it has no labels", "See `qkv data list`.")
        catalog_files: list[ExampleFile] = []
        for file in entry.files:
            source = Source(file.obtain(progress))
            split: Split = "valid" if file in entry.valid else "train"
            catalog_files.append(ExampleFile(source, previews.kind(source), split, discovered=True))
        return catalog_files
    if not is_container(name, "examples"):
        source = Source(Path(name))
        return [ExampleFile(source, previews.kind(source), split_of(source.file_name))]
    layout = find_layout(Path(name), config, previews, findings)
    if layout is None:
        subject = f"no file that matches {config.filter!r}" if config.filter else "nothing in it"
        remedy = f"Expected {LAYOUTS_IN_WORDS}."
        raise DataError(display_name(name), f"{subject} looks like labelled data", remedy)
    if layout.note:
        findings.add_note(Assumption(layout.note))
    return list(layout.files)

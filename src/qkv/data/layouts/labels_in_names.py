"""Layouts with labels in the names of folders, of files with an example on each line, or of files with one example.

Books, diaries and source code have such names, too. So without an option, a layout is certain only if the names may be
labels and the texts are alike: short, of similar length, many for each label.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from statistics import median
from unicodedata import normalize

from qkv.data.files.discover import ListedFile
from qkv.data.files.unpack import ALL_FORMATS
from qkv.data.formats.kinds import FileKind, kind_by_name
from qkv.data.layouts.label_words import are_known_labels, is_part_of_work, may_be_labels
from qkv.data.layouts.listing import ExampleLayout, Listing, list_names, split_of_path, stem, words_of

Groups = Mapping[str, Sequence[ListedFile]]
_MIN_FILES, _MIN_OF_LABEL, _MEAN_OF_LABEL = 20, 3, 10
"""The smallest number of files in total, per label, and per label on average."""
_MAX_TYPICAL_SIZE = 8000
"""The largest median size of the texts in bytes; chapters are larger."""
_MAX_SIZE_RATIO = 8
"""The median text of one label may be this many times as large as that of another."""
_TEXT_SUFFIXES = ("", ".txt", ".text", ".eml")
_MAX_NAME_PATTERNS = 3
_MIN_LINES = 10
_MAX_LINES_RATIO, _MAX_LENGTH_RATIO = 5, 2.5
"""One label may have this many times as many lines, and lines this many times as long, as another."""
_MAX_ITEM_WORDS, _MAX_ITEM_CHARACTERS = 3, 40
"""Names and terms have fewer words and characters on average."""
_MIN_SENTENCES = 0.6
_MAX_LINES_BYTES = 2**25
_TO_TEXT = "--task language-modelling reads the files as text"


def texts_in_folders(listing: Listing) -> ExampleLayout | None:
    """Texts or images in sub-folders that are named for their labels, perhaps with folders of splits."""
    images = listing.of_kinds("image")
    files = images if 2 * len(images) >= len(listing.files) else listing.texts
    groups = _grouped(files, listing.label_folder)
    if not groups:
        return None
    kind: FileKind = "image" if files is images else "text"
    found = [listing.example_file(file, kind, label) for label, group in groups.items() for file in group]
    found.sort(key=lambda file: file.display_name)
    certain = len(groups) > 1 and (files is images or _folders_are_labels(groups, listing))
    note = f"{listing.name}: the names of the sub-folders are the labels ({list_names(groups)}); {_TO_TEXT}."
    return ExampleLayout(found, note if kind == "text" else None, certain)


def _folders_are_labels(groups: Groups, listing: Listing) -> bool:
    files = [file for group in groups.values() for file in group]
    splits: dict[str | None, set[str]] = defaultdict(set)
    for label, group in groups.items():
        for file in group:
            splits[split_of_path(file.path.parent)].add(label)
    if len(splits) > 1 and None not in splits and len({frozenset(labels) for labels in splits.values()}) == 1:
        return True
    if any(len(listing.folders(file)) != 1 for file in files):
        return False
    if not listing.are_side_files(set(listing.texts).difference(files), files):
        return False
    return are_known_labels(groups) or (may_be_labels(set(groups)) and _are_examples(groups))


def _are_examples(groups: Groups) -> bool:
    """Whether files are numbered texts of one kind, many for each label."""
    files = [file for group in groups.values() for file in group]
    counts = [len(group) for group in groups.values()]
    if len(files) < _MIN_FILES or min(counts) < _MIN_OF_LABEL or len(files) < _MEAN_OF_LABEL * len(groups):
        return False
    suffixes = {_text_suffix(file) for file in files}
    if (
        len(suffixes) > 1
        or not suffixes <= set(_TEXT_SUFFIXES)
        or any(is_part_of_work(file.path.stem) for file in files)
    ):
        return False
    patterns = Counter(_without_numbers(stem(file.path)) for file in files)
    if sum(count for _, count in patterns.most_common(_MAX_NAME_PATTERNS * len(groups))) < 0.9 * len(files):
        return False
    typical = [median(file.size for file in group) for group in groups.values()]
    return max(typical) <= _MAX_SIZE_RATIO * max(1, min(typical)) and median(typical) <= _MAX_TYPICAL_SIZE


def _text_suffix(file: ListedFile) -> str:
    """The suffix of a text; empty for names such as 0001.ea7e79d3, which end with an id."""
    suffix = file.path.suffix.lower()
    return "" if re.search(r"\d", suffix) else suffix


def _without_numbers(name: str) -> str:
    """A name with 0 for numbers and for hexadecimal ids."""
    name = re.sub(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b", "0", name.lower())
    return re.sub(r"\d+", "0", name)


def texts_with_labels_in_names(listing: Listing) -> ExampleLayout | None:
    """Texts or images with the label in the name of each file: pos_001.txt, 12_spam.txt, cat.7.jpg."""
    images = listing.of_kinds("image")
    files = images if 2 * len(images) >= len(listing.files) else listing.texts
    if len(files) < _MIN_FILES:
        return None
    for position in (0, -1):
        groups = _grouped(files, partial(_word_in_name, position=position))
        if sum(map(len, groups.values())) < len(files) or not may_be_labels(set(groups)):
            continue
        if len({file.path.parent for file in files if split_of_path(file.path.parent) is None}) > 1:
            continue
        rests = {_without_numbers(_rest_of_name(file, position)) for file in files}
        if (
            len(rests) > _MAX_NAME_PATTERNS
            or not all("0" in rest for rest in rests)
            or any(map(is_part_of_work, rests))
        ):
            continue
        kind: FileKind = "image" if files is images else "text"
        found = [listing.example_file(file, kind, label) for label, group in groups.items() for file in group]
        found.sort(key=lambda file: file.display_name)
        note = f"{listing.name}: the label is a part of the name of each file ({list_names(groups)}); {_TO_TEXT}."
        return ExampleLayout(found, note, kind == "image" or _are_examples(groups))
    return None


def _word_in_name(file: ListedFile, position: int) -> str | None:
    """The first or last word of a file's name, if the name has other words and this one has no digits."""
    words = words_of(stem(file.path))
    if len(words) < 2:
        words = re.findall(r"[^\W\d_]+|\d+", stem(file.path))
    return words[position].lower() if len(words) > 1 and not re.search(r"\d", words[position]) else None


def _rest_of_name(file: ListedFile, position: int) -> str:
    label = _word_in_name(file, position) or ""
    name = stem(file.path).lower()
    return name.replace(label, "", 1) if position == 0 else "".join(name.rsplit(label, 1))


def lines_in_named_files(listing: Listing) -> ExampleLayout | None:
    """Files with an example on each line, whose names or endings are the labels: female.txt, rt-polarity.neg."""
    texts = [file for file in listing.files if listing.kind(file) == "text" and file.source.format == "text"]
    for label_of in (_ending, _whole_name):
        groups = _grouped(texts, label_of)
        files = [file for group in groups.values() for file in group]
        folders = {file.path.parent for file in files}
        in_splits = {split_of_path(folder / "name") for folder in folders}
        one_place = len(folders) == 1 or (None not in in_splits and len(in_splits) == len(folders))
        if len(files) == len(texts) and one_place and may_be_labels(set(groups)) and _have_lines(files, listing):
            found = [listing.example_file(file, "lines", label) for label, group in groups.items() for file in group]
            found.sort(key=lambda file: file.display_name)
            what = "endings" if label_of is _ending else "names"
            note = f"{listing.name}: the {what} of the files are the labels of their lines ({list_names(groups)})"
            return ExampleLayout(found, f"{note}; {_TO_TEXT}.", _lines_are_examples(groups, listing))
    return None


def _have_lines(files: Sequence[ListedFile], listing: Listing) -> bool:
    return all(sum(bool(line.strip()) for line in listing.lines(file)) > 1 for file in files)


def _ending(file: ListedFile) -> str | None:
    """The ending of a file of unknown format."""
    suffix = file.path.suffix
    known = suffix.lower() in (*ALL_FORMATS, ".txt", ".text", "") or kind_by_name(file.source) is not None
    return None if known or not suffix[1:].isalpha() else suffix[1:]


def _whole_name(file: ListedFile) -> str | None:
    suffix = file.path.suffix.lower()
    return stem(file.path) if suffix in (".txt", ".text", "") else None


def _lines_are_examples(groups: Groups, listing: Listing) -> bool:
    """Whether lines are similar, separate examples: names or terms, or sentences in similar numbers."""
    lines = {label: [line for file in group for line in listing.lines(file)] for label, group in groups.items()}
    filled = {label: [line.strip() for line in group if line.strip()] for label, group in lines.items()}
    sizes = [sum(file.size for file in group) for group in groups.values()]
    for label, examples in filled.items():
        if len(examples) < _MIN_LINES or len(set(examples)) < 0.8 * len(examples):
            return False
        if len(examples) < 0.98 * (len(lines[label]) - 1):  # paragraphs
            return False
    if max(sizes) > _MAX_LINES_BYTES:
        return False
    lengths = {label: sum(map(len, examples)) / len(examples) for label, examples in filled.items()}
    alike = max(lengths.values()) <= _MAX_LENGTH_RATIO * min(lengths.values())
    if not alike or are_known_labels(groups):
        return alike
    words = [sum(len(line.split()) for line in examples) / len(examples) for examples in filled.values()]
    if max(words) < _MAX_ITEM_WORDS and max(lengths.values()) < _MAX_ITEM_CHARACTERS:
        return True
    similar_number = max(sizes) <= _MAX_LINES_RATIO * min(sizes)
    return similar_number and all(_are_sentences(examples) for examples in filled.values())


def _are_sentences(lines: Sequence[str]) -> bool:
    """Whether most lines are whole sentences, and not the lines of wrapped prose, of verse or of plays."""
    ended = sum(bool(re.search(r"[.!?…。！？][\"'”’)\]]*$", line)) for line in lines)
    speakers = sum(bool(re.match(r"[^\s:]+(?: [^\s:]+)?: ", line)) for line in lines)
    return ended >= _MIN_SENTENCES * len(lines) and speakers < 0.3 * len(lines)


def _grouped(files: Iterable[ListedFile], label_of: Callable[[ListedFile], str | None]) -> Groups:
    groups: dict[str, list[ListedFile]] = defaultdict(list)
    for file in files:
        if (label := label_of(file)) is not None:
            groups[normalize("NFC", label)].append(file)
    return groups

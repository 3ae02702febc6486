"""Findings while reading files, such as what was changed or left out: counted, and reported in one line each.

Long operations report their progress: the stage, the amount done, and the total if it is known.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import PurePath

from qkv import time_limit
from qkv.errors import DataError
from qkv.visible import counted, visible

_NAMED_FILES = 3
"""How many of the files that are left out for the same reason are named."""


def display_name(path: str | PurePath) -> str:
    """A file's name for a message: one line without control characters, for names of any bytes."""
    text = os.fsencode(path).decode("utf-8", errors="backslashreplace")
    return visible(text)


class Caution(str):
    """An important note: something is lost, or the scores will be misleading."""


class Leak(Caution):
    """A note on examples that are both in the training set and in another split."""


class Assumption(str):
    """A note on an assumption about the files; it names the option that overrides it."""


class TaskNote(str):
    """The note that states what is learned from which data."""


MAX_SHOWN_NOTES = 3
_RANKS: tuple[type[str], ...] = (Leak, Caution, Assumption)
"""The kinds of notes, the most important first; other notes come after them, and a TaskNote last."""


def ranked(notes: Iterable[str]) -> tuple[str, ...]:
    """The distinct notes by importance: leaks, cautions, assumptions, then information."""

    def rank(note: str) -> int:
        known = (number for number, kind in enumerate(_RANKS) if isinstance(note, kind))
        return next(known, len(_RANKS) + isinstance(note, TaskNote))

    return tuple(sorted(dict.fromkeys(notes), key=rank))


def first_notes(notes: Iterable[str], others_in: str) -> tuple[str, ...]:
    """The most important notes, and a line that counts the others and says where they are. What is learned from which
    data is left out: the plan of a run and the table of a description say so."""
    ordered = [note for note in ranked(notes) if not isinstance(note, TaskNote)]
    others = len(ordered) - MAX_SHOWN_NOTES
    more = (f"{others} more {'note' if others == 1 else 'notes'} in {others_in}.",) if others > 0 else ()
    return (*ordered[:MAX_SHOWN_NOTES], *more)


@dataclass
class Findings:
    boms: list[str] = field(default_factory=list)
    encodings: dict[str, str] = field(default_factory=dict)
    """The detected encodings of files that are not UTF-8."""
    unreadable: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By file: how many bytes were not valid in its encoding and were read as U+FFFD, and where the first is."""
    other_lines: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By file that is UTF-8 in part: how many lines were read in another encoding, and where the first is."""
    surrogate_pairs: dict[str, tuple[int, str]] = field(default_factory=dict)
    """By file: how many characters are written as two surrogates (CESU-8), and where the first is."""
    crlf: int = 0
    cr: int = 0
    newlines: int = 0
    """Line ends that were \\n from the start."""
    skipped: Counter[str] = field(default_factory=Counter)
    """Files of folders and archives that were left out, by reason."""
    skipped_names: dict[str, list[str]] = field(default_factory=dict)
    """The names of the first of them, by reason."""
    unread_documents: list[DataError] = field(default_factory=list)
    """Why documents of folders and archives, such as .pdf, were left out."""
    attachments: int = 0
    """How many attachments of e-mail messages were left out."""
    links: list[str] = field(default_factory=list)
    """Links that lead out of the folder they are in, and were not followed."""
    bad_rows: list[tuple[str, int, int, str]] = field(default_factory=list)
    """By file: the line of the first bad row, how many of how many rows are bad, and what is wrong with the first."""
    empty: int = 0
    first_empty: str = ""
    """The file of the first empty document."""
    columns: dict[str, str] = field(default_factory=dict)
    """The text column that was guessed, by file."""
    remarks: list[str] = field(default_factory=list)

    def add_note(self, line: str) -> None:
        if line not in self.remarks:
            self.remarks.append(line)

    def merge(self, listed: Findings) -> None:
        """Take over what was noticed while files were listed."""
        for line in listed.remarks:
            self.add_note(line)
        self.skipped.update(listed.skipped)
        self.links += listed.links
        for reason, names in listed.skipped_names.items():
            known = self.skipped_names.setdefault(reason, [])
            known += names[: _NAMED_FILES - len(known)]

    def leave_out(self, reason: str, path: str | PurePath) -> None:
        """Count a file of a folder or archive that is not read."""
        self.skipped[reason] += 1
        if len(names := self.skipped_names.setdefault(reason, [])) < _NAMED_FILES:
            names.append(display_name(PurePath(path).name))

    def skipped_text(self) -> str:
        """The files that were left out, such as "2 documentation (README.md, LICENSE), 3 hidden"."""
        parts = []
        for reason, count in sorted(self.skipped.items()):
            names = self.skipped_names.get(reason, [])
            more = ", ..." if count > len(names) else ""
            parts.append(f"{count:,} {reason}" + (f" ({', '.join(names)}{more})" if names else ""))
        return ", ".join(parts)

    def notes(self) -> tuple[str, ...]:
        lines = list(self.remarks)
        if whole := {where: name for where, name in self.encodings.items() if where not in self.other_lines}:
            lines.append(_encodings_note(whole))
        if self.other_lines:
            lines.append(_other_lines_note(self.other_lines, self.encodings))
        if self.surrogate_pairs:
            lines.append(_surrogate_pairs_note(self.surrogate_pairs))
        if self.unreadable:
            lines.append(_unreadable_note(self.unreadable))
        if self.boms:
            more = f" and {len(self.boms) - 1:,} more" if len(self.boms) > 1 else ""
            lines.append(f"{self.boms[0]}{more}: a byte order mark at the start was left out.")
        if self.crlf:
            lines.append(f"{self.crlf:,} line ends \\r\\n (CRLF) were read as \\n.")
        if self.cr:
            lines.append(f"{self.cr:,} lone carriage returns (CR) were read as \\n.")
        for where, count, rows, problem in self.bad_rows:
            lines.append(Caution(f"{where}: {count:,} of {rows:,} rows left out, the first here: {problem}."))
        guessed = Counter(self.columns.values())
        for column, count in guessed.items():
            files = next(iter(self.columns)) if count == 1 else f"{count:,} files"
            lines.append(Assumption(f"{files}: the text was taken from {column!r}; --text names another."))
        if self.skipped:
            lines.append(f"files left out: {self.skipped_text()}.")
        if self.attachments:
            verb = "was" if self.attachments == 1 else "were"
            lines.append(f"{counted(self.attachments, 'attachment')} of e-mail messages {verb} left out.")
        if self.unread_documents:
            count, first = len(self.unread_documents), self.unread_documents[0]
            subject = f"{counted(count, 'document')} cannot be read and {'was' if count == 1 else 'were'} left out"
            lines.append(Caution(f"{subject}, the first: {first}"))
        if self.links:
            one = len(self.links) == 1
            what = "1 link that leads" if one else f"{len(self.links):,} links that lead"
            followed = "was not followed" if one else "were not followed, the first"
            remedy = "To read it, name its target too."
            lines.append(Caution(f"{what} out of the folder {followed}: {self.links[0]}. {remedy}"))
        if self.empty:
            where = self.first_empty
            lines.append(
                f"1 empty document was left out: {where}."
                if self.empty == 1
                else f"{self.empty:,} empty documents were left out, the first in {where}."
            )
        return tuple(lines)


def _unreadable_note(unreadable: dict[str, tuple[int, str]]) -> Caution:
    total = sum(count for count, _ in unreadable.values())
    files = "1 file" if len(unreadable) == 1 else f"{len(unreadable):,} files"
    subject = f"1 byte in {files} is" if total == 1 else f"{total:,} bytes in {files} are"
    _, place = next(iter(unreadable.values()))
    return Caution(f"{subject} in no encoding that fits the rest and became U+FFFD, the first at {place}.")


def _other_lines_note(lines: dict[str, tuple[int, str]], encodings: dict[str, str]) -> Assumption:
    total, place = sum(count for count, _ in lines.values()), next(iter(lines.values()))[1]
    what, are = ("1 line", "is") if total == 1 else (f"{total:,} lines", "are")
    files = f" in {len(lines):,} files" if len(lines) > 1 else ""
    names = ", ".join(dict.fromkeys(encodings[where] for where in lines))
    read = f"{what}{files} {are} not UTF-8 and {are} read as {names}, the others as UTF-8"
    return Assumption(f"{place}: {'from here on ' * (total > 1)}{read}; save as UTF-8 what is read wrongly.")


def _surrogate_pairs_note(pairs: dict[str, tuple[int, str]]) -> str:
    total, place = sum(count for count, _ in pairs.values()), next(iter(pairs.values()))[1]
    if total == 1:
        return f"{place}: 1 character is written as a pair of surrogates (CESU-8); it was read as what it means."
    what = f"{total:,} characters are written as pairs of surrogates (CESU-8)"
    return f"{what}; they were read as what they mean, the first at {place}."


def _encodings_note(encodings: dict[str, str]) -> Assumption:
    counts = Counter(encodings.values())
    first = next(iter(encodings))
    if len(encodings) == 1:
        return Assumption(f"{first}: not UTF-8, so it is read as {encodings[first]}; --encoding names another.")
    named = ", ".join(
        f"{encoding} ({count:,})" if len(counts) > 1 else encoding for encoding, count in counts.most_common()
    )
    subject = f"{len(encodings):,} files are not UTF-8 and are read as {named}, the first is {first}"
    return Assumption(f"{subject}; --encoding names another.")


Progress = Callable[[str, int, int | None], None]
OnRead = Callable[[int], None]
"""Called with the number of bytes that were just read."""


def no_progress(stage: str, done: int, total: int | None) -> None:
    pass


def byte_counter(progress: Progress, stage: str, total: int | None = None) -> OnRead:
    """A function that reports the total of the bytes that were read so far."""
    done = 0

    def on_read(count: int) -> None:
        nonlocal done
        done += count
        time_limit.check()
        progress(stage, done, total)

    return on_read

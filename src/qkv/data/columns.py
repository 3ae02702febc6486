"""The columns of labelled texts: the text, and possibly a second text, a label and an id.

The options decide, else the names of the columns, else their cells.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from qkv.data.column_profiles import ColumnProfile, column_profiles
from qkv.data.corpus import ExamplesConfig
from qkv.data.findings import Assumption, Caution, Findings
from qkv.data.formats import column_names as names
from qkv.data.formats.headers import Header, named_header
from qkv.data.formats.rows import MIN_LABELLED_SHARE
from qkv.data.formats.tabular import Table
from qkv.errors import DataError

_NEARLY_FULL = 0.9
"""A column with more blank cells is the text only if no other column of prose is full."""

_MIN_PLAIN_ROWS = 20


def header_rule(config: ExamplesConfig) -> Header:
    """How a header is recognised: by the names of columns that options give, else by its cells."""
    if config.header is not None:
        return config.header
    label = without_level(config.label) if config.label else None
    words = (column.partition("=")[0] for column in config.columns)
    return named_header((config.text, config.text2, config.label, label, config.id, *words))


def given_column(table: Table, given: str | None, role: str) -> str | None:
    """The column that an option names, by its name or by its number from 1; None if the option is not given."""
    if given is None or given in table.columns:
        return given
    if (inner := _inner_column(table, given)) is not None:
        return inner
    if given.isdecimal() and 1 <= int(given) <= len(table.columns):
        return table.columns[int(given) - 1]
    raise _missing_column_error(table, given, role)


def without_level(label: str) -> str:
    """The column in the value of --label: category in category:1."""
    return re.sub(r":[1-9]$", "", label)


def given_label(table: Table, given: str | None) -> tuple[str | None, int]:
    """The column that --label names, and the level of its labels, as in --label category:1; 0: the whole label."""
    if given is None or given in table.columns or without_level(given) == given:
        return given_column(table, given, "label"), 0
    return given_column(table, without_level(given), "label"), int(given[-1])


def _inner_column(table: Table, path: str) -> str | None:
    """The column of a path of keys such as ticket.description, whose first keys the table leaves out."""
    parts = path.split(".")
    suffixes = (".".join(parts[start:]) for start in range(1, len(parts)))
    return next((suffix for suffix in suffixes if suffix in table.columns), None)


def column_index(table: Table, column: str, role: str) -> int:
    if column not in table.columns:
        raise _missing_column_error(table, column, role)
    return table.columns.index(column)


def _missing_column_error(table: Table, missing: str, role: str) -> DataError:
    begins = [column for column in table.columns if column.casefold().startswith(missing.casefold())]
    similar = begins if len(begins) == 1 else difflib.get_close_matches(missing, table.columns, 1)
    remedy = f"Name it with --{role} NAME, or by its number from 1."
    problem = f"no column {missing!r}; there are: {list_columns(table.columns)}"
    return DataError(
        f"{table.where}:1", problem, f"Did you mean --{role} {shlex.quote(similar[0])}?" if similar else remedy
    )


def list_columns(columns: Iterable[str]) -> str:
    """Up to 20 names for a message."""
    columns = list(columns)
    return ", ".join(columns[:20]) + (f" and {len(columns) - 20:,} more" if len(columns) > 20 else "") or "none"


def columns_note(table: Table, roles: dict[str, str], used: Iterable[str]) -> Assumption:
    used = {*used, (table.split_column or "") if table.source.split else ""}
    unused = [column for column in table.columns if column not in used and not table.holds_keys(column)]
    others = f" and {len(unused) - 8:,} more" if len(unused) > 8 else ""
    more = f"; not used: {', '.join(name_in_list(table, name) for name in unused[:8])}{others}" if unused else ""
    dialect = f" ({table.dialect_note})" if table.dialect_note else ""
    named = ", ".join(f"{role}: {_column_in_words(table, name)}" for role, name in roles.items())
    return Assumption(f"{table.where}: {named}{more}{dialect}.")


def name_in_list(table: Table, name: str) -> str:
    """A column's name among others; one whose cell in the header is empty has a number for its name."""
    is_number = name.isdecimal() and table.columns.index(name) == int(name) - 1
    return f"column {name} (no name)" if is_number and not table.has_numbered_columns else repr(name)


def _column_in_words(table: Table, name: str) -> str:
    by_keys = name in table.columns and table.holds_keys(name)
    return "the keys of the JSON object" if by_keys else f"column {name!r}"


def lacks_label(table: Table, label: str, may_lack: bool, findings: Findings) -> bool:
    """Whether a table that may lack labels, such as the test file of a folder, has none, which is noted."""
    lacks = may_lack and label not in table.columns
    if lacks:
        findings.add_note(Caution(f"{table.where}: has no column {label!r} and is not used."))
    return lacks


def text_problem(cell: object, column: str) -> str | None:
    """What is wrong with a cell that should hold text; None if it does."""
    if cell is not None and not isinstance(cell, str):
        return f"expected text in {column!r}, found {type(cell).__name__}"
    return None if cell and cell.strip() else f"no text in {column!r}"


@dataclass(frozen=True)
class TextColumns:
    """The names of the columns of labelled texts."""

    text: str
    label: str
    second: str | None = None
    id: str | None = None
    level: int = 0
    """How many levels of labels such as LOC:city are learned; 0: all."""
    other_labels: tuple[str, ...] = ()
    """Other columns that could be the label, if none was given."""

    def by_role(self) -> dict[str, str]:
        label = f"{self.label}:{self.level}" if self.level else self.label
        roles = {"text": self.text, "second text": self.second, "label": label, "id": self.id}
        return {role: column for role, column in roles.items() if column is not None}

    def note(self, table: Table) -> Assumption:
        note = columns_note(table, self.by_role(), (*self.by_role().values(), self.label))
        others = " or ".join(map(repr, self.other_labels[:5]))
        more = f"; {others} could be the label, too: --label {self.other_labels[0]}." if others else "."
        return Assumption(f"{note[:-1]}{more}")


def guess_columns(table: Table, config: ExamplesConfig) -> TextColumns:
    """The columns of labelled texts; DataError if they cannot be guessed."""
    text, second = guess_texts(table, config)
    (label, level), id_column = given_label(table, config.label), given_column(table, config.id, "id")
    unassigned = [profile for profile in column_profiles(table) if profile.name not in (text, second, label, id_column)]
    label, others = (label, ()) if label is not None else _guess_label(table, unassigned)
    id_column = id_column or next(
        (profile.name for profile in unassigned if profile.is_id and profile.name != label), None
    )
    return TextColumns(text, label, second, id_column, level, others)


def guess_texts(table: Table, config: ExamplesConfig) -> tuple[str, str | None]:
    """The column of the text, and of pairs that of the second text."""
    options = {"text": config.text, "text2": config.text2, "id": config.id}
    given = {role: given_column(table, option, role) for role, option in options.items()}
    given["label"] = given_label(table, config.label)[0]
    roles = [role for role, column in given.items() if column is not None]
    for role, earlier in ((role, earlier) for number, role in enumerate(roles) for earlier in roles[:number]):
        if given[role] == given[earlier]:
            problem = f"{earlier} and {role} are both the column {given[role]!r}"
            raise DataError(table.where, problem, f"Name another one with --{role} NAME.")
    text, second = given["text"], given["text2"]
    if text is not None:
        return text, second
    unassigned = [
        profile for profile in column_profiles(table) if profile.name not in given.values() and not profile.is_id
    ]
    text, guessed_second = _guess_texts(table, unassigned, pairs=not second)
    return text, second or guessed_second


def _with_usual_names(profiles: Iterable[ColumnProfile], usual_names: Sequence[str]) -> list[str]:
    """The columns with one of the usual names, the likeliest name first."""
    by_name = {names.normalize(profile.name): profile.name for profile in profiles}
    return [by_name[name] for name in usual_names if name in by_name]


def _guess_texts(table: Table, unassigned: Sequence[ColumnProfile], pairs: bool) -> tuple[str, str | None]:
    """The column of the text, and that of the second text if `pairs` are allowed and two columns belong together."""
    texts = [profile for profile in unassigned if profile.is_text]
    if all(profile.is_class for profile in texts):  # then texts that look like identifiers are candidates too
        texts = [profile for profile in unassigned if profile.is_text or profile.holds_words]
    prose = [profile for profile in texts if profile.is_prose]
    if pairs and (pair := _guess_text_pair(prose, table)) is not None:
        return pair
    if usual := _with_usual_names(prose, names.TEXT) or _with_usual_names(texts, names.TEXT):
        return usual[0], None
    candidates = [profile for profile in texts if names.normalize(profile.name) not in names.LABEL] or texts
    if not candidates:
        problem = f"which column holds the text? There are: {list_columns(table.columns)}"
        raise DataError(f"{table.where}:1", problem, "Name it with --text NAME, or by its number from 1.")

    def likelihood(profile: ColumnProfile) -> tuple[bool, bool, bool, float, int]:
        varied, full = profile.distinct_count > 1, profile.filled_share > _NEARLY_FULL
        return profile.is_prose, varied, full, profile.mean_length, profile.distinct_count

    return max(candidates, key=likelihood).name, None


def _guess_text_pair(prose: Sequence[ColumnProfile], table: Table) -> tuple[str, str] | None:
    """Two columns of prose that belong together: by usual names, by names such as text_a and text_b, or because a
    table without a header has just two of similar length."""
    by_name = {names.normalize(profile.name): profile.name for profile in prose}
    for first_name, second_name in names.TEXT_PAIRS:
        if first_name in by_name and second_name in by_name:
            return by_name[first_name], by_name[second_name]
    numbered: dict[str, dict[str, ColumnProfile]] = {}
    for profile in prose:
        if (split_name := names.split_numbered_name(profile.name)) is not None:
            common_name, number = split_name
            numbered.setdefault(common_name, {})[number] = profile
    complete = [(pair["1"], pair["2"]) for pair in numbered.values() if len(pair) == 2]
    if complete:
        first, second = max(complete, key=lambda pair: pair[0].mean_length + pair[1].mean_length)
        return first.name, second.name
    lengths = sorted(profile.mean_length for profile in prose)
    similar = len(prose) == 2 and lengths[1] < 2.5 * lengths[0]
    return (prose[0].name, prose[1].name) if table.has_numbered_columns and similar else None


def _likely_labels(profiles: Iterable[ColumnProfile]) -> list[ColumnProfile]:
    """The column with the likeliest name of a label, else all columns with the smallest number of classes."""
    filled = [profile for profile in profiles if profile.filled_share > 0 and profile.code_share < 0.9]
    if usual := _with_usual_names(filled, names.LABEL):
        return [profile for profile in filled if profile.name == usual[0]]
    few_values = [profile for profile in filled if profile.has_few_values and not profile.is_id]
    classes = [profile for profile in few_values if profile.is_class]
    classes = classes or [profile for profile in few_values if profile.filled_share > MIN_LABELLED_SHARE]
    varied = [profile for profile in classes if profile.distinct_count > 1] or classes
    fewest = min((profile.distinct_count for profile in varied), default=0)
    return [profile for profile in varied if profile.distinct_count == fewest]


def _guess_label(table: Table, unassigned: Sequence[ColumnProfile]) -> tuple[str, tuple[str, ...]]:
    """The column of the label, the last one if several are equally likely; and the others that could be it."""
    likely = _likely_labels(unassigned)
    candidates = [profile for profile in unassigned if profile.filled_share > 0 and not profile.is_id]
    if not likely and len(candidates) != 1:
        empty = [profile.name for profile in unassigned if profile.filled_share == 0]
        are_empty = f" ({list_columns(empty)}: empty)" if empty else ""
        problem = f"no column looks like a label; there are: {list_columns(table.columns)}{are_empty}"
        without = " Text without labels is for a language model: give it as .txt or .jsonl." if not candidates else ""
        remedy = f"Name it with --label NAME, or by its number from 1.{without}"
        raise DataError(f"{table.where}:1", problem, remedy)
    label = (likely or candidates)[-1]
    named = [profile for profile in candidates if names.normalize(profile.name) in names.LABEL and profile.is_class]
    classes = [profile for profile in reversed(candidates) if profile.is_class and not profile.has_lists]
    if names.normalize(label.name) in names.LABEL[:8]:
        classes = []  # a column that is called label is the label
    others = [
        profile.name for profile in (*likely, *named, *classes) if profile != label and profile.distinct_count > 1
    ]
    return label.name, tuple(dict.fromkeys(others))


def looks_labelled(table: Table) -> bool:
    """Whether a table, which might be text for a language model, has a column that is clearly a label.

    It is the likely label by its name or, where columns have no names, by its small number of distinct values.
    """
    profiles = column_profiles(table)
    if not any(profile.is_text for profile in profiles) or len(profiles) < 2:
        return False
    likely = _likely_labels(profiles)
    if table.source.format == "text" and _is_plain_table(table, profiles):
        return True
    if table.has_numbered_columns:
        return any(profile.is_class and profile.distinct_count > 1 for profile in likely)
    return any(
        names.normalize(profile.name) in names.LABEL
        and (profile.is_class or profile.number_share == 1 or (profile.has_few_values and profile.filled_share > 0.2))
        and (table.source.format != "text" or profile.distinct_count > 1)
        for profile in likely
    )


def _is_plain_table(table: Table, profiles: Sequence[ColumnProfile]) -> bool:
    """Whether lines of a text are the rows of a table: a header, as many cells in each, and columns of prose and of
    classes."""
    if table.layout is not None or table.has_numbered_columns or table.bad_rows.bad_count:
        return False
    has_classes = any(profile.is_class and profile.distinct_count > 1 and not profile.is_id for profile in profiles)
    return len(table.sample) >= _MIN_PLAIN_ROWS and any(profile.is_prose for profile in profiles) and has_classes

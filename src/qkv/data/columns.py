"""Which column of a table is what: by the options, by what people call it, then by what it holds.

Examples have a text, perhaps a second one, a label and an id. Parallel text has source and target: columns so called,
two columns named for languages, the first two where nothing names them, or, as on data hubs, one column `translation`
that holds {"en": ..., "de": ...}.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from qkv.data.corpus import ExamplesConfig, ParallelConfig
from qkv.data.examples import Direction
from qkv.data.findings import Caution, Findings
from qkv.data.formats import column_names as names
from qkv.data.formats.aligned import SOURCE, TARGET, is_language
from qkv.data.formats.delimited import is_number
from qkv.data.formats.rows import LONE_SURROGATE, encodable
from qkv.data.formats.tabular import Header, Table
from qkv.errors import DataError
from qkv.visible import visible

MOST_CLASSES = 0.2
"""A column with more distinct values than this share of the rows is no label, unless its name says so."""
_LONGEST_LABEL = 40


def given_column(table: Table, wanted: str | None, role: str) -> str | None:
    """The column that an option names, by its name or its number from 1."""
    if wanted is None or wanted in table.columns:
        return wanted
    if wanted.isdecimal() and 1 <= int(wanted) <= len(table.columns):
        return table.columns[int(wanted) - 1]
    raise missing_column(table, wanted, role)


def column_index(table: Table, column: str, role: str) -> int:
    if column not in table.columns:
        raise missing_column(table, column, role)
    return table.columns.index(column)


def missing_column(table: Table, wanted: str, role: str) -> DataError:
    near = difflib.get_close_matches(wanted, table.columns, 1)
    hint = f"Did you mean --{role} {near[0]}?" if near else f"Name it with --{role} NAME, or by its number from 1."
    return DataError(f"{table.where}:1", f"no column {wanted!r}; there are: {listed_columns(table.columns)}", hint)


def listed_columns(columns: Iterable[str]) -> str:
    found = list(columns)
    return ", ".join(found[:20]) + (" ..." if len(found) > 20 else "") or "none"


def columns_note(table: Table, roles: dict[str, str], used: Iterable[str]) -> str:
    unused = [column for column in table.columns if column not in used]
    more = f"; not used: {', '.join(map(repr, unused[:8]))}{' ...' if len(unused) > 8 else ''}" if unused else ""
    how = f" ({table.dialect_note})" if table.dialect_note else ""
    return f"{table.where}: {', '.join(f'{role}: column {name!r}' for role, name in roles.items())}{more}{how}."


def lacks_label(table: Table, label: str, may_lack: bool, findings: Findings) -> bool:
    """Whether a table is left out since it has no labels, as the test file of a folder may."""
    lacks = may_lack and label not in table.columns
    if lacks:
        findings.add_note(Caution(f"{table.where}: has no column {label!r} and is not used."))
    return lacks


def text_problem(value: object, column: str) -> str | None:
    if value is not None and not isinstance(value, str):
        return f"expected text in {column!r}, found {type(value).__name__}"
    return None if value and value.strip() else f"no text in {column!r}"


@dataclass(frozen=True)
class TextColumns:
    """The columns by their names."""

    text: str
    label: str
    second: str | None = None
    id: str | None = None

    def by_role(self) -> dict[str, str]:
        roles = {"text": self.text, "second text": self.second, "label": self.label, "id": self.id}
        return {role: column for role, column in roles.items() if column is not None}

    def note(self, table: Table) -> str:
        return columns_note(table, self.by_role(), self.by_role().values())


@dataclass(frozen=True)
class _Profile:
    """What the first rows hold in one column."""

    name: str
    rows: int
    filled: float
    distinct: int
    length: float
    words: float
    numbers: float
    several: bool
    """Whether there are lists in it."""

    @classmethod
    def of(cls, name: str, values: Sequence[object]) -> _Profile:
        shown = [value if isinstance(value, str) else "" if value is None else str(value) for value in values]
        filled = [value.strip() for value in shown if value.strip()]
        count = max(1, len(filled))
        return cls(
            name,
            len(values),
            len(filled) / max(1, len(values)),
            len(set(filled)),
            sum(map(len, filled)) / count,
            sum(len(value.split()) for value in filled) / count,
            sum(map(is_number, filled)) / count,
            any(isinstance(value, list) for value in values),
        )

    @property
    def is_text(self) -> bool:
        return self.numbers < 0.5 and self.filled > 0 and not self.several

    @property
    def is_prose(self) -> bool:
        return self.is_text and self.filled > 0.5 and (self.words >= 2.5 or self.length >= 15)

    @property
    def is_class(self) -> bool:
        few = self.distinct <= max(2, MOST_CLASSES * self.rows)
        return self.several or (few and self.filled > 0.9 and self.length <= _LONGEST_LABEL)


def guess_columns(table: Table, config: ExamplesConfig) -> TextColumns:
    """The columns of a table; DataError, with the columns there are, where it cannot be told."""
    text, second = guess_texts(table, config)
    label, key = given_column(table, config.label, "label"), given_column(table, config.id, "id")
    free = [each for each in _profiles(table) if each.name not in (text, second, label, key)]
    label = label or _guess_label(table, free)
    ids = [each.name for each in free if each.name != label and names.normalize(each.name) in names.ID]
    return TextColumns(text, label, second, key or (ids[0] if ids else None))


def guess_texts(table: Table, config: ExamplesConfig) -> tuple[str, str | None]:
    """The column of the text, and that of the second, where there are pairs."""
    options = {"text": config.text, "text2": config.text2, "label": config.label, "id": config.id}
    given = {role: given_column(table, wanted, role) for role, wanted in options.items()}
    text, second = given["text"], given["text2"]
    if text is not None:
        return text, second
    free = [each for each in _profiles(table) if each.name not in given.values()]
    text, other = _guess_texts(table, [each for each in free if each.name not in _named(free, names.ID)], not second)
    return text, second or other


def _named(profiles: Iterable[_Profile], wanted: Sequence[str]) -> list[str]:
    """The columns with one of the wanted names, the likeliest name first."""
    by_name = {names.normalize(each.name): each.name for each in profiles}
    return [by_name[name] for name in wanted if name in by_name]


def _guess_texts(table: Table, free: Sequence[_Profile], pairs: bool) -> tuple[str, str | None]:
    """The text and, where there are two that belong together, the second."""
    texts = [each for each in free if each.is_text]
    if pairs and (pair := _text_pair(texts, table)) is not None:
        return pair
    prose = [each for each in texts if each.is_prose]
    if named := _named(prose, names.TEXT) or _named(texts, names.TEXT):
        return named[0], None
    others = [each for each in texts if names.normalize(each.name) not in names.LABEL] or texts
    if not others:
        problem = f"which column holds the text? There are: {listed_columns(table.columns)}"
        raise DataError(f"{table.where}:1", problem, "Name it with --text NAME, or by its number from 1.")
    return max(others, key=lambda each: (each.is_prose, each.distinct > 1, each.length, each.distinct)).name, None


def _text_pair(texts: Sequence[_Profile], table: Table) -> tuple[str, str] | None:
    prose = [each for each in texts if each.is_prose]
    by_name = {names.normalize(each.name): each.name for each in prose}
    for first, second in names.TEXT_PAIRS:
        if first in by_name and second in by_name:
            return by_name[first], by_name[second]
    twins: dict[str, dict[str, _Profile]] = {}
    for each in prose:
        if (found := names.split_numbered_name(each.name)) is not None:
            twins.setdefault(found[0], {})[found[1]] = each
    whole = [(both["1"], both["2"]) for both in twins.values() if len(both) == 2]
    if whole:
        longest = max(whole, key=lambda both: both[0].length + both[1].length)
        return longest[0].name, longest[1].name
    lengths = sorted(each.length for each in prose)
    alike = len(prose) == 2 and lengths[1] < 2.5 * lengths[0]
    return (prose[0].name, prose[1].name) if table.has_numbered_columns and alike else None


def _likely_labels(free: Iterable[_Profile]) -> list[_Profile]:
    """The column with the likeliest name of a label, else all those with the fewest classes."""
    filled = [each for each in free if each.filled > 0]
    if named := _named(filled, names.LABEL):
        return [each for each in filled if each.name == named[0]]
    classes = [each for each in filled if each.is_class and names.normalize(each.name) not in names.ID]
    several = [each for each in classes if each.distinct > 1] or classes
    return [each for each in several if each.distinct == min(other.distinct for other in several)]


def _guess_label(table: Table, free: Sequence[_Profile]) -> str:
    likely = _likely_labels(free)
    rest = [each for each in free if each.filled > 0 and names.normalize(each.name) not in names.ID]
    if len(likely or rest) == 1:
        return (likely or rest)[0].name
    if likely:
        problem = f"which column is the label: {' or '.join(each.name for each in likely)}?"
    else:
        problem = f"no column looks like a label; there are: {listed_columns(table.columns)}"
    remedy = "Name it with --label NAME, or by its number from 1."
    if not rest:
        remedy += " Text without labels is for a language model: give it as .txt or .jsonl."
    raise DataError(f"{table.where}:1", problem, remedy)


def looks_labelled(table: Table) -> bool:
    """Whether a file that may as well be text for a language model has a column that is plainly a label: one that the
    reader would choose, by its name or, where columns have no names, by how few distinct values it has."""
    profiles = _profiles(table)
    if not any(each.is_text for each in profiles) or len(profiles) < 2:
        return False
    likely = _likely_labels(profiles)
    if table.has_numbered_columns:
        return any(each.is_class and each.distinct > 1 for each in likely)
    return any(names.normalize(each.name) in names.LABEL and (each.is_class or each.numbers == 1) for each in likely)


def _profiles(table: Table) -> list[_Profile]:
    return [_Profile.of(name, table.sample_column(place)) for place, name in enumerate(table.columns)]


@dataclass(frozen=True)
class PairColumns:
    source: str
    target: str
    languages: Direction
    nested: bool = False
    """Whether both are keys of one column."""

    def note(self, table: Table) -> str:
        roles = {"source": self.source, "target": self.target}
        return columns_note(table, roles, (names.NESTED_TRANSLATION,) if self.nested else roles.values())

    def rows(self, table: Table) -> Iterator[tuple[int, str, str]]:
        """Line, source and target of each row; rows without two texts are counted, and too many are refused."""
        columns = {"source": self.source, "target": self.target}
        if self.nested:
            places = [table.columns.index(names.NESTED_TRANSLATION)] * 2
        else:
            places = [column_index(table, name, role) for role, name in columns.items()]
        for line, row in table.rows:
            texts = dict(zip(columns.values(), (row[place] for place in places), strict=True))
            if self.nested:
                texts = {key: held.get(key) if isinstance(held, dict) else None for key, held in texts.items()}
            source, target = texts.values()
            if not isinstance(source, str) or not isinstance(target, str):
                name, value = next((name, text) for name, text in texts.items() if not isinstance(text, str))
                kind = "nothing" if value is None else type(value).__name__
                table.bad_rows.reject(line, f"expected text in {name!r}, found {kind}")
            elif not encodable(source, target):
                table.bad_rows.reject(line, LONE_SURROGATE)
            else:
                yield line, source, target
        table.bad_rows.finish()


def header_rule(config: ParallelConfig) -> Header:
    """The first row names the columns only if it says so plainly: a first pair must not be lost."""
    return partial(_names_columns, config=config) if config.header is None else config.header


def _names_columns(cells: Sequence[str], config: ParallelConfig) -> bool:
    stripped = [cell.strip() for cell in cells]
    if any(name in stripped for name in (config.source, config.target) if name and not name.isdecimal()):
        return True
    return (
        pair_by_name([visible(name) for name in stripped], (*names.TRANSLATION_PAIRS, *names.PROMPT_PAIRS)) is not None
    )


def pair_by_name(columns: Sequence[str], known: Sequence[tuple[str, str]]) -> Direction | None:
    """The two columns that their names tell."""
    by_name = {names.normalize(column): column for column in columns}
    for source, target in known:
        if source in by_name and target in by_name:
            return by_name[source], by_name[target]
    languages = [column for column in columns if is_language(column)]
    if len(columns) > 2:  # "id" is Indonesian only where there is no other column
        languages = [column for column in languages if names.normalize(column) not in names.ID]
    return (languages[0], languages[1]) if len(languages) == 2 else None


def guess_pair(table: Table, config: ParallelConfig) -> PairColumns:
    """Source and target; DataError, with the columns there are, where it cannot be told."""
    if config.source is None and config.target is None and (keys := nested_pair(table, config)) is not None:
        return PairColumns(*keys, languages=keys, nested=True)
    guessed = _guess_pair(table, config) or (None, None)
    source = given_column(table, config.source, "source") or guessed[0]
    target = given_column(table, config.target, "target") or guessed[1]
    if source is None or target is None or source == target:
        problem = f"which columns are source and target? There are: {listed_columns(table.columns)}"
        raise DataError(f"{table.where}:1", problem, "Name them with --source NAME and --target NAME.")
    named = is_language(source) and is_language(target)
    return PairColumns(source, target, (source, target) if named else (SOURCE, TARGET))


def _guess_pair(table: Table, config: ParallelConfig) -> Direction | None:
    columns = table.columns
    if (
        pair := pair_by_name(columns, names.TRANSLATION_PAIRS) or pair_by_name(columns, names.PROMPT_PAIRS)
    ) is not None:
        return pair
    asked = [column for column in config.languages if column in columns]
    if len(asked) == 2:
        return asked[0], asked[1]
    return (columns[0], columns[1]) if len(columns) == 2 or (table.has_numbered_columns and len(columns) > 1) else None


def nested_pair(table: Table, config: ParallelConfig) -> Direction | None:
    """The keys of a column that holds both texts, in the order of config.languages."""
    if names.NESTED_TRANSLATION not in table.columns:
        return None
    values = table.sample_column(table.columns.index(names.NESTED_TRANSLATION))
    first = next((value for value in values if isinstance(value, dict)), {})
    keys = [key for key in (config.languages or first) if key in first]
    return (keys[0], keys[1]) if len(keys) == 2 else None

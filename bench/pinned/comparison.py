"""Compares what two commits gave: values must be equal, keys may differ only by the table of renames.

A table of renames has a heading for each document ("recipe", "metrics", "train", "evaluate", "data describe", ...) with
entries "old" = "new", both dotted. They apply to whatever begins with the old key; `*` stands for any one part, and
numbers of lists count as parts. Of "one|other" the name counts that the head has. "documents" applies to every JSON
document. Other headings:
[options]  "--old" = "--new", or "verb --old" = "--new", or "--option old-value" = "--option new-value"
[added]    document = ["key"]: keys that only the head has
[absent]   "document: key" = value: the base wrote this value where the head leaves the key out
[accepted] "probe" = "reason": differences of this probe that were judged to be right, and are only counted
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

MASKED = re.compile(
    r"(^|_)(seconds|minutes|hours|time|times|date|at|version|memory|speed|elapsed|milliseconds|eta)$|per_second|^run$"
    r"|^(path|folder|file|saved|out|cache|exported|imported|recipe_file|place|where|python|torch|machine|cpu|host)$"
)
"""Keys (their last part) whose values are times, places or versions: their presence is compared, not their value."""
SENTENCES = re.compile(
    r"(^|\.)(notes|warnings|problems|remarks|verdict|comparison|advice|explain|explanation|exact|remedy|message|model"
    r"|why|caption|title|text_of|hint|detail|details|proof|proofs|what|meaning|reason|said|doctor|sentences)(\.|$)"
)
"""Keys that hold sentences: their facts are compared, not their wording."""
CODE = re.compile(r"^anatomy\.\d+\.source$")
"""Keys that name a place in the source, which a redesign moves."""
EXACT = ("training.", "model.", "corpus.", "task.", "tokenizer.")  # sections of a recipe, where nothing is masked
NUMBER = re.compile(r"(?<![\w.])-?\d+(?:[.,:]\d+)*(?:e-?\d+)?(?![\w])")
QUOTED = re.compile(r"'((?:[^'\\]|\\.){1,80})'|\"((?:[^\"\\]|\\.){1,80})\"")
PLACE = re.compile(r"([\w.\-]+\.\w+|[\w\-]+):(\d+(?::\d+)?)(?=[:,; ]|$)")
TIMED = ("compare", "tune")  # documents of runs that end by the clock: their figures are not compared, all else is
MISSING = "(missing)"


@dataclass(frozen=True)
class Difference:
    probe: str
    key: str
    base: Any
    head: Any

    def __str__(self) -> str:
        return f"{self.probe}\n    {self.key}\n      base {shortened(self.base)}\n      head {shortened(self.head)}"


def shortened(value: Any, longest: int = 300) -> str:
    text = repr(value)
    return text if len(text) <= longest else f"{text[:longest]}…"


class Renames:
    """The table of renames."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        self.table = table

    def section(self, document: str) -> dict[str, str]:
        """All renames for a document."""
        both = {} if document in ("recipe", "metrics") else dict(self.table.get("documents", {}))
        return {**both, **self.table.get(document, {})}

    def key(self, document: str, key: str) -> str:
        """Give the head's name for a key of the base: the longest entry that it begins with is applied."""
        parts = key.split(".")
        best: tuple[int, str] = (0, key)
        for old, new in self.section(document).items():
            wanted = old.split(".")
            if len(wanted) <= best[0] or len(wanted) > len(parts):
                continue
            if all(one in ("*", other) for one, other in zip(wanted, parts, strict=False)):
                stars = iter([other for one, other in zip(wanted, parts, strict=False) if one == "*"])
                changed = [next(stars, "*") if part == "*" else part for part in new.split(".")]
                best = len(wanted), ".".join([*changed, *parts[len(wanted) :]])
        return best[1]

    def words(self, words: Sequence[str]) -> list[str]:
        """Give the head's words for a command of the base."""
        options: Mapping[str, str] = self.table.get("options", {})
        changed: list[str] = []
        place = 0
        while place < len(words):
            word = words[place]
            pair = " ".join(words[place : place + 2])
            verb = f"{words[0]} {word}"
            if word == "--set" and place + 1 < len(words) and "=" in words[place + 1]:
                key, _, value = words[place + 1].partition("=")
                names = {**self.table.get("recipe", {}), **self.table.get("set", {})}
                changed += [word, f"{Renames({'recipe': names}).key('recipe', key)}={value}"]
                place += 2
            elif word.startswith("--") and pair in options:
                changed += options[pair].split()
                place += 2
            else:
                changed += options.get(verb, options.get(word, word)).split() if word.startswith("--") else [word]
                place += 1
        return changed


def flat(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every leaf of nested tables and lists with its dotted key; dots within a key become underscores."""
    if isinstance(value, Mapping) and value:
        for name, inner in value.items():
            part = str(name).replace(".", "_")
            yield from flat(inner, f"{key}.{part}" if key else part)
    elif isinstance(value, list) and value:
        for number, inner in enumerate(value):
            yield from flat(inner, f"{key}.{number}" if key else str(number))
    else:
        yield key, value


def facts(message: str) -> dict[str, Any]:
    """What a message says, without its wording: places, numbers, quoted values."""
    quoted = sorted({one or other for one, other in QUOTED.findall(message)})
    return {
        "places": sorted({":".join(match) for match in PLACE.findall(message)}),
        "numbers": sorted(set(NUMBER.findall(message))),
        "quoted": quoted,
    }


def remedy(message: str) -> bool:
    """Whether a refusal says what to do."""
    return re.search(r"[.?] [A-Z`][^.]+|[;:,] (?:expected|did you mean|give|say|use|set) |--\w", message) is not None


def last_part(key: str) -> str:
    """The last part of a key that is not a place in a list."""
    return next((part for part in reversed(key.split(".")) if not part.isdigit()), key)


def document(probe: str, kind: str, base: Any, head: Any, renames: Renames) -> list[Difference]:
    """Compare two documents of a kind; the base's keys are renamed first."""
    added = renames.table.get("added", {}).get(kind, [])
    absent: Mapping[str, Any] = renames.table.get("absent", {})
    new = dict(flat(head))
    old = {one_of(renames.key(kind, key), new): value for key, value in flat(base)}
    found = []
    for key in [*old, *(key for key in new if key not in old)]:
        one, other = old.get(key, MISSING), new.get(key, MISSING)
        if _same(key, one, other) or (
            kind in TIMED and isinstance(one, int | float) and isinstance(other, int | float)
        ):
            continue
        if one is MISSING and any(key == name or key.startswith(f"{name}.") for name in added):
            continue
        if other is MISSING and absent.get(f"{kind}: {key}", MISSING) == one:
            continue
        found.append(Difference(probe, f"{kind}: {key}", one, other))
    return found


def one_of(names: str, known: Mapping[str, Any]) -> str:
    """Choose from "one|other" the name that is known, or the first."""
    return next((name for name in names.split("|") if name in known), names.split("|")[0])


def _same(key: str, one: Any, other: Any) -> bool:
    if MISSING in (one, other) and (one is MISSING or other is MISSING):
        return False
    if CODE.search(key) or (MASKED.search(last_part(key)) and not key.startswith(EXACT)):
        return True
    if isinstance(one, str) and isinstance(other, str) and SENTENCES.search(key) and " " in one:
        return facts(one) == facts(other)
    return type(one) is type(other) and one == other


def outcome(probe: str, base: Mapping[str, Any], head: Mapping[str, Any], renames: Renames) -> list[Difference]:
    """Compare two outcomes: each has an exit code and documents by their kinds, or what was said of a bad input."""
    found = []
    if base["code"] != head["code"]:
        found.append(Difference(probe, "exit code", base["code"], head["code"]))
    for kind in {**base, **head}:
        if kind == "said":
            sides = [_stated(side["said"], side["code"]) for side in (base, head)]
            found += document(probe, "facts", *sides, renames)
        elif kind not in ("code", "message"):
            found += document(probe, kind, base.get(kind, {}), head.get(kind, {}), renames)
    return found


def _stated(message: str, code: int) -> dict[str, Any]:
    """The facts of a message as keys, so that one that is lost is reported alone."""
    stated: dict[str, Any] = {kind: dict.fromkeys(values, True) for kind, values in facts(message).items() if values}
    return {**stated, "remedy": not code or remedy(message)}

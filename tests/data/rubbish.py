"""Good documents, and rubbish to plant among them: a hundred documents of each kind."""

from __future__ import annotations

import base64
import random
import re
import string
from collections.abc import Callable
from functools import cache
from pydoc_data.topics import topics

NUMBER = 100
ROWS = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
OTHER_WORDS = ("river", "window", "seven", "blue", "slowly")
TAGS = "love photo fashion happy cute style me like follow now".split()  # noqa: SIM905


@cache
def good() -> list[str]:
    """Paragraphs of English, of 60 words and more, none twice."""
    paragraphs = {part.strip() for text in topics.values() for part in text.split("\n\n")}
    prose = [part for part in paragraphs if len(part.split()) >= 60 and not re.search(r"::=|>>>|\+--|class ", part)]
    return random.Random(0).sample(sorted(prose), NUMBER)


def changed(text: str, chance: random.Random, words: int) -> str:
    """The text with some of its words exchanged."""
    found = text.split()
    for place in chance.sample(range(len(found)), words):
        found[place] = chance.choice(OTHER_WORDS)
    return " ".join(found)


@cache
def planted() -> dict[str, tuple[list[str], str]]:
    """For each kind the documents and the filter that is made for them."""
    chance = random.Random(1)

    def words(make: Callable[[int], str]) -> str:
        return " ".join(make(chance.randint(3, 9)) for _ in range(30))

    def mash(keys: str, length: int) -> str:
        return "".join(chance.choices(keys, k=length))

    def each(make: Callable[[int], str]) -> list[str]:
        return [make(number) for number in range(NUMBER)]

    def table(number: int) -> str:
        rows = ((f"{number * row * column % 97:.2f}" for column in range(8)) for row in range(9))
        return "\n".join(f"| {' | '.join(row)} |" for row in rows)

    navigation = '<div class="nav"><ul><li><a href="/page/{}/{}">item</a></li></ul></div>'
    return {
        "no word at all": (each(lambda n: "* " * n + "---"), "too-short"),
        "wrong bytes": (each(lambda n: f"The caf\ufffd on the corner \ufffd of {n} str\ufffdet"), "broken"),
        "terminal": (each(lambda n: f"\x1b[31mfailed\x1b[0m {n} \x1b[2K\x1b[1A done"), "broken"),
        "table of numbers": (each(table), "few-letters"),
        "drawn lines": (each(lambda n: "+-----+------+---+\n|     |      | x |\n" * 6 + str(n)), "few-letters"),
        "hashtags": (each(lambda n: " ".join(f"#{tag}{n}" for tag in TAGS)), "signs"),
        "letters apart": (each(lambda n: " ".join(f"this is number {n} of all")), "short-words"),
        "base64": (each(lambda n: base64.encodebytes(chance.randbytes(400)).decode()), "long-words"),
        "links": (each(lambda n: f"https://example.org/a/long/path/{n}/page.html\n" * 3), "long-words"),
        "home row": (each(lambda n: words(lambda k: mash(ROWS[1], k))), "noise"),
        "wandering fingers": (each(lambda n: words(lambda k: walk(chance, k))), "noise"),
        "random letters": (each(lambda n: words(lambda k: mash(string.ascii_lowercase, k))), "noise"),
        "html": (each(lambda n: "\n".join(navigation.format(n, k) for k in range(3))), "markup"),
        "list": (each(lambda n: "\n".join(f"- item {k} of list {n}" for k in range(9))), "bullets"),
        "teasers": (each(lambda n: f"The long story of page {n}...\n" + "And how it all goes on...\n" * 3), "ellipses"),
        "boilerplate": (each(lambda n: f"Page {n}\n" + "Read more\nShare this page\nLog in\n" * 12), "repeated-lines"),
        "one phrase": (each(lambda n: f"buy {n} " + "cheap pills today " * 60), "repeated-words"),
        "one long phrase": (each(lambda n: f"{n} {' '.join(OTHER_WORDS)} {' '.join(TAGS)} " * 40), "compressible"),
    }  # fmt: skip


def walk(chance: random.Random, length: int) -> str:
    """A word of fingers that wander over a row of the keyboard."""
    row = chance.choice(ROWS)
    place = chance.randrange(len(row))
    word = ""
    for _ in range(length):
        word += row[place]
        place = min(max(place + chance.choice((-2, -1, 1, 2)), 0), len(row) - 1)
    return word

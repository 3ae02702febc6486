"""Hostile names and contents: no fault, and nothing that steers a terminal gets out."""

from __future__ import annotations

import random
import re
from pathlib import Path

from attacks.driver import Ended, Facts, Worker
from attacks.scenes import SCENES
from attacks.stage import options

COUNT = 200
HOSTILE = (
    "\x1b]0;PWNED\x07\x1b[2J",
    "\x9b31mred",
    "a\nfake\t0.99\tline",
    "a\tb",
    "a\rb",
    "\x00",
    "a\x00b",
    "-rf",
    "--help",
    "--",
    "-",
    "\u202etxt.exe",
    "\u2066bidi\u2069",
    "x" * 300,
    "é" * 200,
    "../../up",
    "/",
    ".",
    "..",
    "~",
    "",
    " ",
    "\udcff\udcfe",
    "caf\udce9",
    "a\u2028b\u2029c",
    "\ufeffbom",
    "%s%n{0}{x}",
    "[red]x[/red]",
    "[/]",
    "$(id)`id`",
    "'\"\\",
    "\x7f",
    "\x85next",
    "\u200d\u0301",
    "😀" * 80,
    "a:b",
    "a=b",
    "a,b",
    "|",
    "#",
    "[[model]]",
    "\ue000\ufffe",
    "<script>",
    "hf:a/b",
    "con.txt",
    "a/b/c",
    "x.csv",
    "\x08\x08back",
    "\x0b\x0c",
    "\x1b[31m",
    "NaN",
    "0",
    "null",
    "<|endoftext|>",
    "[MASK]",
    ">>deu<<",
)
STEERING = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|(?<![\xc2-\xf4\x80-\xbf])[\x80-\x9f]")


def draw(chance: random.Random, count: int) -> list[Facts]:
    """Scenes in turn, each with a hostile word by chance."""
    places = [(verb, name) for verb, name, hint in options() if str in hint or Path in hint]
    rounds = [name for name, (_, weight) in SCENES.items() for _ in range(weight)]
    trials: list[Facts] = []
    while len(trials) < count:
        chance.shuffle(rounds)
        for scene in rounds:
            verb, option = chance.choice(places)
            trial = {"scene": scene, "hostile": chance.choice(HOSTILE), "json": chance.random() < 0.3}
            trials.append(trial | {"verb": verb, "option": option, "pick": chance.randrange(1000)})
    return trials[:count]


def attempt(worker: Worker, facts: Facts) -> list[str]:
    found: list[str] = []
    for words in SCENES[facts["scene"]][0](worker, facts):
        more = ["--json"] if facts["json"] and "--json" not in words else []
        terminal = writes(words + more) or facts["pick"] % 5 == 0
        found += problems_of(words + more, worker.qkv(words + more, terminal=terminal), terminal)
    return found


def writes(words: list[str]) -> bool:
    """Whether a model's own text is the answer: a pipe gets it as it is, a terminal may not."""
    return words[0] in ("generate", "chat", "translate") and not {"--json", "--next", "--nbest"} & set(words)


def problems_of(words: list[str], ended: Ended, terminal: bool) -> list[str]:
    found = ended.problems()
    for name, data in (("standard output", ended.out), ("standard error", ended.err)):
        data = data.replace(b"\r", b"") if terminal else data  # of progress bars
        if (hit := STEERING.search(data)) is not None:
            near = data[max(0, hit.start() - 40) : hit.end() + 40]
            found.append(f"raw {hit[0]!r} on {name}: {near!r}")
    if words[0] == "classify" and ended.code == 0 and not terminal and not any(word.startswith("--") for word in words):
        lines, texts = ended.out.decode(errors="replace").removesuffix("\n").split("\n"), len(words) - 2
        if len(lines) != texts:
            found.append(f"{texts} texts, but the lines {lines}")
    return found

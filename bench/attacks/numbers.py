"""Extreme values of every numeric option of every verb and of every numeric key of a recipe: refused, or done."""

from __future__ import annotations

import math
import random
import signal
from functools import cache

from attacks.driver import Facts, Worker
from attacks.families import families, numeric
from attacks.stage import VERBS, options
from qkv.data.corpus import CorpusConfig, ExamplesConfig, ParallelConfig
from qkv.tasks.registry import TASKS
from qkv.text.tokenizer import TokenizerConfig
from qkv.training.settings import TrainingConfig

COUNT = 200
MEBIBYTES, SECONDS = 6144, 60  # of memory, and of work
PATIENCE = 12.0  # seconds, then it is interrupted
LARGE = 1e5  # what is larger, and means no length of time, must be refused or be done in a moment
VALUES = ("nan", "inf", "-inf", "1e300", "-1e300", "1e-300", "-1", "0", "-0.0", "0.5", "1", "2147483647", "2147483648",
          "9223372036854775807", "9223372036854775808", str(10**11), str(10**30), "1" + "0" * 400, "", " ", "x", "0x10",
          "1_000", "1e3", "٣", "１２", "½", "+3", " 3", "3 ", "1,5", "True", "None", "[1, 2]", "'3'")  # fmt: skip
# how long to work, or how much to write: a large number of these is a wish, not a mistake
LENGTHS = ("--steps", "--minutes", "--length", "--trials", "--each", "--seeds", "training.steps")


@cache
def targets() -> list[tuple[str, str]]:
    """(a verb, its option) and (a family, the key of its recipe)."""
    found = [(verb, name) for verb, name, hint in options() if {int, float} & hint]
    for section, configs in {"training": [TrainingConfig], "tokenizer": [TokenizerConfig]}.items():
        found += [("text gpt", f"{section}.{name}") for config in configs for name in numeric(config)]
    corpora = {"text gpt": CorpusConfig, "classification bag": ExamplesConfig}
    corpora |= {"translation transformer forward": ParallelConfig}
    tasks = {"text gpt": "language-modelling", "masked bert": "masked-language-modelling", "tagging lstm": "tagging"}
    tasks |= {"classification bag": "classification", "translation transformer forward": "translation"}
    found += [(family, f"corpus.{name}") for family, config in corpora.items() for name in numeric(config)]
    found += [(family, f"task.{name}") for family, task in tasks.items() for name in numeric(TASKS[task].task_config)]
    for family in families():
        if not family.name.startswith(("regression", "multi-label", "pairs")):  # the same models again
            found += [(family.name, f"model.{name}") for config in family.configs for name in numeric(config)]
    return list(dict.fromkeys(found))


def draw(chance: random.Random, count: int) -> list[Facts]:
    """Options and keys in turn, each with a value by chance; options of verbs come up as often as keys."""
    given = [target for target in targets() if target[1].startswith("--")]
    keys = [target for target in targets() if not target[1].startswith("--")]
    trials: list[Facts] = []
    while len(trials) < count:
        chance.shuffle(given)
        chance.shuffle(keys)
        for pair in zip(given, keys, strict=False):
            for call, name in pair:
                trials.append(
                    {"call": call, "name": name, "value": chance.choice(VALUES), "joined": chance.random() < 0.7}
                )
    return trials[:count]


def words_of(facts: Facts) -> list[str]:
    name, value = facts["name"], facts["value"]
    if not name.startswith("--"):
        family = next(each for each in families() if each.name == facts["call"])
        return [*family.train("{here}/run", 2), "--set", f"{name}={value}"]
    words = list(VERBS[facts["call"]])
    if name in words:  # the option is there already: this one takes its place
        place = words.index(name)
        del words[place : place + 2]
    if name == "--minutes" and "--steps" in words:
        place = words.index("--steps")
        del words[place : place + 2]
    return [*words, f"{name}={value}"] if facts["joined"] else [*words, name, value]


def attempt(worker: Worker, facts: Facts) -> list[str]:
    words = words_of(facts)
    child = worker.start(words, mebibytes=MEBIBYTES, seconds=SECONDS)
    ended = child.wait(PATIENCE, kill=False)
    if ended.code is not None:
        return ended.problems()
    child.kill(signal.SIGINT)
    ended = child.wait()
    worker.commands[-1] += f"   # SIGINT after {PATIENCE} s"
    problems = ended.problems(130, 0)
    if facts["name"] not in LENGTHS and abs(_number(facts["value"])) > LARGE and not problems:
        problems = [f"{facts['value']} was neither refused nor done in {PATIENCE} s"]
    return problems


def _number(value: str) -> float:
    try:
        return 0.0 if math.isnan(found := float(value)) else found
    except (ValueError, OverflowError):
        return 0.0

"""Where a hostile name or content can stand: each scene makes its files and gives the commands to run."""

from __future__ import annotations

import json
import os
from collections.abc import Callable

from attacks.driver import Facts, Worker
from attacks.model_files import folder, gguf
from attacks.stage import VERBS

TEXTUAL = ("generate", "chat", "embed", "classify", "tag", "translate", "fill", "inspect", "tokenize")
MODELS = ("generate", "evaluate", "classify", "translate", "inspect", "verify", "export", "import", "finetune")
Commands = list[list[str]]
Scene = Callable[[Worker, Facts], Commands]


def file_of(worker: Worker, name: str, content: str, *, ending: str = "") -> str | None:
    """A file of that name, if there can be one."""
    path = os.path.join(str(worker.here), name + ending)
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content.encode("utf-8", "surrogateescape"))
    except (OSError, ValueError):
        return None
    return path


def option(worker: Worker, facts: Facts) -> Commands:
    """As the value of an option."""
    words, name, hostile = VERBS[facts["verb"]], facts["option"], facts["hostile"]
    return [[*words, f"{name}={hostile}"], [*words, name, hostile]]


def word(worker: Worker, facts: Facts) -> Commands:
    """As a verb, as an option, as one argument more."""
    hostile, words = facts["hostile"], VERBS[facts["verb"]]
    return [[hostile, "x"], [words[0], f"--{hostile}"], [*words, hostile]]


def prompt(worker: Worker, facts: Facts) -> Commands:
    """As a text that a model is given: alone, and in the middle of one."""
    verb = TEXTUAL[facts["pick"] % len(TEXTUAL)]
    words, hostile = VERBS[verb], facts["hostile"]
    texts = [hostile, f"the river {hostile} keeps [MASK]"]
    if verb == "tokenize":
        return [*([verb, text, *words[2:]] for text in texts)]
    return [*([*words[:2], text, *words[3:]] for text in texts)]


def model(worker: Worker, facts: Facts) -> Commands:
    """As the place of a model or of data."""
    words = VERBS[MODELS[facts["pick"] % len(MODELS)]]
    return [[words[0], facts["hostile"], *words[2:]], ["train", facts["hostile"], "--steps", "2"]]


def file_name(worker: Worker, facts: Facts) -> Commands:
    """As the name of a file with data."""
    kinds = {".txt": "book.txt", ".csv": "classification/table.csv", ".conll": "tagging/words.conll", "": "short.txt"}
    ending, source = list(kinds.items())[facts["pick"] % len(kinds)]
    path = file_of(worker, facts["hostile"], (worker.stage / source).read_text(encoding="utf-8"), ending=ending)
    if path is None:
        path = os.path.join(str(worker.here), facts["hostile"] + ending)
    train = ["train", path, "--steps", "2", "--set", "training.batch=2", "--run", "{here}/run"]
    train += ["--model", "gpt", "--set", "model.width=16", "--set", "model.heads=2"] if source.endswith(".txt") else []
    return [
        train,
        ["data", "describe", path],
        ["data", "check", path],
        ["tokenize", "--file", path, "--tokenizer", "{stage}/gpt"],
        ["classify", "{stage}/classifier", "--file", path],
        ["evaluate", "{stage}/gpt", path],
        ["train", path, "--steps", "2", "--model", "nonsense"],
    ]


def run_name(worker: Worker, facts: Facts) -> Commands:
    """As the name of a run, and of what is made from it."""
    run = os.path.join(str(worker.here), "in", facts["hostile"])
    (worker.here / "in").mkdir()
    words = [run if word == "{here}/run" else word for word in VERBS["train"]]
    return [
        words,
        words,
        ["train", "--run", run, "--resume"],
        ["generate", run, "a", "--length", "2"],
        ["verify", run] if facts["pick"] % 4 == 0 else ["inspect", run, "a"],
        ["evaluate", run, "{stage}/short.txt"],
        ["import", "{stage}/chat", "--to", f"{run}-i"],
        ["tokenize", "a", "--tokenizer", run],
    ]


def label(worker: Worker, facts: Facts) -> Commands:
    """As a label of examples, or as their text."""
    hostile, rows = facts["hostile"], ["text\tlabel"]
    if "\n" in hostile or "\t" in hostile or "\r" in hostile:  # a table cannot hold it, lines of JSON can
        pairs = [{"text": f"the river {n} keeps", "label": hostile if n % 2 else "good"} for n in range(40)]
        path = file_of(worker, "table.jsonl", "\n".join(json.dumps(pair) for pair in pairs) + "\n")
    else:
        rows += [f"the river {n} {hostile} keeps\t{hostile if n % 2 else 'good'}" for n in range(40)]
        path = file_of(worker, "table.tsv", "\n".join(rows) + "\n")
    assert path
    train = [
        "train",
        path,
        "--label",
        "label",
        "--text",
        "text",
        "--model",
        "bag",
        "--steps",
        "3",
        "--run",
        "{here}/run",
    ]
    texts = ["the river 3 keeps", "a stone"]
    return [
        ["data", "describe", path],
        train,
        ["evaluate", "{here}/run", path],
        ["classify", "{here}/run", *texts],
        ["classify", "{here}/run", texts[0], "--top", "2", "--json"],
        ["inspect", "{here}/run", "a"],
        ["classify", "{here}/run", "--file", path],
    ]


def tag(worker: Worker, facts: Facts) -> Commands:
    """As a tag, and as a word of tagged sentences."""
    hostile = facts["hostile"]
    lines = [f"the\tDET\nriver{n}\t{hostile}\n{hostile}\tNOUN\n" for n in range(30)]
    path = file_of(worker, "words.conll", "\n".join(lines) + "\n")
    assert path
    train = ["train", path, "--task", "tagging", "--model", "lstm", "--steps", "3", "--run", "{here}/run"]
    train += ["--set", "model.width=16", "--set", "model.letters=300"]
    return [
        ["data", "describe", path],
        train,
        ["tag", "{here}/run", f"the {hostile} river"],
        ["evaluate", "{here}/run", path],
        ["tag", "{here}/run", "--file", path],
    ]


def column(worker: Worker, facts: Facts) -> Commands:
    """As the name of a column."""
    hostile = facts["hostile"]
    rows = [{hostile: f"the river {n} keeps", "label": "good" if n % 2 else "bad", f"{hostile}2": n} for n in range(40)]
    path = file_of(worker, "table.jsonl", "\n".join(json.dumps(row) for row in rows) + "\n")
    numbers = file_of(
        worker, "numbers.csv", f"{hostile},two,class\n" + "".join(f"{n},{n % 7},{'ab'[n % 2]}\n" for n in range(40))
    )
    assert path
    assert numbers
    train = ["--model", "bag", "--steps", "2", "--run"]
    return [
        ["data", "describe", path],
        ["train", path, "--label", "label", *train, "{here}/run"],
        ["train", path, f"--label={hostile}2", f"--text={hostile}", *train, "{here}/two"],
        ["data", "describe", numbers],
        ["train", numbers, "--label", "class", "--steps", "2", "--run", "{here}/three"],
        ["classify", "{here}/three", "1,2"],
        ["data", "check", path, f"--text={hostile}"],
    ]


def text(worker: Worker, facts: Facts) -> Commands:
    """As the text that a language model learns and writes."""
    hostile = facts["hostile"]
    path = file_of(worker, "book.txt", "".join(f"the river {n} {hostile} keeps\n" for n in range(200)))
    assert path
    kind = ("characters", "bpe", "words", "auto")[facts["pick"] % 4]
    train = [
        "train",
        path,
        "--model",
        "gpt",
        "--tokenizer",
        kind,
        "--steps",
        "30",
        "--run",
        "{here}/run",
        "--set",
        "model.width=32",
        "--set",
        "model.heads=2",
        "--set",
        "model.layers=1",
        "--set",
        "training.learning_rate=0.01",
    ]
    return [
        ["data", "describe", path],
        ["data", "check", path],
        train,
        ["generate", "{here}/run", "the river", "--length", "60"],
        ["generate", "{here}/run", "the", "--next", "5"],
        ["tokenize", "--file", path, "--tokenizer", "{here}/run"],
        ["inspect", "{here}/run", f"the {hostile}"],
        ["data", "clean", path, "--out", "{here}/clean.txt"],
        ["evaluate", "{here}/run", path],
    ]


def pairs(worker: Worker, facts: Facts) -> Commands:
    """In texts and their translations."""
    hostile = facts["hostile"]
    one = file_of(worker, "a.en", "".join(f"one {n} {hostile}\n" for n in range(60)))
    two = file_of(worker, "a.de", "".join(f"{hostile} eins {n}\n" for n in range(60)))
    assert one
    assert two
    train = [
        "train",
        one,
        two,
        "--model",
        "rnn-translator",
        "--steps",
        "2",
        "--set",
        "model.width=16",
        "--run",
        "{here}/run",
    ]
    return [
        ["data", "describe", one, two],
        train,
        ["translate", "{here}/run", f"one {hostile}"],
        ["evaluate", "{here}/run", one, two],
        ["translate", "{here}/run", "one", f"--to={hostile}"],
    ]


def recipe(worker: Worker, facts: Facts) -> Commands:
    """In a recipe file: values, keys, sections."""
    hostile = facts["hostile"].encode("utf-8", "replace").decode()
    quoted = json.dumps(hostile).replace("\x7f", "\\u007f")
    lines = (
        f"[model]\nkind = {quoted}\n",
        f"[model]\n{quoted} = 1\n",
        f"[{quoted}]\nx = 1\n",
        f"[training]\ndevice = {quoted}\n",
        f"[corpus]\nfiles = [{quoted}]\n",
        f"[tokenizer]\nkind = {quoted}\n",
        f"[training]\nstart = {quoted}\n",
        f"[corpus]\nencoding = {quoted}\n",
        hostile,
        f"[task]\nkind = {quoted}\n",
    )
    path = file_of(worker, "recipe.toml", lines[facts["pick"] % len(lines)])
    assert path
    return [
        ["train", "{stage}/short.txt", "--steps", "2", "--run", "{here}/run", "--recipe", path],
        ["train", "--steps", "2", "--run", "{here}/two", "--recipe", path],
    ]


SCENES: dict[str, tuple[Scene, int]] = {
    "option": (option, 5),
    "word": (word, 2),
    "prompt": (prompt, 3),
    "model": (model, 2),
    "file name": (file_name, 2),
    "run name": (run_name, 2),
    "label": (label, 2),
    "tag": (tag, 1),
    "column": (column, 1),
    "text": (text, 1),
    "pairs": (pairs, 1),
    "folder": (folder, 2),
    "gguf": (gguf, 1),
    "recipe": (recipe, 2),
}
"""Scenes, and how often each comes in a round."""

"""Figures of the source: its size, its names, and how many files a reader passes on four journeys.

    python bench/figures.py [--static] [FOLDER]        (a checkout; this one by default; --static runs nothing)

A collision is one name for two things: a class that two modules define, a file name that two folders have, or a
constant of a module. Classes may not collide at all, files only inside tasks/ (tests/architecture/test_names.py).
A journey is a real tiny run: how many modules of qkv it imports, and in how many of them a function runs.

Commit c893846, before the upper layers were rebuilt: 43,123 lines, 367 files, 894 lines with Any, cast or type: ignore;
31 class names, 37 file names and 127 constants that collide; 298, 269, 290 and 303 files on the journeys.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

UNTYPED = re.compile(r"Any|cast\(|type: ignore")
JOURNEYS = {
    "train text": ["train", "book.txt", "--steps", "2", "--run", "text"],
    "train table": ["train", "reviews.csv", "--steps", "2", "--run", "table"],
    "generate": ["generate", "text", "--length", "5"],
    "inspect": ["inspect", "text", "the cat", "--json"],
}
STEP = ["train", "book.txt", "--steps", "1", "--run", "step", "--json"]
CHILD = """
import json, os, sys, threading, time
ran = set()
def note(frame, event, argument):
    if event == "call" and frame.f_code.co_flags & 1:  # a function: the body of a module or class is not "optimized"
        ran.add(frame.f_code.co_filename)
if "COUNT" in os.environ:
    sys.setprofile(note)
    threading.setprofile(note)
code, began = 0, time.perf_counter()
if sys.argv[1:]:
    from qkv.__main__ import main
    try:
        main()
    except SystemExit as stop:
        code = stop.code or 0
else:
    from qkv import load  # `import qkv` itself imports nothing yet
seconds = time.perf_counter() - began
sys.setprofile(None)
own = sum(f"{os.sep}qkv{os.sep}" in name and name.startswith(sys.path[1]) for name in ran)
modules = sum(name.partition(".")[0] == "qkv" for name in sys.modules)
print("\\n" + json.dumps({"code": code, "modules": modules, "ran": own, "seconds": seconds}))
"""


def modules(source: Path) -> dict[str, ast.Module]:
    return {
        path.relative_to(source).as_posix(): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(source.rglob("*.py"))
    }


def collisions(trees: dict[str, ast.Module], names: Callable[[ast.Module], Iterator[str]]) -> dict[str, list[str]]:
    """The names that more than one module defines, with those modules."""
    places: dict[str, list[str]] = defaultdict(list)
    for path, tree in trees.items():
        for name in dict.fromkeys(names(tree)):
            places[name].append(path)
    return {name: paths for name, paths in sorted(places.items()) if len(paths) > 1}


def class_names(tree: ast.Module) -> Iterator[str]:
    return (node.name for node in tree.body if isinstance(node, ast.ClassDef))


def constants(tree: ast.Module) -> Iterator[str]:
    for node in tree.body:
        targets = (
            node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        )
        yield from (target.id for target in targets if isinstance(target, ast.Name) and target.id.isupper())


def repeated_files(paths: list[str]) -> dict[str, list[str]]:
    """File names that more than one folder has; inside tasks/ every folder has the same ones."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in paths:
        if not path.startswith("tasks/") and not path.endswith("__init__.py"):
            places[path.rpartition("/")[2]].append(path)
    return {name: files for name, files in sorted(places.items()) if len(files) > 1}


def static(source: Path) -> dict[str, int]:
    trees = modules(source)
    lines = [line for path in trees for line in (source / path).read_text(encoding="utf-8").splitlines()]
    return {
        "lines": len(lines),
        "files": len(trees),
        "lines with Any, cast or type: ignore": sum(bool(UNTYPED.search(line)) for line in lines),
        "class names that collide": len(collisions(trees, class_names)),
        "file names that repeat": len(repeated_files(list(trees))),
        "constants that collide": len(collisions(trees, constants)),
    }


def run(command: list[str], folder: str, source: Path, count: bool = False) -> dict[str, float]:
    environment = {"PYTHONPATH": str(source.parent), "PATH": "/usr/bin:/bin", "HOME": folder, "OMP_NUM_THREADS": "1"}
    environment |= {"COUNT": "1"} if count else {}
    order = [sys.executable, "-c", CHILD, *command]
    done = subprocess.run(order, cwd=folder, env=environment, capture_output=True, text=True)
    values: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    if command == STEP:
        shutil.rmtree(Path(folder, "step"))
    if values["code"]:
        raise SystemExit(f"qkv {' '.join(command)}: exit code {values['code']}\n{done.stderr}")
    return values


def journeys(source: Path) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        text = "\n".join(f"The cat sat on mat {number} and looked at the dog.\n" for number in range(400))
        rows = "\n".join(f"a {'good' if number % 2 else 'bad'} film {number},{number % 2}" for number in range(200))
        Path(folder, "book.txt").write_text(text, encoding="utf-8")
        Path(folder, "reviews.csv").write_text(f"text,label\n{rows}\n", encoding="utf-8")
        seconds = min(run([], folder, source)["seconds"] for _ in range(3))
        first = min(run(STEP, folder, source)["seconds"] for _ in range(3))
        counts: dict[str, float] = {}
        for name, command in JOURNEYS.items():
            values = run(command, folder, source, count=True)
            counts[f"files whose functions run, {name}"] = values["ran"]
            counts[f"files imported, {name}"] = values["modules"]
    times = {"seconds of `from qkv import load`": seconds, "seconds of `qkv train book.txt --steps 1`": first}
    return {**counts, **{name: round(value, 2) for name, value in times.items()}}


def main() -> None:
    arguments = [word for word in sys.argv[1:] if word != "--static"]
    source = Path(arguments[0] if arguments else Path(__file__).parents[1]).resolve() / "src" / "qkv"
    if not source.is_dir():
        raise SystemExit(f"{source}: no such folder. Give a checkout of qkv.")
    values: dict[str, float] = dict(static(source))
    if "--static" not in sys.argv:
        values |= journeys(source)
    for name, value in values.items():
        print(f"{value:>10,}  {name}")


if __name__ == "__main__":
    main()

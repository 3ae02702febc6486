"""Compares two commits: a redesign must change no value. Keys may differ only by the table bench/pins_renames.toml.

python bench/pins.py BASE HEAD                                 everything, about ten minutes on two cores
python bench/pins.py BASE HEAD --only recipes weights          some of it
python bench/pins.py BASE HEAD --keep FOLDER                   results are kept: a second comparison with the same BASE
                                                               runs HEAD only; one that was killed goes on
python bench/pins.py BASE HEAD --keep FOLDER --minutes 5       a part: no command starts later, the next call goes on
python bench/pins.py BASE HEAD --match 'finetune' --show       probes whose name holds a word; what each commit printed

recipes  the resolved recipe.toml of every recipe file and of typical commands for every task
weights  the weights of every kind of model on every task it fits, after 30 steps in f32 on one thread: best model,
         last checkpoint, and the metrics of every step
json     every value of every --json document on small runs, without times, places and versions
errors   bad files of the tests and commands with a mistake: exit code, file and line, numbers, quoted values, remedy

Both commits run on the same data in the same environment (only PYTHONPATH differs). A process for each commit imports
torch once and forks for every command. The exit code is 1 when something differs, 3 when a part is over and
probes are left.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "bench")]

from pinned import comparison, data, probes  # noqa: E402
from pinned.probes import GROUPS, Probe  # noqa: E402

UNFINISHED = 3  # the exit code of a part
RENAMES = ROOT / "bench" / "pins_renames.toml"
SOURCES = [
    ROOT / "bench" / "pinned" / "data.py",
    *(ROOT / "tests" / "data").glob("bad_*.py"),
    ROOT / "tests" / "small_pairs.py",
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("head")
    parser.add_argument("--only", nargs="+", choices=GROUPS, default=list(GROUPS), metavar="GROUP")
    parser.add_argument("--match", default="", help="only probes whose name holds this")
    parser.add_argument("--keep", type=Path, help="folder for results that a later comparison takes")
    parser.add_argument("--again", action="store_true", help="run HEAD even where its results are kept")
    parser.add_argument("--show", action="store_true", help="print what the commands of differing probes said")
    parser.add_argument("--workers", type=int, default=2, help="commands at a time")
    parser.add_argument("--minutes", type=float, help="a part of this length; needs --keep")
    given = parser.parse_args()
    if given.minutes and not given.keep:
        parser.error("--minutes needs --keep FOLDER, where the next part finds what this one has done")
    work = (given.keep or Path(tempfile.mkdtemp(prefix="pins-"))).resolve()
    try:
        return compare(given, work)
    finally:
        if given.keep is None:
            shutil.rmtree(work, ignore_errors=True)


def compare(given: argparse.Namespace, work: Path) -> int:
    began = time.monotonic()
    renames = comparison.Renames(tomllib.loads(RENAMES.read_text(encoding="utf-8")))
    base, head = Commit(given.base, work, "base"), Commit(given.head, work, "head")
    folder, bad = material(work)
    base.check_out()
    known = probes.every(base.tree, bad)
    chosen = [each for each in known if each.group in given.only and given.match in each.name]
    needed = {need for each in chosen for need in each.needs}
    needed |= {need for each in known if each.name in needed for need in each.needs}
    run = [each for each in known if each.name in needed or each in chosen]
    results = []
    ends = began + 60 * given.minutes if given.minutes else None
    for commit, table, again in ((base, comparison.Renames({}), False), (head, renames, given.again)):
        results.append(commit.results(run, folder, table, given.workers, again, ends))
    if left := [each.name for each in run if any(each.name not in side for side in results)]:
        print(f"{len(run) - len(left)} of {len(run)} probes are done on both commits; the same command goes on")
        return UNFINISHED
    differences, accepted = [], renames.table.get("accepted", {})
    for group in given.only:
        own = [each for each in chosen if each.group == group]
        differing = 0
        for each in own:
            found = comparison.outcome(each.name, results[0][each.name], results[1][each.name], renames)
            if each.name in accepted:
                continue
            differing += bool(found)
            differences += found
        known_good = sum(each.name in accepted for each in own)
        print(f"{group:<8} {len(own):>4} probes, {differing} differ, {known_good} accepted")
    for difference in differences:
        print(difference)
    if given.show:
        for name in dict.fromkeys(each.probe for each in differences):
            print(f"\n{name}\n  base {results[0][name]['message']}\n  head {results[1][name]['message']}")
    print(f"{base.hash[:7]} and {head.hash[:7]}: {len(differences)} differences; {time.monotonic() - began:.0f} s")
    return int(bool(differences))


def material(work: Path) -> tuple[Path, list[tuple[str, list[str]]]]:
    """Make the data once; its folder is named after the files that make it."""
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCES))).hexdigest()[:8]
    folder = work / f"data-{digest}"
    if not (folder / "bad.json").exists():
        shutil.rmtree(folder, ignore_errors=True)
        data.write(folder)
        bad = list(data.bad(folder / "bad"))
        (folder / "bad.json").write_text(json.dumps(bad), encoding="utf-8")
    return folder, json.loads((folder / "bad.json").read_text(encoding="utf-8"))


class Commit:
    """One side: its source, the folder in which its commands run, and their outcomes."""

    def __init__(self, name: str, work: Path, side: str) -> None:
        self.hash = git("rev-parse", "--verify", f"{name}^{{commit}}")
        self.place = work / f"{side}-{self.hash[:10]}"
        self.place.mkdir(parents=True, exist_ok=True)
        self.tree = self.place / "tree"
        self.kept = self.place / "results.json"

    def check_out(self) -> None:
        """Write the commit's source, without touching this repository's work trees."""
        if not self.tree.exists():
            self.tree.mkdir()
            archive = subprocess.run(
                ["git", "-C", str(ROOT), "archive", self.hash, "src"], capture_output=True, check=True
            )
            subprocess.run(["tar", "-x", "-C", str(self.tree)], input=archive.stdout, check=True)

    def results(
        self,
        wanted: list[Probe],
        folder: Path,
        renames: comparison.Renames,
        workers: int,
        again: bool,
        ends: float | None = None,
    ) -> dict[str, dict[str, Any]]:
        """Run what has not been run, up to a moment (of time.monotonic), and give the outcomes of all."""
        kept = json.loads(self.kept.read_text(encoding="utf-8")) if self.kept.exists() and not again else {}
        orders = [self.order(each, folder, renames) for each in wanted]
        answers = self.place / "answers.jsonl"
        if again:
            answers.unlink(missing_ok=True)
        self.collect(answers, orders, folder, kept)  # of a call that was killed
        missing = [order for order in orders if kept.get(order["name"], {}).get("words") != order["words"]]
        stale = {order["name"] for order in missing}
        missing += [order for order in orders if order["name"] not in stale and stale.intersection(order["needs"])]
        if missing and (ends is None or time.monotonic() < ends):
            self.check_out()
            (self.place / "orders.json").write_text(json.dumps(missing), encoding="utf-8")
            self.run(answers, workers, 0.0 if ends is None else ends - time.monotonic())
            self.collect(answers, missing, folder, kept)
        current = {order["name"]: order["words"] for order in orders}
        return {name: value["outcome"] for name, value in kept.items() if value["words"] == current.get(name)}

    def collect(self, answers: Path, orders: list[dict[str, Any]], folder: Path, kept: dict[str, Any]) -> None:
        """Move what has been answered to what is kept; a last line that was cut short is left out."""
        if not answers.exists():
            return
        by_name = {order["name"]: order for order in orders}
        for text in answers.read_text(encoding="utf-8").splitlines(keepends=True):
            line = json.loads(text) if text.endswith("\n") else {}
            order = by_name.get(line.get("name", ""))
            if order is None or order["words"] != line["words"]:
                continue
            outcome = collect(self.place, order, line["code"], folder)
            kept[order["name"]] = {"words": order["words"], "seconds": line["seconds"], "outcome": outcome}
            if not order["model"]:
                shutil.rmtree(self.place / order["out"], ignore_errors=True)
        aside = self.kept.with_suffix(".new")
        aside.write_text(json.dumps(kept), encoding="utf-8")
        aside.replace(self.kept)
        answers.unlink()

    def order(self, probe: Probe, folder: Path, renames: comparison.Renames) -> dict[str, Any]:
        """The words of a probe with its places filled in."""
        model = probe.group == "json" and " " not in probe.name.removeprefix("json: ")
        short = probe.name.removeprefix("json: ") if model else hashlib.sha256(probe.name.encode()).hexdigest()[:10]
        out = f"out/{short}"
        words = []
        for word in renames.words(probe.words):
            if word.startswith("@"):
                name, _, rest = word[1:].partition("/")
                words.append(f"out/{name}/run" + (f"/{rest}" if rest else ""))
            else:
                words.append(word.replace("{data}", str(folder)).replace("{out}", out))
        return {
            "name": probe.name,
            "words": words,
            "needs": list(probe.needs),
            "out": out,
            "model": model,
            "group": probe.group,
        }

    def run(self, answers: Path, workers: int, seconds: float) -> None:
        """Run the orders; no new one after so many seconds (0: all)."""
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("QKV_", "HF_"))},
            "PYTHONPATH": str(self.tree / "src"), "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false",
            "QKV_CACHE": str(self.place / "cache"), "HF_HUB_OFFLINE": "1", "HF_ENDPOINT": "http://127.0.0.1:9",
            "TMPDIR": str(self.place / "tmp"), "COLUMNS": "100", "PYTHONHASHSEED": "0",
        }  # fmt: skip
        (self.place / "tmp").mkdir(exist_ok=True)
        words = [
            sys.executable,
            str(ROOT / "bench" / "pinned" / "serving.py"),
            "orders.json",
            str(answers),
            str(workers),
            str(seconds),
        ]
        subprocess.run(words, cwd=self.place, env=environment, check=True)


def collect(place: Path, order: dict[str, Any], code: int, folder: Path) -> dict[str, Any]:
    """What of a command's outcome is compared."""
    out = place / order["out"]

    def read(name: str) -> str:
        text = (out / name).read_text(encoding="utf-8", errors="replace") if (out / name).exists() else ""
        return text.replace(str(folder), "DATA").replace(str(place), "HERE").replace(place.name, "HERE")

    stdout, stderr = read("stdout"), read("stderr")
    found: dict[str, Any] = {"code": code, "message": stderr[-2000:]}
    refusal = next((line for line in reversed(stderr.splitlines()) if line.startswith("qkv: ")), "")
    match order["group"]:
        case "recipes":
            found["recipe"] = tomllib.loads(read("run/recipe.toml"))
        case "weights":
            found["weights"] = weights(out / "run")
            found["metrics"] = [json.loads(line) for line in read("run/metrics.jsonl").splitlines()]
        case "json":
            verb = " ".join(order["words"][:2]) if order["words"][0] == "data" else order["words"][0]
            found[verb] = json.loads(stdout) if stdout.strip() and not code else {"refused": comparison.facts(refusal)}
        case "errors":
            notes = [line for line in stderr.splitlines() if line.startswith(("note: ", "warning: "))]
            found["said"] = refusal if code else "\n".join(notes)
    return found


def weights(run: Path) -> dict[str, Any]:
    """A hash over all values of the best model and of the last checkpoint, whatever their tensors are called."""
    found = {}
    files = [*sorted((run / "best").glob("*.safetensors"))]
    if checkpoints := sorted((run / "checkpoints").glob("*/weights.safetensors")):
        files.append(checkpoints[-1])
    for path in files:
        content = path.read_bytes()
        length = int.from_bytes(content[:8], "little")
        header, tensors = json.loads(content[8 : 8 + length]), []
        for name, entry in header.items():
            if name != "__metadata__":
                begin, end = (8 + length + offset for offset in entry["data_offsets"])
                tensors.append([entry["dtype"], entry["shape"], hashlib.sha256(content[begin:end]).hexdigest()])
        digest = hashlib.sha256(json.dumps(sorted(tensors)).encode()).hexdigest()[:16]
        found["best" if path.parent.name == "best" else "checkpoint"] = {
            "tensors": len(tensors),
            "sha256": digest,
            "names": hashlib.sha256(json.dumps(sorted(header)).encode()).hexdigest()[:16],
        }
    return found


def git(*words: str) -> str:
    return subprocess.run(["git", "-C", str(ROOT), *words], capture_output=True, text=True, check=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())

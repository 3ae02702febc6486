"""qkv compared with the projects people use today, in turns, in one run: `make bench`.

    python bench/peers.py --text INPUT.txt --nanogpt PATH --mingpt PATH        (checkouts of karpathy's projects)

INPUT.txt is Tiny Shakespeare. Writes reports/bench.json and the table between the markers of README.md. What a peer
lacks (a checkout, a package) is left out, with a message. Figures are medians over five rounds, with their range, and
ratios the geometric mean over the rounds, with theirs; `foreign` is the processor time that other programs took
meanwhile, as a share of the machine. About 40 minutes on two cores.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HOME = Path(__file__).parent.parent
MARKS = "<!-- bench -->", "<!-- /bench -->"
QKV = [sys.executable, "-m", "qkv"]
STOCK = (
    "config/train_shakespeare_char.py --device=cpu --compile=False --eval_iters=20 --log_interval=500 --block_size=64 "
    "--batch_size=12 --n_layer=4 --n_head=4 --n_embd=128 --max_iters=2000 --lr_decay_iters=2000 --dropout=0.0"
)  # as nanoGPT's README has it
TARGET = 1.88
RECIPES = {"modern": "shakespeare-quick", "modern-fast": "shakespeare-fast"}
SECTIONS = 6


def busy() -> tuple[float, float]:
    """Seconds that all processors worked, and those of this program's children and itself."""
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    own = os.times()
    return (sum(fields[:8]) - fields[3] - fields[4]) / os.sysconf("SC_CLK_TCK"), sum(own[:4])


@contextmanager
def watched(found: dict[str, Any]) -> Iterator[None]:
    began, before = time.perf_counter(), busy()
    yield
    seconds, after = time.perf_counter() - began, busy()
    foreign = max(0.0, (after[0] - before[0]) - (after[1] - before[1]))
    found["seconds_in_all"] = round(seconds, 1)
    found["foreign"] = round(foreign / seconds / (os.cpu_count() or 1), 3)


def timed(words: list[str], folder: str | Path = HOME) -> tuple[float, str]:
    began = time.perf_counter()
    done = subprocess.run(words, cwd=folder, capture_output=True, text=True, check=True)
    return time.perf_counter() - began, done.stdout


def worker(*words: str) -> dict[str, Any]:
    return json.loads(timed([sys.executable, str(HOME / "bench" / "workers.py"), *words])[1].splitlines()[-1])


def spread(values: list[float]) -> dict[str, float]:
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def ratios(theirs: list[float], ours: list[float]) -> dict[str, float]:
    """How many times faster, pair by pair: the geometric mean, the lower end of its 95 % interval, and the range."""
    logs = [math.log(a / b) for a, b in zip(theirs, ours, strict=True)]
    error = statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
    student = {2: 12.71, 3: 4.30, 4: 3.18, 5: 2.78, 6: 2.57, 7: 2.45}.get(len(logs), 2.3)
    mean = statistics.fmean(logs)
    return {
        "ratio": math.exp(mean),
        "low": math.exp(mean - student * error),
        "least": math.exp(min(logs)),
        "most": math.exp(max(logs)),
    }


def times(found: dict[str, float]) -> str:
    """A ratio with the range of its rounds."""
    digits = 1 if found["ratio"] >= 3 else 2
    return f"{found['ratio']:.{digits}f}x ({found['least']:.{digits}f}–{found['most']:.{digits}f})"


def ranged(found: dict[str, float], form: str, unit: str) -> str:
    """A median with the range of its rounds."""
    return f"{found['median']:{form}} {unit} ({found['least']:{form}}–{found['most']:{form}})"


def quality(text: Path, nanogpt: Path, rounds: int) -> dict[str, Any]:
    """Wall time of the whole command to nanoGPT's quality on a CPU."""
    ready = nanogpt / "data" / "shakespeare_char" / "train.bin"
    if not ready.is_file():
        raise FileNotFoundError(f"{ready}: make it with nanoGPT's own data/shakespeare_char/prepare.py")
    runs: dict[str, list[dict[str, float]]] = {"nanoGPT": [], "modern": [], "modern-fast": []}
    for seed in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            words = [sys.executable, "train.py", *STOCK.split(), f"--out_dir={folder}"]
            seconds, said = timed(words, nanogpt)
            losses = [line.rsplit(" ", 1)[1] for line in said.splitlines() if "val loss" in line]
            runs["nanoGPT"].append({"seconds": seconds, "loss": float(losses[-1])})
            for name, recipe in RECIPES.items():
                words = [*QKV, "train", str(text), "--recipe", recipe, "--seed", str(seed), "--json"]
                seconds, said = timed([*words, "--run", f"{folder}/{name}"])
                runs[name].append({"seconds": seconds, "loss": json.loads(said)["validation"]["loss"]})
    found: dict[str, Any] = {"runs": runs}
    for name in RECIPES:
        found[name] = ratios(*([run["seconds"] for run in runs[who]] for who in ("nanoGPT", name)))
        found[name]["reached"] = sum(run["loss"] <= TARGET for run in runs[name])
    return found


def decoding(rounds: int) -> dict[str, Any]:
    engines = {
        "gpt2": ["hf-f32", "ct2-int8", "qkv-int8", "qkv-f32"],
        "small": ["hf-f32", "ct2-f32", "qkv-int8", "qkv-f32"],
    }
    found: dict[str, Any] = {}
    for shape, names in engines.items():
        speeds: dict[str, list[float]] = {name: [] for name in names}
        for _ in range(rounds):
            for name in names:
                speeds[name].append(worker("decode", name, shape)["tokens_per_second"])
        found[shape] = {name: spread(values) for name, values in speeds.items()}
        for name in names[:2]:
            found[shape][f"over {name}"] = ratios(speeds["qkv-int8"], speeds[name])
    return found


def start_up(text: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        train = [*QKV, "train", str(text), "--model", "gpt-nano", "--steps", "5", "--run", f"{folder}/run", "--json"]
        timed(train)
        commands = {
            "qkv --help": [*QKV, "--help"],
            "qkv generate, 1 token": [*QKV, "generate", f"{folder}/run", "O", "--length", "1"],
            "import torch": [sys.executable, "-c", "import torch"],
            "import transformers' GPT-2": [sys.executable, "-c", "from transformers import GPT2LMHeadModel"],
        }
        return {name: spread([timed(words)[0] for _ in range(5)]) for name, words in commands.items()}


def table(found: dict[str, Any]) -> str:
    """The figures as Markdown; what was not measured is left out."""
    rows: list[tuple[str, str, str]] = []
    if part := found.get("quality"):
        for name in ("modern", "modern-fast"):
            walls = spread([run["seconds"] for run in part["runs"][name]])
            stock = spread([run["seconds"] for run in part["runs"]["nanoGPT"]])
            reached = f"{part[name]['reached']} of {len(part['runs'][name])} seeds"
            goal = f"{RECIPES[name]}.toml; {TARGET} reached by {reached}"
            what = f"`{name}` to nanoGPT's CPU quality, the whole command ({goal})"
            other = f"{times(part[name])} nanoGPT, {ranged(stock, '.0f', 's')}"
            rows.append((what, ranged(walls, ".1f", "s"), other))
    if part := found.get("gpt2 training"):
        other = f"{times(part['hf'])} Hugging Face {part['dtype']}"
        rows.append(
            ("training at GPT-2's shape (124M), 2 x 512 tokens", ranged(speeds(part), ".0f", "tokens/s"), other)
        )
    if part := found.get("gpt-nano training"):
        other = f"{times(part['minGPT'])} minGPT's Trainer"
        rows.append(("training gpt-nano", ranged(speeds(part), ",.0f", "tokens/s"), other))
    for shape, what in (("gpt2", "GPT-2's shape (124M)"), ("small", "6 layers of 384")):
        if part := found.get("decoding", {}).get(shape):
            others = [f"{times(value)} {name[5:]}" for name, value in part.items() if name.startswith("over ")]
            others = [each.replace("hf-f32", "Hugging Face f32").replace("ct2-", "CTranslate2 ") for each in others]
            speed = ranged(part["qkv-int8"], ",.0f", "tokens/s")
            rows.append((f"generating, {what}, int8", speed, ", ".join(others)))
    if part := found.get("memory"):
        own, theirs = (ranged(part[who], ".2f", "GiB") for who in ("qkv", "hf"))
        rows.append(("peak memory of training at GPT-2's shape", own, f"Hugging Face {theirs}"))
    if part := found.get("start-up"):
        for name in ("qkv --help", "qkv generate, 1 token"):
            other = f"`import torch` {ranged(part['import torch'], '.2f', 's')}"
            rows.append((f"`{name}`", ranged(part[name], ".2f", "s"), other))
    lines = ["| | qkv | compared with |", "| --- | --- | --- |", *(f"| {a} | {b} | {c} |" for a, b, c in rows)]
    return "\n".join(lines)


def speeds(part: dict[str, Any]) -> dict[str, float]:
    return spread([part["tokens"] / seconds for seconds in part["seconds"]["qkv"]])


def memory(rounds: int) -> dict[str, Any]:
    found: dict[str, list[float]] = {"hf": [], "qkv": []}
    for _ in range(rounds):
        for who, sizes in found.items():
            sizes.append(worker("memory", who)["bytes"] / 2**30)
    return {who: spread(sizes) for who, sizes in found.items()}


def into_readme(text: str) -> None:
    path = HOME / "README.md"
    said = path.read_text(encoding="utf-8")
    before, _, rest = said.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    if rest:
        path.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{after}", encoding="utf-8")


def commit() -> str:
    words = ["git", "describe", "--always", "--dirty"]
    return subprocess.run(words, cwd=HOME, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--text", type=Path, required=True)
    parser.add_argument("--nanogpt", type=Path)
    parser.add_argument("--mingpt", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", nargs="*", help="sections: quality, gpt2, nano, decoding, memory, start")
    parser.add_argument("--readme", action="store_true", help="write README's table from sections of several commits")
    parser.add_argument("--out", type=Path, default=HOME / "reports" / "bench.json")
    chosen = parser.parse_args()
    found: dict[str, Any] = json.loads(chosen.out.read_text()) if chosen.only and chosen.out.exists() else {}

    def section(name: str, title: str, work: Any) -> None:
        if chosen.only and name not in chosen.only:
            return
        print(f"{title} …", file=sys.stderr, flush=True)
        load: dict[str, Any] = {}
        try:
            with watched(load):
                made = work()
        except (subprocess.CalledProcessError, FileNotFoundError) as error:
            lines = str(getattr(error, "stderr", "") or error).strip().splitlines()
            print(f"  left out: {lines[-1] if lines else error}", file=sys.stderr)
            return
        found[title] = {**made, **load, "commit": commit()}

    def paired(made: dict[str, Any], other: str) -> dict[str, Any]:
        return {**made, other: ratios(made["seconds"][other], made["seconds"]["qkv"])}

    if chosen.nanogpt:
        section("quality", "quality", lambda: quality(chosen.text.resolve(), chosen.nanogpt.resolve(), chosen.rounds))
    section("gpt2", "gpt2 training", lambda: paired(worker("pairs", str(chosen.rounds)), "hf"))
    if chosen.mingpt:
        words = "nano", str(chosen.mingpt.resolve()), str(chosen.rounds)
        section("nano", "gpt-nano training", lambda: paired(worker(*words), "minGPT"))
    section("decoding", "decoding", lambda: decoding(chosen.rounds))
    section("memory", "memory", lambda: memory(chosen.rounds))
    section("start", "start-up", lambda: start_up(chosen.text.resolve()))
    chosen.out.parent.mkdir(exist_ok=True)
    chosen.out.write_text(json.dumps(found, indent=2) + "\n")
    print(table(found))
    commits = {part.get("commit", "an older one") for part in found.values()}
    if len(found) == SECTIONS and (len(commits) == 1 or chosen.readme):
        into_readme(table(found))
    else:
        print(f"README left as it is: {len(found)} of {SECTIONS} sections, of {len(commits)} commits", file=sys.stderr)


if __name__ == "__main__":
    main()

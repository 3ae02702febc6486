"""Does `--minutes N` end in time, for every task, on a quiet machine and beside two busy loops?

    python bench/minutes_kept.py --data FOLDER            (30 runs of a minute; a line of JSON for each)
    python bench/minutes_kept.py --data FOLDER --only tagging translation --load busy
    python bench/minutes_kept.py --table                  (what was measured, as a table)

FOLDER is laid out as the tests' real data. Each run is a process of its own with an empty cache, timed from its start
to its end. It is kept if it ended within a tenth, or 15 seconds, of what was asked. Runs that are in the results file
are not repeated: the script can be stopped and started again.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent.parent / "docs" / "minutes-kept.jsonl"
LOADS = ("quiet", "busy")
BUSY_LOOPS = 2
TASKS: dict[str, list[str]] = {
    "text": ["train", "tinyshakespeare/input.txt"],
    "many documents": ["train", "sotu/sotu.zip"],
    "the demo": ["train", "python-docs"],
    "masked": ["train", "tinyshakespeare/input.txt", "--model", "bert"],
    "classification": ["train", "sst2/train.tsv.gz"],
    "long texts": ["train", "imdb-5k/movie_review.tsv.gz"],
    "pairs of texts": ["train", "mrpc/train.tsv.gz"],
    "regression": ["train", "stsb/train.tsv.gz"],
    "tagging": ["train", "ud-english-ewt/en_ewt-ud-train.conllu.gz"],
    "named entities": ["train", "wnut17/wnut17train.conll", "--valid", "wnut17/emerging.dev.conll"],
    "images": ["train", "mnist-10k"],
    "numbers": ["train", "diabetes.csv", "--label", "progression"],
    "translation": ["train", "multi30k/train.en.gz", "multi30k/train.de.gz"],
    "finetuning on text": ["finetune", "base", "ece1786/LargerCorpus.txt"],
    "finetuning on labels": ["finetune", "base", "sms-spam/SMSSpamCollection"],
}
"""The words of each command, after `qkv`. Names with a slash or an ending are files of the data."""


@contextlib.contextmanager
def load(kind: str) -> Iterator[None]:
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY_LOOPS * (kind == "busy"))]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def place(word: str, data: Path, made: Path) -> str:
    """The path that a word of a command stands for, or the word."""
    return next((str(folder / word) for folder in (made, data) if (folder / word).exists()), word)


def prepare(made: Path, data: Path) -> None:
    """A table of numbers that scikit-learn brings, and a small language model to start from."""
    from sklearn.datasets import load_diabetes

    numbers = load_diabetes(as_frame=True).frame.rename(columns={"target": "progression"})
    numbers.to_csv(made / "diabetes.csv", index=False)
    text = str(data / TASKS["text"][1])
    words = ["train", text, "--steps", "20", "--run", str(made / "base")]
    subprocess.run([sys.executable, "-m", "qkv", *words], check=True, capture_output=True)


def measure(name: str, kind: str, minutes: float, data: Path, made: Path) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder, load(kind):
        words = [place(word, data, made) for word in TASKS[name]]
        command = [sys.executable, "-m", "qkv", *words, "--minutes", f"{minutes:g}", "--run", f"{folder}/run"]
        before, began = os.getloadavg()[0], time.perf_counter()
        environment = {**os.environ, "QKV_CACHE": f"{folder}/cache"}
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        used = time.perf_counter() - began
    asked, printed = 60 * minutes, done.stderr + done.stdout
    found = {
        "plan": re.search(r"^plan +(.+)", printed, re.M),
        "model": re.search(r"^model +(.+?),", printed, re.M),
        "busy": re.search(r"qkv got (\d+)%", printed),
        "refused": re.search(r"^qkv: (.+)", printed, re.M),
    }
    return {
        "task": name, "load": kind, "asked": asked, "used": round(used, 1), "exit": done.returncode,
        "kept": used <= asked + max(15.0, 0.1 * asked) and done.returncode == 0, "load_average": round(before, 1),
        **{key: match.group(1) for key, match in found.items() if match},
    }  # fmt: skip


def table(rows: list[dict[str, Any]]) -> None:
    print("| task | load | asked, s | used, s | model | plan | |")
    print("|---|---|---|---|---|---|---|")
    for row in rows:
        remark = row.get("refused", "" if row["kept"] else "late")
        columns = (row["task"], row["load"], f"{row['asked']:g}", row["used"], row.get("model", ""))
        print(f"| {' | '.join(map(str, columns))} | {row.get('plan', '')} | {remark} |")
    ended = [row for row in rows if row["exit"] == 0]
    refused = len(rows) - len(ended)
    print(f"\n{sum(row['kept'] for row in rows)} of {len(rows)} in time; {refused} refused")


def read(results: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in results.read_text().splitlines()] if results.is_file() else []


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--load", choices=(*LOADS, "both"), default="both")
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--table", action="store_true")
    chosen = parser.parse_args()
    if not chosen.table:
        if chosen.data is None:
            parser.error("--data: the folder of the real data is needed")
        known = {(row["task"], row["load"], row["asked"]) for row in read(chosen.results)}
        loads = LOADS if chosen.load == "both" else (chosen.load,)
        wanted = [
            (name, kind) for name in chosen.only for kind in loads if (name, kind, 60 * chosen.minutes) not in known
        ]
        with tempfile.TemporaryDirectory() as folder:
            if wanted:
                prepare(Path(folder), chosen.data)
            for name, kind in wanted:
                row = measure(name, kind, chosen.minutes, chosen.data, Path(folder))
                with chosen.results.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                print(json.dumps(row), flush=True)
    table(read(chosen.results))


if __name__ == "__main__":
    main()

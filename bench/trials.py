"""Attacks qkv with fresh trials: kills, signals, broken outputs, extreme numbers, hostile names.

python bench/trials.py --seed 7                          all five, about half an hour on two cores
python bench/trials.py names numbers --seed 7 --count 20 some, and fewer of them
python bench/trials.py outputs --seed 7 --only 12        one trial again

resume   every kind of model: killed (-9) three times, resumed, ends with the same bits as a run that nobody killed
signals  SIGINT, SIGTERM, SIGHUP at any moment from the start of the process: heard, no traceback, nothing lost
outputs  standard output or error full, closed, read only or without a reader: no fault, and a model is kept
numbers  extreme values of every numeric option and recipe key: refused or done, within 6 GB and a minute of work
names    hostile names and contents: no fault, and no control character reaches the terminal

A seed draws its trials; another seed draws fresh ones. --out keeps a line of JSON for each trial, and the same command
goes on where it was stopped. The exit code is 1 when a trial failed.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

from attacks import driver, names, numbers, outputs, resume, signals, stage  # noqa: E402

SUITES = {"resume": resume, "signals": signals, "outputs": outputs, "numbers": numbers, "names": names}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("suites", nargs="*", metavar="SUITE", help=f"{', '.join(SUITES)}; all by default")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, help="trials of each suite")
    parser.add_argument("--only", type=int, action="append", default=[], help="the number of a trial; may be repeated")
    parser.add_argument("--workers", type=int, default=2, help="children at a time")
    parser.add_argument("--work", type=Path, help="folder for data, models and what failing trials leave behind")
    parser.add_argument("--out", type=Path, help="a line of JSON for each trial; by default in the folder of --work")
    given = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let what runs in the background ignore it
    if unknown := set(given.suites) - set(SUITES):
        parser.error(f"unknown suite {', '.join(sorted(unknown))}")
    work = (given.work or Path(tempfile.mkdtemp(prefix="trials-"))).resolve()
    (work / "tmp").mkdir(parents=True, exist_ok=True)
    os.environ |= {"TMPDIR": str(work / "tmp"), "HF_ENDPOINT": "http://127.0.0.1:9"}  # traces of faults; no network
    chosen = {name: suite for name, suite in SUITES.items() if name in (given.suites or SUITES)}
    counts = {name: given.count or suite.COUNT for name, suite in chosen.items()}
    began = time.monotonic()
    print(f"work in {work}", file=sys.stderr)
    workers = [driver.Worker(work, work / "stage", number) for number in range(given.workers)]
    try:
        stage.verbs()
        stage.build(work / "stage", workers[0].nursery)
        lines = driver.drive(chosen, given.seed, counts, workers, given.out or work / "trials.jsonl", set(given.only))
    finally:
        for worker in workers:
            worker.close()
    print(driver.table(lines, time.monotonic() - began))
    return int(any(line["problems"] for line in lines))


if __name__ == "__main__":
    sys.exit(main())

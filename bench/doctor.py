"""Is every sentence that `qkv train` and `qkv compare` print about a run true? Sixty short runs, recomputed.

    python bench/doctor.py --data FOLDER --work FOLDER [--only WORD] [--json FILE]

Runs of all tasks on slices of real data (bench/doctor_runs.py): good ones, and ones that were made bad on purpose, by
too few steps, memorised texts, copied rows, leaks, wrong labels, a few rows. Each sentence of the doctor in card.md,
and each row of its table, is taken apart and computed again from the saved model, the rows and metrics.jsonl:

- scores by the public calls (`classify`, `tag`, `translate`, the module), metrics by numpy, seqeval and sacreBLEU
- baselines fitted again with scikit-learn or dictionaries, n-grams by a recursion over counters
- intervals by Wilson's formula or another bootstrap; verdicts by that bootstrap or the exact test of discordant rows
- curves by numpy from the lines of metrics.jsonl

A sentence that no check understands counts as false. Each true sentence is checked once more with a number changed by
a third, which the checks must refuse. The script goes on where it stopped: a run that has its line in
WORK/results.jsonl is not done again. About 20 minutes on one core.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import time
import traceback
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import doctor_checks as checks
from doctor_runs import COMPARISONS, RUNS, Planned


@dataclass
class Verified:
    """What was said about a run, and what is not true of it."""

    name: str
    sentences: int = 0
    borderline: int = 0
    altered: int = 0  # true sentences of which one number was changed
    refused: int = 0  # of these, those that the checks call false
    false: list[str] = field(default_factory=list)


def report_of(planned: Planned, data: Path, work: Path) -> tuple[Any, list[str], dict[str, Any]]:
    """Train; the session, the doctor's lines of card.md, and the values of --json."""
    from qkv import session as sessions

    folder = work / "runs" / planned.name.replace(" ", "-").replace(",", "")
    session = sessions.start(
        planned.values(data, work / "data" / folder.name), folder, numbered=True, minutes=planned.minutes
    )
    doctor = session.task.examine(session)
    session.task.plan(session, doctor)
    for _ in session.run.events(session.state, session.objective):
        pass
    values = sessions.finish(session, doctor).values
    card = (session.run.folder / "card.md").read_text(encoding="utf-8")
    section = card.split("## Doctor")[1]
    return session, [line[2:] for line in section.split("\n\n")[1].splitlines() if line.startswith("- ")], values


def verify(planned: Planned, data: Path, work: Path) -> Verified:
    session, lines, values = report_of(planned, data, work)
    found = Verified(planned.name)
    facts = checks.facts_of(session, values)
    for claim in checks.claims(lines, values):
        found.sentences += 1
        outcome = checks.judge(claim, facts)
        if outcome == "borderline":
            found.borderline += 1
        elif outcome:
            found.false.append(f"{claim.text}  ->  {outcome}")
        elif (altered := checks.altered(claim)) is not None:
            found.altered += 1
            found.refused += bool(checks.judge(altered, facts))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    options.work.mkdir(parents=True, exist_ok=True)
    log = options.work / "results.jsonl"
    done = {row["name"]: row for row in map(json.loads, log.read_text().splitlines())} if log.exists() else {}
    for planned in [*RUNS, *COMPARISONS]:
        if planned.name in done or not re.search(options.only, planned.name):
            continue
        began = time.perf_counter()
        try:
            verified = checks.verify_comparison(planned, options.data, options.work) if planned.compares else None
            result = vars(verified or verify(planned, options.data, options.work))
        except Exception:  # a crash is a false run, and the others go on
            result = vars(Verified(planned.name, 1, false=[traceback.format_exc().strip()]))
        done[planned.name] = {**result, "seconds": round(time.perf_counter() - began, 1)}
        with log.open("a") as file:
            file.write(json.dumps(done[planned.name]) + "\n")
        print(f"{planned.name:32} {result['sentences']:3} sentences, {len(result['false'])} false", flush=True)
        for text in result["false"]:
            print(f"    FALSE  {text}", flush=True)
    rows = list(done.values())
    said, wrong = sum(row["sentences"] for row in rows), sum(len(row["false"]) for row in rows)
    close, seconds = sum(row["borderline"] for row in rows), sum(row["seconds"] for row in rows)
    print(
        f"{len(rows)} runs: {said - wrong} of {said} sentences true, {close} of them too close to call; {seconds:.0f} s"
    )
    altered, refused = (sum(row[name] for row in rows) for name in ("altered", "refused"))
    print(f"{refused} of {altered} altered sentences were refused")
    if options.json:
        options.json.write_text(json.dumps({"runs": rows, "true": said - wrong, "sentences": said}, indent=1) + "\n")
    sys.exit(int(wrong > 0))


if __name__ == "__main__":
    main()

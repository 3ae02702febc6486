"""reports/reliability.json: every figure of the reliability tests, as trials and failures."""

from __future__ import annotations

import fcntl
import json
import time
from pathlib import Path
from typing import Any

REPORT = Path(__file__).resolve().parents[2] / "reports" / "reliability.json"


def record(name: str, trials: int, failures: int, **facts: Any) -> None:
    """Put one figure into the report; a later run of the same name replaces it."""
    REPORT.parent.mkdir(exist_ok=True)
    with (REPORT.parent / ".reliability.lock").open("w") as lock:  # tests may run in several processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        values = json.loads(REPORT.read_text()) if REPORT.exists() else {}
        at = time.strftime("%Y-%m-%d %H:%M:%S")
        values[name] = {"trials": trials, "failures": failures, **facts, "at": at}
        aside = REPORT.with_suffix(".partial")
        aside.write_text(json.dumps(dict(sorted(values.items())), indent=2) + "\n")
        aside.replace(REPORT)

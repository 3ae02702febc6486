"""Print a report: its sections, samples of what the model writes, and the commands to try next."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qkv.cli.output import print_answer, program, table
from qkv.cli.progress import waiting

if TYPE_CHECKING:
    from qkv.doctor.examination import Doctor
    from qkv.tasks.protocol import Session
    from qkv.tasks.report import NextCommand, Section


def finish(session: Session, doctor: Doctor | None, quiet: bool) -> dict[str, Any]:
    """Score the best model, write the card and, unless `quiet`, print the report. Gives what --json prints."""
    from qkv import session as sessions

    with waiting() as progress:
        report = sessions.finish(session, doctor, progress)
    values = report.values
    if report.writes:
        values["sample"] = samples(session, quiet)
    if not quiet:
        show(report.sections)
        print_answer(*next_commands(report.commands, session.run.folder))
    return values


def samples(session: Session, quiet: bool) -> str:
    """Let the model write, and print that unless `quiet`; gives the first sample."""
    import qkv

    training = session.recipe.training
    written = qkv.load(session.run.folder, training.device).samples(
        "", 1 if quiet else 2, length=200, seed=training.seed
    )
    for number, sample in enumerate([] if quiet else written, 1):
        print_answer("", f"--- sample {number} (temperature 0.8) ---", *sample.text.strip().split("\n"))
    return written[0].text


def show(sections: Iterable[Section]) -> None:
    """Print lines and tables in their order."""
    from qkv.tasks.report import LinesSection

    for section in sections:
        if isinstance(section, LinesSection):
            print_answer(*section.lines)
        else:
            table(section.title, section.columns, section.rows, words=section.words)


def next_commands(commands: Iterable[NextCommand], folder: Path) -> list[str]:
    """Give the commands to try next as lines, their purposes in one column."""
    rows = [(f"{program()} {shlex.join(command.words)}", command.purpose) for command in commands]
    width = max(len(command) for command, _ in rows)
    texts = [f"  {command:<{width}}   {purpose}".rstrip() for command, purpose in rows]
    return ["", f"The model is in {folder}/best; card.md tells all about the run. Next:", *texts]

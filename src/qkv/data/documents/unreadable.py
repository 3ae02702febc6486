"""Why a document cannot be read."""

from __future__ import annotations


class UnreadableError(Exception):
    """A document that is damaged, encrypted or without text."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem)
        self.problem, self.remedy = problem, remedy


def misnamed_error(kind: str) -> UnreadableError:
    return UnreadableError(f"is named .{kind} but holds no {kind} data", "Rename it to match its content.")

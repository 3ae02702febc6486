"""The store of a search, by Optuna: a journal file, or an SQL server by its address.

No finished trial is ever lost: the store has it, flushed, before the next one starts. Trials that a killed
process left behind count as failed, and are tried once more.
"""

from __future__ import annotations

import os
import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import optuna
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import FrozenTrial, TrialState

from qkv.errors import InputError, StorageError
from qkv.storage import storage_errors

STARTUP = 5  # trials before any is pruned
WARMUP = 2  # reports before a trial is pruned
OWNER, AGAIN, REASON, RECIPE, ASKED = "owner", "again", "reason", "recipe", "asked"
FINISHED = (TrialState.COMPLETE, TrialState.PRUNED)


class _FileLock:
    """Held by the system, which lets go of it when a process dies."""

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(f".{path.name}.lock")
        self.descriptor = -1

    def acquire(self) -> bool:
        self.descriptor = os.open(self.path, os.O_CREAT | os.O_RDWR)
        try:
            import fcntl

            fcntl.flock(self.descriptor, fcntl.LOCK_EX)
        except ImportError:  # Windows: one process at a time, as the study's folder is locked
            pass
        return True

    def release(self) -> None:
        os.close(self.descriptor)


def open_store(address: str) -> BaseStorage:
    """By an SQL address as postgresql://user@host/name, or by the name of a file."""
    if "://" in address:
        try:
            return RDBStorage(address)
        except Exception as error:  # each server has its own exception
            raise StorageError(
                f"--store {address}: {_first_line(error)}. Expected an address as sqlite:///study.db or "
                "postgresql://user:password@host/name, whose driver is installed"
            ) from None
    path = Path(address)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _whole_lines(path)
        return JournalStorage(JournalFileBackend(str(path), lock_obj=_FileLock(path)))  # type: ignore[arg-type]


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _whole_lines(path: Path) -> None:
    """Cut off what a crash left of a last line: no trial is known by it yet."""
    if path.is_file():
        data = path.read_bytes()
        end = data.rfind(b"\n") + 1
        if end < len(data):
            with path.open("r+b") as file:
                file.truncate(end)


@contextmanager
def quiet() -> Iterator[None]:
    """Without Optuna's own lines."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=UserWarning, module="optuna")
            warnings.filterwarnings("ignore", category=FutureWarning, module="optuna")
            yield
    finally:
        optuna.logging.set_verbosity(before)


class Store:
    """One search: its trials, those that are over, the best, and who works on it."""

    def __init__(self, address: str, name: str, asked: dict[str, Any], folder: Path, seed: int, *, lower: bool) -> None:
        self.owner = f"{socket.gethostname()}:{folder.resolve()}"
        self.alone = "://" not in address
        self.seed, self.lower = seed, lower
        self.study = optuna.create_study(
            storage=open_store(address),
            study_name=name,
            direction="minimize" if lower else "maximize",
            load_if_exists=True,
            pruner=optuna.pruners.MedianPruner(n_startup_trials=STARTUP, n_warmup_steps=WARMUP),
        )
        before = self.study.user_attrs.get(ASKED)
        if before is not None and before != asked:
            changed = sorted(key for key in {*before, *asked} if before.get(key) != asked.get(key))
            raise InputError(
                f"{folder}: the search there was for another {changed[0]} ({before.get(changed[0])!r}, not "
                f"{asked.get(changed[0])!r}). Choose another --run, or ask for the same."
            )
        if before is None:
            self.study.set_user_attr(ASKED, asked)

    def begin(self, defaults: list[dict[str, Any]]) -> int:
        """Take up what was there; gives how many trials a killed process left. A new search tries `defaults` first."""
        trials = self.study.get_trials(deepcopy=False)
        if not trials:
            for figures in defaults:
                self.study.enqueue_trial(figures)
        stale = [each for each in trials if each.state == TrialState.RUNNING and self._ours(each)]
        for trial in stale:
            self.give_up(trial.number, trial)
        return len(stale)

    def _ours(self, trial: FrozenTrial) -> bool:
        return self.alone or trial.user_attrs.get(OWNER) == self.owner

    def give_up(self, number: int, trial: FrozenTrial) -> None:
        """A trial that did not come to its end counts as failed, and is tried once more."""
        self.study.tell(number, state=TrialState.FAIL)
        if AGAIN not in trial.user_attrs and (figures := trial.system_attrs.get("fixed_params") or trial.params):
            self.study.enqueue_trial(figures, user_attrs={AGAIN: number})

    def ask(self) -> optuna.Trial:
        """The next trial: a function of the seed and of all trials before it, however often the search was stopped."""
        number = len(self.study.get_trials(deepcopy=False))
        self.study.sampler = optuna.samplers.TPESampler(seed=(self.seed * 1_000_003 + number) % 2**32)
        trial = self.study.ask()
        trial.set_user_attr(OWNER, self.owner)
        return trial

    @property
    def over(self) -> list[FrozenTrial]:
        """Trials that came to an end: complete, pruned, or impossible."""
        trials = self.study.get_trials(deepcopy=False)
        return [each for each in trials if each.state in FINISHED or REASON in each.user_attrs]

    @property
    def best(self) -> FrozenTrial | None:
        done = [each for each in self.over if each.state == TrialState.COMPLETE and each.value is not None]
        return min(done, key=lambda each: (each.value or 0.0) * (1 if self.lower else -1), default=None)

    @property
    def seconds(self) -> float:
        """That the trials which are over took."""
        return sum((each.duration.total_seconds() for each in self.over if each.duration is not None), 0.0)

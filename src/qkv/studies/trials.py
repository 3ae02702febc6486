"""The store of a search, by Optuna: a journal file, or an SQL server by its address.

No finished trial is ever lost: it is flushed to the store before the next one starts. Trials that were abandoned by a
killed process count as failed, and are tried once more.
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

UNPRUNED_TRIALS = 5  # the first trials, which are never pruned
UNPRUNED_REPORTS = 2  # the first reports of a trial, at which it is never pruned
OWNER, RETRY_OF, REASON, RECIPE, SUBJECT = "owner", "again", "reason", "recipe", "asked"  # user attributes of the store
FINISHED_STATES = (TrialState.COMPLETE, TrialState.PRUNED)


class _FileLock:
    """A lock of the operating system, which releases it when a process dies."""

    def __init__(self, path: Path) -> None:
        self.path = path.with_name(f".{path.name}.lock")
        self.descriptor = -1

    def acquire(self) -> bool:
        self.descriptor = os.open(self.path, os.O_CREAT | os.O_RDWR)
        try:
            import fcntl

            fcntl.flock(self.descriptor, fcntl.LOCK_EX)
        except ImportError:  # on Windows the lock of the study's folder must suffice
            pass
        return True

    def release(self) -> None:
        os.close(self.descriptor)


def open_store(address: str) -> BaseStorage:
    """Open an SQL address such as postgresql://user@host/name, or a journal file by its name."""
    if "://" in address:
        try:
            return RDBStorage(address)
        except Exception as error:  # each server has its own exception
            raise StorageError(
                f"--store {address}: {_first_line(error)}. Expected an address such as sqlite:///study.db or "
                "postgresql://user:password@host/name, with its driver installed"
            ) from None
    path = Path(address)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_partial_line(path)
        return JournalStorage(JournalFileBackend(str(path), lock_obj=_FileLock(path)))  # type: ignore[arg-type]


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _remove_partial_line(path: Path) -> None:
    """Cut off a last line that was only partly written because of a crash."""
    if path.is_file():
        data = path.read_bytes()
        end = data.rfind(b"\n") + 1
        if end < len(data):
            with path.open("r+b") as file:
                file.truncate(end)


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress Optuna's log lines and warnings."""
    previous = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", category=UserWarning, module="optuna")
            warnings.filterwarnings("ignore", category=FutureWarning, module="optuna")
            yield
    finally:
        optuna.logging.set_verbosity(previous)


class Store:
    """The trials of one search."""

    def __init__(
        self, address: str, name: str, subject: dict[str, Any], folder: Path, seed: int, *, lower_is_better: bool
    ) -> None:
        """Open the search `name`; a search for another `subject` (data, model or task) is refused."""
        self.owner = f"{socket.gethostname()}:{folder.resolve()}"
        self.is_file = "://" not in address
        self.seed, self.lower_is_better = seed, lower_is_better
        self.study = optuna.create_study(
            storage=open_store(address),
            study_name=name,
            direction="minimize" if lower_is_better else "maximize",
            load_if_exists=True,
            pruner=optuna.pruners.MedianPruner(n_startup_trials=UNPRUNED_TRIALS, n_warmup_steps=UNPRUNED_REPORTS),
        )
        stored = self.study.user_attrs.get(SUBJECT)
        if stored is not None and stored != subject:
            changed = sorted(key for key in {*stored, *subject} if stored.get(key) != subject.get(key))
            raise InputError(
                f"{folder}: the search there was for another {changed[0]} ({stored.get(changed[0])!r}, not "
                f"{subject.get(changed[0])!r}). Choose another --run, or repeat the old command."
            )
        if stored is None:
            self.study.set_user_attr(SUBJECT, subject)

    def begin(self, defaults: list[dict[str, Any]]) -> int:
        """Schedule the trials that a killed process abandoned once more, and return their number; a new search first
        tries `defaults`."""
        trials = self.study.get_trials(deepcopy=False)
        if not trials:
            for hyperparameters in defaults:
                self.study.enqueue_trial(hyperparameters)
        abandoned = [trial for trial in trials if trial.state == TrialState.RUNNING and self._owns(trial)]
        for trial in abandoned:
            self.give_up(trial.number, trial)
        return len(abandoned)

    def _owns(self, trial: FrozenTrial) -> bool:
        return self.is_file or trial.user_attrs.get(OWNER) == self.owner

    def give_up(self, number: int, trial: FrozenTrial) -> None:
        """Mark an interrupted trial as failed, and schedule its hyperparameters once more."""
        self.study.tell(number, state=TrialState.FAIL)
        hyperparameters = trial.system_attrs.get("fixed_params") or trial.params
        if RETRY_OF not in trial.user_attrs and hyperparameters:
            self.study.enqueue_trial(hyperparameters, user_attrs={RETRY_OF: number})

    def ask(self) -> optuna.Trial:
        """The next trial, which depends only on the seed and on all trials before it."""
        number = len(self.study.get_trials(deepcopy=False))
        self.study.sampler = optuna.samplers.TPESampler(seed=(self.seed * 1_000_003 + number) % 2**32)
        trial = self.study.ask()
        trial.set_user_attr(OWNER, self.owner)
        return trial

    @property
    def finished(self) -> list[FrozenTrial]:
        """Trials that are complete, pruned, or failed with a message, because their settings are impossible."""
        trials = self.study.get_trials(deepcopy=False)
        return [trial for trial in trials if trial.state in FINISHED_STATES or REASON in trial.user_attrs]

    @property
    def best(self) -> FrozenTrial | None:
        complete = [trial for trial in self.finished if trial.state == TrialState.COMPLETE and trial.value is not None]
        sign = 1 if self.lower_is_better else -1
        return min(complete, key=lambda trial: sign * (trial.value or 0.0), default=None)

    @property
    def seconds(self) -> float:
        """The time that the finished trials took."""
        return sum((trial.duration.total_seconds() for trial in self.finished if trial.duration is not None), 0.0)

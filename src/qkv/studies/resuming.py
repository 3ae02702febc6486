"""Resume = uninterrupted: a few steps of a run, straight through and with a save and a load between, must be equal."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path

import torch

from qkv import session as sessions
from qkv.errors import RefusedError
from qkv.training import checkpoints
from qkv.training.loop import TrainingState, train

STEPS = 2  # before the save, and after it


def resumed(run: Path) -> str:
    """What was compared, in words; RefusedError where the two differ. Nothing in the run's folder is changed."""
    session = sessions.resume(run)
    config = session.recipe.training
    device = config.device
    last = config.length - 2 * STEPS
    kept = [path for path in checkpoints.numbered(run / "checkpoints") if int(path.name) <= last]
    longer = replace(config, steps=max(config.steps, 2 * STEPS), steps_changes=config.steps_changes if kept else ())

    def fresh() -> TrainingState:
        state = sessions.fresh_state(session.recipe)
        if kept:
            checkpoints.load(kept[-1], state, device)
        else:
            torch.manual_seed(config.seed)
        return state

    def go(state: TrainingState, steps: int) -> None:
        going = train(state, session.objective, longer)
        for _ in range(steps):
            next(going)

    straight = fresh()
    go(straight, 2 * STEPS)
    broken = fresh()
    go(broken, STEPS)
    with tempfile.TemporaryDirectory(prefix="qkv-verify-") as folder:
        saved = checkpoints.save(Path(folder), broken, {}, device, keep=1)
        again = sessions.fresh_state(session.recipe)
        checkpoints.load(saved, again, device)
    go(again, STEPS)
    for name, tensor in straight.model.state_dict().items():
        if not torch.equal(tensor, again.model.state_dict()[name]):
            raise RefusedError(f"{run}: a resumed run differs from an uninterrupted one in {name}.")
    return f"steps {straight.step - 2 * STEPS + 1} to {straight.step}, saved and loaded in the middle: equal bits"

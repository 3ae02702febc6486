"""Tagging as a task: a label for each word of a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qkv.objectives.classification import Tagging
from qkv.recipe.recipe import Recipe
from qkv.tasks.classification.task import LabelledTask
from qkv.tasks.report import NextCommand


class TaggingTask(LabelledTask):
    kind = "tagging"
    unit = "words"

    def objective(self, recipe: Recipe) -> Tagging:
        config: Any = recipe.task
        rows, targets = self.side("train"), self.prepared.labelled.train.targets
        return Tagging(config, rows, targets, recipe.training.batch, recipe.training.seed)

    def next_commands(self, folder: Path) -> tuple[NextCommand, ...]:
        first: Any = self.prepared.labelled.valid[0]
        command = NextCommand(("tag", str(folder), " ".join(first.words[:8])), "tag any text")
        return (command, *super().next_commands(folder))

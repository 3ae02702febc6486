"""Classification as a task: labels, or a number, for each text, pair of texts, picture or row of numbers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qkv.objectives.classification import Classification
from qkv.recipe.recipe import Recipe
from qkv.tasks.labelled.task import LabelledTask
from qkv.tasks.report import NextCommand
from qkv.visible import shortened


class ClassificationTask(LabelledTask):
    kind = "classification"

    def objective(self, recipe: Recipe) -> Classification:
        config: Any = recipe.task
        rows, targets = self.side("train"), self.prepared.labelled.train.targets
        return Classification(config, rows, targets, self.problem, recipe.training.batch, recipe.training.seed)

    def next_commands(self, folder: Path) -> tuple[NextCommand, ...]:
        found = self.prepared.labelled
        commands = []
        if found.numeric:
            commands.append(NextCommand(("classify", str(folder), "--file", "rows.csv"), "answer other rows"))
        elif found.task != "images":
            example: Any = found.valid[0]
            given = (shortened(example.text, 60),) if example.second is None else ("--file", "pairs.tsv")
            commands.append(NextCommand(("classify", str(folder), *given), "judge any text"))
        return (*commands, *super().next_commands(folder))

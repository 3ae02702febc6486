"""The tagging task: a label for each word of a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from qkv.data.examples import TagExamples
from qkv.objectives.classification import Tagging, TaggingConfig
from qkv.recipe.recipe import Recipe
from qkv.tasks.classification.task import ClassificationTask
from qkv.tasks.protocol import expect
from qkv.tasks.report import NextCommand


class TaggingTask(ClassificationTask):
    kind: ClassVar[str] = "tagging"
    task_config: ClassVar[type] = TaggingConfig
    unit: ClassVar[str] = "words"

    def objective(self, recipe: Recipe) -> Tagging:
        rows, tags = self.split_rows("train"), self.prepared.labelled.train.targets
        task, training = expect(recipe.task, TaggingConfig), recipe.training
        return Tagging(task, rows, tags, training.batch, training.seed)

    def next_commands(self, folder: Path) -> tuple[NextCommand, ...]:
        words = expect(self.prepared.labelled.valid, TagExamples)[0].words
        command = NextCommand(("tag", str(folder), " ".join(words[:8])), "tag any text")
        return (command, *super().next_commands(folder))

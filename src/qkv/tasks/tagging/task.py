"""The tagging task: a label for each word of a sentence."""

from __future__ import annotations

from typing import ClassVar

from qkv.objectives.classification import Tagging, TaggingConfig
from qkv.recipe.recipe import Recipe
from qkv.tasks.classification.task import ClassificationTask
from qkv.tasks.protocol import expect


class TaggingTask(ClassificationTask):
    kind: ClassVar[str] = "tagging"
    task_config: ClassVar[type] = TaggingConfig
    unit: ClassVar[str] = "words"

    def objective(self, recipe: Recipe) -> Tagging:
        rows, tags = self.split_rows("train"), self.prepared.labelled.train.targets
        task, training = expect(recipe.task, TaggingConfig), recipe.training
        return Tagging(task, rows, tags, training.batch, training.seed)

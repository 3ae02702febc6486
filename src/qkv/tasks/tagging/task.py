"""The tagging task: a label for each word of a sentence."""

from __future__ import annotations

from typing import ClassVar

from qkv.evaluation.spans import OUTSIDE, is_spans
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
        names = self.prepared.labelled.train.labels.names
        outside = names.index(OUTSIDE) if is_spans(names) and OUTSIDE in names else None
        return Tagging(task, rows, tags, training.batch, training.seed, outside)

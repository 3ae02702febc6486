"""Which weights are matrices: Muon's, and the ones that decay."""

from __future__ import annotations

import pytest
import torch

from models.suite import CONFIGS
from qkv.models.bert import BertConfig
from qkv.models.masked import MaskedConfig
from qkv.training.optimizers import is_matrix, optimizers
from qkv.training.settings import TrainingConfig

SETTINGS = TrainingConfig(
    steps=1,
    batch=1,
    optimizer="muon",
    learning_rate=1.0,
    matrix_learning_rate=1.0,
    momentum=0.9,
    weight_decay=0.1,
)


@pytest.mark.parametrize("name", CONFIGS)
def test_language_models_name_them_at_the_top(name: str) -> None:
    """What lies deeper has other names: looking at every part of a name moves nothing there."""
    with torch.device("meta"):
        named = dict(CONFIGS[name].build().named_parameters())
    outside = ("embedding", "positions", "head")
    expected = [key for key, p in named.items() if p.ndim == 2 and key.partition(".")[0] not in outside]
    assert [key for key, p in named.items() if is_matrix(key, p)] == expected


def test_inside_an_encoder() -> None:
    encoder = BertConfig(vocabulary=19, layers=2, heads=2, width=8, context=12, pooler="first")
    model = MaskedConfig(encoder=encoder, next_sentence="linear").build()
    matrices = [name for name, parameter in model.named_parameters() if is_matrix(name, parameter)]
    sublayers = ["query", "key", "value", "output"], ["inner", "outer"]
    blocks = [
        f"encoder.blocks.{block}.{part}.sublayer.{each}.weight"
        for block in range(2)
        for part, names in zip(("attention", "feedforward"), sublayers, strict=True)
        for each in names
    ]
    assert sorted(matrices) == sorted([*blocks, "encoder.pooler.dense.weight"])
    found = optimizers(model, SETTINGS)
    assert len(found["muon"].param_groups[0]["params"]) == len(matrices)
    assert sum(len(group["params"]) for one in found.values() for group in one.param_groups) == len(
        list(model.parameters())
    )

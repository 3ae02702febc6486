"""A part of one's own in a model of qkv: GPT with sharper attention."""

from typing import Literal

from torch import Tensor, nn

import qkv
from qkv.blocks.attention import MultiHeadAttention
from qkv.config import strict
from qkv.models.gpt import GPT, GPTConfig


@strict
class SharpConfig:
    kind: Literal["gpt-sharp"] = "gpt-sharp"
    vocabulary: int = 0
    layers: int = 1
    heads: int = 2
    width: int = 16
    context: int = 32

    def build(self) -> GPT:
        config = GPTConfig(
            vocabulary=self.vocabulary, layers=self.layers, heads=self.heads, width=self.width, context=self.context
        )
        model = config.build()
        for part in model.modules():
            if isinstance(part, MultiHeadAttention):
                part.query_norm = Sharp()
        return model


class Sharp(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * x


model = qkv.train(["the dog sat on the mat"] * 200, model=SharpConfig(), steps=3, run="sharp")
reveal_type(model)
assert model.generate("the", length=10) == model.generate("the", length=10, cached=False)
assert isinstance(qkv.load("sharp").module, GPT)

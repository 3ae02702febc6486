"""A CNN on images (LeCun et al. 1998; deck 001).

    x = 2 pixels - 1;  N times: x = maxpool(relu(conv(x)));  flat: one vector relu(W x + b);  grid: one vector a cell

Each layer of the CNN halves the sides and doubles the features, up to the width; the classifier's head is the last
layer of its MLP.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from jaxtyping import Float
from torch import Tensor, nn

from qkv.blocks.image_patches import RandomShift
from qkv.blocks.tap import Tap
from qkv.config import CountOrZero, Layers, Width, strict
from qkv.models.defaults import ClassifierDefaults, Classifiers


@strict
class PictureCNNConfig:
    kind: Literal["picture-cnn"] = "picture-cnn"
    height: Width = 28
    width_pixels: Width = 28
    channels: Width = 1  # 1: grey, 3: red, green and blue
    layers: Layers = 2
    width: Width = 64
    kernel: Width = 3
    joined: Literal["flat", "grid"] = "flat"  # flat: all cells at once through a layer; grid: the pooling joins them
    shift: CountOrZero = 1  # in training, pixels by which an image may be moved to each side
    classifiers: ClassVar[Classifiers] = {"cnn": ClassifierDefaults(learning_rate=3e-3, epochs=20.0, dropout=0.2)}

    def __post_init__(self) -> None:
        if not self.kernel % 2:
            raise ValueError(f"kernel = {self.kernel} has no middle; expected an odd number")
        if min(self.height, self.width_pixels) >> self.layers < 1:
            raise ValueError(
                f"an image of {self.height} x {self.width_pixels} cannot be halved {self.layers} times; "
                "choose fewer layers"
            )

    @property
    def vocabulary(self) -> int:
        return 0

    @property
    def cells(self) -> int:
        return (self.height >> self.layers) * (self.width_pixels >> self.layers)

    @property
    def context(self) -> int:
        """How many vectors come out."""
        return 1 if self.joined == "flat" else self.cells

    def build(self) -> PictureCNN:
        return PictureCNN(self)


class PictureCNN(nn.Module):
    def __init__(self, config: PictureCNNConfig) -> None:
        super().__init__()
        width, layers = config.width, config.layers
        self.vocabulary, self.context, self.width = config.vocabulary, config.context, width
        features = [max(1, width >> depth) for depth in reversed(range(layers))]
        inputs = [config.channels, *features[:-1]]

        def block(inputs: int, outputs: int) -> nn.Sequential:
            convolution = nn.Conv2d(inputs, outputs, config.kernel, padding=config.kernel // 2)
            return nn.Sequential(convolution, nn.ReLU(), nn.MaxPool2d(2), Tap())

        self.shift = RandomShift(config.shift)
        self.embedded = Tap()
        self.blocks = nn.ModuleList(block(*sizes) for sizes in zip(inputs, features, strict=True))
        flat = nn.Sequential(nn.Flatten(), nn.Linear(config.cells * width, width), nn.ReLU(), nn.Unflatten(1, (1, -1)))
        self.joined = flat if config.joined == "flat" else GridCells()

    def forward(
        self, pixels: Float[Tensor, "B H W C"], present: None = None, segments: None = None
    ) -> Float[Tensor, "B T D"]:
        """Called as every encoder is; an image has no padding and no segments."""
        x = self.embedded(2 * self.shift(pixels) - 1).permute(0, 3, 1, 2)  # (B, H, W, C) -> (B, C, H, W)
        for block in self.blocks:
            x = block(x)
        return self.joined(x)


class GridCells(nn.Module):
    """The grid as a sequence, row by row."""

    def forward(self, x: Float[Tensor, "B D H W"]) -> Float[Tensor, "B T D"]:
        return x.flatten(2).transpose(1, 2)

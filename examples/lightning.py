"""The same blocks and the same task in PyTorch Lightning, with a DataLoader (deck 004, "a better training wrapper").

    pip install 'qkv[lightning]'
    python examples/lightning.py book.txt

qkv's models are ordinary `nn.Module`s and its tasks hand out ordinary tensors, so any harness can drive them.
"""

from __future__ import annotations

import sys
from typing import Any

import pytorch_lightning
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

from qkv.data.corpus import CorpusConfig
from qkv.data.prepare import prepare
from qkv.models.modern import ModernConfig
from qkv.objectives.language_modelling import LanguageModelling, LanguageModellingConfig, Windows
from qkv.text.tokenizer import TokenizerConfig
from qkv.training.optimizers import optimizers, set_learning_rates
from qkv.training.settings import TrainingConfig


class Samples(Dataset[tuple[Tensor, Tensor]]):
    """The task's windows, one by one, in the order in which qkv's own loop takes them."""

    def __init__(self, task: LanguageModelling, number: int) -> None:
        self.task, self.number = task, number

    def __len__(self) -> int:
        return self.number

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        window = self.task.batch(index, 1)
        return window.tokens[0], window.targets[0]


class Module(pytorch_lightning.LightningModule):
    """A qkv model and a qkv task as Lightning wants them; Muon and AdamW side by side need manual optimization."""

    def __init__(self, model: nn.Module, task: LanguageModelling, steps: int) -> None:
        super().__init__()
        self.model, self.task, self.steps = model, task, steps
        self.automatic_optimization = False
        self.losses: list[float] = []

    def configure_optimizers(self) -> Any:
        self.config = TrainingConfig(
            steps=self.steps,
            batch=1,  # Lightning makes the batches
            warmup=5,
            optimizer="muon",
            learning_rate=0.01,
            matrix_learning_rate=0.03,
            betas=(0.8, 0.95),
            momentum=0.9,
        )
        self.found = optimizers(self.model, self.config)
        return list(self.found.values())

    def training_step(self, batch: tuple[Tensor, Tensor], index: int) -> None:
        tokens, targets = batch
        windows = Windows(tokens, targets, torch.ones_like(targets, dtype=torch.bool))
        loss = self.task.loss(self.model, windows) / windows.count
        self.manual_backward(loss)
        set_learning_rates(self.found, self.config.rate_share(index))
        for optimizer in self.found.values():
            optimizer.step()
            optimizer.zero_grad()
        self.losses.append(loss.item())


def main(path: str, steps: int = 100, batch: int = 16) -> list[float]:
    """Train for `steps` steps and return the losses."""
    pytorch_lightning.seed_everything(0, verbose=False)
    prepared = prepare(CorpusConfig(files=(path,)), TokenizerConfig())
    config = ModernConfig(vocabulary=prepared.tokenizer.vocabulary, layers=2, heads=2, width=64, context=64)
    task = LanguageModelling(LanguageModellingConfig(), prepared.train.tokens, config.context, seed=0)
    module = Module(config.build(), task, steps)
    trainer = pytorch_lightning.Trainer(
        max_epochs=1,  # the data set below holds exactly the samples of `steps` steps
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=sys.stderr.isatty(),
        enable_model_summary=False,
    )
    trainer.fit(module, DataLoader(Samples(task, steps * batch), batch_size=batch))
    return module.losses


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/lightning.py FILE")
    found = main(sys.argv[1])
    print(f"loss {found[0]:.3f} at the first step, {sum(found[-10:]) / 10:.3f} over the last ten")

"""A model of qkv in a training loop of plain PyTorch: it is an ordinary `nn.Module` from tokens to logits.

    python examples/plain_torch_loop.py book.txt

(B, T) token ids in, (B, T, V) logits out; optimizer, batches and loss are torch's own.
"""

from __future__ import annotations

import sys

import torch
from torch.nn.functional import cross_entropy

from qkv.data.corpus import CorpusConfig
from qkv.data.prepare import prepare
from qkv.models.gpt import GPTConfig
from qkv.text.tokenizer import TokenizerConfig


def main(path: str, steps: int = 200, batch: int = 16, context: int = 64) -> list[float]:
    """Train for `steps` steps and return the losses."""
    torch.manual_seed(0)
    prepared = prepare(CorpusConfig(files=(path,)), TokenizerConfig())
    stream = torch.tensor(prepared.train.tokens[:].astype("int64"))
    model = GPTConfig(vocabulary=prepared.tokenizer.vocabulary, layers=2, heads=2, width=64, context=context).build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(steps):
        starts = torch.randint(len(stream) - context, (batch, 1))
        windows = stream[starts + torch.arange(context + 1)]  # (B, T + 1)
        logits = model(windows[:, :-1])  # (B, T, V)
        loss = cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        losses.append(loss.item())
    return losses


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python examples/plain_torch_loop.py FILE")
    losses = main(sys.argv[1])
    print(f"loss {losses[0]:.3f} at the first step, {sum(losses[-10:]) / 10:.3f} over the last ten")

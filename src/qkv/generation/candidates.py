"""The best next tokens of each row with their log-probabilities: in compiled C, `beam.c`, or by torch.

    log p(v) = x_v - max - log Σ_u e^(x_u - max)

C reads the scores and writes the few candidates; torch writes a table of all log p first. Letters: R rows, V tokens.
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from qkv.generation.compiler import address, library
from qkv.generation.sampling import NEVER

BLOCK = 32  # scores of the vocabulary that torch looks at together
Found = tuple[Float[Tensor, "R m"], Int[Tensor, "R m"]]


def candidates(logits: Float[Tensor, "R V"], count: int, never: Int[Tensor, " n"]) -> Found:
    """The log-probabilities of the best `count` tokens of each row, and the tokens; `never` are those that must not be
    written. Of equals C takes the first."""
    enough = logits.size(1) >= count + len(never)
    if logits.device.type != "cpu" or logits.dtype != torch.float32 or not enough or library() is None:
        return largest(logits.log_softmax(-1).index_fill_(1, never, NEVER), count)
    logits = logits.contiguous()
    most, tokens = logits.new_empty(len(logits), count), never.new_empty(len(logits), count)
    library().candidates(
        address(logits), *logits.shape, address(never), len(never), count, address(most), address(tokens),
        torch.get_num_threads(),
    )  # fmt: skip
    return most, tokens


def largest(scores: Float[Tensor, "R V"], count: int) -> tuple[Float[Tensor, "R m"], Int[Tensor, "R m"]]:
    """The largest of each row and their places. Of a large vocabulary only the blocks with the largest maxima are
    sorted: all others are looked at once."""
    vocabulary = scores.size(1)
    blocks = vocabulary // BLOCK
    if blocks < 2 * count:
        return scores.topk(min(count, vocabulary))
    whole = blocks * BLOCK
    parts = scores[:, :whole].reshape(-1, blocks, BLOCK)
    chosen = parts.amax(2).topk(count).indices
    places = (chosen.unsqueeze(2) * BLOCK + torch.arange(BLOCK, device=scores.device)).flatten(1)
    rest = torch.arange(whole, vocabulary, device=scores.device).expand(len(scores), -1)
    places = torch.cat([places, rest], 1)
    most, which = scores.gather(1, places).topk(count)
    return most, places.gather(1, which)

"""Recurrence: a hidden vector is passed from word to word (decks 001 and 003).

    Elman   h_t = tanh(W_x x_t + W_h h_{t-1} + b)                                     Elman 1990
    GRU     r, z = σ(…);  n = tanh(W_n x + r ⊙ (U_n h));  h_t = (1 - z) ⊙ n + z ⊙ h_{t-1}  Cho et al. 2014
    LSTM    i, f, o = σ(…);  c_t = f ⊙ c_{t-1} + i ⊙ tanh(…);  h_t = o ⊙ tanh(c_t)       Hochreiter and Schmidhuber 1997

The GRU is torch's variant: Cho et al. reset h before the product, U_n (r ⊙ h). The steps below are the formulas;
`Recurrent` runs torch's fused kernels, and `unrolled` shows that they are the same. Deck 003's code unpacks `all_h,
last_h` into one name; here a layer returns its vectors, and the state holds the last.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from qkv.blocks.state import RecurrentState
from qkv.blocks.tap import Tap

Hidden = tuple[Tensor, ...]
CELLS: dict[str, tuple[Callable[..., nn.RNNBase], int]] = {  # with the number of its hidden vectors
    "rnn": (nn.RNN, 1),
    "gru": (nn.GRU, 1),
    "lstm": (nn.LSTM, 2),
}


def elman_step(hidden: Hidden, from_input: Tensor, from_hidden: Tensor) -> Hidden:
    return (torch.tanh(from_input + from_hidden),)


def gru_step(hidden: Hidden, from_input: Tensor, from_hidden: Tensor) -> Hidden:
    reset_x, update_x, new_x = from_input.chunk(3, -1)
    reset_h, update_h, new_h = from_hidden.chunk(3, -1)
    reset, update = torch.sigmoid(reset_x + reset_h), torch.sigmoid(update_x + update_h)
    new = torch.tanh(new_x + reset * new_h)
    return ((1 - update) * new + update * hidden[0],)


def lstm_step(hidden: Hidden, from_input: Tensor, from_hidden: Tensor) -> Hidden:
    input_gate, forget_gate, new, output_gate = (from_input + from_hidden).chunk(4, -1)
    cell = torch.sigmoid(forget_gate) * hidden[1] + torch.sigmoid(input_gate) * torch.tanh(new)
    return torch.sigmoid(output_gate) * torch.tanh(cell), cell


STEPS = {"RNN_TANH": elman_step, "GRU": gru_step, "LSTM": lstm_step}


def unrolled(layer: nn.RNNBase, x: Float[Tensor, "B T D"], hidden: Hidden) -> tuple[Tensor, Hidden]:
    """The recurrence word by word, layer by layer, by the formulas: what torch's kernel computes at once."""
    step = STEPS[layer.mode]
    finals: list[Hidden] = []
    for depth in range(layer.num_layers):
        w_x, w_h, b_x, b_h = (
            getattr(layer, f"{name}_l{depth}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        now = tuple(part[depth] for part in hidden)
        outputs = []
        for t in range(x.size(1)):
            now = step(now, F.linear(x[:, t], w_x, b_x), F.linear(now[0], w_h, b_h))
            outputs.append(now[0])
        x = torch.stack(outputs, 1)
        finals.append(now)
    return x, tuple(torch.stack(parts) for parts in zip(*finals, strict=True))


class ZeroStart(nn.Module):
    """h₀ = 0."""

    table: Tensor

    def __init__(self, parts: int, layers: int, width: int) -> None:
        super().__init__()
        self.register_buffer("table", torch.zeros(parts, layers, 1, width), persistent=False)

    def forward(self) -> Hidden:
        return self.table.unbind(0)


class LearnedStart(nn.Module):
    """h₀ is a parameter, as deck 001 lists it."""

    def __init__(self, parts: int, layers: int, width: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.zeros(parts, layers, 1, width))

    def forward(self) -> Hidden:
        return self.table.unbind(0)


class Recurrent(nn.Module):
    """An `nn.RNN`, `nn.GRU` or `nn.LSTM` with a start, as a layer (B, T, D) -> (B, T, hidden size)."""

    def __init__(self, layer: nn.RNNBase, start: nn.Module) -> None:
        super().__init__()
        assert layer.batch_first, "build the recurrent layer with batch_first=True"
        self.layer, self.start = layer, start
        self.vectors = Tap()

    def state(self, rows: int) -> RecurrentState:
        return RecurrentState(rows, self.start())

    def forward(self, x: Float[Tensor, "B T D"], *, state: RecurrentState | None = None) -> Float[Tensor, "B T _"]:
        hidden = self.state(len(x)).hidden if state is None else state.hidden
        parts = tuple(part.contiguous() for part in hidden)
        if len(parts) == 2 and _lacks_bf16_kernel(x):
            with torch.autocast("cpu", enabled=False):
                output, last = self.layer(x.float(), tuple(part.float() for part in parts))
        else:
            output, last = self.layer(x, parts[0] if len(parts) == 1 else parts)
        if state is not None:
            state.update(last if isinstance(last, tuple) else (last,), x.size(1))
        return self.vectors(output)


def _lacks_bf16_kernel(x: Tensor) -> bool:
    """Whether oneDNN's fused LSTM would raise an error: under autocast to bf16 on a processor without bf16."""
    if x.device.type != "cpu" or not torch.is_autocast_enabled("cpu"):
        return False
    return not torch.ops.mkldnn._is_mkldnn_bf16_supported()


def reversed_texts(x: Float[Tensor, "B T D"], present: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B T D"]:
    """Each text in reverse; padding, which comes after it, stays in place. Applied twice, it gives the input."""
    if present is None:
        return x.flip(1)
    positions, lengths = torch.arange(x.size(1), device=x.device), present.sum(1, keepdim=True)
    order = torch.where(positions < lengths, lengths - 1 - positions, positions)
    return x.gather(1, order.unsqueeze(-1).expand_as(x))


class Directions(nn.Module):
    """A recurrence from left to right and, if a second is given, one from each text's end to its start, side by side.

    Schuster and Paliwal 1997. Padding must come after the text.
    """

    def __init__(self, *parts: Recurrent) -> None:
        super().__init__()
        assert 1 <= len(parts) <= 2, "there are two directions"
        self.parts = nn.ModuleList(parts)

    def forward(self, x: Float[Tensor, "B T D"], present: Bool[Tensor, "B T"] | None = None) -> Float[Tensor, "B T _"]:
        vectors = [self.parts[0](x)]
        vectors += [reversed_texts(part(reversed_texts(x, present)), present) for part in self.parts[1:]]
        return torch.cat(vectors, -1)

"""What one layer costs against the length of the text: deck 002's table ("complexity per layer"), measured.

    python bench/cost.py [--widths 128 256] [--longest 8192] [--rounds 5] [--to FOLDER]

Forward and backward over n positions, and one more token after n, for self-attention, recurrence, convolution and
restricted attention of equal width. Layers take turns; each figure is the median of the rounds, in seconds of one
processor. Writes cost.json, draws cost.svg and rewrites its part of docs/measurements.md; with --to all goes to that
folder, the report as cost.md.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from loglog import Panel, draw
from pages import replace_section
from qkv.blocks import masks
from qkv.blocks.attention import MultiHeadAttention
from qkv.blocks.bounded_state import RingState, window_mask
from qkv.blocks.convolution import Convolution
from qkv.blocks.recurrent import Recurrent, ZeroStart
from qkv.blocks.state import KeyValueState

DOCS = Path(__file__).parents[1] / "docs"
HEADS, WINDOW, KERNEL = 4, 64, 3
SHORTEST, FITTED = 64, 3  # exponents are fitted over so many doublings at the long end
MORE = 64  # tokens that a state must have room for after the text
ENOUGH = 0.02  # seconds; what is shorter is repeated

# Deck 002: complexity per layer, sequential operations, maximum path length; then what one more token costs.
THEORY = {
    "self-attention": ("O(n² d)", "O(1)", "O(1)", "O(n d + d²)"),
    "recurrence (GRU)": ("O(n d²)", "O(n)", "O(n)", "O(d²)"),
    f"convolution (k = {KERNEL})": ("O(k n d²)", "O(1)", "O(log_k n)", "O(k d²)"),
    f"restricted attention (r = {WINDOW})": ("O(r n d)", "O(1)", "O(n / r)", "O(r d + d²)"),
}
Run = Callable[..., Tensor]
Seconds = dict[str, dict[int, float]]  # by layer and length


def attention(width: int) -> MultiHeadAttention:
    query, key, value, output = (nn.Linear(width, width) for _ in range(4))
    return MultiHeadAttention(query, key, value, output, heads=HEADS)


def layers(width: int) -> list[tuple[nn.Module, Callable[[int], Any], Callable[[int], Any]]]:
    """Each with what it may look at in a text of length n, and a state with room for n."""
    full, restricted = attention(width), attention(width)
    recurrent = Recurrent(nn.GRU(width, width, batch_first=True), ZeroStart(1, 1, width))
    convolution = Convolution(width, KERNEL, "causal")
    return [
        (full, lambda n: {"mask": masks.causal(torch.arange(n), n)}, lambda n: KeyValueState(1, n + MORE)),
        (recurrent, lambda n: {}, lambda n: recurrent.state(1)),
        (convolution, lambda n: {}, lambda n: convolution.state(1)),
        (
            restricted,
            lambda n: {"mask": window_mask(None, torch.arange(n), WINDOW)},
            lambda n: RingState(1, n + MORE, WINDOW),
        ),
    ]


def timed(run: Callable[[], object]) -> float:
    """The processor's seconds a call, the fastest of a few where it is short."""
    spent: list[float] = []
    while not spent or (sum(spent) < ENOUGH and len(spent) < MORE // 2):
        mark = time.process_time()
        run()
        spent.append(time.process_time() - mark)
    return min(spent)


def both_ways(layer: nn.Module, x: Tensor, options: Any) -> float:
    def run() -> None:
        layer(x, **options).sum().backward()

    layer.zero_grad()
    return timed(run)


@torch.no_grad()
def one_more(layer: nn.Module, x: Tensor, options: Any, state: Any) -> float:
    layer(x, **options, state=state)
    token = x[:, -1:]
    if not isinstance(layer, MultiHeadAttention):
        return timed(lambda: layer(token, state=state))

    def run() -> None:
        place = torch.tensor(state.lengths)
        if isinstance(state, RingState):
            mask = masks.within(place, state.key_positions(1, place.device), WINDOW)
        else:
            mask = masks.causal(place, state.lengths[0] + 1)
        layer(token, mask=mask, state=state)

    return timed(run)


def measure(width: int, lengths: list[int], rounds: int) -> tuple[Seconds, Seconds]:
    """Seconds forward and backward, and of one more token."""
    torch.manual_seed(0)
    found: list[dict[str, dict[int, list[float]]]] = [{name: {n: [] for n in lengths} for name in THEORY} for _ in "12"]
    for number in range(rounds + 1):
        for length in lengths:
            x = torch.randn(1, length, width, requires_grad=True)
            for name, (layer, options, state) in zip(THEORY, layers(width), strict=True):
                pair = both_ways(layer, x, options(length)), one_more(layer, x, options(length), state(length))
                for table, seconds in zip(found, pair, strict=True):
                    table[name][length] += [seconds] if number else []  # the first round warms up
        print(f"width {width}: round {number} of {rounds}", file=sys.stderr, flush=True)
    median = [{name: {n: statistics.median(s) for n, s in row.items()} for name, row in t.items()} for t in found]
    return median[0], median[1]


def exponent(seconds: dict[int, float]) -> float:
    """a of seconds ≈ c · nᵃ at the long end, by least squares."""
    points = [(math.log(n), math.log(s)) for n, s in sorted(seconds.items())[-FITTED - 1 :]]
    return statistics.linear_regression(*zip(*points, strict=True)).slope


def crossing(first: dict[int, float], second: dict[int, float]) -> str:
    """The shortest length from which on the first is the dearer one."""
    dearer = [n for n in first if all(first[m] > second[m] for m in first if m >= n)]
    return f"from n = {min(dearer):,} on" if dearer else "at no length measured"


def table(widths: dict[int, tuple[Seconds, Seconds]], lengths: list[int]) -> list[str]:
    """A line a layer; what was measured is given for every width."""
    names = [
        "layer",
        "per layer",
        "in sequence",
        "longest path",
        *(f"ms, n = {n:,}" for n in (lengths[0], lengths[-1])),
    ]
    names += ["grows as", "one more token", f"µs, n = {lengths[-1]:,}", "grows as"]
    rows = [names, ["---"] * len(names)]
    training, decoding = zip(*widths.values(), strict=True)
    for name, (layer, sequence, path, token) in THEORY.items():
        spent = [_each(1e3 * each[name][n] for each in training) for n in (lengths[0], lengths[-1])]
        last = _each(1e6 * each[name][lengths[-1]] for each in decoding)
        grown = [", ".join(f"n^{exponent(each[name]):.2f}" for each in tables) for tables in (training, decoding)]
        rows.append([name, layer, sequence, path, *spent, grown[0], token, last, grown[1]])
    return ["| " + " | ".join(row) + " |" for row in rows]


def _each(values: Iterable[float]) -> str:
    return ", ".join(f"{value:.2g}" if value < 10 else f"{value:.0f}" for value in values)


PAGE = """```sh
python bench/cost.py --rounds {rounds}
```

![Seconds of one layer against the length of the text](cost.svg)

Deck 002's table beside the clock: one layer of width {widths}, one text of n positions, {heads} heads, one thread, f32.
Milliseconds are forward and backward, microseconds those of one more token: seconds of the processor, the median of
{rounds} rounds in which layers take turns. Exponents are fitted to the last {fitted} doublings. Attention includes its
four projections, O(n d²): the square shows once n is well beyond d. The steps of a recurrence wait for each other,
whatever the width. One more token costs more than its sums, for each call of torch takes its microseconds.

{table}

{crossings}
"""


def report(widths: dict[int, tuple[Seconds, Seconds]], lengths: list[int], rounds: int) -> str:
    full, recurrent, convolution, restricted = THEORY
    others = {recurrent: "recurrence", convolution: "convolution", restricted: "restricted attention"}
    said = []
    for width, (training, _) in widths.items():
        where = [f"{word} {crossing(training[full], training[name])}" for name, word in others.items()]
        said.append(f"At width {width} self-attention costs more than " + ", ".join(where) + ".")
    return PAGE.format(
        widths=" and of ".join(str(width) for width in widths),
        heads=HEADS,
        rounds=rounds,
        fitted=FITTED,
        table="\n".join(table(widths, lengths)),
        crossings="\n".join(said),
    )


def picture(width: int, training: Seconds, decoding: Seconds) -> str:
    def lines(seconds: Seconds, theory: int) -> dict[str, list[tuple[float, float]]]:
        return {
            f"{name}: {THEORY[name][theory]}, measured n^{exponent(row):.2f}": sorted(row.items())
            for name, row in seconds.items()
        }

    panels = [
        Panel("Forward and backward over n positions", "n", "seconds", lines(training, 0)),
        Panel("One more token after n", "n", "seconds", lines(decoding, 3)),
    ]
    return draw(f"One layer of width {width}, by the length of the text", panels)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--widths", type=int, nargs="+", default=[128, 256])
    parser.add_argument("--longest", type=int, default=8192)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--to", type=Path, default=DOCS)
    given = parser.parse_args()
    given.to.mkdir(parents=True, exist_ok=True)
    torch.set_num_threads(1)
    lengths = [SHORTEST * 2**power for power in range(int(math.log2(given.longest / SHORTEST)) + 1)]
    widths = {width: measure(width, lengths, given.rounds) for width in given.widths}
    values = {width: {"both_ways": pair[0], "one_more_token": pair[1]} for width, pair in widths.items()}
    (given.to / "cost.json").write_text(
        json.dumps({"unit": "seconds", "widths": values}, indent=1) + "\n", encoding="utf-8"
    )
    (given.to / "cost.svg").write_text(picture(given.widths[0], *widths[given.widths[0]]), encoding="utf-8")
    said = report(widths, lengths, given.rounds)
    if given.to == DOCS:
        replace_section(DOCS / "measurements.md", "What a layer costs", said)
    else:
        (given.to / "cost.md").write_text(said, encoding="utf-8")


if __name__ == "__main__":
    main()

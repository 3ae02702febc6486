"""Every faster path steps aside for what a user changed: hooks, weights, replaced parts. One test for all of them.

Each path is run once before the change, so that whatever it keeps would be stale, and compared afterwards with the
model's own modules, token by token or text by text.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

import translators
from qkv.blocks.attention import MultiHeadAttention
from qkv.blocks.block import FeedForward, GatedFeedForward
from qkv.blocks.fast_paths import as_built, changed, evaluating
from qkv.evaluation import unpadded_bert as texts_without_padding
from qkv.evaluation import vectors
from qkv.generation import compiler
from qkv.generation.beam import Search, translate
from qkv.generation.branches import Branching, branching
from qkv.generation.native import Native, obstacle
from qkv.generation.sampling import Sampling
from qkv.generation.writing import Writers, write
from qkv.models.bert import BertConfig
from qkv.models.gpt import GPTConfig
from qkv.models.llama import LlamaConfig
from qkv.models.modern import ModernConfig
from qkv.models.transformer import TransformerConfig

pytestmark = pytest.mark.skipif(compiler.library() is None, reason="no C compiler here")

VOCABULARY, CONTEXT, START, END = 33, 32, 1, 2
SIZES: dict[str, Any] = {"vocabulary": VOCABULARY, "layers": 2, "heads": 4, "width": 32, "context": CONTEXT}
GREEDY = Sampling(temperature=0.0)
SOURCES = [[3, 4, END], [5, 20, 3, 9, 4, 4, END], [6, 7, END]]
READ = torch.tensor([[3, 4, 5, 6, 7], [8, 9, 10, 11, 12]])


@dataclass(frozen=True)
class Path:
    """A model, how a faster path answers for it (kept from one call to the next), and how its own modules do."""

    model: nn.Module
    fast: Callable[[], Any]
    slow: Callable[[], Any]


def built(config: Any) -> nn.Module:
    torch.manual_seed(3)
    model: nn.Module = config.build().eval()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.35) if parameter.dim() > 1 else nn.init.uniform_(parameter, 0.5, 1.5)
    return model


def writing(config: Any, format: Any = "f32") -> Path:
    """Greedy tokens, and their log-probabilities."""
    model: Any = built(config)
    writers = Writers(model)

    def written(writer: Any, cached: bool) -> Tensor:
        steps = [row[0] for row in write(writer, [3, 4, 5], GREEDY, length=12, cached=cached)]
        return torch.tensor([[picked.token, picked.logprob] for picked in steps if picked])

    def fast() -> Tensor:
        return written(writers.writer("f32" if obstacle(model) else format), cached=True)

    def slow() -> Tensor:
        if format != "f32" and as_built(model) and not obstacle(model):  # rounded weights, freshly copied
            return written(Native(model, format), cached=True)
        return written(model, cached=False)

    return Path(model, fast, slow)


def translating(config: Any) -> Path:
    """The greedy tokens of each source, and the log-probability of the whole."""
    model: Any = built(config)
    model.head.bias.data[END] = -30.0  # so that texts are long enough to tell a change

    def greedy(source: list[int]) -> Tensor:
        """By the whole pass over what is written so far, nothing remembered."""
        given, written, total = torch.tensor([source]), [START], 0.0
        present = torch.ones_like(given, dtype=torch.bool)
        with torch.inference_mode():
            memory = model.encode(given, present)
            for _ in range(Search().limit(len(source), model.context)):
                scores = model.decode(torch.tensor([written]), memory, present)[0, -1].log_softmax(-1)
                total += float(scores.max())
                written.append(int(scores.argmax()))
        return torch.tensor([*written[1:], total])

    def fast() -> Tensor:
        found = [texts[0] for texts in translate(model, SOURCES, Search(), start=START, end=END)]
        return torch.cat([torch.tensor([*text.tokens, text.logprob]) for text in found])

    return Path(model, fast, lambda: torch.cat([greedy(source) for source in SOURCES]))


def reading(config: Any) -> Path:
    """The mean vector of each text."""
    model = built(config)

    def slow() -> Tensor:
        with torch.inference_mode():
            return model(READ).mean(1)

    return Path(model, lambda: vectors.text_vectors(model, READ.tolist()), slow)


PATHS: dict[str, Callable[[], Path]] = {
    "gpt": lambda: writing(GPTConfig(**SIZES)),
    "gpt, int8": lambda: writing(GPTConfig(**SIZES), "int8"),
    "modern": lambda: writing(ModernConfig(**SIZES, key_heads=2)),
    "modern, tied, bf16": lambda: writing(ModernConfig(**SIZES, head="tied"), "bf16"),
    "llama": lambda: writing(LlamaConfig(**SIZES)),
    "qwen2": lambda: writing(LlamaConfig(**SIZES, kind="qwen2", head="tied")),
    "transformer": lambda: translating(TransformerConfig(**SIZES)),
    "transformer, wide": lambda: translating(TransformerConfig(**{**SIZES, "width": 256, "layers": 1}, norm="pre")),
    "bert": lambda: reading(BertConfig(**SIZES)),
}


def attentions(model: nn.Module) -> list[MultiHeadAttention]:
    return [part for part in model.modules() if isinstance(part, MultiHeadAttention)]


def last_attention(model: nn.Module) -> MultiHeadAttention:
    return attentions(model)[-1]


def last_network(model: nn.Module) -> Any:
    return [part for part in model.modules() if isinstance(part, FeedForward | GatedFeedForward)][-1]


def away(x: Tensor) -> Tensor:
    """A steering vector: the same push at every position."""
    return x + 3 * torch.linspace(-1, 1, x.size(-1)).sin()


def hook(module: nn.Module, given: Any, made: Tensor) -> Tensor:
    return away(made)


def push(module: nn.Module, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return away(given[0]), *given[1:]


class Halved(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return away(super().forward(x))


class Doubled(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return -2 * x


def named(function: Callable[[nn.Module], Any]) -> Callable[[nn.Module], AbstractContextManager[None]]:
    """A change that stays with the model, which nobody else has."""

    def change(model: nn.Module) -> AbstractContextManager[None]:
        function(model)
        return nullcontext()

    return change


@contextmanager
def everywhere(model: nn.Module) -> Iterator[None]:
    chosen = last_network(model)

    def act(module: nn.Module, given: Any, made: Any) -> Any:
        return away(made) if module is chosen else None

    handle = nn.modules.module.register_module_forward_hook(act)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def patched_class(model: nn.Module) -> Iterator[None]:
    kind: Any = type(last_network(model))
    before = kind.forward
    kind.forward = lambda self, x: away(before(self, x))
    try:
        yield
    finally:
        kind.forward = before


def subclass(model: nn.Module) -> None:
    old = last_attention(model).output
    new = Halved(old.in_features, old.out_features, bias=old.bias is not None)
    new.load_state_dict(old.state_dict())
    last_attention(model).output = new


def in_place(model: nn.Module) -> None:
    with torch.no_grad():
        last_attention(model).value.weight.mul_(-3)


def new_parameter(model: nn.Module) -> None:
    value = last_attention(model).value
    value.weight = nn.Parameter(value.weight.detach() * -3)


def swap_rows(model: nn.Module) -> None:
    """As an experiment that exchanges heads: the same numbers in other places, and no version counter moves."""
    weight = last_attention(model).value.weight
    weight.data.copy_(weight.data.flip(0).clone())


CHANGES: dict[str, Callable[[nn.Module], AbstractContextManager[None]]] = {
    "hook": named(lambda model: last_attention(model).register_forward_hook(hook)),
    "hook on a tap": named(lambda model: last_network(model).hidden.register_forward_hook(hook)),
    "pre-hook": named(lambda model: last_network(model).register_forward_pre_hook(push)),
    "global hook": everywhere,
    "own forward": named(lambda model: setattr(last_network(model), "forward", lambda x: away(x))),
    "class's forward": patched_class,
    "mix": named(lambda model: setattr(last_attention(model), "mix", lambda own, q, k, v, mask: away(q))),
    "subclass": named(subclass),
    "tap replaced": named(lambda model: setattr(last_network(model), "hidden", Doubled())),
    "activation": named(lambda model: setattr(last_network(model), "activation", nn.Tanh())),
    "norm on queries": named(lambda model: setattr(last_attention(model), "query_norm", nn.Tanh())),
    "parametrized": named(
        lambda model: parametrize.register_parametrization(last_attention(model).value, "weight", Doubled())
    ),
    "scale": named(lambda model: setattr(last_attention(model), "scale", 4.0)),
    "weight in place": named(in_place),
    "weight.data in place": named(lambda model: last_attention(model).value.weight.data.mul_(-3)),
    "weight.data": named(
        lambda model: setattr(last_attention(model).value.weight, "data", -3 * last_attention(model).value.weight.data)
    ),
    "new parameter": named(new_parameter),
    "rows exchanged": named(swap_rows),
}


def same(one: Tensor, other: Tensor) -> bool:
    return one.shape == other.shape and bool((one - other).abs().max() < 2e-3)


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("path", PATHS)
def test_what_was_changed_counts(path: str, change: str) -> None:
    own = PATHS[path]()
    before = own.fast()
    assert same(before, own.slow()), "the paths must agree before anything changes"
    with CHANGES[change](own.model):
        expected, found = own.slow(), own.fast()
        assert same(found, expected)
        assert not same(found, before), "the change must show, or this test could not fail"


@pytest.mark.parametrize("path", PATHS)
def test_each_path_is_taken_where_nothing_was_changed(path: str) -> None:
    model: Any = PATHS[path]().model
    assert changed(model) == ""
    if path.startswith("transformer"):
        assert isinstance(branching(model), Branching)
    elif path == "bert":
        assert texts_without_padding.fits(model)
    else:
        assert Native(model).current()


def test_a_change_while_a_text_is_being_written() -> None:
    """A hook, and a weight, from the sixth token on: the model itself goes on from there with the same state."""
    for disturb in (lambda model: last_attention(model).register_forward_hook(hook), in_place):
        texts = []
        for compiled in (True, False):
            model: Any = built(GPTConfig(**SIZES))
            written: list[float] = []
            for step in write(Native(model) if compiled else model, [3, 4, 5], GREEDY, length=12):
                written.append(step[0].logprob if step[0] else 1.0)
                if len(written) == 5:
                    disturb(model)
            texts.append(written)
        assert texts[0] == pytest.approx(texts[1], abs=1e-3)
        assert texts[0] != pytest.approx(PATHS["gpt"]().slow()[:, 1].tolist(), abs=1e-3)


def test_linear_layers_with_a_forward_of_their_own_keep_it() -> None:
    """Packing replaces `forward` for a while; a user's own must neither be replaced nor taken away afterwards."""
    path = PATHS["transformer, wide"]()
    output = last_attention(path.model).output
    output.forward = mine = lambda x: away(x)
    path.fast()
    assert output.forward is mine
    assert all("forward" not in vars(part) for part in path.model.modules() if part is not output)


def test_parts_return_to_the_mode_they_were_in() -> None:
    model: Any = built(GPTConfig(**SIZES))
    model.train()
    model.blocks[0].eval()
    modes = [part.training for part in model.modules()]
    with evaluating(model):
        assert not any(part.training for part in model.modules())
    assert [part.training for part in model.modules()] == modes


def test_a_copy_is_as_built() -> None:
    model: Any = copy.deepcopy(translators.built(TransformerConfig(**SIZES), 0))
    assert as_built(model.eval())

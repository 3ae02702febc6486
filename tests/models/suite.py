"""What every language model must hold. Every kind of the registry is walked; each function is one promise.

Contexts are short and parameters random throughout: a start of zeros would hide what a part does.
"""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from qkv.models.cnn import CNNConfig
from qkv.models.gpt import GPTConfig
from qkv.models.language_model import LanguageModel
from qkv.models.llama import LlamaConfig
from qkv.models.mlp import MLPConfig
from qkv.models.modern import ModernConfig
from qkv.models.modern_fast import ModernFastConfig
from qkv.models.registry import LANGUAGE_MODELS
from qkv.models.rnn import RecurrentConfig

VOCABULARY, CONTEXT = 19, 12
SHAPE: dict[str, Any] = {"vocabulary": VOCABULARY, "context": CONTEXT, "width": 24}

VARIANTS: dict[str, Any] = {
    "gpt": GPTConfig(**SHAPE, layers=2, heads=3),
    "gpt-dropout": GPTConfig(**SHAPE, layers=1, heads=2, dropout=0.2),
    "modern": ModernConfig(**SHAPE, layers=2, heads=4),
    "modern-grouped": ModernConfig(
        **SHAPE, layers=2, heads=4, key_heads=2, head_width=10, hidden=17, rotary_base=500.0
    ),
    "modern-tied": ModernConfig(**SHAPE, layers=2, heads=2, key_heads=1, head="tied", dropout=0.2),
    "modern-fast": ModernFastConfig(**SHAPE, layers=2, heads=2, table=101),
    "modern-fast-long": ModernFastConfig(**SHAPE, layers=1, heads=3, order=5, table=40, hidden=31, dropout=0.2),
    "gpt-window": GPTConfig(**SHAPE, layers=2, heads=2, window=7),
    "modern-window": ModernConfig(**SHAPE, layers=6, heads=4, key_heads=2, window=3),
    "llama": LlamaConfig(**SHAPE, layers=2, heads=4),
    "llama-stretched": LlamaConfig(
        **SHAPE, layers=2, heads=4, key_heads=2, head_width=10, hidden=17, rotary_factor=8.0, rotary_context=4
    ),
    "qwen2-tied": LlamaConfig(**SHAPE, kind="qwen2", layers=2, heads=2, key_heads=1, head="tied", dropout=0.2),
    "qwen2-window": LlamaConfig(**SHAPE, kind="qwen2", layers=6, heads=4, key_heads=2, window=3),
    "rnn": RecurrentConfig(**SHAPE, kind="rnn"),
    "gru": RecurrentConfig(**SHAPE, kind="gru", layers=2, dropout=0.2),
    "lstm": RecurrentConfig(**SHAPE, kind="lstm", layers=2),
    "rnn-learned-start-one-hot": RecurrentConfig(**SHAPE, kind="rnn", start="learned", input="one-hot"),
    "gru-learned-start": RecurrentConfig(**SHAPE, kind="gru", layers=2, start="learned"),
    "lstm-learned-start-one-hot": RecurrentConfig(**SHAPE, kind="lstm", start="learned", input="one-hot", dropout=0.2),
    "mlp": MLPConfig(**SHAPE, layers=2),
    "mlp-one-layer": MLPConfig(**SHAPE, layers=1, embedding_width=5, hidden=7, dropout=0.2),
    "cnn": CNNConfig(**SHAPE, layers=3),
    "cnn-short-kernel": CNNConfig(**SHAPE, layers=5, kernel=2, growth=3, hidden=9, dropout=0.2),
}
# every kind is walked, those without variants of their own as they come
CONFIGS: dict[str, Any] = VARIANTS | {
    kind: config(**SHAPE, kind=kind)
    for kind, config in LANGUAGE_MODELS.items()
    if kind not in {variant.kind for variant in VARIANTS.values()}
}
TIED = ["gpt", "gpt-dropout", "modern-tied", "qwen2-tied"]
CLOSE = {"atol": 1e-5, "rtol": 1e-5}


def built(config: Any, seed: int = 0) -> Any:
    """The model, every parameter random, in evaluation."""
    torch.manual_seed(seed)
    model = config.build()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model.eval()


def text(rows: int = 3, length: int = CONTEXT) -> Tensor:
    return torch.randint(VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(1))


def gives_a_score_for_every_piece(config: Any) -> None:
    model = built(config)
    assert isinstance(model, LanguageModel)
    assert (model.vocabulary, model.context) == (VOCABULARY, CONTEXT)
    for length in (1, 5, CONTEXT):
        assert model(text(2, length)).shape == (2, length, VOCABULARY)


@torch.no_grad()
def a_later_token_never_changes_an_earlier_logit(config: Any) -> None:
    model, tokens = built(config), text()
    before = model(tokens)
    for time in range(CONTEXT):
        changed = tokens.clone()
        changed[:, time] = (changed[:, time] + 1) % VOCABULARY
        after = model(changed)
        torch.testing.assert_close(after[:, :time], before[:, :time], **CLOSE)
        assert not torch.allclose(after[:, time], before[:, time]), "a token must change its own logits"
        if time < CONTEXT - 1:
            assert not torch.allclose(after[:, -1], before[:, -1]), "and be remembered"


@torch.no_grad()
def a_state_equals_the_full_pass(config: Any) -> None:
    """At every split, and one token at a time."""
    model, tokens = built(config), text()
    expected = model(tokens)
    for split in range(1, CONTEXT):
        state = model.state(len(tokens))
        found = torch.cat([model(piece, state) for piece in tokens.split([split, CONTEXT - split], 1)], 1)
        torch.testing.assert_close(found, expected, **CLOSE)
        assert state.lengths == [CONTEXT] * len(tokens)
    state = model.state(len(tokens))
    found = torch.cat([model(token, state) for token in tokens.split(1, 1)], 1)
    torch.testing.assert_close(found, expected, **CLOSE)


@torch.no_grad()
def rows_of_unequal_length_are_as_if_alone(config: Any) -> None:
    """Rows start anew at different times; then rows are forked and swapped. Each has the logits of its text alone."""
    model, tokens = built(config), text(4)
    state = model.state(4)
    model(tokens[:, :3], state)
    state.reset(1)
    model(tokens[:, 3:5], state)
    state.reset(3)
    found = model(tokens[:, 5:8], state)
    assert state.lengths == [8, 5, 8, 3]
    for row, start in enumerate((0, 3, 0, 5)):
        alone = model(tokens[row : row + 1, start:8])
        torch.testing.assert_close(found[row], alone[0, 5 - start :], **CLOSE)
    chosen = [3, 1, 1]
    forked = state.rows(chosen)
    found = model(tokens[[0, 2, 3], 8:10], forked)
    for place, (row, start) in enumerate(((3, 5), (1, 3), (1, 3))):
        joined = torch.cat([tokens[row, start:8], tokens[[0, 2, 3][place], 8:10]]).unsqueeze(0)
        torch.testing.assert_close(found[place], model(joined)[0, -2:], **CLOSE)
    assert state.lengths == [8, 5, 8, 3]


@torch.no_grad()
def a_state_goes_back(config: Any) -> None:
    """What was tried is forgotten: a truncated state continues as if the tokens had never been."""
    model, tokens = built(config), text()
    state = model.state(3)
    model(tokens[:, :6], state)
    model(text(3, 4), state)
    state.truncate(6)
    torch.testing.assert_close(model(tokens[:, 6:], state), model(tokens)[:, 6:], **CLOSE)


@torch.no_grad()
def rows_know_nothing_of_each_other(config: Any) -> None:
    model, tokens = built(config), text()
    expected = model(tokens)
    for row in range(3):
        torch.testing.assert_close(model(tokens[row : row + 1])[0], expected[row], **CLOSE)
    torch.testing.assert_close(model(tokens.flip(0)), expected.flip(0), **CLOSE)


def gradients_reach_every_parameter(config: Any) -> None:
    model, tokens = built(config).train(), text()
    loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    still = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    assert not still, f"no gradient: {still}"


def a_fresh_model_learns(config: Any) -> None:
    """From its own start, a few steps lower the loss on one batch, and every parameter has moved."""
    torch.manual_seed(0)
    model = config.build()
    before = {name: p.detach().clone() for name, p in model.named_parameters()}
    optimizer, tokens = torch.optim.Adam(model.parameters(), lr=0.01), text()
    losses = []
    for _ in range(40):
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0]
    assert not [name for name, p in model.named_parameters() if torch.equal(p, before[name])]


@torch.no_grad()
def a_copy_stands_alone(config: Any) -> None:
    """`copy.deepcopy` gives the same logits, and what is done to the copy does not touch the first."""
    model, tokens = built(config), text()
    expected = model(tokens)
    twin = copy.deepcopy(model)
    assert torch.equal(twin(tokens), expected)
    for parameter in twin.parameters():
        parameter.zero_()
    assert torch.equal(model(tokens), expected)
    assert twin(tokens).eq(0).all()


@torch.no_grad()
def it_can_be_saved_and_loaded(config: Any, path: Path) -> None:
    """No two names share memory (safetensors refuses that), and a loaded model is the saved one."""
    model, tokens = built(config), text()
    weights = model.state_dict()
    assert len({tensor.untyped_storage().data_ptr() for tensor in weights.values()}) == len(weights)
    assert set(weights) == {name for name, _ in model.named_parameters()}, "buffers are not saved: they follow"
    save_file(weights, path)
    other = built(config, seed=9)
    assert not torch.allclose(other(tokens), model(tokens))
    other.load_state_dict(load_file(path))
    assert torch.equal(other(tokens), model(tokens))

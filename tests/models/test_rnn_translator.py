"""Recurrent translators: the promises of every translator, parity with torch.nn and formulas, the shipped GRU."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import translators
from qkv.blocks.tap import taps
from qkv.config import parse, toml_values
from qkv.errors import ConfigError
from qkv.models.language_model import count
from qkv.models.rnn_translator import RNNTranslatorConfig

SHAPE: dict[str, Any] = {"vocabulary": 19, "width": 12}
CONFIGS = {
    "gru": RNNTranslatorConfig(**SHAPE),
    "gru, dot": RNNTranslatorConfig(**SHAPE, attention="dot", directions=1, layers=2, dropout=0.2),
    "gru, last": RNNTranslatorConfig(**SHAPE, attention="none", directions=1, bridge="last", embedding_width=7),
    "gru, two tables": RNNTranslatorConfig(**SHAPE, target_vocabulary=19, embedding_width=5, bridge="last"),
    "lstm": RNNTranslatorConfig(**SHAPE, cell="lstm", layers=2, attention="dot"),
    "lstm, none": RNNTranslatorConfig(**SHAPE, cell="lstm", attention="none", directions=1),
    "rnn": RNNTranslatorConfig(**SHAPE, cell="rnn", layers=3),
}
EVERY = pytest.mark.parametrize("config", CONFIGS.values(), ids=CONFIGS)
EVERY_PROMISE = pytest.mark.parametrize("promise", translators.PROMISES, ids=lambda promise: promise.__name__)


@EVERY_PROMISE
@EVERY
def test_promises(config: RNNTranslatorConfig, promise: Any) -> None:
    promise(config)


@EVERY
def test_a_config_is_read_as_it_was_written(config: RNNTranslatorConfig) -> None:
    assert parse(RNNTranslatorConfig, toml_values(config), "config.json") == config


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"width": 5}, "width 5 does not divide into 2 directions"),
        ({"bridge": "last", "layers": 2}, "bridge = 'last' hands over one vector"),
        ({"bridge": "last", "cell": "lstm"}, "bridge = 'last' hands over one vector"),
        ({"attention": "additive"}, "attention = 'additive' does not fit"),
        ({"directions": 3}, "directions = 3"),
    ],
)
def test_bad_values_are_refused_in_words(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        parse(RNNTranslatorConfig, values, "config.json")


def test_sizes() -> None:
    """Two GRUs of 6 and one of 12 on embeddings of 12, the bilinear W, W_c, the bridge and the head."""
    d, half = 12, 6
    encoder = 2 * 3 * (half * d + half * half + 2 * half)
    expected = 19 * d + encoder + (d * d + d) + 3 * (2 * d * d + 2 * d) + d * d + 2 * d * d + 19 * (d + 1)
    assert count(CONFIGS["gru"].build()) == expected


@torch.no_grad()
@pytest.mark.parametrize("cell", ["rnn", "gru", "lstm"])
def test_it_is_torchs_recurrences_and_the_formula(cell: str) -> None:
    """Encoder from both sides, start, decoder and bilinear attention, each sentence alone, written out."""
    config = RNNTranslatorConfig(**SHAPE, cell=cell, embedding_width=5, attention="bilinear")  # type: ignore[arg-type]
    model, (source, present, tokens) = translators.built(config), translators.batch()
    kind = {"rnn": nn.RNN, "gru": nn.GRU, "lstm": nn.LSTM}[cell]
    both = kind(5, 6, bidirectional=True, batch_first=True)
    for part, suffix in zip(model.encoder[0].parts, ("", "_reverse"), strict=True):
        for name, value in part.layer.named_parameters():
            getattr(both, name + suffix).copy_(value)
    writer = kind(5, 12, batch_first=True)
    writer.load_state_dict(model.decoder.layer.state_dict())
    table = model.embedding[0].weight
    found = model(source, present, tokens)
    for row, length in enumerate(translators.SOURCES):
        memory, last = both(table[source[row : row + 1, :length]])
        final = last[0] if cell == "lstm" else last  # (2, 1, 6)
        start = torch.tanh(model.bridge[0](final.transpose(0, 1).reshape(1, 12)))
        parts = tuple(part.unsqueeze(0) for part in start.split(12, -1))
        h, _ = writer(table[tokens[row : row + 1]], parts if cell == "lstm" else parts[0])
        shares = torch.softmax(torch.einsum("td,de,se->ts", h[0], model.attention.key.weight, memory[0]), -1)
        attended = torch.tanh(F.linear(torch.cat([shares @ memory[0], h[0]], -1), model.attention.output.weight))
        torch.testing.assert_close(found[row], model.head(attended), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_without_attention_one_vector_is_all() -> None:
    model, (source, present, tokens) = translators.built(CONFIGS["gru, last"]), translators.batch()
    memory = model.encode(source, present)
    expected = model.decode(tokens, memory, present)
    last = torch.arange(7) == torch.tensor(translators.SOURCES).unsqueeze(1) - 1
    found = model.decode(tokens, memory.masked_fill(~last.unsqueeze(2), 9.0), present)
    assert torch.equal(found, expected)
    assert "attention.weights" not in taps(model)


@torch.no_grad()
def test_attention_can_be_looked_at() -> None:
    model, (source, present, tokens) = translators.built(CONFIGS["gru, dot"]), translators.batch()
    seen: list[Tensor] = []
    model.attention.weights.register_forward_hook(lambda module, given, made: seen.append(made))
    model(source, present, tokens)
    assert seen[0].shape == (3, translators.LENGTH, 7)
    torch.testing.assert_close(seen[0].sum(-1), torch.ones(3, translators.LENGTH))
    assert seen[0].masked_select(~present.unsqueeze(1)).eq(0).all()


@EVERY
def test_a_fresh_model_learns(config: RNNTranslatorConfig) -> None:
    torch.manual_seed(0)
    model, (source, present, tokens) = config.build(), translators.batch()
    targets = tokens.roll(-1, 1)
    optimizer, losses = torch.optim.Adam(model.parameters(), 0.02), []
    for _ in range(60):
        loss = F.cross_entropy(model(source, present, tokens).flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]

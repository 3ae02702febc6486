"""Decoding of translators: beams, greedy and drawn, against brute force and against the full pass."""

from __future__ import annotations

import itertools
from itertools import chain
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import translators
from qkv.errors import InputError
from qkv.generation.beam import GREEDY, Hypothesis, Search, largest, translate
from qkv.generation.sampling import Sampling
from qkv.models.rnn_translator import RNNTranslatorConfig
from qkv.models.transformer import TransformerConfig

START, END, VOCABULARY = 2, 1, 7
CONFIGS: dict[str, Any] = {
    "transformer": TransformerConfig(vocabulary=VOCABULARY, layers=2, heads=2, width=16, context=24),
    "pre-norm": TransformerConfig(vocabulary=VOCABULARY, layers=1, heads=2, width=16, context=24, norm="pre"),
    "lstm": RNNTranslatorConfig(vocabulary=VOCABULARY, cell="lstm", layers=2, width=16, context=24),
    "gru": RNNTranslatorConfig(vocabulary=VOCABULARY, cell="gru", width=16, context=24, attention="none"),
}
EVERY = pytest.mark.parametrize("kind", CONFIGS)
SOURCES = [[3, 4, END], [5, 6, 3, 2, 4, 4, END], [END], [4, 3, END], [6, 6, 6, 6, END]]


def made(kind: str, seed: int = 4) -> Any:
    """Random, and of decided opinions: scores near each other would make every order a matter of rounding."""
    model = translators.built(CONFIGS[kind], seed)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.6)
    return model


def run(model: Any, sources: list[list[int]], search: Search, **named: Any) -> list[list[Hypothesis]]:
    return translate(model, sources, search, start=START, end=END, **named)


def same(found: list[list[Hypothesis]], expected: list[list[Hypothesis]]) -> None:
    assert [[made.tokens for made in each] for each in found] == [[made.tokens for made in each] for each in expected]
    for one, other in zip(*(list(chain.from_iterable(each)) for each in (found, expected)), strict=True):
        assert one.logprob == pytest.approx(other.logprob, abs=1e-4)
        assert one.score == pytest.approx(other.score, abs=1e-4)
        assert one.ended == other.ended


@torch.no_grad()
def probability(model: Any, source: list[int], written: list[int]) -> float:
    """By the full pass."""
    given = torch.tensor([source])
    logits = model(given, torch.ones_like(given, dtype=torch.bool), torch.tensor([[START, *written[:-1]]]))
    return float(logits.log_softmax(-1)[0, range(len(written)), written].sum())


@torch.no_grad()
def probabilities(model: Any, source: list[int], texts: list[list[int]]) -> dict[tuple[int, ...], float]:
    """As `probability`, of many texts: those of one length in one pass."""
    found: dict[tuple[int, ...], float] = {}
    for length in {len(text) for text in texts}:
        rows = torch.tensor([text for text in texts if len(text) == length])
        given = torch.tensor([source]).expand(len(rows), -1)
        before = torch.cat([torch.full((len(rows), 1), START), rows[:, :-1]], 1)
        logits = model(given, torch.ones_like(given, dtype=torch.bool), before)
        sums = logits.log_softmax(-1).gather(2, rows.unsqueeze(2)).sum((1, 2))
        found.update(zip(map(tuple, rows.tolist()), sums.tolist(), strict=True))
    return found


@EVERY
def test_a_beam_of_one_is_greedy(kind: str) -> None:
    for seed in range(5):
        model = made(kind, seed)
        for penalty in (0.0, 1.0):
            found = run(model, SOURCES, Search(penalty=penalty))
            same(found, run(model, SOURCES, Search(penalty=penalty, sampling=GREEDY)))


@EVERY
@torch.no_grad()
def test_greedy_takes_the_likeliest_token_at_each_step(kind: str) -> None:
    model = made(kind)
    found = run(model, SOURCES, Search(ratio=1.0, room=6))
    lengths = set()
    for source, (best,) in zip(SOURCES, found, strict=True):
        written: list[int] = []
        while len(written) < len(source) + 6 and written[-1:] != [END]:
            given = torch.tensor([source])
            logits = model(given, torch.ones_like(given, dtype=torch.bool), torch.tensor([[START, *written]]))
            written.append(int(logits[0, -1].argmax()))
        assert best.ended == (written[-1] == END)
        assert best.tokens == [token for token in written if token != END]
        assert best.logprob == pytest.approx(probability(model, source, written), abs=1e-4)
        lengths.add(len(written))
    assert len(lengths) > 1, "sources must end at different times, or nothing leaves the batch"


@EVERY
@pytest.mark.parametrize("penalty", [0.0, 0.6, 1.0, 2.0])
def test_a_wide_beam_finds_the_best_of_all(kind: str, penalty: float) -> None:
    """Brute force: every text of up to four tokens that ends, and every one that is cut off."""
    model, longest, wide = made(kind), 4, VOCABULARY**4
    for source in SOURCES[:3]:
        others = [token for token in range(VOCABULARY) if token != END]
        texts = [[*body, END] for length in range(longest) for body in itertools.product(others, repeat=length)] + [
            list(body) for body in itertools.product(others, repeat=longest)
        ]
        known = probabilities(model, source, texts)
        ranked = sorted(texts, key=lambda text: -known[tuple(text)] / len(text) ** penalty)[:10]
        (found,) = run(model, [source], Search(beams=wide, best=10, penalty=penalty, ratio=0.0, room=longest))
        assert [[*made.tokens, END] if made.ended else made.tokens for made in found] == ranked
        for one, text in zip(found, ranked, strict=True):
            assert one.logprob == pytest.approx(probability(model, source, text), abs=1e-4)
            assert one.score == pytest.approx(one.logprob / len(text) ** penalty, abs=1e-4)


def test_a_wider_beam_finds_better_ones() -> None:
    """Seldom worse, since what a beam drops may come back; on the whole better than greedy."""
    totals = []
    for beams in (1, 4, 16):
        each = [run(made("transformer", seed), SOURCES, Search(beams=beams, penalty=0.0)) for seed in range(6)]
        totals.append(sum(best.logprob for found in each for best, *_ in found))
    assert totals[0] < totals[1] - 0.5
    assert totals[1] <= totals[2] + 1e-3


@EVERY
@pytest.mark.parametrize(
    "search",
    [Search(), Search(beams=4, best=3), Search(sampling=GREEDY), Search(beams=3, penalty=0.0, never=(0, START))],
)
def test_batched_is_single(kind: str, search: Search) -> None:
    """Whatever stands beside it, and in whatever order; a source of the batch that is done leaves it."""
    model = made(kind)
    alone = [run(model, [source], search)[0] for source in SOURCES]
    same(run(model, SOURCES, search), alone)
    same(run(model, SOURCES, search, rows=2), alone)
    same(run(model, SOURCES[::-1], search), alone[::-1])
    assert all(len(found) == search.best for found in alone)


@EVERY
def test_the_best_are_ordered_distinct_and_true(kind: str) -> None:
    model = made(kind)
    for source, found in zip(SOURCES, run(model, SOURCES, Search(beams=6, best=6)), strict=True):
        assert [one.score for one in found] == sorted((one.score for one in found), reverse=True)
        assert len({(tuple(one.tokens), one.ended) for one in found}) == 6
        for one in found:
            written = [*one.tokens, END] if one.ended else one.tokens
            assert one.logprob == pytest.approx(probability(model, source, written), abs=1e-4)
            assert one.score == pytest.approx(one.logprob / len(written), abs=1e-5)


def test_a_high_penalty_likes_long_texts() -> None:
    lengths = [
        sum(
            len(run(made("transformer", seed), SOURCES, Search(beams=5, penalty=penalty))[0][0].tokens)
            for seed in range(5)
        )
        for penalty in (0.0, 3.0)
    ]
    assert lengths[0] < lengths[1]


@EVERY
@pytest.mark.parametrize("search", [Search(beams=3, best=2), Search(sampling=Sampling(), best=2)])
def test_limits_and_forbidden_tokens(kind: str, search: Search) -> None:
    model = made(kind)
    given = {name: getattr(search, name) for name in ("beams", "best", "sampling")}
    cut = run(model, SOURCES, Search(**given, never=(END, 5), ratio=1.0, room=3))
    for source, found in zip(SOURCES, cut, strict=True):
        assert [len(one.tokens) for one in found] == [len(source) + 3] * 2
        assert not any(one.ended or {END, 5} & set(one.tokens) for one in found)
    longest = run(model, SOURCES[:1], Search(**given, never=(END,), ratio=50.0))
    assert {len(one.tokens) for one in longest[0]} == {model.context}
    assert run(model, [], search) == []
    assert len(run(model, [[END]], Search(ratio=0.0, room=0))[0][0].tokens) <= 1


class Watched:
    """A translator that tells what was asked of it."""

    def __init__(self, model: Any) -> None:
        self.model, self.context = model, model.context
        self.asked: list[tuple[int, int]] = []
        self.state, self.encode = model.state, model.encode

    def decode(self, tokens: Tensor, memory: Tensor, present: Tensor, state: Any = None) -> Tensor:
        self.asked.append((len(tokens), len(memory)))
        assert tokens.size(1) == 1
        return self.model.decode(tokens, memory, present, state)


def test_finished_sources_leave_and_memories_are_not_copied() -> None:
    watched = Watched(made("transformer"))
    projected = []
    watched.model.decoder[0].crossing.sublayer.key.register_forward_hook(
        lambda *given: projected.append(given[2].shape)
    )
    run(watched, SOURCES, Search(beams=4))
    assert watched.asked[0] == (5, 5), "before the first token one row a source"
    assert {rows / sources for rows, sources in watched.asked[1:]} == {4.0}
    sources = [sources for _, sources in watched.asked]
    assert sources == sorted(sources, reverse=True)
    assert len(set(sources)) > 2
    assert [tuple(shape) for shape in projected] == [(5, 7, 16)], "keys of the memory: once, once for each source"


def test_rows_move_only_when_their_order_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    from qkv.blocks.decoder import DecoderState

    moved: list[list[int]] = []
    plain = DecoderState.rows

    def rows(self: Any, index: list[int]) -> Any:
        moved.append(index)
        return plain(self, index)

    monkeypatch.setattr(DecoderState, "rows", rows)
    run(made("transformer"), SOURCES[:1], Search(never=(END,), beams=1))
    assert moved == []
    run(made("transformer"), SOURCES[:1], Search(never=(END,), beams=3))
    assert moved[0] == [0, 0, 0]
    assert [0, 1, 2] not in moved


def test_drawn_texts_follow_the_probabilities() -> None:
    model = made("transformer")
    found = run(model, [SOURCES[0]], Search(sampling=Sampling(), best=4000, ratio=0.0, room=1))[0]
    firsts = torch.tensor([(one.tokens or [END])[0] for one in found]).bincount(minlength=VOCABULARY) / 4000
    expected = torch.tensor([probability(model, SOURCES[0], [token]) for token in range(VOCABULARY)]).exp()
    torch.testing.assert_close(firsts, expected, atol=0.03, rtol=0)
    cold = run(model, SOURCES, Search(sampling=Sampling(temperature=0.7, top_k=1), best=2))
    same([each[:1] for each in cold], run(model, SOURCES, Search(sampling=GREEDY)))


@EVERY
def test_drawing_is_repeatable_and_knows_no_neighbours(kind: str) -> None:
    model, search = made(kind), Search(sampling=Sampling(temperature=1.5), best=3, seed=5)
    found = run(model, SOURCES, search)
    same(run(model, SOURCES, search, rows=2), found)
    same(run(model, SOURCES[:2], search), found[:2])
    assert len({tuple(one.tokens) for each in found for one in each}) > 8
    other = run(model, SOURCES, Search(sampling=Sampling(temperature=1.5), best=3, seed=6))
    assert other != found
    for source, each in zip(SOURCES, found, strict=True):
        for one in each:
            written = [*one.tokens, END] if one.ended else one.tokens
            assert one.logprob == pytest.approx(probability(model, source, written), abs=1e-4)


def test_impossible_wishes_are_refused() -> None:
    with pytest.raises(InputError, match="the 3 best of 2 beams: ask for at least 3 beams"):
        Search(beams=2, best=3)
    with pytest.raises(InputError, match="expected 1 to"):
        Search(beams=0)


@pytest.mark.parametrize("vocabulary", [7, 64, 1300, 1344])
def test_the_largest_of_a_row_by_blocks_are_those_of_the_whole_row(vocabulary: int) -> None:
    scores = torch.rand(5, vocabulary, generator=torch.Generator().manual_seed(0))
    scores[0, -1], scores[1, 0] = 2.0, 2.0  # what no block is full of, and the first
    expected = scores.topk(min(10, vocabulary))
    found, places = largest(scores, 10)
    assert torch.equal(found, expected.values)
    assert torch.equal(places, expected.indices)

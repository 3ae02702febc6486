"""Baselines of a text: known values where they can be worked out, real text, time, and the model's own tokens."""

from __future__ import annotations

import gzip
import lzma
import math
import time

import numpy as np
import pytest

from data_at_hand import real
from qkv.data.tokens import TokenStream
from qkv.evaluation import ngram_model, text_baselines
from qkv.evaluation.perplexity import WindowPlan, score
from qkv.evaluation.text_baselines import Baselines, measure, spread
from tiny import CONFIGS, VOCABULARY, stream


def streamed(text: str) -> TokenStream:
    """Tokens are the bytes."""
    data = text.encode()
    return TokenStream(np.frombuffer(data, dtype=np.uint8).astype(np.uint16), len(data), len(text), 1, 0)


def spell(tokens: np.ndarray) -> bytes:
    return tokens.astype(np.uint8).tobytes()


def baselines_of(train: str, valid: str, **more: object) -> Baselines:
    own = streamed(valid)
    plan = WindowPlan(len(own.tokens), 64, 64)
    places, reach = plan.predictions_of(plan.evenly_spaced(None))
    return measure(streamed(train), own, 256, places, reach, decode=spell, **more)  # type: ignore[arg-type]


def test_bits_and_nats() -> None:
    found = baselines_of("abcd" * 200, "abcd" * 50)
    assert found.uniform == pytest.approx(math.log(256))
    assert found.bits(found.uniform) == pytest.approx(8 * 199 / 200)
    assert found.unigram == pytest.approx(math.log(4), rel=0.02)
    assert found.ngram < 0.01
    assert found.shared == 1
    assert found.repeated == pytest.approx(1, abs=0.01)


def test_noise_is_worth_what_it_is() -> None:
    random = np.random.default_rng(1)
    train, valid = ("".join(map(chr, random.integers(97, 113, size))) for size in (30_000, 5_000))
    found = baselines_of(train, valid)
    assert found.unigram == pytest.approx(math.log(16), rel=0.01)
    assert found.ngram == pytest.approx(math.log(16), rel=0.03)
    assert found.xz == pytest.approx(4, rel=0.2)
    assert found.shared == found.repeated == 0


def test_a_longer_stretch_of_text_is_sampled_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_baselines, "SAMPLE_TOKENS", 10)
    tokens = np.arange(1_000)
    sample = spread(tokens, 100)
    assert len(sample) == 100
    assert sample[:10].tolist() == list(range(10))
    assert sample[-1] == 999
    assert spread(tokens, 2_000).tolist() == tokens.tolist()


def test_the_tokens_are_those_the_model_is_scored_on() -> None:
    """A uniform model's score and the baseline's uniform agree; places are the windows' predictions, each once."""
    own = TokenStream(stream(3_000), 6_000, 3_000, 1, 0)
    for limit in (None, 500):
        plan = WindowPlan(3_000, 16, 16)
        places, reach = plan.predictions_of(plan.evenly_spaced(limit))
        found = score(CONFIGS["modern"].build(), own, window=16, limit=limit)
        assert len(places) == len(set(places.tolist())) == found.tokens
        assert reach.min() == 1
        assert reach.max() == 16
        made = measure(own, own, VOCABULARY, places, reach)
        assert found.loss == pytest.approx(
            made.uniform, abs=1e-5
        )  # before its first step every piece is equally likely
        assert found.bits_per_byte == pytest.approx(made.bits(made.uniform), rel=1e-5)
        assert made.xz is None


def test_compressors() -> None:
    text = b"to be or not to be, that is the question. " * 20
    noise = np.random.default_rng(0).integers(0, 256, 40_000).astype(np.uint8).tobytes()
    assert text_baselines.gzip_bits(text) == pytest.approx(8 * (len(gzip.compress(text)) - 18) / len(text), rel=0.05)
    assert text_baselines.xz_bits(noise) == pytest.approx(8, rel=0.01)
    assert text_baselines.xz_bits(text) == pytest.approx(8 * (len(lzma.compress(text)) - 60) / len(text), rel=0.2)
    assert text_baselines.xz_bits(noise, noise) < 0.2
    assert text_baselines.gzip_bits(noise, noise) > 7  # farther back than it looks
    assert text_baselines.gzip_bits(noise[-1000:], noise) < 1
    assert text_baselines.gzip_bits(b"") >= 0
    assert text_baselines.xz_bits(b"") >= 0


def test_real_text_takes_a_moment() -> None:
    """A megabyte of characters: every step of the ladder is lower, and all of it takes less than three seconds."""
    text = real("tinyshakespeare/input.txt").read_text()
    began = time.process_time()
    found = baselines_of(text[: int(0.9 * len(text))], text[int(0.9 * len(text)) :])
    assert time.process_time() - began < 3
    ladder = [found.bits(value) for value in (found.uniform, found.unigram, *found.ngrams)]
    assert ladder == sorted(ladder, reverse=True)
    assert found.order == 6
    assert found.gzip is not None
    assert found.gzip_alone is not None
    assert found.xz is not None
    assert found.xz_alone is not None
    assert 2.2 < found.xz < found.xz_alone < found.gzip < found.gzip_alone < 3.3
    assert found.shared < 0.01
    values = found.values()
    assert values["bits_per_byte"]["6-gram"] == pytest.approx(found.bits(found.ngram))
    assert values["bits_per_byte"]["xz"] == found.xz


def test_a_big_text_is_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Single pieces are counted in all of it nevertheless."""
    monkeypatch.setattr(text_baselines, "MAX_COUNTED", 1_000_000)
    random = np.random.default_rng(0)
    tokens = random.zipf(1.3, 3_000_000) % 30_000
    train = TokenStream(tokens.astype(np.uint16), 12_000_000, 12_000_000, 1, 0)
    valid = TokenStream(tokens[:20_000].astype(np.uint16), 80_000, 80_000, 1, 0)
    plan = WindowPlan(20_000, 128, 128)
    places, reach = plan.predictions_of(plan.evenly_spaced(None))
    found = measure(train, valid, 30_000, places, reach, max_tokens=1_000_000)
    alone = ngram_model.probabilities(train.tokens, 30_000, 1, valid.tokens, places, reach)
    assert found.unigram == pytest.approx(-np.log(alone).mean())
    assert not found.counted_all
    assert (found.counted, found.training_tokens) == (999_912, 3_000_000)
    assert found.shared == 1


def test_of_a_long_text_only_what_is_looked_at_is_counted() -> None:
    random = np.random.default_rng(0)
    known, text = random.integers(0, 5, 2_000), random.integers(0, 5, 1_000)
    places = np.array([1, 2, 9, 10, 11, 400, 999])
    reach = np.array([1, 2, 5, 5, 3, 5, 4])
    kept, moved = text_baselines.around(text, places, 5)
    assert len(kept) < 30
    whole = ngram_model.probabilities(known, 5, 6, text, places, reach)
    np.testing.assert_array_equal(ngram_model.probabilities(known, 5, 6, kept, moved, reach), whole)

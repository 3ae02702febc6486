"""Tiny models and texts for tests: the lecture's nano shape, a few hundred tokens."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from qkv.models.gpt import GPTConfig
from qkv.models.modern import ModernConfig
from qkv.models.rnn import RecurrentConfig
from qkv.objectives.language_modelling import LanguageModelling, LanguageModellingConfig
from qkv.training.loop import TrainingState, initial_state
from qkv.training.settings import TrainingConfig

VOCABULARY = 23
CONFIGS = {
    "modern": ModernConfig(vocabulary=VOCABULARY, layers=2, heads=3, width=24, context=16, dropout=0.1),
    "gpt": GPTConfig(vocabulary=VOCABULARY, layers=2, heads=3, width=24, context=16, dropout=0.1),
    "lstm": RecurrentConfig(kind="lstm", vocabulary=VOCABULARY, width=24, context=16, dropout=0.1),
}
TRAINING = TrainingConfig(
    steps=12,
    batch=8,
    optimizer="muon",
    learning_rate=0.01,
    matrix_learning_rate=0.02,
    warmup=2,
    evaluate_every=4,
    checkpoint_every=4,
    device="cpu",
    dtype="f32",
    threads=1,
)


def stream(tokens: int = 900) -> np.ndarray:
    """Ids with a pattern that can be learned, and some noise."""
    random = np.random.default_rng(7)
    return ((np.arange(tokens) ** 2 // 3 + random.integers(0, 2, tokens)) % VOCABULARY).astype(np.uint16)


def task(seed: int = 0, positions: str = "all", tokens: int = 900, context: int = 16) -> LanguageModelling:
    return LanguageModelling(LanguageModellingConfig(positions=positions), stream(tokens), context, seed)


def state(kind: str = "modern", training: TrainingConfig = TRAINING, dropout: float = 0.1) -> TrainingState:
    torch.manual_seed(training.seed)
    return initial_state(replace(CONFIGS[kind], dropout=dropout).build(), training)

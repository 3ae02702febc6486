"""A small model of every family with a text before it; every parameter random, so that no part hides."""

from __future__ import annotations

from functools import cache
from typing import Any

import torch
from torch import nn

from qkv.inspection.subject import Inputs, Subject
from qkv.models.bert import BertConfig
from qkv.models.classifier import ClassifierConfig
from qkv.models.encoder import EncoderConfig
from qkv.models.gpt import GPTConfig
from qkv.models.llama import LlamaConfig
from qkv.models.masked import MaskedConfig
from qkv.models.modern import ModernConfig
from qkv.models.modern_fast import ModernFastConfig
from qkv.models.rnn import RecurrentConfig
from qkv.models.rnn_translator import RNNTranslatorConfig
from qkv.models.tagger import TaggerConfig
from qkv.models.transformer import TransformerConfig
from text.kinds import tokenizer

PIECES = tokenizer("bpe")
SHAPE: dict[str, Any] = {"vocabulary": PIECES.vocabulary, "width": 16, "context": 64}
BLOCKS: dict[str, Any] = {**SHAPE, "layers": 2, "heads": 4}
LABELS = ("bad", "good", "neither")
CONFIGS: dict[str, Any] = {
    "gpt": GPTConfig(**BLOCKS, dropout=0.2),
    "gpt-window": GPTConfig(**BLOCKS, window=3),
    "modern": ModernConfig(**BLOCKS, key_heads=2, dropout=0.2),
    "modern-fast": ModernFastConfig(**BLOCKS, table=64),
    "llama": LlamaConfig(**BLOCKS, key_heads=2),
    "qwen2": LlamaConfig(**BLOCKS, kind="qwen2"),
    "bert": BertConfig(**BLOCKS, dropout=0.2),
    "encoder": EncoderConfig(**BLOCKS),
    "masked": MaskedConfig(encoder=BertConfig(**BLOCKS)),
    "classifier": ClassifierConfig(encoder=BertConfig(**BLOCKS), labels=LABELS),
    "gpt-classifier": ClassifierConfig(encoder=GPTConfig(**BLOCKS), labels=LABELS),
    "tagger": TaggerConfig(encoder=BertConfig(**BLOCKS), labels=LABELS),
    "transformer": TransformerConfig(**BLOCKS),
    "transformer-pre": TransformerConfig(**BLOCKS, norm="pre", positions="learned"),
    "rnn-translator": RNNTranslatorConfig(**SHAPE),
    "rnn-translator-dot": RNNTranslatorConfig(**SHAPE, attention="dot", cell="lstm"),
    "lstm": RecurrentConfig(kind="lstm", **SHAPE),
}
FAMILIES = [name for name in CONFIGS if name != "lstm"]
TEXT = "The river keeps it. The river keeps the stone."
WRITTEN = "nobody knows the river"


@cache
def _built(family: str) -> nn.Module:
    torch.manual_seed(0)
    model: nn.Module = CONFIGS[family].build()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.3)
    return model.eval()


def built(family: str) -> Any:
    return _built(family)


def subject(family: str, text: str = TEXT) -> Subject:
    ids, end = PIECES.encode(text), PIECES.separator
    translates = "transformer" in family or "translator" in family
    inputs = Inputs((end, *PIECES.encode(WRITTEN)), source=(*ids, end)) if translates else Inputs(tuple(ids))
    return Subject(
        built(family), PIECES, CONFIGS[family].kind, inputs, text, family, getattr(CONFIGS[family], "labels", ())
    )

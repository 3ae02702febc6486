"""MiniLM (all-MiniLM-L6-v2), a real BERT."""

from __future__ import annotations

import json
from functools import cache

from safetensors.torch import load_file

import data_at_hand
from qkv.interop.bert_architectures import bert
from qkv.interop.tensors import import_weights
from qkv.models.bert import Bert
from qkv.text.tokenizer import Tokenizer


@cache
def opened() -> tuple[Bert, Tokenizer]:
    place = data_at_hand.minilm()
    config = bert.import_config(json.loads((place / "config.json").read_text()))
    weights = load_file(place / "model.safetensors")
    named = {new: weights[old] for old, new in bert.tidy(config, weights).items()}
    model = config.build()
    model.load_state_dict(import_weights(bert.table(config), named))
    return model.eval(), Tokenizer.load(place / "tokenizer.json")

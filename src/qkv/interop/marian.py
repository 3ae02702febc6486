"""Marian (Junczys-Dowmunt et al. 2018): Hugging Face's `MarianMTModel`, which equals models/transformer.py.

The tensors are the same and only their names differ; the bias over the vocabulary is a matrix of one row. Source,
target and head share one embedding, which is saved once. The caller adds the ids of the start and end tokens, which the
tokenizer has.

source.spm and target.spm tokenize the two languages, and vocab.json has the ids of all tokens. Each becomes a
tokenizer.json of kind "unigram" (text/unigram.py) with the same ids, and export turns them back into these files:
`transformers` opens them with its MarianTokenizer, which needs the sentencepiece package. Tokens such as >>fra<< name
the language to translate into.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from qkv.blocks.positions import sinusoids
from qkv.config import parse
from qkv.errors import ConfigError, RefusedError
from qkv.interop import sentencepiece
from qkv.interop.architectures import Architecture, require
from qkv.interop.tensors import AS_A_ROW, Row, Settings, Table, TensorFiles, Values, pairs
from qkv.models.transformer import TransformerConfig
from qkv.safe_json import plain_file
from qkv.text import foreign
from qkv.text.tokenizer import Tokenizer
from qkv.text.vocabulary import is_tag

SOURCE, TARGET, NUMBERS = "source.spm", "target.spm", "vocab.json"
FILES = (SOURCE, TARGET, NUMBERS)
CLASS = "MarianTokenizer"
# the names of special tokens that tokenizer_config.json does not name
NAMES = {"eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}


def read(folder: Path, settings: Settings) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of sources and of targets; `settings` are those of tokenizer_config.json."""
    where = folder / "tokenizer_config.json"
    for key in ("separate_vocabs", "target_vocab_file", "sp_model_kwargs"):
        if settings.get(key):
            raise RefusedError(
                f"{where}: {key} = {settings[key]!a:.80} is not supported; expected one vocab.json for both languages "
                "and no random sampling of pieces. Use another model."
            )
    ids = foreign.numbered(plain_file(folder, NUMBERS))
    names = {key: foreign.token_name(settings.get(key)) or default for key, default in NAMES.items()}
    for key in ("eos_token", "unk_token"):
        if names[key] not in ids:
            raise RefusedError(f"{folder / NUMBERS}: {key} {names[key]!a:.80} is not in it. The files do not fit.")
    special = {name for name in ids if name in names.values() or is_tag(name)}

    def tokenizer(name: str) -> Tokenizer:
        path = plain_file(folder, name)
        vocabulary = sentencepiece.read(path)
        return foreign.unigram(ids, vocabulary.scores, vocabulary.table, special, names["unk_token"], str(path))

    return tokenizer(SOURCE), tokenizer(TARGET)


def files(source: Tokenizer, target: Tokenizer) -> dict[str, bytes]:
    """The contents of the three files for the tokenizers of sources and of targets."""
    assert source.unknown is not None
    unknown = source.token(source.unknown)
    vocabularies = {
        name: sentencepiece.pack(file.unigram.scores(), base64.b64decode(file.unigram.table), unknown)
        for name, file in ((SOURCE, source), (TARGET, target))
    }
    numbers = {source.token(number): number for number in range(source.vocabulary)}
    return {**vocabularies, NUMBERS: (json.dumps(numbers, ensure_ascii=False, indent=1) + "\n").encode()}


ARCHITECTURE = "MarianMTModel"
SHARED, BIAS = "model.shared.weight", "final_logits_bias"
# other names of the shared embedding, and the sinusoidal positions, which qkv computes
TABLES = (SHARED, "model.encoder.embed_tokens.weight", "model.decoder.embed_tokens.weight", "lm_head.weight")
POSITIONS = ("model.encoder.embed_positions.weight", "model.decoder.embed_positions.weight")
HALF = 2e-3  # the rounding error of positions that were saved as f16

PARTS = {"query": "q_proj", "key": "k_proj", "value": "v_proj", "output": "out_proj"}


def _attention(name: str, foreign: str) -> Table:
    named = [(f"{name}.sublayer.{part}", f"{foreign}.{other}") for part, other in PARTS.items()]
    return pairs(*named, (f"{name}.norm", f"{foreign}_layer_norm"))


def _feedforward(name: str, foreign: str) -> Table:
    names = {"sublayer.inner": "fc1", "sublayer.outer": "fc2", "norm": "final_layer_norm"}
    return pairs(*((f"{name}.feedforward.{part}", f"{foreign}.{other}") for part, other in names.items()))


ENCODER, DECODER = "model.encoder.layers.{i}", "model.decoder.layers.{i}"
TABLE = (
    Row("embedding.weight", SHARED),
    *_attention("encoder.{i}.attention", f"{ENCODER}.self_attn"),
    *_feedforward("encoder.{i}", ENCODER),
    *_attention("decoder.{i}.attention", f"{DECODER}.self_attn"),
    *_attention("decoder.{i}.crossing", f"{DECODER}.encoder_attn"),
    *_feedforward("decoder.{i}", DECODER),
    Row("head.bias", BIAS, AS_A_ROW),
)

ACTIVATIONS = {"relu": "relu", "swish": "silu", "silu": "silu", "gelu": "gelu"}
IDS = {"decoder_start_token_id": 58100, "pad_token_id": 58100, "eos_token_id": 0}  # and their defaults
# The only values of these keys that qkv's model supports; files of Marian's converter may have others.
CONVERTED = {
    "static_position_embeddings": True,
    "normalize_before": False,
    "normalize_embedding": False,
    "add_final_layer_norm": False,
    "add_bias_logits": False,
}


class MarianArchitecture(Architecture[TransformerConfig]):
    name, model_types = "Marian", ("marian",)
    sizes: ClassVar[Mapping[str, str]] = {
        "vocabulary": "vocab_size",
        "layers": "encoder_layers",
        "decoder_layers": "decoder_layers",
        "heads": "encoder_attention_heads",
        "width": "d_model",
        "hidden": "encoder_ffn_dim",
        "context": "max_position_embeddings",
        "activation": "activation_function",
        "dropout": "dropout",
    }
    copies: ClassVar[Mapping[str, str]] = {
        "decoder_ffn_dim": "hidden",
        "decoder_attention_heads": "heads",
        "decoder_vocab_size": "vocabulary",
    }
    defaults: ClassVar[Settings] = {
        "max_position_embeddings": 1024,
        "activation_function": "gelu",
        "dropout": 0.1,
        "scale_embedding": False,
    }
    fixed: ClassVar[Settings] = {
        "scale_embedding": True,
        "share_encoder_decoder_embeddings": True,
        "tie_word_embeddings": True,
        "is_encoder_decoder": True,
    }

    def table(self, config: TransformerConfig) -> Table:
        return TABLE

    def tidy(self, config: TransformerConfig, names: Iterable[str]) -> dict[str, str]:
        """Files may contain the shared embedding under several names, of which the first is read, and the positions."""
        published = list(names)
        tables = [name for name in TABLES if name in published]
        kept = {name: name for name in published if name not in (*TABLES, *POSITIONS)}
        return {**dict.fromkeys(tables[:1], SHARED), **kept}

    def confirm(self, config: TransformerConfig, files: TensorFiles) -> None:
        """Refuse files with other positions than qkv computes, or with a head that is not the shared embedding."""
        tables = [name for name in TABLES if name in files]
        for name in tables[1:]:
            if not torch.equal(files[name], files[tables[0]]):
                raise RefusedError(
                    f"{files.places[name]}: tensor {name} is not {tables[0]}; expected one table for source, target "
                    "and head. Use a model that shares them."
                )
        for name in POSITIONS:
            if name in files and not _is_sinusoidal(files[name], config):
                raise RefusedError(
                    f"{files.places[name]}: tensor {name} is not Marian's table of sines and cosines; learned "
                    "positions are not supported. Use another model."
                )

    def export_config(self, config: TransformerConfig) -> Values:
        for name, expected in (("norm", "post"), ("positions", "sinusoidal")):
            if getattr(config, name) != expected:
                raise ConfigError(
                    f"{name} = {getattr(config, name)!r} has no equivalent in Marian, so it cannot be exported there. "
                    f"Train one with {name} = {expected!r}."
                )
        sizes = {"decoder_layers": config.decoder_layers or config.layers}
        sizes |= dict.fromkeys(("encoder_ffn_dim", "decoder_ffn_dim"), config.hidden or 4 * config.width)
        activation = next(foreign for foreign, name in ACTIVATIONS.items() if name == config.activation)
        more = {"architectures": [ARCHITECTURE], "attention_dropout": 0.0, "activation_dropout": 0.0}
        return {**self.write_sizes(config), **sizes, "activation_function": activation, **more}

    def import_config(self, values: Settings) -> TransformerConfig:
        values = {key: value for key, value in values.items() if value is not None}
        if values.get("architectures", [ARCHITECTURE]) != [ARCHITECTURE]:
            raise ConfigError(f"config.json: architectures = {values['architectures']!r}: expected [{ARCHITECTURE!r}].")
        sizes = self.read_sizes(values)
        require(values, CONVERTED, self.name)
        if sizes["activation"] not in ACTIVATIONS:
            given, known = sizes["activation"], ", ".join(ACTIVATIONS)
            raise ConfigError(f"Marian: activation_function = {given!r} is not supported; known: {known}.")
        for key, default in IDS.items():
            number = values.get(key, default)
            if type(number) is not int or not 0 <= number < sizes["vocabulary"]:
                raise ConfigError(
                    f"Marian: {key} = {number!r} is not one id of the vocabulary of {sizes['vocabulary']!r}."
                )
        decoder = 0 if sizes["decoder_layers"] == sizes["layers"] else sizes["decoder_layers"]
        parts = {"activation": ACTIVATIONS[sizes["activation"]], "decoder_layers": decoder}
        return parse(TransformerConfig, {**sizes, **parts}, "config.json")


def _is_sinusoidal(table: Tensor, config: TransformerConfig) -> bool:
    if table.shape != (config.context, config.width):
        return False
    return torch.allclose(table, sinusoids(config.context, config.width, "concatenated"), atol=HALF, rtol=0.0)


marian = MarianArchitecture()

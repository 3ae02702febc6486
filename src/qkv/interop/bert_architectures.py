"""BERT and DistilBERT: models/bert.py and what is built on it, and Hugging Face's models of these names.

Tensor for tensor the same, only the names differ; DistilBERT has no segments and no pooler. The last layer over the
vocabulary is the embedding, in both: it is saved once. Published files are older than today's names, and hold a little
more; `tidy` says which tensor of a file is meant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from qkv.errors import ConfigError
from qkv.interop import architectures
from qkv.interop.architectures import Architecture, Classifying, Family, inside, read_head, write_head
from qkv.interop.tensors import Row, Settings, Table, Values, pairs
from qkv.models.bert import BertConfig
from qkv.models.classifier import ClassifierConfig
from qkv.models.masked import MaskedConfig
from qkv.models.tagger import TaggerConfig

Config = BertConfig | MaskedConfig | Classifying

LINEAR = pairs(("head", "classifier"))


class BertArchitecture(Architecture[Config]):
    """What both share; the attributes are BERT's."""

    name, model_types = "BERT", ("bert",)
    family: Family = architectures.BERT
    prefix = "bert."  # of the encoder's tensors, where something is built on it
    inner = ("embeddings.", "encoder.", "pooler.")  # how they begin without it
    layer = "encoder.layer.{i}."
    parts: tuple[str, ...] = (
        "attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
        "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm",
    )  # fmt: skip
    sizes: ClassVar[Mapping[str, str]] = {
        "vocabulary": "vocab_size",
        "layers": "num_hidden_layers",
        "heads": "num_attention_heads",
        "width": "hidden_size",
        "hidden": "intermediate_size",
        "context": "max_position_embeddings",
        "segments": "type_vocab_size",
        "norm_epsilon": "layer_norm_eps",
        "dropout": "hidden_dropout_prob",  # theirs has another for the weights of attention; ours has one for both
    }
    defaults: ClassVar[Settings] = {
        "max_position_embeddings": 512, "type_vocab_size": 2, "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.1,
    }  # fmt: skip
    fixed: ClassVar[Settings] = {
        "hidden_act": "gelu",
        "position_embedding_type": "absolute",
        "is_decoder": False,
        "add_cross_attention": False,
        "tie_word_embeddings": True,
    }
    always: ClassVar[Settings] = {}  # of our encoder, where theirs has no choice

    def table(self, config: Config) -> Table:
        encoder = self.encoder(inside(config))
        if isinstance(config, BertConfig):
            return encoder
        return (*(Row(f"encoder.{row.ours}", self.prefix + row.theirs) for row in encoder), *self.head(config))

    def encoder(self, config: BertConfig) -> Table:
        attention, feedforward = "blocks.{i}.attention.", "blocks.{i}.feedforward."
        ours = [f"{attention}sublayer.{part}" for part in ("query", "key", "value", "output")]
        ours += [f"{attention}norm", *(f"{feedforward}{part}" for part in ("sublayer.inner", "sublayer.outer", "norm"))]
        segments = Row("segments.table.weight", "embeddings.token_type_embeddings.weight")
        return (
            Row("embedding.weight", "embeddings.word_embeddings.weight"),
            Row("positions.table.weight", "embeddings.position_embeddings.weight"),
            *((segments,) if config.segments else ()),
            *pairs(("embedding_norm", "embeddings.LayerNorm")),
            *pairs(*zip(ours, (self.layer + part for part in self.parts), strict=True)),
            *(pairs(("pooler.dense", "pooler.dense")) if config.pooler == "first" else ()),
        )

    def head(self, config: MaskedConfig | Classifying) -> Table:
        if not isinstance(config, MaskedConfig):
            return LINEAR
        transform, order = "cls.predictions.transform.", pairs(("order", "cls.seq_relationship"))
        masked = pairs(("head.dense", f"{transform}dense"), ("head.norm", f"{transform}LayerNorm"))
        last = Row("head.bias", "cls.predictions.bias")
        return (*masked, last, *(order if config.next_sentence == "linear" else ()))

    def tidy(self, config: Config, names: Iterable[str]) -> dict[str, str]:
        """Which tensors of a published file are taken, and their names in the table; the others have no place here.

        Left out: counted positions, the tied table's second name, and what other heads than this model's have left
        behind (bert-base-uncased holds a pooler and a next-sentence head that its `BertForMaskedLM` does not have).
        """
        published = list(names)
        bare, prefixed = isinstance(config, BertConfig), any(name.startswith(self.prefix) for name in published)
        left_out, kept = self.left_out(config, bare and prefixed), {}
        for name in published:
            if name.endswith("embeddings.position_ids") or name.startswith(left_out):
                continue
            new = name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
            inner = not (bare or prefixed) and new.startswith(self.inner)
            kept[name] = self.prefix + new if inner else new.removeprefix(self.prefix) if bare else new
        second = "cls.predictions.decoder.bias"
        if isinstance(config, MaskedConfig) and second in published and "cls.predictions.bias" not in kept:
            kept[second] = "cls.predictions.bias"
        return kept

    def left_out(self, config: Config, heads: bool) -> tuple[str, ...]:
        """How names begin that are not taken; `heads`: all of them, since only the encoder is read."""
        left_out = ["cls.", "classifier."] if heads else ["cls.predictions.decoder."]
        if isinstance(config, MaskedConfig) and config.next_sentence == "none":
            left_out += ["cls.seq_relationship."]
        if inside(config).pooler == "none":
            left_out += ["bert.pooler.", "pooler."]
        return (*left_out, *(["cls."] if isinstance(config, Classifying) else []))

    def export_config(self, config: Config) -> Values:
        encoder = inside(config)
        values = {**self.write_sizes(encoder), self.sizes["hidden"]: encoder.hidden or 4 * encoder.width}
        return {**values, **self.special(config, encoder), **write_head(config, self.family)}

    def special(self, config: Config, encoder: BertConfig) -> Values:
        """The values that BERT and DistilBERT name differently; what theirs does not have is refused."""
        if not encoder.segments:
            raise ConfigError("segments = 0 has no equivalent in BERT; DistilBERT is the one without segments.")
        classifier = {"classifier_dropout": config.dropout} if isinstance(config, Classifying) else {}
        return {"attention_probs_dropout_prob": encoder.dropout, **classifier}

    def import_config(self, values: Settings) -> Config:
        encoder = {"kind": "bert", **self.read_sizes(values), **self.always}
        config: Config = read_head(values, self.family, encoder, self.dropout(values, encoder["dropout"]))
        return config

    def dropout(self, values: Settings, encoder: float) -> dict[type, Any]:
        """The dropout of each kind of head."""
        given = values.get("classifier_dropout")
        return dict.fromkeys((ClassifierConfig, TaggerConfig), encoder if given is None else given)


class DistilBertArchitecture(BertArchitecture):
    name, model_types = "DistilBERT", ("distilbert",)
    family = architectures.DISTILBERT
    prefix = "distilbert."
    inner = ("embeddings.", "transformer.", "pooler.")
    layer = "transformer.layer.{i}."
    parts = (
        "attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin",
        "sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm",
    )  # fmt: skip
    sizes: ClassVar[Mapping[str, str]] = {
        "vocabulary": "vocab_size",
        "layers": "n_layers",
        "heads": "n_heads",
        "width": "dim",
        "hidden": "hidden_dim",
        "context": "max_position_embeddings",
        "dropout": "dropout",  # theirs has another for the weights of attention; ours has one for both
    }
    defaults: ClassVar[Settings] = {"max_position_embeddings": 512, "dropout": 0.1}
    fixed: ClassVar[Settings] = {"activation": "gelu", "tie_word_embeddings": True}
    always: ClassVar[Settings] = {"segments": 0, "pooler": "none", "norm_epsilon": 1e-12}

    def head(self, config: MaskedConfig | Classifying) -> Table:
        if isinstance(config, MaskedConfig):
            masked = pairs(("head.dense", "vocab_transform"), ("head.norm", "vocab_layer_norm"))
            return (*masked, Row("head.bias", "vocab_projector.bias"))
        two = pairs(("head.inner", "pre_classifier"), ("head.outer", "classifier"))
        return two if isinstance(config, ClassifierConfig) else LINEAR

    def left_out(self, config: Config, heads: bool) -> tuple[str, ...]:
        masked = "vocab_projector.weight" if isinstance(config, MaskedConfig) else "vocab_"
        return (masked, "pre_classifier.", "classifier.") if heads else (masked,)

    def special(self, config: Config, encoder: BertConfig) -> Values:
        for name, expected in self.always.items():
            if getattr(encoder, name) != expected:
                value = getattr(encoder, name)
                raise ConfigError(
                    f"{name} = {value!r} has no equivalent in DistilBERT; expected {expected!r}. BERT has one."
                )
        if isinstance(config, TaggerConfig) and config.dropout != encoder.dropout:
            raise ConfigError(f"dropout = {config.dropout} has no equivalent in DistilBERT; expected the encoder's.")
        classifier = {"seq_classif_dropout": config.dropout} if isinstance(config, ClassifierConfig) else {}
        return {"attention_dropout": encoder.dropout, **classifier, "sinusoidal_pos_embds": False}

    def dropout(self, values: Settings, encoder: float) -> dict[type, Any]:
        return {ClassifierConfig: values.get("seq_classif_dropout", 0.2), TaggerConfig: encoder}


bert, distilbert = BertArchitecture(), DistilBertArchitecture()

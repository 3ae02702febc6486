"""BERT and DistilBERT of Hugging Face: models/bert.py, with a masked language model, classifier or tagger on top.

The tensors are the same and only their names differ; DistilBERT has no segments and no pooler. The last layer over the
vocabulary is tied to the embedding, so it is saved once. Published files have older names and a few more tensors;
`tidy` finds the right ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from qkv.errors import ConfigError
from qkv.interop import architectures
from qkv.interop.architectures import Architecture, Classifying, Family, encoder_of, read_head, write_head
from qkv.interop.tensors import Row, Settings, Table, Values, pairs
from qkv.models.bert import BertConfig
from qkv.models.classifier import ClassifierConfig
from qkv.models.masked import MaskedConfig
from qkv.models.tagger import TaggerConfig

Config = BertConfig | MaskedConfig | Classifying

LINEAR = pairs(("head", "classifier"))


class BertArchitecture(Architecture[Config]):
    """The common code of BERT and DistilBERT; the attributes are those of BERT."""

    name, model_types = "BERT", ("bert",)
    family: Family = architectures.BERT
    prefix = "bert."  # of the encoder's tensors, in a model with a head
    inner = ("embeddings.", "encoder.", "pooler.")  # beginnings of the encoder's tensors without this prefix
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
        # transformers has another dropout for attention weights; qkv has one for both
        "dropout": "hidden_dropout_prob",
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
    always: ClassVar[Settings] = {}  # values of qkv's encoder that are fixed in this architecture

    def table(self, config: Config) -> Table:
        encoder = self.encoder(encoder_of(config))
        if isinstance(config, BertConfig):
            return encoder
        rows = (Row(f"encoder.{row.name}", self.prefix + row.foreign_name) for row in encoder)
        return (*rows, *self.head(config))

    def encoder(self, config: BertConfig) -> Table:
        attention, feedforward = "blocks.{i}.attention.", "blocks.{i}.feedforward."
        names = [f"{attention}sublayer.{part}" for part in ("query", "key", "value", "output")]
        names += [
            f"{attention}norm",
            *(f"{feedforward}{part}" for part in ("sublayer.inner", "sublayer.outer", "norm")),
        ]
        segments = Row("segments.table.weight", "embeddings.token_type_embeddings.weight")
        return (
            Row("embedding.weight", "embeddings.word_embeddings.weight"),
            Row("positions.table.weight", "embeddings.position_embeddings.weight"),
            *((segments,) if config.segments else ()),
            *pairs(("embedding_norm", "embeddings.LayerNorm")),
            *pairs(*zip(names, (self.layer + part for part in self.parts), strict=True)),
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
        """The tensors of a published file that are read, and their names in the table.

        Left out are the position numbers, the second name of the tied embedding, and tensors of heads that this model
        does not have (bert-base-uncased contains a pooler and a next-sentence head; `BertForMaskedLM` has neither).
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
        """Beginnings of names that are not read; with `heads` those of all heads, because only the encoder is read."""
        left_out = ["cls.", "classifier."] if heads else ["cls.predictions.decoder."]
        if isinstance(config, MaskedConfig) and config.next_sentence == "none":
            left_out += ["cls.seq_relationship."]
        if encoder_of(config).pooler == "none":
            left_out += ["bert.pooler.", "pooler."]
        return (*left_out, *(["cls."] if isinstance(config, Classifying) else []))

    def export_config(self, config: Config) -> Values:
        encoder = encoder_of(config)
        values = {**self.write_sizes(encoder), self.sizes["hidden"]: encoder.hidden or 4 * encoder.width}
        return {**values, **self.special(config, encoder), **write_head(config, self.family)}

    def special(self, config: Config, encoder: BertConfig) -> Values:
        """The values that BERT and DistilBERT name differently; a value without an equivalent is refused."""
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
        "dropout": "dropout",  # transformers has another dropout for attention weights; qkv has one for both
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

"""Around a decoder: language model, classifier or tagger, and Hugging Face's three figures of it (gpt2, llama, qwen3).

    classifier: score · x, x the vector of the last token that is not padding        tagger: score · x + b at each token

Theirs finds that token by its id: the last one that is not `pad_token_id`. What closes every text must be another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from qkv.config import plain
from qkv.errors import ConfigError
from qkv.interop.architectures import Family, headed, inside, twin, write_labels
from qkv.interop.tensor_names import Row, Table
from qkv.models.classifier import ClassifierConfig
from qkv.models.tagger import TaggerConfig
from qkv.text.tokenizer import Tokenizer

HEADS = ("score.", "classifier.")  # how names in theirs begin that are not the decoder's
DROPOUT = "classifier_dropout"  # theirs drops before the scores of tokens only; it keeps the value of a classifier
USUAL_DROPOUT = 0.1  # of tokens, where nothing is said


def headless(config: Any) -> bool:
    """Without a head over the vocabulary of its own: it is the embedding, or it judges."""
    return isinstance(config, ClassifierConfig | TaggerConfig) or config.head == "tied"


def rows(config: Any, decoder: Table, head: Table = (), tags: str = "score") -> Table:
    """The table of a figure, of the decoder's rows and its head's; `tags` is what theirs calls the head of a tagger."""
    if not isinstance(config, ClassifierConfig | TaggerConfig):
        return (*decoder, *head)
    inner = tuple(replace(row, ours=f"encoder.{row.ours}") for row in decoder)
    if isinstance(config, ClassifierConfig):
        return (*inner, Row("head.weight", "score.weight"))
    return (*inner, Row("head.weight", f"{tags}.weight"), Row("head.bias", f"{tags}.bias"))


def write(config: Any, family: Family) -> dict[str, Any]:
    """What config.json says of the figure: its name there, labels, dropout."""
    found: dict[str, Any] = {"architectures": [twin(config, family)], **write_labels(config)}
    if isinstance(config, ClassifierConfig) and config.center:
        raise ConfigError(f"center = {config.center} has no twin there, where nothing is added to scores; expected 0.")
    return found | ({DROPOUT: config.dropout} if inside(config) is not config else {})


def read(values: Mapping[str, Any], family: Family, decoder: Any) -> Any:
    """The decoder itself, or the classifier or tagger around it that config.json names."""
    named = values.get("architectures")
    figure = family.get(str(named[0])) if isinstance(named, list) and len(named) == 1 else None
    if figure is None or isinstance(decoder, figure.config):
        return decoder
    usual = USUAL_DROPOUT if figure.config is TaggerConfig else 0.0
    dropout = values.get(DROPOUT)
    return headed(figure, plain(decoder), values, usual if dropout is None else dropout)


def require_end(config: Any, tokenizer: Tokenizer) -> None:
    """Refuse a classifier by the last token whose texts all end with what theirs takes for padding."""
    decides = isinstance(config, ClassifierConfig) and config.pooling == "last"
    if decides and tokenizer.closing and tokenizer.closing[-1] == tokenizer.filler:
        name = tokenizer.token(tokenizer.closing[-1])
        raise ConfigError(
            f"texts end with {name!a}, which is also the padding: transformers would judge by the token before it, "
            "qkv by it. Expected another padding token."
        )

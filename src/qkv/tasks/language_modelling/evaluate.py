"""A language model on any text: the tokens of files, or of a text, and its loss on them."""

from __future__ import annotations

from qkv.data.corpus import CorpusConfig
from qkv.data.prepare import require, stream
from qkv.data.tokens import TokenStream
from qkv.errors import InputError
from qkv.evaluation.perplexity import Score, score
from qkv.evaluation.timed_scoring import Pace
from qkv.models.language_model import LanguageModel
from qkv.recipe.bundle import Bundle


def language(bundle: Bundle) -> LanguageModel:
    """The model of a bundle, where it is one that writes."""
    if not isinstance(bundle.model, LanguageModel):
        raise InputError(
            f"a {bundle.config.kind} model reads texts and does not write them; embed turns texts into "
            "vectors with it. Writing and scoring need a language model, as modern or gpt."
        )
    return bundle.model


def require_window(bundle: Bundle, window: int | None) -> None:
    """Refuse windows that are longer than the model's context."""
    if window is not None and not 1 <= window <= language(bundle).context:
        raise InputError(f"window {window}: expected 1 to {language(bundle).context}, the model's context.")


def score_files(
    bundle: Bundle, corpus: CorpusConfig, window: int | None, pace: Pace | None = None
) -> tuple[Score, list[str]]:
    """The score on files, and notes about these."""
    require_window(bundle, window)
    language(bundle)
    found, notes = stream(bundle.tokenizer, corpus)
    return score_tokens(bundle, found, window, pace), list(notes)


def score_tokens(bundle: Bundle, found: TokenStream, window: int | None, pace: Pace | None = None) -> Score:
    require(found, 2, "an evaluation")
    return score(language(bundle), found, window=window, pace=pace)

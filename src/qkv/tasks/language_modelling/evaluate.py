"""Scores a language model on the tokens of a text or of files."""

from __future__ import annotations

from qkv.data.corpus import CorpusConfig
from qkv.data.prepare import require, stream_to_score
from qkv.data.tokens import TokenStream
from qkv.errors import InputError
from qkv.evaluation.perplexity import Score, score
from qkv.evaluation.timed_scoring import Pace
from qkv.models.language_model import LanguageModel
from qkv.recipe.bundle import Bundle
from qkv.tasks.registry import training_recipe


def require_language_model(bundle: Bundle) -> LanguageModel:
    """The model of the bundle; models that are not language models are refused."""
    if not isinstance(bundle.model, LanguageModel):
        raise InputError(
            f"a {bundle.config.kind} model does not generate text; embed gives its vectors of texts. "
            "Generating and scoring text need a language model, such as modern or gpt."
        )
    return bundle.model


def require_window(bundle: Bundle, window: int | None) -> None:
    """Refuse a window that is longer than the model's context."""
    model = require_language_model(bundle)
    if window is not None and not 1 <= window <= model.context:
        raise InputError(f"window {window}: expected 1 to {model.context}, the model's context.")


def score_files(
    bundle: Bundle, corpus: CorpusConfig, window: int | None, pace: Pace | None = None
) -> tuple[Score, list[str]]:
    """The score on the files of a corpus, and notes about these."""
    require_window(bundle, window)
    recipe = training_recipe(bundle)
    trained = recipe.corpus if recipe is not None and isinstance(recipe.corpus, CorpusConfig) else None
    progress = None if pace is None else pace.progress
    tokens, notes = stream_to_score(bundle.tokenizer, corpus, trained, progress)
    return score_tokens(bundle, tokens, window, pace), list(notes)


def score_tokens(bundle: Bundle, tokens: TokenStream, window: int | None, pace: Pace | None = None) -> Score:
    require(tokens, 2, "an evaluation")
    return score(require_language_model(bundle), tokens, window=window, pace=pace)

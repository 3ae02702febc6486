"""Whether a model is scored on what it was trained on: the rows are compared by their keys, not by names of files."""

from __future__ import annotations

import numpy as np

from qkv.data.corpus import ExamplesConfig, ParallelConfig
from qkv.data.examples import Examples, Labelled, Pairs, Parallel
from qkv.data.findings import Leak
from qkv.data.read_examples import read_examples
from qkv.data.read_pairs import read_parallel
from qkv.errors import QkvError
from qkv.recipe.bundle import Bundle
from qkv.tasks.registry import training_recipe
from qkv.visible import percent


def training_rows_among(bundle: Bundle, scored: Examples | Pairs) -> list[str]:
    """A note if the model was trained on some of these; none if its training data are gone or have changed."""
    recipe = training_recipe(bundle)
    trained: Labelled | Parallel
    try:
        if recipe is not None and isinstance(recipe.corpus, ExamplesConfig):
            trained = read_examples(recipe.corpus)
        elif recipe is not None and isinstance(recipe.corpus, ParallelConfig):
            trained = read_parallel(recipe.corpus)
        else:
            return []
    except QkvError:
        return []
    known = int(np.isin(scored.keys, trained.train.keys).sum())
    if not known or trained.fingerprint != recipe.corpus.fingerprint:
        return []
    what = "pairs" if isinstance(scored, Pairs) else "examples"
    share = f"{known:,} of these {len(scored):,} {what} ({percent(known / len(scored))})"
    return [Leak(f"leak: the model was trained on {share}; their scores are too good.")]

"""A model that fills gaps on any text: its score, beside what the frequencies of its own training text would reach."""

from __future__ import annotations

from typing import Any

from torch import nn

from qkv.data.corpus import CorpusConfig
from qkv.data.prepare import prepare, require, stream
from qkv.data.progress import Progress, silent
from qkv.errors import InputError, QkvError
from qkv.evaluation import masked_tokens
from qkv.evaluation.masked_tokens import MaskedScore
from qkv.evaluation.timed_scoring import Pace
from qkv.models.masked import Masked
from qkv.objectives.masked_language_modelling import MaskedLanguageModellingConfig
from qkv.objectives.pieces import Pieces
from qkv.recipe.bundle import Bundle
from qkv.recipe.recipe import load

PSEUDO = 1024  # pieces that are hidden one by one


def score_gaps(bundle: Bundle, corpus: CorpusConfig, progress: Progress = silent) -> tuple[MaskedScore, list[str]]:
    model: Any = bundle.model
    if not isinstance(model, Masked):
        raise InputError(f"a {bundle.config.kind} model has no head that fills gaps; `qkv embed` gives its vectors.")
    found, notes = stream(bundle.tokenizer, corpus)
    require(found, model.context, "an evaluation")
    pieces = Pieces.of(bundle.tokenizer)
    task = MaskedLanguageModellingConfig(next_sentence="none" if isinstance(model.order, nn.Identity) else "pairs")
    usual = None
    recipe = None if bundle.folder is None else bundle.folder.parent / "recipe.toml"
    try:
        if recipe is not None and recipe.is_file():
            own: Any = load(recipe)
            prepared = prepare(own.corpus, own.tokenizer, given_tokenizer=bundle.tokenizer, resumed=True)
            task, usual = own.task, masked_tokens.frequencies(prepared.train.tokens, pieces)
    except QkvError:  # the training text is gone, or another
        usual = None
    said = list(notes)
    if usual is None:
        usual = masked_tokens.frequencies(found.tokens, pieces)
        said.append("the training text is not there: the frequencies beside the model are those of this text itself.")
    pace = Pace(progress=progress, stage="scoring passages")
    return masked_tokens.score(model, found.tokens, pieces, usual, task, pseudo=PSEUDO, pace=pace), said

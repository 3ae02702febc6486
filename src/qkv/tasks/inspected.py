"""A model with a text before it, as `inspection` takes it."""

from __future__ import annotations

from pathlib import Path

from torch import nn

from qkv.data.encode import encode_texts
from qkv.errors import InputError
from qkv.evaluation import vectors
from qkv.generation import writing
from qkv.generation.beam import Search, Translator
from qkv.inspection.subject import Inputs, Subject
from qkv.models.language_model import LanguageModel
from qkv.recipe.bundle import Bundle
from qkv.tasks.translation.predict import translated

EXAMPLE = "The animal didn't cross the street because it was too tired"  # deck 004


def inspected(
    bundle: Bundle, text: str | tuple[str, str] | None = None, *, target: str | None = None, to: str | None = None
) -> Subject:
    """The model before `text`; without one, before deck 004's sentence. `target`: the translation to take."""
    model = bundle.model
    assert isinstance(model, nn.Module)
    pairs = getattr(bundle.config, "texts", 1) == 2
    given = ((EXAMPLE, EXAMPLE) if pairs else EXAMPLE) if text is None else text
    if pairs != isinstance(given, tuple):
        remedy = "Give the other with --second" if pairs else "Leave --second out"
        raise InputError(f"{given!r:.80}: this model reads {'two texts' if pairs else 'one text'} at a time. {remedy}.")
    if target is not None and not isinstance(model, Translator):
        raise InputError(f"target {target[:60]!r}: a {bundle.config.kind} model does not translate. Leave it out.")
    inputs, notes = _inputs(bundle, given, target, to)
    if isinstance(given, str) and not given.strip():
        notes.append("the text is empty: only what the model puts around a text is read.")
    return Subject(
        model=model.eval(),
        tokenizer=bundle.tokenizer,
        kind=bundle.config.kind,
        inputs=inputs,
        text=given if isinstance(given, str) else "\t".join(given),
        name=named(bundle),
        labels=tuple(getattr(bundle.config, "labels", ())),
        notes=tuple(notes),
    )


def named(bundle: Bundle) -> str:
    """What people call it: its name elsewhere, or its folder's."""
    if bundle.source:
        return bundle.source
    folder = bundle.folder
    if folder is None:
        return str(bundle.config.kind)
    return folder.parent.name if folder.name in ("best", "") or folder.name.startswith(".best") else Path(folder).stem


def _inputs(
    bundle: Bundle, text: str | tuple[str, str], target: str | None, to: str | None
) -> tuple[Inputs, list[str]]:
    model = bundle.model
    tokenizer, context = bundle.tokenizer, bundle.config.context
    if isinstance(text, tuple):
        rows = encode_texts(tokenizer, [text], context, pairs=True)
        ids = rows.row(0).tolist()
        second = int(rows.seconds[0]) if rows.seconds is not None else len(ids)
        return Inputs(tuple(ids), segments=tuple(int(place >= second) for place in range(len(ids)))), rows.notes(
            "texts", context
        )
    if isinstance(model, Translator):
        return _translation(bundle, text, target, to)
    if isinstance(model, LanguageModel):
        ids = [*bundle.opening, *tokenizer.encode(text)] or [tokenizer.start]
        if len(ids) > context:
            return Inputs(tuple(ids[:context])), [f"the text has {len(ids):,} tokens; the first {context:,} are read."]
        return Inputs(tuple(ids)), []
    if bundle.config.kind == "masked" and len(parts := writing.split_masks(tokenizer, text)) > 1:
        ids, _ = writing.encoded(tokenizer, parts)
        if len(ids) <= context:
            return Inputs(tuple(ids)), []
    rows_of, notes = vectors.encode(tokenizer, [text], context)
    return Inputs(tuple(rows_of[0])), notes


def _translation(bundle: Bundle, text: str, target: str | None, to: str | None) -> tuple[Inputs, list[str]]:
    """The first sentence, and its translation: the model's own, or `target`."""
    said, notes = translated(bundle, [text], Search(beams=5), to=to)
    if not said[0][0].sentences:
        raise InputError(f"{text!r:.80}: there is nothing to translate in it.")
    if len(said[0][0].sentences) > 1:
        notes = [*notes, f"the text has {len(said[0][0].sentences)} sentences; the first is inspected."]
    source, written = said[0][0].sentences[0]
    own = bundle.target_tokenizer.encode(target) if target is not None else written
    start, _ = bundle.marks
    return Inputs((start, *own[: bundle.config.context - 1]), source=tuple(source)), notes

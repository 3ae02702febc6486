"""Puts a model and a text together as a `Subject`, the input of every view in `inspection`."""

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
from qkv.tasks.translation.predict import translate_texts

EXAMPLE = "The animal didn't cross the street because it was too tired"  # deck 004


def inspection_subject(
    bundle: Bundle, text: str | tuple[str, str] | None = None, *, target: str | None = None, to: str | None = None
) -> Subject:
    """The model with `text`, or with deck 004's sentence. A translator is inspected with its own translation to
    language `to`, or with `target`."""
    model = bundle.model
    assert isinstance(model, nn.Module)
    pairs = getattr(bundle.config, "texts", 1) == 2
    if text is None:
        text = (EXAMPLE, EXAMPLE) if pairs else EXAMPLE
    if pairs != isinstance(text, tuple):
        remedy = "Give the second text, too" if pairs else "Leave the second text out"
        raise InputError(f"{text!r:.80}: this model reads {'two texts' if pairs else 'one text'} at a time. {remedy}.")
    if target is not None and not isinstance(model, Translator):
        raise InputError(f"target {target[:60]!r}: a {bundle.config.kind} model does not translate. Leave it out.")
    inputs, notes = _inputs(bundle, text, target, to)
    if isinstance(text, str) and not text.strip():
        notes.append("the text is empty: the model reads only the special tokens around it.")
    return Subject(
        model=model.eval(),
        tokenizer=bundle.tokenizer,
        kind=bundle.config.kind,
        inputs=inputs,
        text=text if isinstance(text, str) else "\t".join(text),
        name=model_name(bundle),
        labels=tuple(getattr(bundle.config, "labels", ())),
        notes=tuple(notes),
    )


def model_name(bundle: Bundle) -> str:
    """The name for people: an imported model's original name, the run's or the folder's; else the kind of model."""
    if bundle.source:
        return bundle.source
    folder = bundle.folder
    if folder is None:
        return str(bundle.config.kind)
    return folder.parent.name if folder.name in ("best", "") or folder.name.startswith(".best") else Path(folder).stem


def _inputs(
    bundle: Bundle, text: str | tuple[str, str], target: str | None, to: str | None
) -> tuple[Inputs, list[str]]:
    """The ids that the model reads, and notes on what was cut."""
    model, tokenizer, context = bundle.model, bundle.tokenizer, bundle.config.context
    if isinstance(text, tuple):
        rows = encode_texts(tokenizer, [text], context, pairs=True)
        ids = rows.row(0).tolist()
        second = int(rows.second_starts[0]) if rows.second_starts is not None else len(ids)
        segments = tuple(int(position >= second) for position in range(len(ids)))
        return Inputs(tuple(ids), segments=segments), rows.notes("texts", context)
    if isinstance(model, Translator):
        return _translation(bundle, text, target, to)
    if isinstance(model, LanguageModel):
        ids = [*bundle.opening, *tokenizer.encode(text)] or [tokenizer.start]
        if len(ids) > context:
            return Inputs(tuple(ids[:context])), [f"the text has {len(ids):,} tokens; the first {context:,} are read."]
        return Inputs(tuple(ids)), []
    if bundle.config.kind == "masked" and len(parts := writing.split_masks(tokenizer, text)) > 1:
        ids, _ = writing.encode_parts(tokenizer, parts)
        if len(ids) <= context:
            return Inputs(tuple(ids)), []
    id_rows, notes = vectors.encode(tokenizer, [text], context)
    return Inputs(tuple(id_rows[0])), notes


def _translation(bundle: Bundle, text: str, target: str | None, to: str | None) -> tuple[Inputs, list[str]]:
    """The ids of the first sentence and of its translation: the model's own, or `target`."""
    [[translation]], notes = translate_texts(bundle, [text], Search(beams=5), to=to)
    if not translation.sentences:
        raise InputError(f"{text!r:.80}: there is nothing to translate in it.")
    if len(translation.sentences) > 1:
        notes = [*notes, f"the text has {len(translation.sentences)} sentences; the first is inspected."]
    source, written = translation.sentences[0]
    target_ids = bundle.target_tokenizer.encode(target) if target is not None else written
    start, _ = bundle.start_and_end
    return Inputs((start, *target_ids[: bundle.config.context - 1]), source=tuple(source)), notes

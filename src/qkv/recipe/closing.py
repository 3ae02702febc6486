"""How a run ends, whatever it learned: the best model is scored, and the card written."""

from __future__ import annotations

from pathlib import Path

from qkv.recipe import card, labelled_card, masked_card, translation_card
from qkv.recipe.doctor import Doctor
from qkv.recipe.labelled import LabelledLesson
from qkv.recipe.labelled_words import remarks
from qkv.recipe.masked import MaskedLesson
from qkv.recipe.starting import Session
from qkv.recipe.translation import TranslationLesson


def examined(session: Session) -> Doctor | None:
    """The doctor of a language model, who counts before the training: while it goes on, its clock counts the time."""
    return None if isinstance(session.lesson, LabelledLesson | TranslationLesson | MaskedLesson) else Doctor(session)


def close(session: Session, doctor: Doctor | None) -> Path:
    if isinstance(session.lesson, LabelledLesson):
        found = session.lesson.final(session.recipe, session.run.folder, session.pace())
        return labelled_card.write(session, found, remarks(session, found))
    if isinstance(session.lesson, TranslationLesson):
        scores = session.lesson.final(session.recipe, session.run.folder, session.pace())
        return translation_card.write(session, scores, translation_card.flops_of(session))
    score = session.final_score()
    if isinstance(session.lesson, MaskedLesson):
        return masked_card.write(session, score)
    return card.write(session, score, (doctor or Doctor(session)).report(score))

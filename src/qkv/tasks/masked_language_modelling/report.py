"""The plan and the report of a masked language model, compared with frequencies; and its score on any text."""

from __future__ import annotations

from contextlib import suppress

from torch import nn

from qkv.data.corpus import CorpusConfig
from qkv.data.findings import Progress, no_progress
from qkv.data.prepare import Prepared, prepare, require, stream
from qkv.errors import InputError, QkvError
from qkv.evaluation import masked_tokens
from qkv.evaluation.masked_tokens import MaskedScore
from qkv.evaluation.timed_scoring import Pace
from qkv.models.masked import Masked, MaskedConfig
from qkv.objectives.masked_language_modelling import MaskedLanguageModellingConfig, MaskingVocabulary
from qkv.recipe.bundle import Bundle
from qkv.tasks.protocol import Session, expect
from qkv.tasks.registry import recipe_of
from qkv.tasks.report import CardContent, NextCommand, RunReport, TableSection, doctor_section, lines

PSEUDO = 1024  # tokens that are masked one by one


def score_gaps(bundle: Bundle, corpus: CorpusConfig, progress: Progress = no_progress) -> tuple[MaskedScore, list[str]]:
    model = bundle.model
    if not isinstance(model, Masked):
        raise InputError(f"a {bundle.config.kind} model has no head that fills gaps; `qkv embed` gives its vectors.")
    found, notes = stream(bundle.tokenizer, corpus)
    require(found, model.context, "an evaluation")
    pieces = MaskingVocabulary.of(bundle.tokenizer)
    task = MaskedLanguageModellingConfig(next_sentence="none" if isinstance(model.order, nn.Identity) else "pairs")
    usual, recipe = None, recipe_of(bundle)
    if recipe and isinstance(recipe.task, MaskedLanguageModellingConfig) and isinstance(recipe.corpus, CorpusConfig):
        with suppress(QkvError):  # the training text is gone, or another
            prepared = prepare(recipe.corpus, recipe.tokenizer, given_tokenizer=bundle.tokenizer, resumed=True)
            task, usual = recipe.task, masked_tokens.frequencies(prepared.train.tokens, pieces)
    said = list(notes)
    if usual is None:
        usual = masked_tokens.frequencies(found.tokens, pieces)
        said.append("the training text is not there: the baseline has the frequencies of this text itself.")
    pace = Pace(progress=progress, stage="scoring passages")
    return masked_tokens.score(model, found.tokens, pieces, usual, task, pseudo=PSEUDO, pace=pace), said


def plan(session: Session, prepared: Prepared, constant: float) -> list[str]:
    """`constant`: the accuracy of always predicting the most frequent token."""
    encoder, training = expect(session.recipe.model, MaskedConfig).encoder, session.recipe.training
    return [
        f"text    {prepared.train.bytes + prepared.valid.bytes:,} bytes",
        f"tokens  {len(prepared.train.tokens):,} to learn from, {len(prepared.valid.tokens):,} to check on "
        f"({prepared.tokenizer.kind}, {prepared.tokenizer.vocabulary:,} tokens)",
        f"model   bert {encoder.layers}/{encoder.heads}/{encoder.width}, context {encoder.context}, {session.size}",
        *session.plan_lines(f"{training.batch} x {encoder.context} tokens", training.batch),
        f"baseline {constant:.1%} masked-token accuracy by always predicting the most frequent token",
        f"folder  {session.run.folder}",
    ]


def report(session: Session, prepared: Prepared, score: MaskedScore) -> RunReport:
    remarked = remarks(session, score)
    sections = (lines(""), score_table(score), lines(*(f"doctor  {line}" for line in remarked)))
    command = NextCommand(("fill", str(session.run.folder), "The president of the United [MASK] ."))
    values = {**session.values, "validation": score.values()}
    return RunReport(sections, (command,), card_content(session, prepared, score, remarked), values)


def card_content(session: Session, prepared: Prepared, score: MaskedScore, remarked: list[str]) -> CardContent:
    recipe = session.recipe
    tokens, documents = len(prepared.train.tokens), prepared.train.documents
    rows = {name.replace("_", " "): f"{value:.4f}" for name, value in score.values().items()} | {
        "text": ", ".join(recipe.corpus.files),
        "training tokens": f"{tokens:,} in {documents:,} document(s), {session.epochs:.2f} epochs",
        "data fingerprint": f"`{recipe.corpus.fingerprint}`",
        "tokenizer": f"{prepared.tokenizer.kind}, {prepared.tokenizer.vocabulary:,} tokens",
    }
    sentence = f"A BERT of {session.parameters:,} parameters that fills gaps"
    return CardContent(sentence, rows, doctor_section(remarked))


def remarks(session: Session, score: MaskedScore) -> list[str]:
    """The model compared with counting, in a few lines."""
    times = score.accuracy / max(score.baseline_accuracy, 1e-9)
    said = [f"{times:.1f} times the accuracy of always predicting the most frequent token"]
    if score.accuracy_low <= score.baseline_accuracy:
        said = ["no more masked tokens are right than by always predicting the most frequent one: give it more time"]
    if score.pairs:
        known = score.followed_low > 0.5
        said.append("it knows what follows" if known else "it does not know yet which passage follows which")
    if session.epochs < 10:
        said.append(f"try: more time; the text was seen {session.epochs:.1f} times")
    return said


def score_table(score: MaskedScore) -> TableSection:
    rows = [
        ("masked tokens", f"{score.masked_tokens:,}", ""),
        ("masked-token accuracy", f"{score.accuracy:.4f}", f"{score.accuracy_low:.4f} to {score.accuracy_high:.4f}"),
        ("the same by the most frequent token", f"{score.baseline_accuracy:.4f}", ""),
        ("loss (nats per masked token)", f"{score.loss:.4f}", ""),
        ("the same by frequency alone", f"{score.baseline_loss:.4f}", ""),
        ("perplexity", f"{score.perplexity:.2f}", ""),
    ]
    if score.pseudo_tokens:
        hidden = f"pseudo-perplexity, {score.pseudo_tokens:,} tokens one by one"
        rows.append((hidden, f"{score.pseudo_perplexity:.2f}", ""))
    if score.pairs:
        between = f"{score.followed_low:.4f} to {score.followed_high:.4f}"
        rows.append(("next sentence known", f"{score.followed_accuracy:.4f}", between))
    return TableSection("", ("score", "value", "95 % interval"), tuple(rows))

"""The plan and the report of a masked language modelling run, and the score of such a model on any text."""

from __future__ import annotations

from contextlib import suppress

from torch import nn

from qkv.data.corpus import CorpusConfig
from qkv.data.findings import Progress, no_progress
from qkv.data.object_names import names_of
from qkv.data.prepare import Prepared, prepare, require, stream_to_score
from qkv.doctor.baseline_table import BaselineTable, compared
from qkv.doctor.messages import curve_verdict
from qkv.errors import InputError, QkvError
from qkv.evaluation import masked_tokens
from qkv.evaluation.intervals import interval_text, ratio_of_totals
from qkv.evaluation.masked_tokens import MaskedScore
from qkv.evaluation.significance import RowStatistics, estimate
from qkv.evaluation.timed_scoring import Pace
from qkv.models.masked import Masked, MaskedConfig
from qkv.objectives.masked_language_modelling import MaskedLanguageModellingConfig, MaskingVocabulary
from qkv.recipe.bundle import Bundle
from qkv.tasks.curve import curve_advice, curve_diagnosis
from qkv.tasks.protocol import Session, expect
from qkv.tasks.registry import training_recipe
from qkv.tasks.report import (
    CardContent,
    NextCommand,
    RunReport,
    TableSection,
    baseline_sections,
    doctor_section,
    indented,
    lines,
)

PSEUDO_TOKENS = 1024  # tokens that are masked one by one, for the pseudo-perplexity


def score_text(bundle: Bundle, corpus: CorpusConfig, progress: Progress = no_progress) -> tuple[MaskedScore, list[str]]:
    """The score on the files of a corpus, and notes. The baseline predicts each token by its frequency in training."""
    model = bundle.model
    if not isinstance(model, Masked):
        raise InputError(f"a {bundle.config.kind} model has no head for masked tokens; it gives only vectors.")
    recipe = training_recipe(bundle)
    trained = recipe.corpus if recipe is not None and isinstance(recipe.corpus, CorpusConfig) else None
    text, text_notes = stream_to_score(bundle.tokenizer, corpus, trained, progress)
    notes = list(text_notes)
    require(text, model.context, "an evaluation")
    vocabulary = MaskingVocabulary.of(bundle.tokenizer)
    task = MaskedLanguageModellingConfig(next_sentence="none" if isinstance(model.order, nn.Identity) else "pairs")
    frequencies = None
    if recipe and isinstance(recipe.task, MaskedLanguageModellingConfig) and isinstance(recipe.corpus, CorpusConfig):
        with suppress(QkvError):  # the training text is missing or has changed
            prepared = prepare(recipe.corpus, recipe.tokenizer, given_tokenizer=bundle.tokenizer, resumed=True)
            task, frequencies = recipe.task, masked_tokens.frequencies(prepared.train.tokens, vocabulary)
    if frequencies is None:
        frequencies = masked_tokens.frequencies(text.tokens, vocabulary)
        notes.append(
            "the training text cannot be read: the baseline uses the token frequencies of the text that is scored."
        )
    pace = Pace(progress=progress, stage="scoring passages")
    score = masked_tokens.score(model, text.tokens, vocabulary, frequencies, task, pseudo=PSEUDO_TOKENS, pace=pace)
    return score, notes


def plan(session: Session, prepared: Prepared, baseline_accuracy: float) -> list[str]:
    encoder, training = expect(session.recipe.model, MaskedConfig).encoder, session.recipe.training
    return [
        f"text    {prepared.train.bytes + prepared.valid.bytes:,} bytes",
        f"tokens  {len(prepared.train.tokens):,} for training, {len(prepared.valid.tokens):,} for validation "
        f"({prepared.tokenizer.kind}, {prepared.tokenizer.vocabulary:,} tokens)",
        f"model   bert {encoder.layers}/{encoder.heads}/{encoder.width}, context {encoder.context}, {session.size}",
        *session.plan_lines(f"{training.batch} x {encoder.context} tokens", training.batch),
        f"baseline {baseline_accuracy:.1%} of the validation tokens are the most frequent token",
        f"folder  {session.run.folder}",
    ]


def report(session: Session, prepared: Prepared, score: MaskedScore) -> RunReport:
    doctor_lines = remarks(session, score)
    table = baseline_table(score)
    sections = (lines(""), score_table(score), *baseline_sections(table), lines(""), indented("doctor", doctor_lines))
    command = NextCommand(("fill", str(session.run.folder), "The president of the United [MASK] ."))
    values = {**session.values, "validation": score.values(), "doctor": doctor_lines, "baselines": table.values()}
    return RunReport(sections, (command,), card_content(session, prepared, score, doctor_lines), values)


def card_content(session: Session, prepared: Prepared, score: MaskedScore, doctor_lines: list[str]) -> CardContent:
    recipe = session.recipe
    tokens, documents = len(prepared.train.tokens), prepared.train.documents
    rows = {name.replace("_", " "): f"{value:.4f}" for name, value in score.values().items()} | {
        "text": names_of(recipe.corpus.files),
        "training tokens": f"{tokens:,} in {documents:,} document(s), {session.epochs:.2f} epochs",
        "data fingerprint": f"`{recipe.corpus.fingerprint}`",
        "tokenizer": f"{prepared.tokenizer.kind}, {prepared.tokenizer.vocabulary:,} tokens",
    }
    sentence = f"A BERT of {session.parameters:,} parameters that predicts masked tokens"
    return CardContent(sentence, rows, doctor_section(doctor_lines, baseline_table(score)))


def baseline_table(score: MaskedScore) -> BaselineTable:
    """The accuracy compared with that of the most frequent token, on the same masked tokens."""
    own, usual = (RowStatistics("accuracy", score.passages[:, [column, 3]], ratio_of_totals) for column in (1, 2))
    baseline = compared("most frequent token", own, usual, lower_is_better=False)
    rows = f"{score.masked_tokens:,} masked tokens of the validation text"
    return BaselineTable("masked-token accuracy", rows, score.masked_tokens, estimate([own]), (baseline,))


def remarks(session: Session, score: MaskedScore) -> list[str]:
    """The doctor's lines: the comparison with the baseline, how the loss went, what to try."""
    lines = [" ".join(baseline_table(score).sentences())]
    if score.pairs:
        interval = interval_text(score.followed_low, score.followed_high)
        correct = f"next-sentence accuracy {score.followed_accuracy:.4f} ({interval})"
        chance = score.followed_low <= 0.5 <= score.followed_high
        below = "worse than" if score.followed_high < 0.5 else "better than"
        lines.append(f"{correct}: {'not distinguishable from' if chance else below} chance, 0.5")
    diagnosis = curve_diagnosis(session)
    advice = curve_advice(session, diagnosis) or "more text, which is new to the model"
    return [*lines, curve_verdict(diagnosis), f"try: {advice}"]


def score_table(score: MaskedScore) -> TableSection:
    rows = [
        ("masked tokens", f"{score.masked_tokens:,}", ""),
        ("masked-token accuracy", f"{score.accuracy:.4f}", interval_text(score.accuracy_low, score.accuracy_high)),
        ("accuracy of the most frequent token", f"{score.baseline_accuracy:.4f}", ""),
        ("loss (nats per masked token)", f"{score.loss:.4f}", interval_text(score.loss_low, score.loss_high)),
        ("loss of the token frequencies", f"{score.baseline_loss:.4f}", ""),
        ("perplexity", f"{score.perplexity:.2f}", ""),
    ]
    if score.pseudo_tokens:
        title = f"pseudo-perplexity, {score.pseudo_tokens:,} tokens one by one"
        rows.append((title, f"{score.pseudo_perplexity:.2f}", ""))
    if score.pairs:
        interval = interval_text(score.followed_low, score.followed_high)
        rows.append(("next-sentence accuracy", f"{score.followed_accuracy:.4f}", interval))
    return TableSection("", ("score", "value", "95 % interval"), tuple(rows))

"""The plan and the report of a translator: its scores with their signatures, some translations, what to do next."""

from __future__ import annotations

from collections.abc import Mapping

from qkv.data.corpus import ParallelConfig
from qkv.data.findings import Progress
from qkv.data.prepare_examples import PreparedPairs
from qkv.data.split import even_order
from qkv.evaluation.timed_scoring import Pace
from qkv.evaluation.translation_metrics import Outputs, TranslationScore
from qkv.objectives.translation import TranslationConfig
from qkv.recipe.bundle import Bundle, load
from qkv.tasks.protocol import EvaluationOptions, Session, expect
from qkv.tasks.report import (
    CardContent,
    EvaluationReport,
    NextCommand,
    RunReport,
    Section,
    TableSection,
    doctor_section,
    lines,
)
from qkv.tasks.translation.evaluate import Examiner
from qkv.tasks.translation.predict import require
from qkv.training.loop import training_flops
from qkv.visible import counted, shortened

LOW = 0.1  # of the best score: a translation below it is hardly one
COUNTED = "three times those of a forward pass, counted on batches of the run"
SHOWN = 3
WORST = 5
BEAMS = 5


def plan(session: Session, prepared: PreparedPairs) -> list[str]:
    data, model, tokenizer = prepared.parallel, session.recipe.model, prepared.tokenizer
    sizes = [str(getattr(model, name)) for name in ("layers", "heads", "width") if hasattr(model, name)]
    apart = ", learned for each by itself" if prepared.target_tokenizer is not None else ""
    test = f", {len(data.test):,} to test with" if data.test else ""
    return [
        f"pairs   {len(data.train):,} to learn from, {len(data.valid):,} to check on{test}",
        f"words   {tokenizer.kind}, {tokenizer.vocabulary:,} tokens for both languages{apart}",
        f"model   {model.kind} {'/'.join(sizes)}, {session.size}",
        *session.plan_lines(f"{expect(session.recipe.task, TranslationConfig).tokens:,} tokens", 1),
        f"folder  {session.run.folder}",
    ]


def report(
    session: Session, prepared: PreparedPairs, found: Mapping[str, TranslationScore], outputs: Mapping[str, Outputs]
) -> RunReport:
    folder = session.run.folder
    # what the training computed, as deck 002's table has it with BLEU
    flops = training_flops(session.model, session.objective, session.recipe.training.batch, session.state.samples)
    remarked = remarks(session, found)
    valid = outputs["valid"]  # of the model that was scored
    sections: list[Section] = [lines(""), *score_sections(found, flops)]
    for side, each in outputs.items():
        if each.whole is not None:
            sections.append(lines(f"{side}: {len(each):,} of {each.whole:,} sources, evenly spread"))
    sections += [lines("", *example(valid, number)) for number in even_order(len(valid), SHOWN).tolist()]
    sections += [lines(""), lines(*(f"doctor  {line}" for line in remarked))]
    commands = (
        NextCommand(("translate", str(folder), shortened(valid.sources[0], 60)), "translate any text"),
        NextCommand(("evaluate", str(folder), "SOURCE", "TARGET"), "score it on other pairs"),
    )
    scores = {side: score.values() for side, score in found.items()}
    values = {**session.values, "training_flops": flops, **scores}
    return RunReport(
        tuple(sections), commands, card_content(session, prepared, found, outputs, flops, remarked), values
    )


def score_sections(found: Mapping[str, TranslationScore], flops: float | None = None) -> list[Section]:
    """The scores; of a run, with the FLOPs of its training."""
    rows = [
        (f"{side} {figure.name}".strip(), figure.value, figure.interval)
        for side, score in found.items()
        for figure in score.rows()
    ]
    if flops is not None:
        rows.append(("FLOPs of the training", f"{flops:.2e}", ""))
    signatures = zip(("BLEU", "chrF"), next(iter(found.values())).signatures.values(), strict=False)
    return [
        TableSection("", ("score", "value", "95 % interval"), tuple(rows)),
        *(lines(f"{name}  {signature}") for name, signature in signatures),
    ]


def example(said: Outputs, number: int) -> list[str]:
    """Source, output and references, a line each."""
    texts = [said.sources[number], said.translations[number] or "(nothing)"]
    texts.append(f"({' or '.join(said.references[number])})")
    return [f"  {shortened(line, 110)}" for line in texts]


def detail_sections(said: Outputs) -> list[Section]:
    """The score by length, and the worst outputs."""
    counts, by, single = said.labels
    digits = said.digits
    rows = tuple(
        (f"up to {each.most}" if each.most else "more", f"{each.count:,}", f"{each.score:.{digits}f}")
        for each in said.by_length()
    )
    sections: list[Section] = [lines(""), TableSection("", (counts, "sources", by), rows)]
    if worst := said.worst(WORST):
        sections.append(lines("", "the worst:"))
    sections += [lines("", f"  {single} {value:.{digits}f}", *example(said, row)) for row, value in worst]
    return sections


def card_content(
    session: Session,
    prepared: PreparedPairs,
    found: Mapping[str, TranslationScore],
    outputs: Mapping[str, Outputs],
    flops: float,
    remarked: list[str],
) -> CardContent:
    recipe, data, tokenizer = session.recipe, prepared.parallel, prepared.tokenizer
    rows: dict[str, str] = {}
    for side, score in found.items():
        for figure in score.rows():
            between = f" (95 % interval {figure.interval})" if figure.interval else ""
            rows[f"{side} {figure.name}"] = figure.value + between
        whole = outputs[side].whole
        rows[f"{side} sources"] = f"{score.count:,}" + ("" if whole is None else f" of {whole:,}, evenly spread")
    first = next(iter(found.values()))
    if first.signatures:
        rows["signatures"] = ", ".join(f"`{each}`" for each in first.signatures.values())
    rows |= {
        "FLOPs of the training": f"{flops:.2e}; {COUNTED}",
        "directions": ", ".join(f"{one} to {other}" for one, other in data.train.directions),
        "text": ", ".join(recipe.corpus.files),
        "pairs": f"{len(data.train):,} to learn from, {session.epochs:.2f} epochs",
        "data fingerprint": f"`{recipe.corpus.fingerprint}`",
        "tokenizer": f"{tokenizer.kind}, {tokenizer.vocabulary:,} tokens, `{tokenizer.fingerprint}`",
    }
    sentence = f"A `{recipe.model.kind}` of {session.parameters:,} parameters that translates"
    return CardContent(sentence, rows, doctor_section(remarked))


def remarks(session: Session, found: Mapping[str, TranslationScore]) -> list[str]:
    """What came out of it, in two lines."""
    low, seen = found["valid"].quality < LOW, session.epochs
    return [
        "hardly anything is translated yet: give it more time, or more pairs"
        if low
        else "it translates; --beams and the text decide the rest",
        f"the pairs were seen {seen:.1f} times" + ("; try: more time" if seen < 10 else ""),
    ]


def evaluation(
    bundle: Bundle, pairs: ParallelConfig, options: EvaluationOptions, device: str, progress: Progress
) -> EvaluationReport:
    """A translator on pairs of any files: its scores, by length, the worst outputs; compared with another system."""
    beams = BEAMS if options.beams is None else options.beams
    examiner = Examiner(bundle, pairs, options.metric)
    other = None if options.compare_with is None else load(options.compare_with, device)
    if other is not None:
        require(other)
    pace = Pace(progress=progress, stage="translating")
    outputs, loss = examiner.outputs(bundle, beams, device, pace)
    compared = None if other is None else outputs.compared_with(examiner.outputs(other, beams, device, pace)[0])
    score = outputs.score(loss)
    head = lines(f"{counted(len(outputs), 'source')}, {counted(beams, 'beam')}", "")
    end = lines("", *([] if compared is None else [f"compared with {options.compare_with}: {compared.sentence}"]))
    columns = {"source": outputs.sources, "translation": outputs.translations, "references": outputs.references}
    values = {
        "beams": beams,
        "metric": examiner.metric,
        **score.values(),
        "by_length": [vars(group) for group in outputs.by_length()],
        "worst": [
            {"row": row, "score": value, **{name: column[row] for name, column in columns.items()}}
            for row, value in outputs.worst(WORST)
        ],
        **({} if compared is None else {"compared_with": {"model": options.compare_with, **compared.values}}),
    }
    return EvaluationReport(
        (head, *score_sections({"": score}), *detail_sections(outputs), end), values, examiner.notes
    )

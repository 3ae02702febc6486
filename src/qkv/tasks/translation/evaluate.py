"""Translations of parallel text, with their references: while a translator learns, and on pairs of any files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qkv.data.columns import header_rule
from qkv.data.corpus import ParallelConfig
from qkv.data.detect import is_labelled, is_parallel
from qkv.data.encode import PairRows, encode_pairs, end_of
from qkv.data.examples import Pairs, Parallel
from qkv.data.findings import Findings, Leak, TaskNote
from qkv.data.formats.kinds import FilePreviews
from qkv.data.read_pairs import read_parallel
from qkv.data.split_files import UNKNOWN_LANGUAGES, find_pairs
from qkv.errors import InputError, QkvError
from qkv.evaluation.timed_scoring import Pace
from qkv.evaluation.translation_metrics import OUTPUTS, Metric, Outputs
from qkv.evaluation.translation_metrics import require as require_metric
from qkv.generation.beam import Search, translate
from qkv.objectives.translation import TranslationConfig, pairs_loss, spread
from qkv.recipe.bundle import Bundle
from qkv.tasks.registry import recipe_of
from qkv.tasks.translation.predict import fitted, listed, require, targets
from qkv.text.vocabulary import may_be_left_out, written_tag

PORTION = 16  # sources that are translated together where time is short


def outputs(
    bundle: Bundle,
    side: Pairs,
    rows: PairRows,
    metric: Metric = "bleu",
    *,
    most: int | None = None,
    beams: int = 1,
    device: str = "cpu",
    pace: Pace | None = None,
) -> Outputs:
    """What the model says to the sources of a side, or to `most` of them, or to as many as `pace` has time for; where
    errors are counted, a source is asked for once."""
    model, tokenizer, (start, last), pace = require(bundle), bundle.tokenizer, bundle.marks, pace or Pace()
    by_source = _by_source(rows) if metric == "errors" else [[row] for row in range(len(rows))]
    groups, end = [by_source[row] for row in spread(len(by_source), most or len(by_source)).tolist()], end_of(tokenizer)
    sources, _ = fitted([rows.sources.row(group[0]).tolist() for group in groups], end, model.context)
    search, training = Search(beams=beams, never=bundle.unwritten), model.training
    order, said = pace.order(len(groups)), dict[int, str]()
    model.eval()
    for first, stop in pace.portions(len(groups), PORTION):
        part = np.sort(order[first:stop]).tolist()
        found = translate(
            model, [sources[number] for number in part], search, start=start, end=last, device=device,
            watch=pace.watch(first, len(groups)),
        )  # fmt: skip
        said |= {number: tokenizer.decode(best[0].tokens) for number, best in zip(part, found, strict=True)}
    model.train(training)
    done = sorted(said)
    pairs = [[side[int(rows.kept[row])] for row in groups[number]] for number in done]
    return OUTPUTS[metric](
        [group[0].source for group in pairs],
        [said[number] for number in done],
        [tuple(pair.target for pair in group) for group in pairs],
        rows=tuple(row for number in done for row in groups[number]),
        whole=None if len(done) == len(by_source) else len(by_source),
    )


def _by_source(rows: PairRows) -> list[list[int]]:
    groups: dict[bytes, list[int]] = {}
    for row in range(len(rows)):
        groups.setdefault(rows.sources.row(row).tobytes(), []).append(row)
    return list(groups.values())


class Examiner:
    """Parallel text that a translator is scored on, read once for it and for those it is compared with."""

    def __init__(self, bundle: Bundle, config: ParallelConfig, metric: Metric | None = None) -> None:
        self.metric: Metric = metric or trained_metric(bundle)
        require_metric(self.metric)
        self.found = _read(bundle, config)
        self.notes = [note for note in self.found.notes if not isinstance(note, Leak | TaskNote)]

    def __len__(self) -> int:
        return len(self.found.train)

    def outputs(
        self, bundle: Bundle, beams: int, device: str = "cpu", pace: Pace | None = None
    ) -> tuple[Outputs, float]:
        """What a translator says, by beam search, and its loss."""
        model, tokenizer = require(bundle), bundle.tokenizer
        own = bundle.target_tokenizer
        rows = encode_pairs(tokenizer, self.found.train, tagged=self._tagged(bundle), target_tokenizer=own)
        self.notes += [note for note in rows.notes("pairs", 0) if note not in self.notes]
        if cut := int((rows.sources.lengths > model.context).sum()):
            self.notes.append(f"{cut:,} sources are longer than the context of {model.context:,} tokens; cut there.")
        said = outputs(bundle, self.found.train, rows, self.metric, beams=beams, device=device, pace=pace)
        return said, pairs_loss(model, rows, bundle.marks[0], len(rows), device)

    def _tagged(self, bundle: Bundle) -> list[str]:
        known = targets(bundle)
        if known and written_tag(bundle.tokenizer, self.found.train[0].source)[0] is not None:
            return []  # sources ask for languages themselves
        for source, target in self.found.train.directions:
            if known and target not in known:
                said = f"{source} to {target}" if (source, target) != UNKNOWN_LANGUAGES else "no languages in the names"
                if may_be_left_out(bundle.tokenizer):
                    self.notes.append(
                        f"these pairs: {said}; the model has tags for {listed(known)}, and sources get none. "
                        f"--languages gives another, as in --languages en {known[0]}."
                    )
                    return []
                raise InputError(
                    f"these pairs: {said}; the model translates to {', '.join(known)}. Give --languages, as in "
                    f"--languages en {known[0]}."
                )
        return known


def source_language(bundle: Bundle) -> str:
    """The language of its sources, by whose rules texts are cut into sentences; English where it is not known, or one
    of several."""
    sources = {source for source, _ in _directions(trained_corpus(bundle))}
    return sources.pop() if len(sources) == 1 else "en"


def writes_words(bundle: Bundle) -> bool:
    """Whether its targets are texts, and not symbols, as phonemes, among which no word of the source may stand."""
    return trained_metric(bundle) != "errors"


def trained_metric(bundle: Bundle) -> Metric:
    """The metric of the run that a translator comes from; BLEU where it has left its run."""
    recipe = recipe_of(bundle)
    return recipe.task.metric if recipe and isinstance(recipe.task, TranslationConfig) else "bleu"


def trained_corpus(bundle: Bundle) -> ParallelConfig | None:
    """The pairs of the run that a translator comes from; None where it has left its run."""
    recipe = recipe_of(bundle)
    return recipe.corpus if recipe and isinstance(recipe.corpus, ParallelConfig) else None


def _read(bundle: Bundle, config: ParallelConfig) -> Parallel:
    """The pairs, in their order; columns are those that the model learned from where the table has them."""
    require(bundle)
    unsaid = config.source is None and config.target is None
    previews = FilePreviews(config.encoding)
    pairs = unsaid and is_parallel(config.files, previews)
    if unsaid and not pairs and is_labelled(config.files, previews):
        raise InputError(
            f"{config.files[0]}: looks like examples with labels; a {bundle.config.kind} is scored on parallel text. "
            "Give source and target file, or name the columns: --source NAME --target NAME."
        )
    trained = trained_corpus(bundle)
    if unsaid and trained is not None and trained.source is not None:
        config = _as_learned(config, trained, previews)
    found = read_parallel(config, purpose="evaluate", previews=previews)
    ways = _directions(trained)
    for direction in found.train.directions:
        if ways and direction not in ways and direction != UNKNOWN_LANGUAGES and not targets(bundle):
            said = ", ".join(f"{source} to {target}" for source, target in ways)
            raise InputError(
                f"{config.files[0]}: {direction[0]} to {direction[1]}; the model learned {said}. "
                "Name the source first, and files of these languages, or give --languages."
            )
    return found


def _directions(corpus: ParallelConfig | None) -> list[tuple[str, str]]:
    """Those that a run learned, as far as it knew their names."""
    languages = () if corpus is None else corpus.languages
    return [ways for ways in zip(languages[::2], languages[1::2], strict=True) if ways != UNKNOWN_LANGUAGES]


def _as_learned(config: ParallelConfig, corpus: ParallelConfig, previews: FilePreviews) -> ParallelConfig:
    asked = replace(config, source=corpus.source, target=corpus.target)
    try:
        group = find_pairs(config, Findings(), previews=previews).train[0]
        there = previews.table(group.first, header_rule(asked)).columns if group.second is None else ()
    except QkvError:  # it is reported where it is read
        return config
    return asked if {corpus.source, corpus.target} <= set(there) else config

"""Scores translators on parallel text: on held-out pairs during training, and on any files of pairs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from qkv.data.corpus import ParallelConfig
from qkv.data.detect import is_labelled
from qkv.data.detect_pairs import is_parallel
from qkv.data.encode import PairRows, encode_pairs, end_of
from qkv.data.examples import Pairs, Parallel
from qkv.data.findings import Findings, Leak, TaskNote
from qkv.data.formats.column_names import PROMPT_PAIRS, TRANSLATION_PAIRS
from qkv.data.formats.kinds import FilePreviews
from qkv.data.hold_out import require_scorable
from qkv.data.pair_columns import header_rule
from qkv.data.pair_files import find_pairs
from qkv.data.read_pairs import read_parallel
from qkv.data.split_files import UNKNOWN_LANGUAGES
from qkv.errors import InputError, QkvError
from qkv.evaluation.timed_scoring import Pace
from qkv.evaluation.translation_metrics import OUTPUTS, Comparison, Metric, Outputs, TranslationScore
from qkv.evaluation.translation_metrics import require as require_metric
from qkv.generation.beam import Search, translate
from qkv.objectives.translation import TranslationConfig, evenly_spread, pairs_loss
from qkv.recipe.bundle import Bundle
from qkv.tasks.leaks import training_rows_among
from qkv.tasks.registry import training_recipe
from qkv.tasks.translation.predict import fit_to_context, require_translator, shortened_list, target_languages
from qkv.text.vocabulary import tag_is_optional, written_tag

FIRST_PORTION = 4  # sources of the first batch, by which the speed is measured where time is limited


@dataclass(frozen=True, repr=False, kw_only=True)
class TranslationEvaluation(TranslationScore):
    """The scores of a translator, what it wrote, and how it compares with another one."""

    outputs: Outputs
    metric: Metric
    beams: int
    comparison: Comparison | None
    own: Mapping[str, float] = field(default_factory=dict)  # metrics of the user's own

    @property
    def loss(self) -> float:
        """In nats a token of the references."""
        value = self.scores["loss"]
        return value if isinstance(value, float) else float("nan")

    def values(self) -> dict[str, object]:
        return {**super().values(), **self.own}


def translate_pairs(
    bundle: Bundle,
    pairs: Pairs,
    rows: PairRows,
    metric: Metric = "bleu",
    *,
    max_sources: int | None = None,
    beams: int = 1,
    device: str = "cpu",
    pace: Pace | None = None,
) -> Outputs:
    """The translations of the sources, with their references; `rows` are the ids of `pairs`.

    Of many sources, `max_sources` are translated, evenly spread, and no more than `pace` has time for. For the metric
    "errors", a source with several references is translated once.
    """
    model, tokenizer, (start, last), pace = (
        require_translator(bundle),
        bundle.tokenizer,
        bundle.start_and_end,
        pace or Pace(),
    )
    by_source = _rows_by_source(rows) if metric == "errors" else [[row] for row in range(len(rows))]
    groups = [by_source[index] for index in evenly_spread(len(by_source), max_sources or len(by_source)).tolist()]
    ids = [rows.sources.row(group[0]).tolist() for group in groups]
    sources, _ = fit_to_context(ids, end_of(tokenizer), model.context)
    search, was_training = Search(beams=beams, never=bundle.forbidden_ids), model.training
    order, translations = pace.order(len(groups)), dict[int, str]()
    model.eval()
    for first, stop in pace.portions(len(groups), FIRST_PORTION):
        portion = np.sort(order[first:stop]).tolist()
        hypotheses = translate(
            model, [sources[index] for index in portion], search, start=start, end=last, device=device,
            on_progress=pace.row_counter(first, len(groups)),
        )  # fmt: skip
        translations |= {
            index: tokenizer.decode(best[0].tokens) for index, best in zip(portion, hypotheses, strict=True)
        }
    model.train(was_training)
    done = sorted(translations)
    scored = [[pairs[int(rows.kept[row])] for row in groups[index]] for index in done]
    return OUTPUTS[metric](
        [group[0].source for group in scored],
        [translations[index] for index in done],
        [tuple(pair.target for pair in group) for group in scored],
        rows=tuple(row for index in done for row in groups[index]),
        whole=None if len(done) == len(by_source) else len(by_source),
    )


def _rows_by_source(rows: PairRows) -> list[list[int]]:
    groups: dict[bytes, list[int]] = {}
    for row in range(len(rows)):
        groups.setdefault(rows.sources.row(row).tobytes(), []).append(row)
    return list(groups.values())


class PairsEvaluator:
    """Reads parallel text once, and scores translators on it that are to be compared."""

    def __init__(self, bundle: Bundle, config: ParallelConfig, metric: Metric | None = None) -> None:
        self.metric: Metric = metric or training_metric(bundle)
        require_metric(self.metric)
        self.parallel = _read_pairs(bundle, config)
        self.notes = [note for note in self.parallel.notes if not isinstance(note, Leak | TaskNote)]
        self.notes += training_rows_among(bundle, self.parallel.train)

    def __len__(self) -> int:
        return len(self.parallel.train)

    def outputs(
        self, bundle: Bundle, beams: int, device: str = "cpu", pace: Pace | None = None
    ) -> tuple[Outputs, float]:
        """A translator's translations by beam search, and its loss."""
        model, pairs = require_translator(bundle), self.parallel.train
        rows = encode_pairs(
            bundle.tokenizer, pairs, tagged=self._tags(bundle), target_tokenizer=bundle.target_tokenizer
        )
        self.notes += [note for note in rows.notes("pairs", 0) if note not in self.notes]
        if cut := int((rows.sources.lengths > model.context).sum()):
            self.notes.append(f"{cut:,} sources are longer than the context of {model.context:,} tokens; truncated.")
        outputs = translate_pairs(bundle, pairs, rows, self.metric, beams=beams, device=device, pace=pace)
        return outputs, pairs_loss(model, rows, bundle.start_and_end[0], len(rows), device)[0]

    def _tags(self, bundle: Bundle) -> list[str]:
        """The languages whose tags sources are to begin with; empty for a model, or sources, that need none added."""
        known = target_languages(bundle)
        if known and written_tag(bundle.tokenizer, self.parallel.train[0].source)[0] is not None:
            return []  # the sources carry tags already
        for source, target in self.parallel.train.directions:
            if known and target not in known:
                direction = (
                    f"{source} to {target}" if (source, target) != UNKNOWN_LANGUAGES else "no languages in the names"
                )
                if tag_is_optional(bundle.tokenizer):
                    self.notes.append(
                        f"these pairs: {direction}; the model has tags for {shortened_list(known)}, and sources get "
                        f"none. --languages gives another, as in --languages en {known[0]}."
                    )
                    return []
                raise InputError(
                    f"these pairs: {direction}; the model translates to {', '.join(known)}. Give --languages, as in "
                    f"--languages en {known[0]}."
                )
        return known


def source_language(bundle: Bundle) -> str:
    """The language of the sources in training, for splitting texts into sentences; English if unknown or several."""
    sources = {source for source, _ in _directions(training_corpus(bundle))}
    return sources.pop() if len(sources) == 1 else "en"


def source_columns(bundle: Bundle) -> list[str]:
    """Columns that may hold texts to translate: the one of training, those named for its languages, usual names."""
    corpus = training_corpus(bundle)
    trained = [corpus.source] if corpus is not None and corpus.source else []
    languages = [source for source, _ in _directions(corpus)]
    usual = [source for source, _ in (*TRANSLATION_PAIRS, *PROMPT_PAIRS)]
    return [*trained, *languages, *usual]


def writes_words(bundle: Bundle) -> bool:
    """Whether targets are texts; among symbols such as phonemes, no word of the source may be copied."""
    return training_metric(bundle) != "errors"


def training_metric(bundle: Bundle) -> Metric:
    """The metric of the run that a translator comes from; BLEU if its recipe is not at hand."""
    recipe = training_recipe(bundle)
    return recipe.task.metric if recipe and isinstance(recipe.task, TranslationConfig) else "bleu"


def training_corpus(bundle: Bundle) -> ParallelConfig | None:
    """The pairs of the run that a translator comes from; None if its recipe is not at hand."""
    recipe = training_recipe(bundle)
    return recipe.corpus if recipe and isinstance(recipe.corpus, ParallelConfig) else None


def _read_pairs(bundle: Bundle, config: ParallelConfig) -> Parallel:
    """The pairs of the files; of a table, by default, in the columns that the model was trained on."""
    require_translator(bundle)
    no_columns = config.source is None and config.target is None
    previews = FilePreviews(config.encoding)
    trained = training_corpus(bundle)
    if no_columns and trained is not None and trained.source is not None:
        config = _with_training_columns(config, trained, previews)
        no_columns = config.source is None
    pairs = no_columns and is_parallel(config.files, previews)
    if no_columns and not pairs and is_labelled(config.files, previews):
        raise InputError(
            f"{config.files[0]}: looks like examples with labels; a {bundle.config.kind} is scored on parallel text. "
            "Give source and target file, or name the columns: --source NAME --target NAME."
        )
    parallel = read_parallel(config, purpose="evaluate", previews=previews)
    require_scorable(parallel.train, config.files[0])
    learned = _directions(trained)
    for direction in parallel.train.directions:
        if learned and direction not in learned and direction != UNKNOWN_LANGUAGES and not target_languages(bundle):
            listed = ", ".join(f"{source} to {target}" for source, target in learned)
            raise InputError(
                f"{config.files[0]}: {direction[0]} to {direction[1]}; the model learned {listed}. "
                "Name the source first, and files of these languages, or give --languages."
            )
    return parallel


def _directions(corpus: ParallelConfig | None) -> list[tuple[str, str]]:
    """The directions, source and target language, that a run was trained on, apart from those without names."""
    languages = () if corpus is None else corpus.languages
    return [
        direction for direction in zip(languages[::2], languages[1::2], strict=True) if direction != UNKNOWN_LANGUAGES
    ]


def _with_training_columns(config: ParallelConfig, trained: ParallelConfig, previews: FilePreviews) -> ParallelConfig:
    """The config with the columns of the training table, if the new table has them."""
    renamed = replace(config, source=trained.source, target=trained.target)
    try:
        group = find_pairs(config, Findings(), previews=previews).train[0]
        columns = previews.table(group.first, header_rule(renamed)).columns if group.second is None else ()
    except QkvError:  # reported when the files are read
        return config
    return renamed if {trained.source, trained.target} <= set(columns) else config

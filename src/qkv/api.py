"""The front of the library: `qkv.load` gives a model with a method for each thing one does with it.

import qkv
model = qkv.load("runs/shakespeare")
for piece in model.generate("O Romeo", stream=True):
    print(piece, end="")
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from torch import nn
from typing_extensions import Unpack

from qkv.blocks.fast_paths import evaluating
from qkv.config import parse
from qkv.data.corpus import CorpusConfig, ExamplesConfig, ParallelConfig
from qkv.data.prepare import stream_text
from qkv.errors import InputError
from qkv.evaluation import own_metrics
from qkv.evaluation.own_metrics import OwnMetrics
from qkv.generation.beam import Translator
from qkv.models.language_model import count
from qkv.recipe import bundle, own_model
from qkv.tasks.given import DataKeywords, section_of
from qkv.tasks.inspection_subject import inspection_subject
from qkv.tasks.language_modelling.evaluate import require_window, score_tokens
from qkv.tasks.python_calls import python_call
from qkv.tasks.python_words import in_python_names
from qkv.tasks.text_generator import TextGenerator
from qkv.text import own_tokenizer
from qkv.training import devices

if TYPE_CHECKING:
    from qkv.evaluation.labelled_evaluation import LabelledScore
    from qkv.evaluation.masked_tokens import MaskedScore
    from qkv.evaluation.perplexity import Score
    from qkv.interop.parity import Parity
    from qkv.recipe.recipe import CorpusSection
    from qkv.tasks.translation.evaluate import TranslationEvaluation


class Model(TextGenerator):
    """A trained model, ready for use."""

    def __repr__(self) -> str:
        config = self.bundle.config
        return f"<qkv model: {config.kind}, {self.parameters:,} parameters, context {config.context}>"

    @property
    def folder(self) -> Path | None:
        """The folder that it was loaded from, and that `qkv.load` opens again: of a run, the run's."""
        folder = self.bundle.folder
        return folder.parent if folder is not None and folder.name == "best" else folder

    @property
    def card(self) -> str:
        """The card.md of the run that the model was loaded from: scores, baselines, the loss curve, advice."""
        card = self.folder / "card.md" if self.folder is not None else None
        if card is None or not card.is_file():
            raise InputError("the model has no card: it was not loaded from a finished run.")
        return card.read_text(encoding="utf-8")

    @property
    def translates(self) -> bool:
        """Whether it reads a text and writes another."""
        return isinstance(self.bundle.model, Translator)

    @property
    def parameters(self) -> int:
        return count(self.module)

    @python_call
    def export(self, folder: str | Path, to: str = "huggingface", *, force: bool = False) -> list[Parity]:
        """Write the model for others to open; gives what was compared before the folder got its name."""
        from qkv.interop import export as shipping

        if to not in shipping.FORMATS:
            raise InputError(f"format {to!r}: expected one of {', '.join(shipping.FORMATS)}.")
        own = self.bundle.folder
        card = None if own is None or self.bundle.source else own.parent / "card.md"
        story = card.read_text(encoding="utf-8") if card is not None and card.is_file() else ""
        name = self.bundle.source or Path(folder).resolve().name
        return shipping.write(Path(folder), self.bundle, name, story, force=force)

    @python_call
    def page(self, text: str | tuple[str, str] | None = None, file: str | Path = "inspect.html") -> Path:
        """Write one HTML page that shows the model at work on a text; gives its place."""
        from qkv.inspection import page

        with evaluating(self.module):
            page.write(Path(file), page.document(inspection_subject(self.bundle, text)))
        return Path(file)

    @python_call
    def evaluate(
        self,
        data: object,
        *,
        window: int | None = None,
        metric: Literal["bleu", "errors"] | None = None,
        beams: int | None = None,
        compare_with: str | Path | Model | None = None,
        metrics: Metrics | None = None,
        **options: Unpack[DataKeywords],
    ) -> Score | MaskedScore | LabelledScore | TranslationEvaluation:
        """Score the model on other data: text, labelled examples or parallel text, as it was trained on.

        Args:
            data: Files, a folder, a named data set, or an object, as for `train`; of a language model also a text.
                `options` are the options of reading of `train`: text, label, source ...
            window: Of language models: score independent windows of this many tokens. Otherwise they overlap by half.
            metric: Of translators: "bleu", or "errors" (of symbols). Default: as in training.
            beams: Of translators: the beam width. Default: 5.
            compare_with: Of translators: another one, to compare with on the same sentences.
            metrics: Metrics of your own by name, functions of the model or of (true, predicted); or their Python file.
        """
        from qkv.tasks.protocol import EvaluationOptions
        from qkv.tasks.registry import evaluate_model, task_of_model

        given = {"window": window, "metric": metric, "beams": beams, "compare_with": compare_with}
        for name, value in given.items():
            if value is not None and name not in task_of_model(self.bundle).evaluation_options:
                kind = self.bundle.config.kind
                raise InputError(f"{name}: does not apply, because this model is of kind {kind}. Leave it out.")
        other = compare_with.bundle if isinstance(compare_with, Model) else compare_with and str(compare_with)
        own = own_metrics_of(metrics)
        how = EvaluationOptions(window=window, metric=metric, beams=beams, compare_with=other or None, own=own)
        self.notes = []
        config = self._data_of(data, options)
        if isinstance(config, str):
            own.refuse_prediction_metrics(f"a model of kind {self.bundle.config.kind}")
            return replace(self._score_text(config, window), own=own.of_model(self.bundle))
        report = evaluate_model(self.bundle, config, how, self.device)
        self.notes += map(in_python_names, report.notes)
        return report.score

    def _data_of(self, data: object, options: DataKeywords) -> CorpusSection | str:
        """The config of data that was given, or a text."""
        from qkv.tasks.registry import task_of_model

        if isinstance(data, CorpusConfig | ExamplesConfig | ParallelConfig):
            return data
        task = task_of_model(self.bundle)
        if isinstance(data, str) and task.corpus_config is CorpusConfig:
            if names_file(data):
                self.notes.append(f"{data}: this file is evaluated, not its name.")
            elif not FILE_NAME.fullmatch(data):  # of a file that does not exist, nobody wants the name scored
                if self.writes:
                    return data
                data = [data]
        values, _ = section_of(data, dict(options))
        if values.get("task") == task.kind and "task" not in {field.name for field in fields(task.corpus_config)}:
            del values["task"]
        known = {field.name for field in fields(task.corpus_config)}
        for name in values:
            if name not in known:
                reason = f"a model of kind {self.bundle.config.kind} is scored on {task.data_name}"
                raise InputError(f"{name}: does not apply, because {reason}. Leave it out.")
        config: CorpusSection = parse(task.corpus_config, values, "model.evaluate")
        return config

    def _score_text(self, text: str, window: int | None) -> Score:
        require_window(self.bundle, window)
        tokens = stream_text(self.tokenizer, text)
        if tokens.unknown:
            self.notes.append(f"{tokens.unknown:,} tokens of the text are not in the vocabulary and become UNK.")
        return score_tokens(self.bundle, tokens, window)


Metrics = Mapping[str, Callable[..., float]] | str | Path
"""Metrics of one's own, of the model or of two lists (the true and the predicted answers); or their Python file."""


def own_metrics_of(metrics: Metrics | None) -> OwnMetrics:
    """Metrics of one's own, which are given a model as `load` gives it."""
    loaded = own_metrics.load(metrics) if isinstance(metrics, str | Path) else OwnMetrics(dict(metrics or {}))
    return replace(loaded, open_model=_model_of)


def _model_of(bundle: bundle.Bundle) -> Model:
    assert isinstance(bundle.model, nn.Module)
    first = next(bundle.model.parameters(), None)
    return Model(bundle, "cpu" if first is None else str(first.device))


FILE_NAME = re.compile(r"\S+\.(?:bz2|csv|gz|html?|jsonl?|md|parquet|rst|tsv|txt|xz|zip|zst)", re.IGNORECASE)


def names_file(text: str) -> bool:
    """Whether a text is really the name of a file: then nobody wants the letters of the name scored."""
    try:
        return len(text) < 256 and "\n" not in text and Path(text).is_file()
    except (OSError, ValueError):  # a name that no system takes
        return False


@python_call
def load(
    model: str | Path,
    device: str = "auto",
    *,
    model_file: str | Path | None = None,
    tokenizer_file: str | Path | None = None,
) -> Model:
    """Open the model of a run folder, a model folder, a Hugging Face folder, a GGUF file or one of llama2.c.

    Args:
        model: The folder or file.
        device: Where it computes: "cpu", "cuda" ... Default: the fastest there is.
        model_file: The Python file of a model of one's own, as it was given to `train`.
        tokenizer_file: The Python file of a tokenizer of one's own.
    """
    if tokenizer_file is not None:
        own_tokenizer.load_file(tokenizer_file)
    if model_file is not None:
        own_model.load_file(model_file)
    chosen = devices.choose_device(device)
    return Model(bundle.load(model, chosen), chosen)

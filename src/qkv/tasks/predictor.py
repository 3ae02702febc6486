"""What a model does with whole texts, one half of what `qkv.load` gives: vectors, decisions, tags, translations, filled
masks. What a method needs is imported when it is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch import nn

from qkv.blocks.fast_paths import evaluating
from qkv.data.corpus import ExamplesConfig
from qkv.data.findings import Progress, no_progress
from qkv.errors import InputError, require_type
from qkv.generation import compiler, writing
from qkv.generation.beam import Search, Translator
from qkv.models.registry import input_of
from qkv.recipe.bundle import Bundle
from qkv.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from qkv.data.examples import Examples
    from qkv.evaluation import decisions, vectors
    from qkv.evaluation.labelled_evaluation import LabelledScore
    from qkv.generation.sampling import Sampling
    from qkv.inspection.trace import Trace
    from qkv.inspection.translator_heads import Alignment
    from qkv.tasks.translation.predict import Said


class Predictor:
    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.notes: list[str] = list(bundle.notes)  # what was done to the last input, in words

    @property
    def pairs(self) -> bool:
        """Whether it classifies two texts together."""
        return getattr(self.bundle.config, "texts", 1) == 2

    @property
    def tokenizer(self) -> Tokenizer:
        return self.bundle.tokenizer

    @overload
    def embed(
        self,
        texts: str | Sequence[str],
        *,
        layer: vectors.Layer = -1,
        pool: vectors.Pool = "mean",
        precision: vectors.Precision = "f32",
    ) -> torch.Tensor: ...
    @overload
    def embed(
        self,
        texts: str | Sequence[str],
        *,
        layer: vectors.Layer = -1,
        pool: Literal["none"],
        precision: vectors.Precision = "f32",
    ) -> list[vectors.Tokens]: ...
    def embed(
        self,
        texts: str | Sequence[str],
        *,
        layer: vectors.Layer = -1,
        pool: vectors.Pool | Literal["none"] = "mean",
        precision: vectors.Precision = "f32",
    ) -> torch.Tensor | list[vectors.Tokens]:
        """A vector a text, (N, D); with pool "none", for each text its tokens and a vector for each. See `vectors`."""
        from qkv.evaluation import vectors

        given = _texts(texts)
        model = self._embedding_module()
        ids, self.notes = vectors.encode(self.tokenizer, given, self.bundle.config.context)
        with evaluating(model):
            if pool != "none":
                return vectors.pooled(model, ids, layer=layer, pool=pool, precision=precision)
            found = vectors.by_token(model, ids, layer=layer, precision=precision)
        pieces = [[self.tokenizer.piece(token) for token in row] for row in ids]
        return [vectors.Tokens(*each) for each in zip(ids, pieces, found, strict=True)]

    def contexts(self, word: str, texts: Sequence[str] = ()) -> list[torch.Tensor]:
        """For each layer the cosines, (N, N), between a word's vectors in every two texts; of bank, station and it the
        decks' own where none are given."""
        from qkv.evaluation import vectors

        given = _texts(texts) or list(vectors.CONTEXTS.get(word, ()))
        model = self._embedding_module()
        with evaluating(model):
            return vectors.alike_by_layer(model, self.tokenizer, word, given)

    def _embedding_module(self) -> nn.Module:
        if isinstance(self._module, Translator):
            raise InputError(
                f"a {self.bundle.config.kind} model translates and gives no vectors of texts. Use a language model, "
                "an encoder or a classifier."
            )
        return self._module

    def classify(
        self, texts: str | Sequence[str | tuple[str, str] | Sequence[float]], *, precision: vectors.Precision = "f32"
    ) -> list[decisions.Decision]:
        """What the model decides about each text, pair of texts, or row of numbers: the label, and a probability for
        each label."""
        from qkv.evaluation import decisions
        from qkv.tasks.classification.evaluate import typed

        require_type("texts", texts, str, Sequence)
        given: list[Any] = [texts] if isinstance(texts, str) else list(texts)
        if input_of(self.bundle.config) == "numbers":
            numbers = [typed(self.bundle, each) if isinstance(each, str) else each for each in given]
            self.notes = []
            return decisions.classify_numbers(self._module, self.bundle.config, numbers)
        for text in given:
            require_type("a text", text, str, tuple, list)
        pairs = [(text, None) if isinstance(text, str) else text for text in given]
        found, self.notes = decisions.classify(self._module, self.bundle.config, self.tokenizer, pairs, precision)
        return found

    def tag(self, sentences: str | Sequence[str | Sequence[str]]) -> list[list[decisions.TaggedWord]]:
        """A tag for every word of every sentence; a sentence is a text, which is cut into words, or its words."""
        from qkv.evaluation import decisions

        require_type("sentences", sentences, str, Sequence)
        given = [sentences] if isinstance(sentences, str) else list(sentences)
        for sentence in given:
            require_type("a sentence", sentence, str, list, tuple)
        words = [decisions.cut_words(each) if isinstance(each, str) else list(each) for each in given]
        found, self.notes = decisions.tag(self._module, self.bundle.config, self.tokenizer, words)
        return found

    def translate(
        self,
        texts: str | Sequence[str],
        *,
        to: str | None = None,
        beams: int = 5,
        nbest: int = 1,
        penalty: float = 1.0,
        sampling: Sampling | None = None,
        seed: int = 0,
        carry: bool = True,
        first: int = 0,
    ) -> list[list[Said]]:
        """For each text its translations, the best first; with `sampling` they are drawn, by the seed and the number of
        the text, counted from `first`. `carry`: names, numbers and characters that the model does not know are carried
        over (`translation/predict.py`)."""
        from qkv.tasks.translation.evaluate import source_language, writes_words
        from qkv.tasks.translation.predict import translated

        given = _texts(texts)
        search = Search(
            beams=max(beams, nbest) if beams > 0 else beams, best=nbest, penalty=penalty, sampling=sampling, seed=seed
        )
        language, carry = source_language(self.bundle), carry and writes_words(self.bundle)
        with evaluating(self._module):
            found, self.notes = translated(
                self.bundle, given, search, to=to, language=language, carry=carry, first=first
            )
        self._report_compiler()
        return found

    def _report_compiler(self) -> None:
        """A C compiler that fails makes writing slower; it is noted once."""
        self.notes += compiler.unreported()

    def align(self, said: Said) -> list[Alignment]:
        """For each sentence of a translation, which tokens and words of the source were attended to."""
        from qkv.tasks.translation.predict import alignments

        with evaluating(self._module):
            return alignments(self.bundle, said)

    def trace(
        self,
        text: str | tuple[str, str] | None = None,
        *,
        target: str | None = None,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
    ) -> Trace:
        """Every value on a text's way through the model: see `inspection.trace`. `target`: the translation
        to take instead of the model's own."""
        from qkv.inspection.trace import trace
        from qkv.tasks.inspected import inspected

        require_type("text", text, str, tuple, type(None))
        with evaluating(self._module):
            subject = inspected(self.bundle, text, target=target)
            self.notes = list(subject.notes)
            return trace(subject, layers=layers, heads=heads)

    def fill(self, text: str, top: int = 5) -> writing.Filled:
        """The likeliest tokens for each [MASK] or ___ of a text."""
        require_type("text", text, str)
        with evaluating(self._module):
            return writing.fill(self.bundle.model, self.tokenizer, text, top)

    def judge(self, examples: ExamplesConfig | str | Path) -> LabelledScore:
        """Score a classifier or a tagger on labelled examples: a file, or a description of files and columns."""
        require_type("examples", examples, ExamplesConfig, str, Path)
        if not isinstance(examples, ExamplesConfig):
            examples = ExamplesConfig(files=(str(examples),))
        return self.examined(examples)[0]

    def examined(self, examples: ExamplesConfig, progress: Progress = no_progress) -> tuple[LabelledScore, Examples]:
        """The score on labelled examples, and these: with the model's own numbers for their labels."""
        from qkv.tasks.classification.evaluate import judged_examples

        found, read, self.notes = judged_examples(self.bundle, examples, progress)
        return found, read

    @property
    def _module(self) -> torch.nn.Module:
        assert isinstance(self.bundle.model, torch.nn.Module)
        return self.bundle.model


def _texts(texts: str | Sequence[str]) -> list[str]:
    require_type("texts", texts, str, Sequence)
    given = [texts] if isinstance(texts, str) else list(texts)
    for text in given:
        require_type("a text", text, str)
    return given

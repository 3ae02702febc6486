"""The methods of `qkv.Model` that work on whole texts: vectors, decisions, tags, translations, filled masks.

Each method imports what it needs when it is called.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

import torch
from torch import nn

from qkv.blocks.fast_paths import evaluating
from qkv.errors import InputError
from qkv.evaluation import decisions, vectors
from qkv.generation import compiler, writing
from qkv.generation.beam import Search, Translator
from qkv.generation.sampling import Sampling
from qkv.models.registry import input_of
from qkv.recipe.bundle import Bundle
from qkv.tasks.python_calls import checked, python_call
from qkv.tasks.translation.predict import TranslatedText
from qkv.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from qkv.inspection.trace import Trace
    from qkv.inspection.translator_heads import Alignment

Texts = str | Sequence[str | tuple[str, str] | list[str]]


class Predictor:
    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.notes: list[str] = list(bundle.notes)
        """What is worth knowing of the last call: how texts were cut or data were read, and what was left out."""

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
    ) -> list[vectors.TokenVectors]: ...
    @python_call
    def embed(
        self,
        texts: str | Sequence[str],
        *,
        layer: vectors.Layer = -1,
        pool: vectors.Pool | Literal["none"] = "mean",
        precision: vectors.Precision = "f32",
    ) -> torch.Tensor | list[vectors.TokenVectors]:
        """One vector for each text, (N, D); with pool "none", each text's tokens and a vector for each token.

        The layers, poolings and precisions are described in `qkv.evaluation.vectors`.
        """
        text_list = _text_list(texts)
        model = self._embedding_module()
        ids, self.notes = vectors.encode(self.tokenizer, text_list, self.bundle.config.context)
        with evaluating(model):
            if pool != "none":
                return vectors.text_vectors(model, ids, layer=layer, pool=pool, precision=precision)
            token_vectors = vectors.token_vectors(model, ids, layer=layer, precision=precision)
        tokens = [[self.tokenizer.piece(token) for token in row] for row in ids]
        return [vectors.TokenVectors(*row) for row in zip(ids, tokens, token_vectors, strict=True)]

    @python_call
    def contexts(self, word: str, texts: Sequence[str] = ()) -> list[torch.Tensor]:
        """For each layer, the cosine similarities (N, N) between the vectors of `word` in each pair of texts.

        Without `texts`, the lectures' example texts are used; they exist for "bank", "station" and "it".
        """
        text_list = _text_list(texts) or list(vectors.CONTEXTS.get(word, ()))
        model = self._embedding_module()
        with evaluating(model):
            return vectors.similarities_by_layer(model, self.tokenizer, word, text_list)

    def _embedding_module(self) -> nn.Module:
        if isinstance(self._module, Translator):
            raise InputError(
                f"a {self.bundle.config.kind} model translates and gives no vectors of texts. Use a language model, "
                "an encoder or a classifier."
            )
        return self._module

    @python_call
    def classify(self, texts: object, *, precision: vectors.Precision = "f32") -> list[decisions.Decision]:
        """The model's decision about each text, pair of texts, row of numbers, or image: the label, and a probability
        for each label.

        Args:
            texts: What the model was trained on: texts, (first, second), rows of numbers (also as an array or a
                DataFrame), or images (arrays, files, images of Pillow); one or several.
            precision: The number format of products, of models that read texts.
        """
        from qkv.tasks.classification.predict import images_in, rows_in_memory

        reads = input_of(self.bundle.config)
        if reads == "numbers":
            self.notes = []
            return decisions.classify_numbers(self._module, self.bundle.config, rows_in_memory(self.bundle, texts))
        if reads == "images":
            pixels, self.notes = images_in(self.bundle, texts)
            return decisions.classify_images(self._module, self.bundle.config, pixels)
        given: Texts = checked("model.classify", "texts", Texts, texts)
        inputs = [given] if isinstance(given, str) else given
        pair = next((text for text in inputs if not isinstance(text, str)), None)
        if pair is not None and not self.pairs and not self.bundle.source:
            raise InputError(f"{pair!r:.80}: this model was trained on single texts. Give texts, not pairs.")
        pairs: list[Any] = [(text, None) if isinstance(text, str) else text for text in inputs]
        answers, self.notes = decisions.classify(self._module, self.bundle.config, self.tokenizer, pairs, precision)
        return answers

    @python_call
    def tag(self, sentences: str | Sequence[str | Sequence[str]]) -> list[list[decisions.TaggedWord]]:
        """A tag for each word of each sentence. A sentence is a text, which is split into words, or a list of words."""
        inputs = [sentences] if isinstance(sentences, str) else sentences
        words = [decisions.split_words(text) if isinstance(text, str) else list(text) for text in inputs]
        tagged, self.notes = decisions.tag(self._module, self.bundle.config, self.tokenizer, words)
        return tagged

    @python_call
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
    ) -> list[list[TranslatedText]]:
        """For each text its translations, the best first.

        With `sampling` they are sampled instead of searched for; the samples depend on the seed and on the index of
        the text, counted from `first`. With `carry`, names, numbers and characters that the model does not know are
        copied from the text (`translation/predict.py`).
        """
        from qkv.tasks.translation.evaluate import source_language, writes_words
        from qkv.tasks.translation.predict import translate_texts

        text_list = _text_list(texts)
        search = Search(
            beams=max(beams, nbest) if beams > 0 else beams, best=nbest, penalty=penalty, sampling=sampling, seed=seed
        )
        language, carry = source_language(self.bundle), carry and writes_words(self.bundle)
        with evaluating(self._module):
            translations, self.notes = translate_texts(
                self.bundle, text_list, search, to=to, language=language, carry=carry, first=first
            )
        self._note_compiler_failure()
        return translations

    def _note_compiler_failure(self) -> None:
        """Note, once in a process, that the C compiler failed: generation is slower without it."""
        self.notes += compiler.unreported()

    @python_call
    def align(self, translation: TranslatedText) -> list[Alignment]:
        """For each sentence of a translation, which tokens and words of the source the model attended to."""
        from qkv.tasks.translation.predict import alignments

        with evaluating(self._module):
            return alignments(self.bundle, translation)

    @python_call
    def trace(
        self,
        text: str | tuple[str, str] | None = None,
        *,
        target: str | None = None,
        layers: Sequence[int] | None = None,
        heads: Sequence[int] | None = None,
    ) -> Trace:
        """Every intermediate value of the model for a text (`qkv.inspection.trace`). A translator is traced with its
        own translation, or with `target`."""
        from qkv.inspection.trace import trace
        from qkv.tasks.inspection_subject import inspection_subject

        with evaluating(self._module):
            subject = inspection_subject(self.bundle, text, target=target)
            self.notes = list(subject.notes)
            return trace(subject, layers=layers, heads=heads)

    @python_call
    def fill(self, text: str, top: int = 5) -> writing.Filled:
        """The likeliest tokens for each [MASK] or ___ of a text."""
        with evaluating(self._module):
            return writing.fill(self.bundle.model, self.tokenizer, text, top)

    @property
    def _module(self) -> torch.nn.Module:
        assert isinstance(self.bundle.model, torch.nn.Module)
        return self.bundle.model


def _text_list(texts: str | Sequence[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else list(texts)

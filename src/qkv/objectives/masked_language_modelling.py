"""The objective of BERT: predict masked tokens, and whether the second text of a pair follows the first (deck 002).

    L = mean over masked tokens of -log p(token) + mean over pairs of -log p(follows or not)

Devlin et al. 2019, section 3.1: 15 % of the tokens are chosen; of these 80 % become [MASK], 10 % another token, and
10 % stay as they are. The choice is new in each epoch (Liu et al. 2019, section 4.1). Without pairs a sample is
[CLS] text [SEP], cut from the stream at any token. With pairs it is [CLS] A [SEP] B [SEP]: A is one or more whole
sentences, and B the text after A, or a text that begins with a sentence elsewhere; B is cut where the sample is full.

The beginnings of sentences are found once, from the ids. A sentence ends after a run of end marks (. ! ?) and where its
document ends. Too long a sentence is split evenly, and so is the only sentence of a document, because every document
needs two sentences for a pair.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, Protocol, runtime_checkable

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from numpy.typing import NDArray
from torch import Tensor, nn

from qkv.config import Count, Share, strict
from qkv.errors import DataError, InputError
from qkv.objectives import order
from qkv.objectives.objective import Batch, TensorBatch, cross_entropy
from qkv.text.tokenizer import Tokenizer

SENTENCE_ENDS = frozenset(".!?…。！？")


@dataclass(frozen=True)
class MaskingVocabulary:
    """The special tokens of a vocabulary, and which tokens are ordinary or end a sentence."""

    opening: int  # [CLS], before every sample
    separator: int  # [SEP], after every text, and between the documents of a stream
    mask: int
    padding: int
    ordinary: Bool[np.ndarray, "V"]  # False for special tokens, which are neither masked nor used as replacements
    sentence_ends: Bool[np.ndarray, "V"]

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> MaskingVocabulary:
        needed = {"[MASK]": tokenizer.mask, "[PAD]": tokenizer.padding}
        missing = [name for name, token in needed.items() if token is None]
        if missing or not tokenizer.opening:
            raise InputError(
                f"a {tokenizer.kind} tokenizer without {' and '.join(missing) or '[CLS]'}: masking needs one "
                "with [CLS], [SEP], [PAD] and [MASK]. Choose --tokenizer wordpiece."
            )
        assert tokenizer.mask is not None
        assert tokenizer.padding is not None
        ids = range(tokenizer.vocabulary)
        return cls(
            opening=tokenizer.opening[0],
            separator=tokenizer.separator,
            mask=tokenizer.mask,
            padding=tokenizer.padding,
            ordinary=np.array([not tokenizer.is_special(token) for token in ids]),
            sentence_ends=np.array([tokenizer.token(token) in SENTENCE_ENDS for token in ids]),
        )


Indices = Int[np.ndarray, "_"]
Integers = NDArray[np.integer]
Table = NDArray[np.int64]  # (B, 1) or (B, T)
Span = tuple[Table, Table]  # starts and lengths in the stream


@dataclass(frozen=True)
class Sentences:
    """The positions of sentences and documents in a stream."""

    starts: Indices  # position of the first token of each sentence
    document: Indices  # index of the document of each sentence
    first: Indices  # index of the first sentence of each document; at the end, the number of sentences
    ends: Indices  # position of the end of each document

    def __len__(self) -> int:
        return len(self.starts)


def find_sentences(
    stream: Integers, separator: int, sentence_ends: Bool[np.ndarray, "V"], max_length: int
) -> Sentences:
    """The sentences of all documents with two tokens or more."""
    is_separator, is_end = np.asarray(stream == separator), sentence_ends[stream]
    begins = ~is_separator
    begins[1:] &= is_separator[:-1] | (is_end[:-1] & ~is_end[1:])
    starts, document_ends = np.flatnonzero(begins), np.append(np.flatnonzero(is_separator), len(stream))
    document = np.searchsorted(document_ends, starts)
    ends = np.minimum(np.append(starts[1:], len(stream)), document_ends[document])
    lengths = ends - starts
    only = np.bincount(document, minlength=len(document_ends))[document] == 1  # the only sentence of its document
    parts = np.maximum(-(-lengths // max_length), np.where(only, 2, 1))
    parts[only & (lengths < 2)] = 0
    part = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)  # 0, 1, ... within each sentence
    starts = np.repeat(starts, parts) + part * np.repeat(lengths, parts) // np.repeat(parts, parts)
    kept, first, document = np.unique(np.repeat(document, parts), return_index=True, return_inverse=True)
    return Sentences(starts, document, np.append(first, len(starts)), document_ends[kept])


# keys of `order.noise`, one for each use, so that the random numbers of a sample are independent of each other
SPLIT_POINT, UNRELATED, OTHER_SENTENCE, ROUNDING, CHOICE, REPLACEMENT_KIND, REPLACEMENT = range(7)


@strict
class MaskedLanguageModellingConfig:
    kind: Literal["masked-language-modelling"] = "masked-language-modelling"
    share: Share = 0.15  # fraction of the tokens that are to be predicted
    masked: Share = 0.8  # fraction of these that become [MASK]
    replaced: Share = 0.1  # fraction of these that become another token; the rest stay as they are
    next_sentence: Literal["none", "pairs"] = "pairs"
    evaluation_tokens: Count | None = None  # of the validation text, in each evaluation during training; None: open
    final_evaluation_tokens: Count | None = None  # evaluated after training

    def __post_init__(self) -> None:
        if self.masked + self.replaced > 1 + 1e-9:
            raise ValueError(f"masked = {self.masked} and replaced = {self.replaced}: together no more than 1")


@dataclass(frozen=True)
class MaskedBatch(TensorBatch):
    """Samples with masks in `tokens`, and the original tokens in `targets`."""

    tokens: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    predicted: Bool[Tensor, "B T"]  # the positions that count in the loss
    present: Bool[Tensor, "B T"]  # False for padding
    segments: Int[Tensor, "B T"]
    unrelated: Int[Tensor, "B"]  # 0: B follows A; 1: it does not (BERT's numbers)
    predicted_per_row: float  # mean over the whole batch, also in the parts that it is split into

    @property
    def count(self) -> int:
        return max(1, int(self.predicted.sum()))

    def trimmed(self) -> MaskedBatch:
        """The batch without the columns that are all padding."""
        width = int(self.present.any(0).sum())
        tables = ("tokens", "targets", "predicted", "present", "segments")
        return replace(self, **{name: getattr(self, name)[:, :width] for name in tables})


@runtime_checkable
class MaskedModel(Protocol):
    """The interface of `models.masked.Masked`, which a model that torch has compiled also has."""

    @property
    def encoder(self) -> nn.Module: ...
    @property
    def head(self) -> nn.Module: ...
    def followed(self, vectors: Float[Tensor, "B T D"]) -> Float[Tensor, "B 2"]: ...


class MaskedLanguageModelling:
    def __init__(
        self,
        config: MaskedLanguageModellingConfig,
        stream: Integers,
        vocabulary: MaskingVocabulary,
        context: int,
        seed: int,
    ) -> None:
        self.config, self.stream, self.vocabulary, self.context, self.seed = config, stream, vocabulary, context, seed
        special = 2 if config.next_sentence == "none" else 3  # [CLS], and a [SEP] after each text
        self.length = context - special  # tokens of text in a sample
        if self.length < 2:
            raise DataError("the context", f"of {context} has no room for a text", "Take a longer one.")
        self.ordinary = np.flatnonzero(vocabulary.ordinary)
        self.max_offset = max(1, min(self.length, len(stream) - self.length))
        self.samples = max(1, (len(stream) - self.max_offset) // self.length)
        if config.next_sentence == "pairs":
            longest = max(1, self.length // 2)
            self.sentences = find_sentences(stream, vocabulary.separator, vocabulary.sentence_ends, longest)
            if not len(self.sentences):
                raise DataError("the corpus", "has no document of two tokens", "Pairs of sentences need longer texts.")

    def batch(self, first: int, size: int) -> MaskedBatch:
        drawn = order.drawn_samples(self.seed, first, size, self.samples)
        epoch, sample = (np.array(column)[:, None] for column in zip(*drawn, strict=True))
        offsets = np.array([[order.offset(self.seed, number, self.max_offset)] for number, _ in drawn])
        starts = offsets + sample * self.length
        unrelated = np.zeros_like(starts)
        if self.config.next_sentence == "none":
            a = (starts, np.minimum(self.length, len(self.stream) - starts))
            b = (starts, np.full_like(starts, -1))  # a length of -1 leaves out the [SEP] after B as well
        else:
            a, b, unrelated = self._pairs(starts, epoch, sample)
        tokens, inside, present, segments = self._lay_out(a, b)
        masked, predicted = self._mask(tokens, inside, epoch, sample)
        return MaskedBatch(
            tokens=torch.from_numpy(masked),
            targets=torch.from_numpy(tokens),
            predicted=torch.from_numpy(predicted),
            present=torch.from_numpy(present),
            segments=torch.from_numpy(segments),
            unrelated=torch.from_numpy(unrelated[:, 0]),
            predicted_per_row=float(predicted.sum() / size),
        )

    def _pairs(self, starts: Table, epoch: Table, sample: Table) -> tuple[Span, Span, Table]:
        """The spans of A and of B in the stream, and whether B is unrelated to A, (B, 1) each.

        A begins with the sentence at `starts`, or with an earlier one if that is the last of its document.
        """
        sentences = self.sentences
        split, chance, other = (
            order.noise(self.seed, epoch, sample, use) for use in (SPLIT_POINT, UNRELATED, OTHER_SENTENCE)
        )
        first = np.maximum(np.searchsorted(sentences.starts, starts, "right") - 1, 0)
        document = sentences.document[first]
        last = sentences.first[document + 1] - 1
        first = np.minimum(first, last - 1)
        a_start = sentences.starts[first]
        reached = np.searchsorted(sentences.starts, a_start + self.length) - 1  # the last sentence to begin in time
        second = first + 1 + (split * (np.minimum(reached, last) - first)).astype(np.int64)
        a_length = sentences.starts[second] - a_start
        unrelated = (chance < 0.5).astype(np.int64)
        second = np.where(unrelated, self._sentence_elsewhere(second, document, other), second)
        b_start = sentences.starts[second]
        b_length = np.minimum(self.length - a_length, sentences.ends[sentences.document[second]] - b_start)
        return (a_start, a_length), (b_start, b_length), unrelated

    def _sentence_elsewhere(self, sentence: Table, document: Table, random: NDArray[np.float64]) -> Table:
        """A random sentence of another document; in a single document, one at least a quarter of it away."""
        sentences = self.sentences
        begin, size = sentences.first[document], sentences.first[document + 1] - sentences.first[document]
        if len(sentences.ends) > 1:
            chosen = (random * (len(sentences) - size)).astype(np.int64)
            return np.where(chosen < begin, chosen, chosen + size)
        distance = max(1, len(sentences) // 4) + (random * max(1, len(sentences) // 2)).astype(np.int64)
        return (sentence + distance) % len(sentences)

    def _lay_out(self, a: Span, b: Span) -> tuple[Table, NDArray[np.bool_], NDArray[np.bool_], Table]:
        """The tokens of [CLS] A [SEP] B [SEP], masks of what is text and of what is not padding, and the segments."""
        (a_start, a_length), (b_start, b_length) = a, b
        t = np.arange(self.context)[None, :]
        middle, end = a_length + 1, a_length + b_length + 2  # the positions of [SEP]
        in_a, in_b = (t > 0) & (t < middle), (t > middle) & (t < end)
        source = np.where(in_a, a_start + t - 1, np.where(in_b, b_start + t - middle - 1, 0))
        inside, present = in_a | in_b, t <= end
        tokens = np.where(inside, self.stream[source].astype(np.int64), self.vocabulary.padding)
        tokens[(t == middle) | (t == end)] = self.vocabulary.separator
        tokens[:, 0] = self.vocabulary.opening
        return tokens, inside, present, ((t > middle) & present).astype(np.int64)

    def _mask(
        self, tokens: Table, inside: NDArray[np.bool_], epoch: Table, sample: Table
    ) -> tuple[Table, NDArray[np.bool_]]:
        """The tokens with masks, and the positions to predict: of each sample the configured share, rounded randomly
        up or down so that it is exact on average, and at least one."""
        t = np.arange(self.context)[None, :]
        choice, kind, replacement = (
            order.noise(self.seed, epoch, sample, use, t) for use in (CHOICE, REPLACEMENT_KIND, REPLACEMENT)
        )
        maskable = inside & self.vocabulary.ordinary[tokens]
        wanted = maskable.sum(1, keepdims=True) * self.config.share + order.noise(self.seed, epoch, sample, ROUNDING)
        rank = np.where(maskable, choice, 2.0).argsort(1).argsort(1)
        predicted = maskable & (rank < np.maximum(1, wanted.astype(np.int64)))
        other = self.ordinary[(replacement * len(self.ordinary)).astype(np.int64)]
        changed = self.config.masked + self.config.replaced
        masked = np.where(kind < self.config.masked, self.vocabulary.mask, np.where(kind < changed, other, tokens))
        return np.where(predicted, masked, tokens), predicted

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """The sum over predicted tokens, plus that over pairs times the predicted tokens per row: divided by the number
        of predicted tokens, as the training loop does, it is the sum of both means."""
        assert isinstance(batch, MaskedBatch)
        batch = batch.trimmed()
        assert isinstance(model, MaskedModel)
        vectors = encode(model, batch)
        # only predicted positions go through the head, which costs more than the rest of the model
        loss = cross_entropy(model.head(vectors[batch.predicted]), batch.targets[batch.predicted])
        if self.config.next_sentence == "pairs":
            scores = model.followed(vectors).float()
            loss = loss + batch.predicted_per_row * F.cross_entropy(scores, batch.unrelated, reduction="sum")
        return loss


def encode(model: MaskedModel, batch: MaskedBatch) -> Float[Tensor, "B T D"]:
    """The encoder's vectors; without padding no mask is passed, which is faster."""
    return model.encoder(batch.tokens, None if batch.present.all() else batch.present, batch.segments)

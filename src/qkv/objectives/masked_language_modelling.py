"""BERT's task: predict what stood under [MASK], and whether the second text followed the first. Deck 002.

    L = mean over masked tokens of -log p(token) + mean over pairs of -log p(followed or not)

Devlin et al. 2019, section 3.1: 15 % of the tokens are masked; of those 80 % become [MASK], 10 % another token, 10 %
stay. What is masked is drawn anew in each epoch (Liu et al. 2019, section 4.1). Without pairs a sample is
[CLS] text [SEP], cut from the stream as it runs. With pairs it is [CLS] A [SEP] B [SEP]: A and what follows it, or A
and what begins with a sentence elsewhere; A is of whole sentences, B goes on as far as there is room.

Where sentences begin is found once, from the ids alone. A sentence ends after a run of marks (. ! ?) and where its
document ends. One that is longer than allowed is cut evenly, and so is a document of a single sentence: every document
here has two at least, so that one can follow another.
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

MARKS = frozenset(".!?…。！？")


@dataclass(frozen=True)
class MaskingVocabulary:
    """What masking must know about a vocabulary."""

    opening: int  # [CLS], before every sample
    separator: int  # [SEP], after every text, and between the documents of a stream
    mask: int
    padding: int
    ordinary: Bool[np.ndarray, "V"]  # everything but special tokens: what may be masked, and put in another's place
    marks: Bool[np.ndarray, "V"]  # tokens that end a sentence

    @classmethod
    def of(cls, tokenizer: Tokenizer) -> MaskingVocabulary:
        needed = {"[MASK]": tokenizer.mask, "[PAD]": tokenizer.padding}
        missing = [name for name, number in needed.items() if number is None]
        if missing or not tokenizer.opening:
            raise InputError(
                f"a {tokenizer.kind} tokenizer without {' and '.join(missing) or '[CLS]'}: masking needs one "
                "with [CLS], [SEP], [PAD] and [MASK]. Choose --tokenizer wordpiece."
            )
        assert tokenizer.mask is not None
        assert tokenizer.padding is not None
        numbers = range(tokenizer.vocabulary)
        return cls(
            opening=tokenizer.opening[0],
            separator=tokenizer.separator,
            mask=tokenizer.mask,
            padding=tokenizer.padding,
            ordinary=np.array([not tokenizer.is_special(number) for number in numbers]),
            marks=np.array([tokenizer.token(number) in MARKS for number in numbers]),
        )


Places = Int[np.ndarray, "_"]
Integers = NDArray[np.integer]
Table = NDArray[np.int64]  # (B, 1) or (B, T)
Span = tuple[Table, Table]  # starts and lengths in the stream


@dataclass(frozen=True)
class Sentences:
    """Where sentences and documents stand in a stream, in a few bytes a sentence."""

    starts: Places  # of each sentence, in the stream
    document: Places  # of each sentence
    first: Places  # sentence of each document; one more at the end
    ends: Places  # of each document, in the stream

    def __len__(self) -> int:
        return len(self.starts)


def find(stream: Integers, separator: int, marks: Bool[np.ndarray, "V"], longest: int) -> Sentences:
    """The sentences of all documents with two tokens or more; `marks`: which tokens end a sentence."""
    border, marked = np.asarray(stream == separator), marks[stream]
    begins = ~border
    begins[1:] &= border[:-1] | (marked[:-1] & ~marked[1:])
    starts, borders = np.flatnonzero(begins), np.append(np.flatnonzero(border), len(stream))
    document = np.searchsorted(borders, starts)
    ends = np.minimum(np.append(starts[1:], len(stream)), borders[document])
    lengths = ends - starts
    alone = np.bincount(document, minlength=len(borders))[document] == 1
    parts = np.maximum(-(-lengths // longest), np.where(alone, 2, 1))
    parts[alone & (lengths < 2)] = 0
    number = np.arange(parts.sum()) - np.repeat(np.cumsum(parts) - parts, parts)
    starts = np.repeat(starts, parts) + number * np.repeat(lengths, parts) // np.repeat(parts, parts)
    named, first, document = np.unique(np.repeat(document, parts), return_index=True, return_inverse=True)
    return Sentences(starts, document, np.append(first, len(starts)), borders[named])


# what a random number is for: the same sample needs several that have nothing to do with each other
CUT, ELSEWHERE, PLACE, HOW_MANY, WHICH, BECOMES, TOKEN = range(7)


@strict
class MaskedLanguageModellingConfig:
    kind: Literal["masked-language-modelling"] = "masked-language-modelling"
    share: Share = 0.15  # of the tokens that are to be predicted
    masked: Share = 0.8  # of those: become [MASK]
    replaced: Share = 0.1  # of those: become another token; the rest stay
    next_sentence: Literal["none", "pairs"] = "pairs"
    evaluation_tokens: Count | None = None  # of the validation text, in each evaluation during training; None: open
    final_evaluation_tokens: Count | None = None  # evaluated after training

    def __post_init__(self) -> None:
        if self.masked + self.replaced > 1 + 1e-9:
            raise ValueError(f"masked = {self.masked} and replaced = {self.replaced}: together no more than 1")


@dataclass(frozen=True)
class MaskedBatch(TensorBatch):
    """The tokens with masks, what stood there, which places are asked for; which pairs are pairs."""

    tokens: Int[Tensor, "B T"]
    targets: Int[Tensor, "B T"]
    asked: Bool[Tensor, "B T"]
    present: Bool[Tensor, "B T"]
    segments: Int[Tensor, "B T"]
    strangers: Int[Tensor, "B"]  # 0: B followed A; 1: it is from elsewhere, as BERT numbers them
    asked_per_row: float  # of the whole batch, and so of each of its parts

    @property
    def count(self) -> int:
        return max(1, int(self.asked.sum()))

    def trimmed(self) -> MaskedBatch:
        """Without columns in which all is padding."""
        width = int(self.present.any(0).sum())
        tables = ("tokens", "targets", "asked", "present", "segments")
        return replace(self, **{name: getattr(self, name)[:, :width] for name in tables})


@runtime_checkable
class MaskedModel(Protocol):
    """`models.masked.Masked`, or what the compiler made of it."""

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
        around = 2 if config.next_sentence == "none" else 3  # [CLS], and a [SEP] after each text
        self.length = context - around  # tokens in a sample
        if self.length < 2:
            raise DataError("the context", f"of {context} has no room for a text", "Take a longer one.")
        self.ordinary = np.flatnonzero(vocabulary.ordinary)
        self.room = max(1, min(self.length, len(stream) - self.length))  # how far an epoch's offset may move
        self.samples = max(1, (len(stream) - self.room) // self.length)
        if config.next_sentence == "pairs":
            self.sentences = find(stream, vocabulary.separator, vocabulary.marks, max(1, self.length // 2))
            if not len(self.sentences):
                raise DataError("the corpus", "has no document of two tokens", "Pairs of sentences need longer texts.")

    def batch(self, first: int, size: int) -> MaskedBatch:
        places = order.positions(self.seed, first, size, self.samples)
        epoch, sample = (np.array(column)[:, None] for column in zip(*places, strict=True))
        offsets = np.array([[order.offset(self.seed, at, self.room)] for at, _ in places])
        starts = offsets + sample * self.length
        strangers = np.zeros_like(starts)
        if self.config.next_sentence == "none":
            one = (starts, np.minimum(self.length, len(self.stream) - starts))
            two = (starts, np.full_like(starts, -1))  # not even a [SEP] for it
        else:
            one, two, strangers = self._pairs(starts, epoch, sample)
        tokens, inside, present, segments = self._laid_out(one, two)
        masked, asked = self._mask(tokens, inside, epoch, sample)
        return MaskedBatch(
            tokens=torch.from_numpy(masked),
            targets=torch.from_numpy(tokens),
            asked=torch.from_numpy(asked),
            present=torch.from_numpy(present),
            segments=torch.from_numpy(segments),
            strangers=torch.from_numpy(strangers[:, 0]),
            asked_per_row=float(asked.sum() / size),
        )

    def _pairs(self, places: Table, epoch: Table, sample: Table) -> tuple[Span, Span, Table]:
        """Start and length of A and of B, and whether B is from elsewhere: columns, (B, 1)."""
        sentences = self.sentences
        cut, elsewhere, place = (order.noise(self.seed, epoch, sample, use) for use in (CUT, ELSEWHERE, PLACE))
        one = np.maximum(np.searchsorted(sentences.starts, places, "right") - 1, 0)
        document = sentences.document[one]
        last = sentences.first[document + 1] - 1
        one = np.minimum(one, last - 1)  # something must follow
        start = sentences.starts[one]
        reached = np.searchsorted(sentences.starts, start + self.length) - 1  # the last sentence that begins in time
        two = one + 1 + (cut * (np.minimum(reached, last) - one)).astype(np.int64)
        before = sentences.starts[two] - start
        strangers = (elsewhere < 0.5).astype(np.int64)
        two = np.where(strangers, self._far(two, document, place), two)
        second = sentences.starts[two]
        after = np.minimum(self.length - before, sentences.ends[sentences.document[two]] - second)
        return (start, before), (second, after), strangers

    def _far(self, here: Table, document: Table, place: NDArray[np.float64]) -> Table:
        """A sentence of another document; where there is none, at least a quarter of the document away."""
        sentences = self.sentences
        begins, own = sentences.first[document], sentences.first[document + 1] - sentences.first[document]
        if len(sentences.ends) > 1:
            chosen = (place * (len(sentences) - own)).astype(np.int64)
            return np.where(chosen < begins, chosen, chosen + own)
        return (here + max(1, len(sentences) // 4) + (place * max(1, len(sentences) // 2)).astype(np.int64)) % len(
            sentences
        )

    def _laid_out(self, one: Span, two: Span) -> tuple[Table, NDArray[np.bool_], NDArray[np.bool_], Table]:
        """Tokens, which of them are text, which are no padding, and the segments, (B, T) each."""
        (first, before), (second, after) = one, two
        t = np.arange(self.context)[None, :]
        middle, end = before + 1, before + after + 2  # where [SEP] stands
        is_first, is_second = (t > 0) & (t < middle), (t > middle) & (t < end)
        places = np.where(is_first, first + t - 1, np.where(is_second, second + t - middle - 1, 0))
        inside, present = is_first | is_second, t <= end
        tokens = np.where(inside, self.stream[places].astype(np.int64), self.vocabulary.padding)
        tokens[(t == middle) | (t == end)] = self.vocabulary.separator
        tokens[:, 0] = self.vocabulary.opening
        return tokens, inside, present, ((t > middle) & present).astype(np.int64)

    def _mask(
        self, tokens: Table, inside: NDArray[np.bool_], epoch: Table, sample: Table
    ) -> tuple[Table, NDArray[np.bool_]]:
        """The tokens with masks, and where they are. In each sample the share is kept; a fraction is drawn for."""
        t = np.arange(self.context)[None, :]
        choice, becomes, token = (order.noise(self.seed, epoch, sample, use, t) for use in (WHICH, BECOMES, TOKEN))
        real = inside & self.vocabulary.ordinary[tokens]
        wanted = real.sum(1, keepdims=True) * self.config.share + order.noise(self.seed, epoch, sample, HOW_MANY)
        rank = np.where(real, choice, 2.0).argsort(1).argsort(1)
        asked = real & (rank < np.maximum(1, wanted.astype(np.int64)))
        other = self.ordinary[(token * len(self.ordinary)).astype(np.int64)]
        edge = self.config.masked + self.config.replaced
        drawn = np.where(becomes < self.config.masked, self.vocabulary.mask, np.where(becomes < edge, other, tokens))
        return np.where(asked, drawn, tokens), asked

    def loss(self, model: nn.Module, batch: Batch) -> Tensor:
        """A sum over what is masked; the pairs weigh so that the loop's division gives the mean of each."""
        assert isinstance(batch, MaskedBatch)
        batch = batch.trimmed()
        assert isinstance(model, MaskedModel)
        vectors = encode(model, batch)
        loss = cross_entropy(model.head(vectors[batch.asked]), batch.targets[batch.asked])
        if self.config.next_sentence == "pairs":
            scores = model.followed(vectors).float()
            loss = loss + batch.asked_per_row * F.cross_entropy(scores, batch.strangers, reduction="sum")
        return loss


def encode(model: MaskedModel, batch: MaskedBatch) -> Float[Tensor, "B T D"]:
    """The encoder's vectors; the head is for those alone that are asked for, for it costs more than all else."""
    return model.encoder(batch.tokens, None if batch.present.all() else batch.present, batch.segments)

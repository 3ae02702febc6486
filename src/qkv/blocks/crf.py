"""A linear-chain conditional random field: the tags of a sentence are chosen together (Lafferty et al. 2001).

    score(y)       = start[y_1] + Σ_t emission_t[y_t] + Σ_t transition[y_{t-1}, y_t] + end[y_T]
    log p(y)       = score(y) - log Z,    log Z = log Σ_y' exp score(y')       by the forward algorithm
    best path      = argmax_y score(y)                                         by Viterbi's algorithm
    p(y_t = k)     = Σ_{y: y_t = k} p(y)                                       by the forward-backward algorithm

Emissions come from a network, as in Huang et al. 2015 and Lample et al. 2016. Sums over L² transitions are products of
matrices of exponentials: for each word one of (B, L) by (L, L), where a table of (B, L, L) would be needed otherwise.
"""

from __future__ import annotations

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

Emissions = Float[Tensor, "B W L"]
Tags = Int[Tensor, "B W"]
WordMask = Bool[Tensor, "B W"]  # True for words; padding comes after them


class IndependentTags(nn.Module):
    """Each tag is decided alone, by a softmax: a chain without transitions, and without parameters."""

    def log_likelihood(self, emissions: Emissions, tags: Tags, words: WordMask) -> Float[Tensor, "B"]:
        """log p of the tags of each sentence."""
        chosen = emissions.log_softmax(-1).gather(2, tags.masked_fill(~words, 0).unsqueeze(2)).squeeze(2)
        return (chosen * words).sum(1)

    def marginals(self, emissions: Emissions, words: WordMask) -> Float[Tensor, "B W L"]:
        """The probability of each tag at each word."""
        return emissions.softmax(-1)

    def best_path(self, emissions: Emissions, words: WordMask) -> Tags:
        """The likeliest tag of each word; 0 at padding."""
        return emissions.argmax(-1).masked_fill(~words, 0)


class LinearChainCRF(nn.Module):
    """The scores of neighbouring tags. With all of them zero, each tag is decided alone, by a softmax."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.start = nn.Parameter(torch.zeros(labels))
        self.transition = nn.Parameter(torch.zeros(labels, labels))  # from the row's tag to the column's
        self.end = nn.Parameter(torch.zeros(labels))
        self.forbidden: Tensor  # follows from the labels: not saved
        self.forbidden_start: Tensor
        self.register_buffer("forbidden", torch.zeros(labels, labels, dtype=torch.bool), persistent=False)
        self.forbidden_end: Tensor
        self.register_buffer("forbidden_start", torch.zeros(labels, dtype=torch.bool), persistent=False)
        self.register_buffer("forbidden_end", torch.zeros(labels, dtype=torch.bool), persistent=False)

    def forbid(self, pairs: Bool[Tensor, "L L"], start: Bool[Tensor, "L"], end: Bool[Tensor, "L"]) -> None:
        """Never decode a tag after another where `pairs` is True, nor begin or end with one where `start` or `end` is.
        Learning goes without: what never occurs is learned to be improbable."""
        self.forbidden.copy_(pairs)
        self.forbidden_start.copy_(start)
        self.forbidden_end.copy_(end)

    def log_likelihood(self, emissions: Emissions, tags: Tags, words: WordMask) -> Float[Tensor, "B"]:
        """log p of the tags of each sentence; at padding, tags may be any."""
        total = _forward(self.start + emissions[:, 0], emissions, self.transition, words)[-1]
        likelihood = self.score(emissions, tags, words) - torch.logsumexp(total + self.end, -1)
        return likelihood * words[:, 0]  # a row without words is certain

    def score(self, emissions: Emissions, tags: Tags, words: WordMask) -> Float[Tensor, "B"]:
        """The score of the given tags, not normalized."""
        tags = tags.masked_fill(~words, 0)
        emitted = emissions.gather(2, tags.unsqueeze(2)).squeeze(2)
        passed = self.transition[tags[:, :-1], tags[:, 1:]]
        last = tags.gather(1, (words.sum(1, keepdim=True) - 1).clamp(min=0)).squeeze(1)
        return self.start[tags[:, 0]] + (emitted * words).sum(1) + (passed * words[:, 1:]).sum(1) + self.end[last]

    def marginals(self, emissions: Emissions, words: WordMask) -> Float[Tensor, "B W L"]:
        """The probability of each tag at each word, over all tags of the others; arbitrary at padding."""
        forward = _forward(self.start + emissions[:, 0], emissions, self.transition, words)
        after = self.end.expand_as(emissions[:, 0])
        backward = [after]
        back = self.transition.T
        for place in range(emissions.size(1) - 1, 0, -1):
            after = torch.where(words[:, place, None], _summed(after + emissions[:, place], back), after)
            backward.append(after)
        return (torch.stack(forward, 1) + torch.stack(backward[::-1], 1)).softmax(-1)

    def best_path(self, emissions: Emissions, words: WordMask) -> Tags:
        """The tags of the highest score, of those that are not forbidden; 0 at padding."""
        transition = self.transition.masked_fill(self.forbidden, float("-inf"))
        best = (self.start + emissions[:, 0]).masked_fill(self.forbidden_start, float("-inf"))
        stay = torch.arange(emissions.size(2), device=emissions.device)
        came_from = []
        for place in range(1, emissions.size(1)):
            value, source = (best.unsqueeze(2) + transition).max(1)  # (B, L, L) -> (B, L)
            is_word = words[:, place, None]
            best = torch.where(is_word, value + emissions[:, place], best)
            came_from.append(torch.where(is_word, source, stay))
        path = [(best + self.end).masked_fill(self.forbidden_end, float("-inf")).argmax(-1)]
        for source in reversed(came_from):
            path.append(source.gather(1, path[-1].unsqueeze(1)).squeeze(1))
        return torch.stack(path[::-1], 1).masked_fill(~words, 0)


def _forward(
    first: Float[Tensor, "B L"], emissions: Emissions, transition: Float[Tensor, "L L"], words: WordMask
) -> list[Float[Tensor, "B L"]]:
    """For each word, the log of the sum over all tags before it, by its own tag; padding repeats the last word's."""
    sums = [first]
    for place in range(1, emissions.size(1)):
        step = _summed(sums[-1], transition) + emissions[:, place]
        sums.append(torch.where(words[:, place, None], step, sums[-1]))
    return sums


def _summed(scores: Float[Tensor, "B L"], transition: Float[Tensor, "L L"]) -> Float[Tensor, "B L"]:
    """log Σ_i exp(scores_i + transition_ij); both are shifted by their largest, so that nothing overflows."""
    top, largest = scores.detach().amax(1, keepdim=True), transition.detach().amax(0)
    total = (scores - top).exp() @ (transition - largest).exp()
    # a sum is 0 in f32 only where the path is e⁸⁷ times less likely than another; its log must stay finite
    return total.clamp(min=torch.finfo(total.dtype).tiny).log() + top + largest

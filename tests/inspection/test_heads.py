"""The head finder: planted heads are found, baselines by hand, a head taken out is a head taken out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from inspection.subjects import PIECES, TEXT, subject
from qkv.errors import DataError, InputError
from qkv.inspection import edges, head_roles, head_table
from qkv.inspection.head_table import Importance, loss, without_heads
from qkv.inspection.subject import Inputs, Subject, forward
from qkv.inspection.translator_heads import Dictionary, WordPair, diagonal, find_alignments, most_attended
from qkv.text.decoding import Words

IDS = tuple(PIECES.encode(TEXT))


@contextmanager
def planted(given: Subject, layer: int, head: int, target: head_roles.Target) -> Iterator[None]:
    """Within it one head looks where the target says, or at itself where it says nothing."""
    model: Any = given.model
    seen: list[list[int]] = []

    def look(module: Any, inputs: Any, made: Any) -> None:
        seen.append(inputs[0][0].tolist())

    def plant(module: Any, inputs: Any, made: torch.Tensor) -> torch.Tensor:
        wanted = target(seen[-1]).float()
        wanted[wanted.sum(-1) == 0] = torch.eye(len(wanted))[wanted.sum(-1) == 0]
        changed = made.clone()
        changed[:, head] = wanted / wanted.sum(-1, keepdim=True)
        return changed

    place = model.blocks[layer].attention.sublayer.weights
    hooks = [model.embedding.register_forward_hook(look), place.register_forward_hook(plant)]
    yield
    for hook in hooks:
        hook.remove()


@pytest.mark.parametrize(
    ("role", "target"),
    [
        ("previous", head_roles.offset(-1)),
        ("first", head_roles.first),
        ("itself", head_roles.offset(0)),
        ("induction", head_roles.induction),
    ],
)
def test_a_planted_head_is_found(role: str, target: head_roles.Target) -> None:
    given = subject("gpt")
    with planted(given, 1, 2, target):
        found = head_roles.ranked(list(head_roles.find_roles(given, "self", [Inputs(IDS), Inputs(IDS[3:])])))
    best = found[0]
    assert (best.layer, best.head, best.role) == (1, 2, role)
    assert best.score == pytest.approx(1.0, abs=1e-5)
    assert best.low <= best.score <= best.high + 1e-9
    assert best.baseline < 0.5
    assert best.values()["layer"] == 2, "people count from 1"
    assert best.name == "2.3"
    assert len(found) == 8
    assert "next" not in {each.role for each in found}, "a causal model cannot look ahead"


def test_targets_by_hand() -> None:
    ids = [5, 7, 9, 5, 7]
    assert head_roles.induction(ids).nonzero().tolist() == [[3, 1], [4, 2]]
    assert head_roles.same(ids).nonzero().tolist() == [[0, 3], [1, 4], [3, 0], [4, 1]]
    assert head_roles.offset(-1)(ids).nonzero().tolist() == [[1, 0], [2, 1], [3, 2], [4, 3]]
    assert head_roles.first(ids).nonzero().tolist() == [[1, 0], [2, 0], [3, 0], [4, 0]]


def test_baselines_by_hand() -> None:
    rows = [(Inputs((5, 7, 9, 5, 7)), 0), (Inputs((1, 2, 1, 2)), 0)]
    # induction: distance -2 twice in the first; in the second -1 twice: of four, each explains half
    assert head_roles.best_distance(rows, head_roles.induction, causal=True) == 0.5
    assert head_roles.by_chance(rows[:1], head_roles.offset(-1), causal=True) == pytest.approx(
        np.mean([1 / n for n in (2, 3, 4, 5)])
    )
    assert head_roles.by_chance(rows[:1], head_roles.offset(-1), causal=False) == pytest.approx(0.2)


def test_repeated_tokens_have_no_fixed_distance() -> None:
    given = subject("gpt")
    texts = head_roles.repeated(given)
    assert len({period for _, period in texts}) > 3
    for inputs, period in texts:
        assert inputs.tokens[:period] == inputs.tokens[period:]
        assert len(inputs.tokens) <= 64
    assert head_roles.best_distance(texts, head_roles.induction, causal=True) < 0.5
    assert head_roles.repeated(given) == texts


def test_without_a_head_is_without_its_columns() -> None:
    """Zero columns of W_O in a copy of the model, head by head; and all but one."""
    given, width = subject("gpt"), 4
    texts = [(Inputs(IDS), 0), (Inputs(IDS[2:]), 0)]
    worth = Importance(given, texts)
    for head in (0, 3):
        copy: Any = deepcopy(given.model)
        with torch.no_grad():
            copy.blocks[1].attention.sublayer.output.weight[:, head * width : (head + 1) * width] = 0
        expected = loss(replace(given, model=copy), texts)
        assert worth.without("self", 1, head) == pytest.approx(expected, abs=1e-5)
        assert worth.without("self", 1, head) != pytest.approx(worth.whole, abs=1e-6)
    copy = deepcopy(given.model)
    with torch.no_grad():
        copy.blocks[0].attention.sublayer.output.weight[:, width:] = 0
    assert worth.only("self", 0, 0) == pytest.approx(loss(replace(given, model=copy), texts), abs=1e-5)
    assert not any(module._forward_hooks for module in given.model.modules())


@pytest.mark.parametrize("family", ["bert", "classifier", "transformer", "rnn-translator"])
def test_worth_of_other_families(family: str) -> None:
    given = subject(family)
    name = "cross" if given.inputs.source else "self"
    worth = Importance(given, [(given.inputs, 0)])
    assert worth.without(name, 0, 0) != worth.whole  # type: ignore[arg-type]
    with torch.no_grad(), without_heads(given.model, name, 0, [0]):  # type: ignore[arg-type]
        assert torch.isfinite(forward(given.model, given.inputs)).all()
    if family == "bert":
        assert worth.whole == pytest.approx(0.0, abs=1e-5)
        assert worth.without("self", 0, 0) > 0


CONLLU = """# text = the dog that barks
1\tthe\tthe\tDET\t_\t_\t2\tdet\t2:det\t_
2\tdog\tdog\tNOUN\t_\t_\t0\troot\t0:root|4:nsubj\t_
3\tthat\tthat\tPRON\t_\t_\t4\tnsubj\t2:ref\t_
4-5\tbarks.\t_\t_\t_\t_\t_\t_\t_\t_
4\tbarks\tbark\tVERB\t_\t_\t2\tacl:relcl\t2:acl:relcl\tSpaceAfter=No
5\t.\t.\tPUNCT\t_\t_\t2\tpunct\t2:punct\t_
"""


def test_gold_edges_are_read(tmp_path: Path) -> None:
    place = tmp_path / "a.conllu"
    place.write_text(CONLLU + "\n" + CONLLU)
    first, second = edges.read(place)
    assert first == second
    assert edges.read(place, max_sentences=1) == [first]
    assert first.words == ("the", "dog", "that", "barks", ".")
    assert first.spaced == (False, True, True, True, False)
    assert set(first.edges) == {("det", 0, 1), ("nsubj", 2, 3), ("antecedent", 2, 1), ("acl", 3, 1), ("punct", 4, 1)}
    inputs, places = edges.encode_sentence(PIECES, first)
    assert PIECES.decode(inputs.tokens) == "the dog that barks."
    assert sorted(set(places)) == [0, 1, 2, 3, 4]
    place.write_text("1\tthe\n")
    with pytest.raises(DataError, match="expected 10 columns, found 2"):
        edges.read(place)
    with pytest.raises(InputError, match="cannot be read"):
        edges.read(tmp_path / "none.conllu")


def test_attention_between_words() -> None:
    """Two words of two pieces and one: sums over what is looked at, means over what looks; [CLS] is no word."""
    weights = torch.tensor([[[1.0, 0, 0, 0], [0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.1, 0.3], [0, 0.6, 0.2, 0.2]]])
    found = edges.by_word(weights, [-1, 0, 0, 1], 2)
    torch.testing.assert_close(found[0], torch.tensor([[0.35, 0.35], [0.8, 0.2]]))


def test_a_head_that_knows_determiners(monkeypatch: pytest.MonkeyPatch) -> None:
    """ "the dog" and "the old dog" in equal parts: a fixed distance finds half of the edges, each way."""
    near = edges.Sentence(("the", "dog"), (False, True), (("det", 0, 1),))
    far = edges.Sentence(("the", "old", "dog"), (False, True, True), (("det", 0, 2),))
    monkeypatch.setattr(edges, "FEWEST", 4)
    given = subject("bert")
    found = edges.find_edges(given, "self", [near, far] * 8)
    kinds = {each.role for each in found}
    assert kinds == {"det → its head", "head → its det"}
    assert all(each.baseline == 0.5 for each in found)
    assert all(0 <= each.low <= each.score <= each.high <= 1 for each in found)
    causal = edges.find_edges(subject("gpt"), "self", [near, far] * 8)
    assert {each.role for each in causal} == {"head → its det"}, "nobody looks ahead"


def test_a_dictionary_learns_words_without_order() -> None:
    pairs = [(["one", "two"], ["zwei", "eins"]), (["two", "three"], ["drei", "zwei"]), (["one"], ["eins"])] * 4
    known = Dictionary([*pairs, (["three"], ["drei"])])
    assert known.links(["one", "two", "three"], ["drei", "eins", "zwei"]) == [2, 0, 1]
    assert known.links(["one"], ["haus"]) == [-1]
    assert known.links([], ["eins"]) == [-1]
    assert [diagonal(place, 3, 6) for place in range(3)] == [1, 3, 5]


def test_what_a_translator_looks_at() -> None:
    source = Words(["a", "b", "c", "<end>"], [0, 0, 1, -1], ["ab", "c"])
    target = Words(["x", "y"], [0, 1], ["x", "y"])
    weights = torch.tensor([[[0.3, 0.3, 0.4, 0.0], [0.1, 0.1, 0.2, 0.6], [0.0, 0.0, 0.0, 1.0]]])
    given = WordPair(Inputs((0, 1, 2), source=(1, 2, 3, 0)), source, target)
    assert most_attended(weights, given).tolist() == [[0, 0]]
    shifted = torch.tensor([[[0.0, 0.0, 0.0, 1.0], [0.1, 0.1, 0.7, 0.1], [0.5, 0.5, 0.0, 0.0]]])
    assert most_attended(shifted, given, later=1).tolist() == [[1, 0]]


@pytest.mark.parametrize("family", ["transformer", "rnn-translator"])
def test_alignment_heads_beside_the_diagonal(family: str) -> None:
    given = subject(family)
    found = find_alignments(given, [given.inputs] * 4)
    assert len(found) == (8 if family == "transformer" else 1)
    assert all(each.role.startswith("alignment") and 0 <= each.score <= 1 for each in found)
    assert found == sorted(found, key=lambda each: -each.score)


@pytest.mark.parametrize("family", ["gpt", "bert", "classifier", "transformer", "rnn-translator"])
def test_one_table(family: str) -> None:
    found = head_table.rank_heads(subject(family), ablate=2)
    assert found
    assert all(each.without is not None and each.only is not None for each in found[:2])
    assert all(each.without is None for each in found[2:])


def test_no_heads() -> None:
    with pytest.raises(InputError, match="no attention"):
        head_table.rank_heads(subject("lstm"))


def test_sentences_longer_than_the_context_are_left_out() -> None:
    """A treebank has them, and a small model no places for them."""
    long = edges.Sentence(("river",) * 80, (True,) * 80, (("nmod", 0, 1),))
    short = edges.Sentence(("the", "river", "keeps"), (False, True, True), (("det", 0, 1),))
    assert head_table.rank_heads(subject("bert"), sentences=[long, short], ablate=0)
    assert head_table.rank_heads(subject("bert"), sentences=[long], ablate=0)

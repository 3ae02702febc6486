"""Taggers that choose the tags of a sentence together: training, tags, probabilities, scores, export."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import qkv
from qkv import session as sessions
from qkv.blocks.crf import LinearChainCRF
from qkv.blocks.word_features import Spelling
from qkv.data.encode import encode_words
from qkv.errors import ConfigError
from qkv.evaluation import decisions
from qkv.models.tag_schemes import follows
from qkv.models.tagger import Tagger, TaggerConfig
from qkv.objectives.classification import words_of
from qkv.tasks.classification.from_data import word_spellings
from small_tasks import begun, trained
from text.kinds import tokenizer

PEOPLE, PLACES = ("Anna", "Ravi", "Júlia", "Chen"), ("New York", "Recife", "Oslo", "São Paulo")
SMALL: dict[str, Any] = {"width": 16, "embedding_width": 16, "features": 500}


def write_names(folder: Path) -> Path:
    """Sentences with names of people and places, of one word and of two."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn, lines = np.random.default_rng(1), []
    for number in range(120):
        place = str(drawn.choice(PLACES)).split()
        words = [(str(drawn.choice(PEOPLE)), "B-PER"), ("lives", "O"), ("in", "O")]
        words += [(word, "I-LOC" if position else "B-LOC") for position, word in enumerate(place)]
        lines += [*(f"{word}\t{tag}" for word, tag in [*words, (f"since{number}", "O")]), ""]
    (folder / "names.conll").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder / "names.conll"


def tagger(folder: Path, steps: int = 40, **model: Any) -> Any:
    trained(
        write_names(folder), folder / "run", "tagging", model={**SMALL, **model}, training={"steps": steps},
        tokenizer={"kind": "bpe", "size": 400},
    )  # fmt: skip
    return qkv.load(folder / "run")


@pytest.mark.parametrize("kind", ["gru", "linear"])
def test_a_tagger_learns_names_and_knows_new_ones_by_their_shape(tmp_path: Path, kind: str) -> None:
    sizes = dict.fromkeys(("width", "embedding_width"), 0) if kind == "linear" else {}
    model = {key: value for key, value in {**SMALL, "kind": kind, **sizes}.items() if value}
    trained(
        write_names(tmp_path), tmp_path / "run", "tagging", model=model,
        training={"steps": 60, "learning_rate": 0.02}, tokenizer={"kind": "bpe", "size": 400},
    )  # fmt: skip
    opened = qkv.load(tmp_path / "run")
    config = opened.bundle.config
    assert (config.head, config.scheme) == ("crf", "BIO")
    found = opened.tag([["Ravi", "lives", "in", "New", "York", "since7"]])[0]
    assert [word.tag for word in found] == ["B-PER", "O", "O", "B-LOC", "I-LOC", "O"]
    assert all(word.probability > 0.5 for word in found)


def test_tags_are_the_best_path_and_probabilities_the_marginals(tmp_path: Path) -> None:
    opened = tagger(tmp_path, steps=5, kind="gru")
    model, config = opened.bundle.model, opened.bundle.config
    assert isinstance(model, Tagger)
    assert isinstance(model.chain, LinearChainCRF)
    for parameter in model.chain.parameters():
        torch.nn.init.normal_(parameter, std=3.0)
    sentences = [["Ravi", "lives", "in", "New-York", "!"], ["Oslo"], ["Zoë", "sleeps"]]
    rows = encode_words(opened.tokenizer, sentences, config.context)
    tagged = opened.tag(sentences)
    for number, words in enumerate(tagged):
        with torch.inference_mode():
            scores = model.eval()(torch.from_numpy(rows.row(number).astype(np.int64))[None])
            emissions = scores[:, words_of(rows, number)[2]]
            there = torch.ones(emissions.shape[:2], dtype=torch.bool)
            best, shares = model.chain.best_path(emissions, there)[0], model.chain.marginals(emissions, there)[0]
        assert [word.tag for word in words] == [config.labels[tag] for tag in best.tolist()]
        expected = shares.gather(1, best[:, None])[:, 0].tolist()
        assert [word.probability for word in words] == pytest.approx(expected, abs=1e-5)


def test_what_the_scheme_forbids_is_never_given(tmp_path: Path) -> None:
    opened = tagger(tmp_path, steps=3, kind="gru")
    torch.nn.init.normal_(opened.bundle.model.head.weight, std=20.0)
    for words in opened.tag([[*PEOPLE, "lives", *PLACES] * 3, ["in", "Oslo"]]):
        tags = [None, *(word.tag for word in words), None]
        assert all(follows("BIO", *pair) for pair in pairwise(tags))
    open_model = tagger(tmp_path / "open", steps=3, kind="gru", scheme="none")
    assert not open_model.bundle.model.chain.forbidden.any()


def test_a_score_is_that_of_the_chosen_tags(tmp_path: Path) -> None:
    opened = tagger(tmp_path, steps=8, kind="lstm")
    session = begun(
        write_names(tmp_path / "again"), tmp_path / "other", "tagging", model={"kind": "lstm", **SMALL},
        tokenizer={"kind": "bpe", "size": 400},
    )  # fmt: skip
    valid = session.task.prepared.labelled.valid  # type: ignore[attr-defined]
    sentences = [list(example.words) for example in valid]
    rows = encode_words(opened.tokenizer, sentences, opened.bundle.config.context)
    found = decisions.predict(opened.bundle.model, rows, "single")
    assert found.chosen is not None
    given = [word.tag for words in opened.tag(sentences) for word in words]
    assert given == [opened.bundle.config.labels[tag] for tag in found.chosen.tolist()]


def test_a_resumed_run_ends_with_the_same_bits(tmp_path: Path) -> None:
    data, model = write_names(tmp_path), {"kind": "lstm", **SMALL, "dropout": 0.3, "feature_dropout": 0.3}
    same = {"model": model, "tokenizer": {"kind": "bpe", "size": 400}}
    training = {"steps": 12, "checkpoint_every": 5, "evaluate_every": 4}
    whole = trained(data, tmp_path / "whole", "tagging", **same, training=training)
    part = begun(data, tmp_path / "part", "tagging", **same, training=training)
    for event in part.run.events(part.state, part.objective):
        if part.state.step >= 7:
            del event
            break
    del part
    again = sessions.resume(tmp_path / "part")
    for _ in again.run.events(again.state, again.objective):
        pass
    assert again.state.step == whole.state.step
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], tensor), name


def test_models_of_older_versions_decide_each_word_alone() -> None:
    config = TaggerConfig(labels=("O", "B-X", "I-X"))
    assert (config.head, config.scheme) == ("linear", "none")
    assert not [name for name in config.build().state_dict() if name.startswith("chain")]
    with pytest.raises(ValueError, match="is kept by head = 'crf' alone"):
        TaggerConfig(labels=("O", "B-X", "I-X"), scheme="BIO")


def test_a_crf_around_bert_trains_and_says_why_it_is_not_exported(tmp_path: Path) -> None:
    small = {"kind": "bert", "layers": 1, "heads": 2, "width": 16, "head": "crf"}
    trained(write_names(tmp_path), tmp_path / "run", "tagging", model=small, training={"steps": 4})
    opened = qkv.load(tmp_path / "run")
    assert opened.bundle.config.scheme == "BIO"
    assert len(opened.tag([["Anna", "lives"]])[0]) == 2
    with pytest.raises(ConfigError, match="CRF has no equivalent in transformers"):
        opened.export(tmp_path / "exported")


def test_smoothing_is_for_single_words(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is for tags that are decided word by word"):
        begun(
            write_names(tmp_path), tmp_path / "run", "tagging", model={"kind": "gru", **SMALL}, task={"smoothing": 0.1}
        )


def test_words_are_spelled_by_every_tokenizer() -> None:
    for kind in ("bpe", "wordpiece"):
        words = tokenizer(kind)
        spelling = Spelling(words.vocabulary)
        spelling.spell(word_spellings(words))
        rows = encode_words(words, [["river", "stone", "walking"]], 48)
        found = spelling(torch.from_numpy(rows.row(0).astype(np.int64))[None])
        assert int(found.present.sum()) == 3 + (kind == "wordpiece") * 2, kind  # and those around the text

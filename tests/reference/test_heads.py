"""Classifiers, taggers and masked models that were trained here, opened by `transformers`' Auto classes."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import qkv
from cli.commands import run
from qkv import session as sessions
from qkv.errors import InputError
from qkv.models.classifier import ClassifierConfig
from qkv.models.recurrent_encoder import RecurrentEncoderConfig
from qkv.recipe import bundle
from qkv.studies.verify import Proofs
from small_tasks import origin, sentences, trained, write

if not os.environ.get("CI"):
    pytest.importorskip("transformers", reason="parity with Hugging Face needs the extra: pip install 'qkv[hf]'")

import transformers
from transformers import AutoTokenizer

transformers.utils.logging.disable_progress_bar()
transformers.utils.logging.set_verbosity_error()

BERT = {"kind": "bert", "layers": 2, "heads": 2, "width": 16}
TASKS = {
    "classification": ("AutoModelForSequenceClassification", "single_label_classification"),
    "pairs": ("AutoModelForSequenceClassification", "single_label_classification"),
    "regression": ("AutoModelForSequenceClassification", "regression"),
    "multi-label": ("AutoModelForSequenceClassification", "multi_label_classification"),
    "tagging": ("AutoModelForTokenClassification", None),
}
TEXTS = [text for text, _ in sentences(30)] + ["Don't ask why: nobody knows!", "Stay"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A BERT for each task, trained from scratch; a fine-tuned BERT and a fine-tuned DistilBERT; a masked model."""
    folder = tmp_path_factory.mktemp("runs")
    for task in TASKS:
        data = write(folder / f"data-{task}", task)
        trained(data, folder / task, task, model=BERT, training={"steps": 8, "learning_rate": 0.01})
    for kind in ("masked", "distil"):
        start = {"start": str(origin(folder / f"origin-{kind}", kind)), "steps": 6}
        trained(folder / "data-classification" / "table.csv", folder / f"from-{kind}", "classification", training=start)
    text = folder / "text.txt"
    text.write_text("\n\n".join(f"{one}. {one}." for one, _ in sentences(300)))
    values = {
        "model": {**BERT, "context": 32},
        "tokenizer": {"kind": "wordpiece", "size": 300},
        "corpus": {"files": [str(text)], "documents": "paragraphs"},
        "training": {"steps": 4, "batch": 4, "threads": 1},
    }
    session = sessions.start(values, folder / "filled", numbered=False, minutes=5.0)
    for _ in session.run.events(session.state, session.objective):
        pass
    return {path.name: path for path in folder.iterdir()}


def opened(folder: Path, kind: str) -> tuple[Any, Any]:
    model = getattr(transformers, kind).from_pretrained(folder, local_files_only=True).eval()
    return model, AutoTokenizer.from_pretrained(folder, local_files_only=True)


def asked(model: Any, words: Any, *texts: Any, **more: Any) -> torch.Tensor:
    with torch.no_grad():
        return model(**words(*texts, padding=True, return_tensors="pt", **more)).logits


@pytest.mark.parametrize("name", ["classification", "pairs", "regression", "multi-label", "from-masked", "from-distil"])
def test_a_classifier_decides_the_same_there(name: str, runs: dict[str, Path], tmp_path: Path) -> None:
    model = qkv.load(runs[name])
    compared = model.export(tmp_path / "out")
    assert len(compared) == 2
    assert all(each.passed for each in compared)
    kind, problem = TASKS.get(name, TASKS["classification"])
    theirs, words = opened(tmp_path / "out", kind)
    config: Any = model.bundle.config
    assert theirs.config.id2label == dict(enumerate(config.labels))
    assert theirs.config.label2id == {label: number for number, label in enumerate(config.labels)}
    assert theirs.config.problem_type == problem
    seconds = TEXTS[3:] + TEXTS[:3]
    given: Any = list(zip(TEXTS, seconds, strict=True)) if name == "pairs" else TEXTS
    logits = asked(theirs, words, TEXTS, seconds) if name == "pairs" else asked(theirs, words, TEXTS)
    for found, scores in zip(model.classify(given), logits, strict=True):
        if name == "regression":
            assert found.label == pytest.approx(float(scores[0]), abs=1e-4)
        elif name == "multi-label":
            assert list(found.probabilities.values()) == pytest.approx(scores.sigmoid().tolist(), abs=1e-5)
        else:
            assert list(found.probabilities.values()) == pytest.approx(scores.softmax(-1).tolist(), abs=1e-5)
            assert found.label == theirs.config.id2label[int(scores.argmax())]
    again = qkv.load(tmp_path / "out")
    assert again.pairs == (name == "pairs")
    for one, other in zip(again.classify(given), model.classify(given), strict=True):
        assert one.label == (pytest.approx(other.label, abs=1e-4) if name == "regression" else other.label)
    if name == "regression":
        assert (again.bundle.config.center, again.bundle.config.spread) == (0.0, 1.0)  # type: ignore[union-attr]
        assert config.center > 2
    if name != "from-distil":  # whose epsilon is not said there
        written = replace(config.encoder, hidden=4 * config.width)  # as a number, there
        assert again.bundle.config == replace(config, center=0.0, spread=1.0, encoder=written)
    card = (tmp_path / "out" / "README.md").read_text()
    assert "pipeline_tag: text-classification" in card
    assert "AutoModelForSequenceClassification" in card


def test_a_tagger_tags_the_same_there(runs: dict[str, Path], tmp_path: Path) -> None:
    model = qkv.load(runs["tagging"])
    assert len(model.export(tmp_path / "out")) == 2
    theirs, words = opened(tmp_path / "out", TASKS["tagging"][0])
    config: Any = model.bundle.config
    assert theirs.config.id2label == dict(enumerate(config.labels))
    cut = [text.split() for text in TEXTS]
    read = words(cut, is_split_into_words=True, padding=True, return_tensors="pt")
    with torch.no_grad():
        shares = theirs(**read).logits.softmax(-1)
    for number, found in enumerate(model.tag(cut)):
        places = read.word_ids(number)
        firsts = [places.index(word) for word in range(len(cut[number]))]
        assert [each.tag for each in found] == [config.labels[int(shares[number, at].argmax())] for at in firsts]
        likely = [float(shares[number, at].max()) for at in firsts]
        assert [each.probability for each in found] == pytest.approx(likely, abs=1e-5)


def test_a_masked_model_fills_the_same_there(runs: dict[str, Path], tmp_path: Path) -> None:
    model = qkv.load(runs["filled"])
    assert len(model.export(tmp_path / "out")) == 2
    assert json.loads((tmp_path / "out" / "config.json").read_text())["architectures"] == ["BertForPreTraining"]
    text = f"The river [MASK] the {TEXTS[0].split()[-1]}"
    gap = model.fill(text, top=5).gaps[0]
    for kind in ("AutoModelForPreTraining", "AutoModelForMaskedLM"):
        theirs, words = opened(tmp_path / "out", kind)
        read = words(text, return_tensors="pt")
        with torch.no_grad():
            made = theirs(**read)
        scores = made.prediction_logits if kind == "AutoModelForPreTraining" else made.logits
        shares = scores[0, int((read["input_ids"][0] == words.mask_token_id).nonzero())].softmax(-1)
        assert [each.probability for each in gap] == pytest.approx([float(shares[e.token]) for e in gap], abs=1e-5)


def test_the_next_sentence_head_goes_along(runs: dict[str, Path], tmp_path: Path) -> None:
    model = qkv.load(runs["filled"])
    model.export(tmp_path / "out")
    theirs, words = opened(tmp_path / "out", "AutoModelForNextSentencePrediction")
    read = words(TEXTS[0], TEXTS[1], return_tensors="pt")
    inside: Any = model.bundle.model
    with torch.no_grad():
        vectors = inside.encoder(read["input_ids"], None, read["token_type_ids"])
        torch.testing.assert_close(inside.followed(vectors), theirs(**read).logits, atol=1e-5, rtol=1e-5)


def test_the_export_says_how_it_pools(
    runs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, words in {
        "classification": "for BertForSequenceClassification, which pools by [CLS] and BERT's pooler",
        "from-distil": "for DistilBertForSequenceClassification, which pools by [CLS]",
        "tagging": "for BertForTokenClassification",
    }.items():
        assert run(["export", str(runs[name]), str(tmp_path / name)], False) == 0
        assert capsys.readouterr().out.endswith(f"written: {tmp_path / name}, {words}\n")


AS_THEIRS = {"pooling": "last", "head": "no-bias"}


@pytest.mark.parametrize(
    ("task", "kind", "start", "name"),
    [
        ("classification", "gpt", False, "GPT2ForSequenceClassification"),
        ("regression", "modern", False, "Qwen3ForSequenceClassification"),
        ("classification", "modern", True, "Qwen3ForSequenceClassification"),
        ("pairs", "gpt", True, "GPT2ForSequenceClassification"),
        ("tagging", "gpt", False, "GPT2ForTokenClassification"),
    ],
)
def test_around_a_decoder_too(task: str, kind: str, start: bool, name: str, tmp_path: Path) -> None:
    """From scratch with WordPiece, fine-tuned with byte pairs, whose padding is what ends a text."""
    model = {} if task == "tagging" else dict(AS_THEIRS)
    training: dict[str, Any] = {"steps": 6, "learning_rate": 0.01}
    if start:
        training["start"] = str(origin(tmp_path / "origin", kind))
    else:
        model |= {"kind": kind, "layers": 2, "heads": 2, "width": 16}
    trained(write(tmp_path / "data", task), tmp_path / "run", task, model=model, training=training)
    own = qkv.load(tmp_path / "run")
    compared = own.export(tmp_path / "out")
    assert len(compared) == 2
    assert all(each.passed and each.largest < 1e-5 * max(1.0, each.scale) for each in compared)
    theirs, words = opened(tmp_path / "out", TASKS[task][0])
    assert type(theirs).__name__ == name
    again = qkv.load(tmp_path / "out")
    config: Any = own.bundle.config
    assert again.bundle.config.labels == config.labels  # type: ignore[union-attr]
    assert again.bundle.config.dropout == config.dropout  # type: ignore[union-attr]
    if task == "tagging":
        return
    seconds = TEXTS[3:] + TEXTS[:3]
    given: Any = list(zip(TEXTS, seconds, strict=True)) if task == "pairs" else TEXTS
    cut = {"truncation": True, "max_length": config.context}
    logits = asked(theirs, words, *([TEXTS, seconds] if task == "pairs" else [TEXTS]), **cut)
    for found, back, scores in zip(own.classify(given), again.classify(given), logits, strict=True):
        if task == "regression":
            assert [found.label, back.label] == pytest.approx([float(scores[0])] * 2, abs=1e-4)
        else:
            assert list(found.probabilities.values()) == pytest.approx(scores.softmax(-1).tolist(), abs=1e-5)
            assert found.label == back.label == theirs.config.id2label[int(scores.argmax())]


def test_a_decoder_s_mean_has_none_and_the_remedy_is_named(tmp_path: Path) -> None:
    found = qkv.load(origin(tmp_path / "modern", "modern")).bundle
    config = ClassifierConfig(encoder=found.config, labels=("a", "b"))  # type: ignore[arg-type]
    bundle.save(tmp_path / "mean", bundle.Bundle(config.build(), config, found.tokenizer, 0))
    call = r'qkv\.train\(FILE, model="modern".*"model\.pooling": "last"'
    with pytest.raises(InputError, match=f"'mean'.* has no equivalent .*{call}"):
        qkv.load(tmp_path / "mean").export(tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("pooling", ["mean", "first", "max"])
def test_a_pooling_without_an_equivalent_names_one_that_has(
    pooling: str, runs: dict[str, Path], tmp_path: Path
) -> None:
    found = qkv.load(runs["classification"]).bundle
    config: Any = found.config
    config = replace(config, pooling=pooling, encoder=replace(config.encoder, pooler="none"))
    bundle.save(tmp_path / "other", bundle.Bundle(config.build(), config, found.tokenizer, 0))
    with pytest.raises(
        InputError, match=f"pooling = '{pooling}'.* has no equivalent .*pooling = 'pooler', head = 'linear'"
    ):
        qkv.load(tmp_path / "other").export(tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_encoder_has_none(runs: dict[str, Path], tmp_path: Path) -> None:
    found = qkv.load(runs["classification"]).bundle
    config: Any = found.config
    encoder = RecurrentEncoderConfig(vocabulary=config.vocabulary, width=16, context=32)
    config = replace(config, pooling="max", encoder=encoder)
    bundle.save(tmp_path / "lstm", bundle.Bundle(config.build(), config, found.tokenizer, 0))
    with pytest.raises(InputError, match=r"a classifier around 'recurrent-encoder' cannot be exported.*qkv\.train"):
        qkv.load(tmp_path / "lstm").export(tmp_path / "out")


@pytest.mark.parametrize("name", ["classification", "pairs", "regression", "tagging", "filled", "from-distil"])
def test_proofs(name: str, runs: dict[str, Path]) -> None:
    """What a user can run: nothing of the cache, but padding, batches, the export and the resumed run."""
    proofs = {proof.name: proof for proof in Proofs(qkv.load(runs[name])).all()}
    assert [key for key, proof in proofs.items() if proof.passed is False] == []
    assert {key for key, proof in proofs.items() if proof.passed is None} == {"cache", "causality", "window"}

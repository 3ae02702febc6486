"""Starting from another model: what is taken over, what stays, what learns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

import qkv
from qkv import session as sessions
from qkv.blocks import low_rank
from qkv.errors import ConfigError, InputError
from qkv.models.language_model import count, learning
from qkv.recipe import origin
from small_tasks import begun, sentences, trained, write
from small_tasks import origin as made
from training.test_run import fingerprint

KINDS = ("modern", "gpt", "lstm", "bert", "distil", "masked", "classifier")
STEPS = {"steps": 6, "batch": 16}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("data")
    tasks = ("classification", "tagging", "pairs", "regression", "images")
    return {task: write(folder / task, task) for task in tasks}


@pytest.fixture(scope="module")
def origins(tmp_path_factory: pytest.TempPathFactory, data: dict[str, Path]) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("origins")
    found = {kind: str(made(folder / kind, kind)) for kind in KINDS if kind != "classifier"}
    shape = {"kind": "bert", "layers": 2, "heads": 2, "width": 16}
    trained(data["classification"], folder / "classifier", "classification", model=shape, training=STEPS)
    return {**found, "classifier": str(folder / "classifier")}


def encoder(model: Any) -> dict[str, torch.Tensor]:
    """All but the pooler, which belongs to the decision."""
    return {name: each for name, each in model.encoder.state_dict().items() if not name.startswith("pooler.")}


def theirs(name: str) -> dict[str, torch.Tensor]:
    found = origin.encoder_weights(origin.open_start(name))
    return {key: each for key, each in found.items() if not key.startswith("pooler.")}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("task", ["classification", pytest.param("tagging", marks=pytest.mark.slow)])
def test_everything_learns(
    kind: str, task: str, origins: dict[str, str], data: dict[str, Path], tmp_path: Path
) -> None:
    session = begun(data[task], tmp_path / "run", task, training={**STEPS, "start": origins[kind]})
    before = theirs(origins[kind])
    assert all(torch.equal(each, before[name]) for name, each in encoder(session.model).items())
    assert session.task.prepared.tokenizer.json() == origin.open_start(origins[kind]).tokenizer.json()
    for _ in session.run.events(session.state, session.objective):
        pass
    changed = [name for name, each in encoder(session.model).items() if not torch.equal(each, before[name])]
    assert len(changed) > len(before) // 2
    opened = qkv.load(tmp_path / "run")
    texts = [text for text, _ in sentences(9)]
    assert len(opened.tag(texts) if task == "tagging" else opened.classify(texts)) == 9
    assert all(torch.equal(each, theirs(origins[kind])[name]) for name, each in before.items())  # nothing is shared


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("task", ["classification", pytest.param("pairs", marks=pytest.mark.slow)])
def test_what_is_frozen_keeps_its_bits(
    kind: str, task: str, origins: dict[str, str], data: dict[str, Path], tmp_path: Path
) -> None:
    session = trained(
        data[task], tmp_path / "run", task, training={**STEPS, "start": origins[kind], "frozen": "encoder"}
    )
    before = theirs(origins[kind])
    best: Any = qkv.load(tmp_path / "run").bundle.model
    for model in (session.model, best):
        assert all(torch.equal(each, before[name]) for name, each in encoder(model).items())
    learned = {name.split(".")[0] for name, p in session.model.named_parameters() if p.requires_grad}
    assert learned <= {"head", "encoder"}
    fresh = sessions.fresh_state(session.recipe).model.state_dict()
    last = "head.outer.weight" if kind == "distil" else "head.weight"
    assert not torch.equal(session.model.state_dict()[last], fresh[last])


@pytest.mark.parametrize("kind", KINDS)
def test_lora_is_kept_merged(kind: str, origins: dict[str, str], data: dict[str, Path], tmp_path: Path) -> None:
    said = {**STEPS, "learning_rate": 0.02, "start": origins[kind], "lora": 4}
    session = trained(data["classification"], tmp_path / "run", "classification", training=said)
    assert len(low_rank.adapters(session.model)) >= (1 if kind == "lstm" else 8)
    opened = qkv.load(tmp_path / "run")
    best: Any = opened.bundle.model
    assert not low_rank.adapters(best)
    assert session.parameters == count(best)
    before = theirs(origins[kind])
    plain = origin.merged_model(session.model, session.recipe.model, session.recipe.training)
    tokens = torch.randint(5, 80, (4, 12))
    with torch.no_grad():
        torch.testing.assert_close(plain.eval()(tokens), session.model.eval()(tokens), atol=1e-5, rtol=1e-5)
    moved = [name for name, each in encoder(best).items() if not torch.equal(each, before[name])]
    assert moved
    assert all("weight" in name and "embedding" not in name for name in moved)
    assert all("bias" not in name for name in moved)
    assert opened.bundle.step in range(1, 7)
    if opened.bundle.step == 6:  # the last is the best: its answers are those of what was trained
        rows = session.task.split_rows("valid")
        from qkv.evaluation import decisions

        torch.testing.assert_close(
            torch.from_numpy(decisions.predict(best, rows, "single").values),
            torch.from_numpy(decisions.predict(session.model, rows, "single").values), atol=1e-5, rtol=1e-4,
        )  # fmt: skip


@pytest.mark.parametrize("kind", ["masked", "lstm"])
def test_lora_resumes_to_the_same_bits(
    kind: str, origins: dict[str, str], data: dict[str, Path], tmp_path: Path
) -> None:
    said = {**STEPS, "start": origins[kind], "lora": 2, "checkpoint_every": 2, "evaluate_every": 2}
    trained(data["classification"], tmp_path / "whole", "classification", training=said)
    cut = begun(data["classification"], tmp_path / "cut", "classification", training=said)
    for event in cut.run.events(cut.state, cut.objective):
        if getattr(event, "number", 0) == 3:
            break
    again = sessions.resume(tmp_path / "cut")
    for _ in again.run.events(again.state, again.objective):
        pass
    assert fingerprint(tmp_path / "cut") == fingerprint(tmp_path / "whole")


def test_a_recurrent_model_starts_as_it_was_and_only_what_is_narrow_learns(
    origins: dict[str, str], data: dict[str, Path], tmp_path: Path
) -> None:
    said = {**STEPS, "start": origins["lstm"]}
    full = begun(data["classification"], tmp_path / "full", "classification", training=said)
    beside = begun(data["classification"], tmp_path / "beside", "classification", training={**said, "lora": 4})
    tokens = torch.randint(5, 80, (4, 12))
    assert torch.equal(full.model.eval()(tokens), beside.model.eval()(tokens))
    width, head = 16, 2 * 16 + 2
    assert learning(beside.model) == 4 * (4 * width + width) * 2 + head  # rank x (rows + columns), input and hidden
    assert beside.parameters == count(full.model)


def test_a_recurrent_language_model_goes_on_with_lora(origins: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("\n".join(text for text, _ in sentences(900)) + "\n", encoding="utf-8")
    training = {"steps": 8, "batch": 8, "threads": 1, "learning_rate": 0.02, "lora": 4, "start": origins["lstm"]}
    values = {"corpus": {"files": [str(tmp_path / "other.txt")]}, "training": training}
    session = sessions.start(values, tmp_path / "run", numbered=False, minutes=5.0)
    assert len(low_rank.adapters(session.model)) == 2
    for _ in session.run.events(session.state, session.objective):
        pass
    opened = qkv.load(tmp_path / "run")
    before: Any = origin.open_start(origins["lstm"]).model
    after = opened.module.state_dict()
    moved = {name for name, each in before.state_dict().items() if not torch.equal(each, after[name])}
    assert moved == {"recurrent.layer.weight_ih_l0", "recurrent.layer.weight_hh_l0", "head.weight"}
    assert opened.generate("The river", length=5, seed=1)


def test_what_has_no_end_reads_texts_longer_than_those_it_learned_from(origins: dict[str, str], tmp_path: Path) -> None:
    far = "the river keeps the stone and " * 12
    lines = ["text,label", *(f"{text} {far},{'good' if good else 'bad'}" for text, good in sentences())]
    (tmp_path / "table.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = {}
    for kind in ("lstm", "modern"):
        said = {**STEPS, "start": origins[kind]}
        session = begun(tmp_path / "table.csv", tmp_path / kind, "classification", training=said)
        found[kind] = (session.recipe.model.context > 32, any("longer than" in note for note in session.task.notes))  # type: ignore[union-attr]
    assert found == {"lstm": (True, False), "modern": (False, True)}


def test_one_that_stopped_before_its_first_model_has_its_origins_words(
    origins: dict[str, str], data: dict[str, Path], tmp_path: Path
) -> None:
    session = begun(data["tagging"], tmp_path / "run", "tagging", training={**STEPS, "start": origins["gpt"]})
    again = sessions.resume(tmp_path / "run")
    assert again.task.prepared.tokenizer.json() == session.task.prepared.tokenizer.json()


@pytest.mark.parametrize("kind", ["bert", "modern", "lstm"])
def test_lower_layers_learn_more_slowly(
    kind: str, origins: dict[str, str], data: dict[str, Path], tmp_path: Path
) -> None:
    said = {**STEPS, "start": origins[kind], "layer_decay": 0.5, "learning_rate": 0.01}
    session = begun(data["classification"], tmp_path / "run", "classification", training=said)
    rates = {
        id(p): group["lr"] for each in session.state.optimizers.values() for group in each.param_groups
        for p in group["params"]
    }  # fmt: skip
    named = {name: rates[id(p)] for name, p in session.model.named_parameters()}
    assert len(rates) == len(named)
    assert named["head.weight"] == 0.01
    if kind == "lstm":
        assert named["encoder.embedding.weight"] == pytest.approx(0.005)
        return
    block = "encoder.blocks.{}.attention.sublayer.query.weight"
    assert named[block.format(1)] == pytest.approx(0.005)
    assert named[block.format(0)] == pytest.approx(0.0025)
    assert named["encoder.embedding.weight"] == pytest.approx(0.00125)
    for _ in session.run.events(session.state, session.objective):
        pass


def test_a_head_is_taken_over_where_the_labels_are_the_same(
    origins: dict[str, str], data: dict[str, Path], tmp_path: Path
) -> None:
    head = origin.open_start(origins["classifier"]).model.state_dict()["head.weight"].clone()  # type: ignore[union-attr]
    said = {**STEPS, "start": origins["classifier"]}
    same = begun(data["classification"], tmp_path / "same", "classification", training=said)
    assert torch.equal(same.model.state_dict()["head.weight"], head)
    other = begun(data["pairs"], tmp_path / "other", "pairs", training=said)
    assert not torch.equal(other.model.state_dict()["head.weight"], head)


def test_the_pooling_is_that_of_a_twin(origins: dict[str, str], data: dict[str, Path], tmp_path: Path) -> None:
    found = {}
    for kind in ("bert", "distil", "modern"):
        run = tmp_path / kind
        session = begun(data["classification"], run, "classification", training={**STEPS, "start": origins[kind]})
        model: Any = session.recipe.model
        found[kind] = (model.pooling, model.head)
    assert found == {"bert": ("pooler", "linear"), "distil": ("first", "two-layer"), "modern": ("mean", "linear")}


def test_mistakes_are_named(origins: dict[str, str], data: dict[str, Path], tmp_path: Path) -> None:
    def begin(task: str = "classification", model: dict[str, Any] | None = None, **said: Any) -> None:
        begun(data[task], tmp_path / "run", task, model=model or {}, training={**STEPS, **said})

    bag = trained(data["classification"], tmp_path / "bag", "classification", model={"kind": "bag"}, training=STEPS)
    with pytest.raises(InputError, match="this model has no linear or recurrent layers"):
        begin(start=str(bag.run.folder), lora=4)
    with pytest.raises(ConfigError, match=r"model\.layers: sizes are those of the model it starts from"):
        begin(start=origins["bert"], model={"layers": 3})
    with pytest.raises(ConfigError, match="models of images are trained from scratch"):
        begin("images", start=origins["bert"])
    with pytest.raises(InputError, match="no such model"):
        begin(start=str(tmp_path / "gone"))

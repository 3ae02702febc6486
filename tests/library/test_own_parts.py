"""A tokenizer, metrics and a reader from outside: by file and as objects, through every verb, resumed bit by bit."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import qkv
from qkv.data import own_reader
from qkv.errors import InputError, RefusedError
from qkv.evaluation import own_metrics
from qkv.recipe import own_model
from qkv.text import own_tokenizer
from qkv.text.decoding import StreamDecoder
from qkv.text.tokenizer import Tokenizer
from reliability.nursery import Done, Nursery

OWN = Path(__file__).parents[2] / "examples"
SYLLABLES, KAPPA, SUBTITLES = OWN / "syllables.py", OWN / "kappa.py", OWN / "subtitles.py"
TEXTS = [f"{'warm and bright' if n % 2 else 'cold and dull'} melody number {n}" for n in range(160)]
LABELS = ["good" if n % 2 else "bad" for n in range(160)]
SETTINGS = {"training.threads": 1, "training.dtype": "f32", "training.device": "cpu", "training.checkpoint_every": 2}
SRT = "\n\n".join(f"{n}\n00:00:{n % 60:02},000 --> 00:00:{n % 60:02},900\n{text}" for n, text in enumerate(TEXTS))


Command = Callable[..., Done]


@pytest.fixture
def command(nursery: Nursery) -> Command:
    """A command in a process of its own, which has loaded no file."""
    return lambda *words: nursery.qkv(*words, environment={"QKV_CACHE": os.environ["QKV_CACHE"]})


def killed(nursery: Nursery, *words: object) -> int:
    """The exit code of a training that is killed after its fifth step."""
    code = f"import sys\nsys.argv = {['', *map(str, words)]!r}\n{KILLED}"
    return nursery.call("python", code=code, environment={"QKV_CACHE": os.environ["QKV_CACHE"]}).code


def same_weights(first: qkv.Model, second: qkv.Model) -> bool:
    mine, theirs = first.module.state_dict(), second.module.state_dict()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name], theirs[name]) for name in mine)


@pytest.fixture(scope="module")
def spoken(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a tokenizer, metrics and a reader of one's own."""
    folder = tmp_path_factory.mktemp("parts")
    (folder / "film.srt").write_text(SRT, encoding="utf-8")
    train(folder / "film.srt", folder / "run")
    return folder


def train(file: Path, run: Path, **more: Any) -> qkv.Model:
    parts: dict[str, Any] = {
        "tokenizer": SYLLABLES,
        "reader": SUBTITLES,
        "metrics": {"size": lambda model: model.parameters},
    }
    return qkv.train(file, run=run, model="gpt-nano", steps=6, settings=SETTINGS, **{**parts, **more})


def test_the_run_names_its_parts(spoken: Path) -> None:
    recipe = (spoken / "run" / "recipe.toml").read_text(encoding="utf-8")
    assert 'file = "syllables.py"' in recipe
    assert 'file = "subtitles.py"' in recipe
    assert recipe.count("sha256 = ") == 2
    card = (spoken / "run" / "card.md").read_text(encoding="utf-8")
    assert "film.srt (read by subtitles.py)" in card
    assert "| size | " in card
    assert "def " not in recipe + (spoken / "run" / "best" / "tokenizer.json").read_text(encoding="utf-8")


def test_the_tokenizer_writes_and_reads(spoken: Path) -> None:
    model = qkv.load(spoken / "run", tokenizer_file=SYLLABLES)
    tokenizer = model.tokenizer
    assert tokenizer.kind == "own"
    text = "warm and bright melody"
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert len(ids) < len(text)
    assert tokenizer.unknown_characters("a日") == ["日"]
    whole = model.generate("the", length=12, temperature=0.0)
    assert whole == "".join(model.generate("the", length=12, temperature=0.0, stream=True))
    assert whole == model.generate("the", length=12, temperature=0.0, cached=False)
    assert model.evaluate(TEXTS).loss > 0
    assert len(model.trace(text).tokens) > 2
    assert all(proof.passed is not False for proof in qkv.verify(model))
    again = Tokenizer.parse(tokenizer.json())
    assert again.fingerprint == tokenizer.fingerprint


def test_a_stream_waits_for_whole_characters() -> None:
    class Bytes:
        kind, tokens = "bytes", tuple(map(str, range(256)))

        def learn(self, texts: Any) -> Any:
            return self

        def encode(self, text: str) -> list[int]:
            return list(text.encode())

        def decode(self, ids: list[int]) -> str:
            return bytes(ids).decode(errors="replace")

    source = own_tokenizer.own_files.OwnFile("bytes.py", "0" * 64)
    tokenizer = Tokenizer(own_tokenizer.OwnBackend(Bytes(), source), "own")
    decoder = StreamDecoder(tokenizer)
    parts = [decoder.push(number) for number in tokenizer.encode("é日!")]
    assert parts == ["", "é", "", "", "日", "!"]
    cut = StreamDecoder(tokenizer)
    assert [cut.push(number) for number in tokenizer.encode("é")[:1]] + [cut.finish()] == ["", "\ufffd"]


KILLED = """
import os, sys
import qkv
settings = {"training.threads": 1, "training.dtype": "f32", "training.device": "cpu", "training.checkpoint_every": 2}
for event in qkv.train(sys.argv[1], run=sys.argv[2], model="gpt-nano", steps=6, settings=settings, stream=True,
                       tokenizer=sys.argv[3], reader=sys.argv[4], metrics=sys.argv[5]):
    if type(event).__name__ == "Step" and event.number == 5:
        os.kill(os.getpid(), 9)
"""


def test_it_resumes_to_the_same_bits_and_asks_for_the_files(
    nursery: Nursery, command: Command, spoken: Path, tmp_path: Path
) -> None:
    metrics = tmp_path / "size.py"
    metrics.write_text("import torch\ndef size(model):\n    return model.parameters + float(torch.rand(1))\n")
    assert killed(nursery, spoken / "film.srt", tmp_path / "run", SYLLABLES, SUBTITLES, metrics) == -signal.SIGKILL
    resume = ("train", "--run", tmp_path / "run", "--resume")
    for given, missing in (
        ((), "--metric size.py"),
        (("--metric", metrics), "--tokenizer syllables.py"),
    ):
        done = command(*resume, *given)
        assert done.code == 2, done.err
        assert missing in done.err
    done = command(*resume, "--metric", KAPPA, "--tokenizer", SYLLABLES)
    assert done.code == 5
    assert "another version of size.py" in done.err
    done = command(*resume, "--metric", metrics, "--tokenizer", SYLLABLES)
    assert done.code == 0, done.err
    resumed, whole = (qkv.load(folder / "run", tokenizer_file=SYLLABLES) for folder in (tmp_path, spoken))
    assert same_weights(resumed, whole), "metrics may draw numbers, and do not move a run"


def test_rows_that_left_the_cache_are_read_again(
    nursery: Nursery, command: Command, spoken: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QKV_CACHE", str(tmp_path / "cache"))
    model_only = tmp_path / "size.py"
    model_only.write_text("def size(model):\n    return 1.0\n")
    assert killed(nursery, spoken / "film.srt", tmp_path / "run", SYLLABLES, SUBTITLES, model_only) == -signal.SIGKILL
    shutil.rmtree(tmp_path / "cache")
    resume = ("train", "--run", tmp_path / "run", "--resume", "--metric", model_only, "--tokenizer", SYLLABLES)
    done = command(*resume)
    assert done.code == 2
    assert "--reader subtitles.py" in done.err
    changed = tmp_path / "subtitles.py"
    changed.write_text(SUBTITLES.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    assert command(*resume, "--reader", changed).code == 5
    done = command(*resume, "--reader", SUBTITLES)
    assert done.code == 0, done.err


def test_every_verb_takes_the_tokenizer_again(command: Command, spoken: Path, tmp_path: Path) -> None:
    run = spoken / "run"
    done = command("generate", run, "warm", "--length", "3")
    assert done.code == 2
    assert "--tokenizer syllables.py" in done.err
    assert command("generate", run, "warm", "--length", "3", "--tokenizer", SYLLABLES).code == 0
    changed = tmp_path / "syllables.py"
    changed.write_text(SYLLABLES.read_text(encoding="utf-8") + "# changed\n", encoding="utf-8")
    assert command("generate", run, "warm", "--length", "3", f"--tokenizer={changed}").code == 5
    done = command("evaluate", run, spoken / "film.srt", "--reader", SUBTITLES, "--tokenizer", SYLLABLES, "--json")
    assert done.code == 0, done.err
    printed = json.loads(done.out)
    model = qkv.load(run, tokenizer_file=SYLLABLES)
    assert model.evaluate(spoken / "film.srt", reader=SUBTITLES).loss == pytest.approx(printed["loss"], rel=1e-5)
    done = command("tokenize", "warm and bright", "--tokenizer", SYLLABLES, "--train", spoken / "film.srt")
    assert done.code == 0, done.err
    done = command("data", "describe", spoken / "film.srt", "--reader", SUBTITLES, "--json")
    assert json.loads(done.out)["documents"] == 160
    with pytest.raises(InputError, match="tokenizer"):
        model.export(tmp_path / "out")


def test_code_inside_a_folder_is_not_executed(command: Command, spoken: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(spoken / "run", copy, symlinks=True)
    for folder in (copy, copy / "best"):
        for name in ("syllables.py", "subtitles.py", "tokenizer.py"):
            (folder / name).write_text("raise SystemExit('executed')")
    done = command("generate", copy, "warm", "--length", "3")
    assert done.code == 2
    assert "executed" not in done.out + done.err


@pytest.mark.parametrize("kind", ["classes", "tags", "numbers", "pairs"])
def test_metrics_of_answers_are_reported_by_train_and_evaluate(kind: str, tmp_path: Path) -> None:
    seen: list[tuple[Any, Any]] = []

    def share(true: list[Any], said: list[Any]) -> float:
        assert len(true) == len(said)
        seen.append((true[0], said[0]))
        return sum(a == b for a, b in zip(true, said, strict=True)) / len(true)

    words = [["the", "dog", "sees", "Anna", str(n)] for n in range(60)]
    pairs = [(f"the dog {n} and the cat {m}", f"der Hund {n} und die Katze {m}") for n in range(10) for m in range(9)]
    data: Any = {
        "classes": (TEXTS, LABELS),
        "tags": (words, [["O", "O", "O", "B-PER", "O"]] * 60),
        "numbers": (TEXTS, [n / 7 for n in range(160)]),
        "pairs": pairs,
    }[kind]
    small = {"model.width": 16, "model.layers": 1} if kind == "pairs" else {}
    model_kind = {"pairs": "rnn-translator", "tags": "lstm"}.get(kind, "bag")
    task: Any = "regression" if kind == "numbers" else None
    model = qkv.train(
        data, model=model_kind, run=tmp_path / "run", steps=3, metrics={"share": share}, settings=small, task=task
    )
    types = {"classes": str, "tags": list, "numbers": float, "pairs": str}
    assert {type(value) for pair in seen for value in pair} == {types[kind]}
    log = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert any("validation_share" in line for line in log)
    assert "share" in (tmp_path / "run" / "card.md").read_text(encoding="utf-8")
    score = model.evaluate(data, metrics={"share": share, "one": lambda model: 1.0}, task=task)
    assert 0 <= float(score.values()["share"]) <= 1  # type: ignore[arg-type]
    assert score.values()["one"] == 1.0


def test_the_command_line_reports_metrics_of_a_file(command: Command, tmp_path: Path) -> None:
    rows = ["text,label", *(f"{text},{label}" for text, label in zip(TEXTS, LABELS, strict=True))]
    (tmp_path / "songs.csv").write_text("\n".join(rows))
    run, file = tmp_path / "run", tmp_path / "songs.csv"
    done = command("train", file, "--model", "bag", "--steps", "20", "--run", run, "--metric", KAPPA)
    assert done.code == 0, done.err
    assert "kappa" in done.out
    assert "megabytes" in done.out
    assert 'metrics = "kappa.py sha256:' in (run / "recipe.toml").read_text()
    done = command("evaluate", run, file, "--metric", KAPPA, "--json")
    printed = json.loads(done.out)
    assert printed["kappa"] == pytest.approx(2 * printed["accuracy"] - 1, abs=1e-6)
    assert printed["megabytes"] > 0
    done = command("evaluate", run, file, "--metric", "bleu")
    assert done.code == 2
    assert command("evaluate", run, file, "--metric", "kapa").code == 2


def test_a_tokenizer_of_ones_own_in_other_tasks(tmp_path: Path) -> None:
    tokenizer = own_tokenizer.load_file(SYLLABLES).cls(size=60)
    model = qkv.train((TEXTS, LABELS), model="lstm", steps=3, run=tmp_path / "classes", tokenizer=tokenizer)
    assert model.tokenizer.kind == "own"
    assert model.classify("a warm melody")[0].label in LABELS
    words = [text.split() for text in TEXTS]
    tags = [["N" if word.isdigit() else "X" for word in each] for each in words]
    tagger = qkv.train((words, tags), steps=2, run=tmp_path / "tags", tokenizer=tokenizer)
    assert [len(row) for row in tagger.tag(TEXTS[:2])] == [len(each) for each in words[:2]]
    pairs = [(text, text.upper()) for text in TEXTS]
    small = {"model.width": 16, "model.layers": 1}
    translator = qkv.train(
        pairs, model="rnn-translator", steps=2, run=tmp_path / "pairs", tokenizer=tokenizer, settings=small
    )
    assert isinstance(translator.translate("warm melody")[0][0].text, str)
    masked = qkv.train(TEXTS * 4, model="bert-tiny", steps=2, run=tmp_path / "masked", tokenizer=tokenizer)
    assert masked.fill("warm and [MASK] melody").gaps
    finetuned = qkv.finetune(masked, (TEXTS, LABELS), steps=2, run=tmp_path / "finetuned")
    assert finetuned.tokenizer.fingerprint == masked.tokenizer.fingerprint


def test_packages_announce_parts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    announced: dict[tuple[str, str], Any] = {
        ("qkv.tokenizers", "syllables"): own_tokenizer.load_file(SYLLABLES).cls,
        ("qkv.metrics", "kappa"): own_metrics.load(KAPPA).metrics["kappa"],
        ("qkv.readers", "subtitles"): own_reader.load(SUBTITLES).read,
        ("qkv.models", "mingru"): own_model.load_file(OWN / "mingru.py").config,
    }
    monkeypatch.setattr("qkv.own_files.load_plugin", lambda group, name: announced.get((group, name)))
    (tmp_path / "film.srt").write_text(SRT, encoding="utf-8")
    model = qkv.train(
        tmp_path / "film.srt", reader="subtitles", tokenizer="syllables", model="mingru", steps=2, run=tmp_path / "run"
    )
    assert (model.bundle.config.kind, model.tokenizer.kind) == ("mingru", "own")
    songs = qkv.train((TEXTS, LABELS), model="bag", steps=2, run=tmp_path / "songs", metrics="kappa")
    assert "kappa" in songs.evaluate((TEXTS, LABELS), metrics="kappa").values()


def test_files_that_are_no_parts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "nothing.py").write_text("x = 1")
    file = tmp_path / "nothing.py"
    for load, message in (
        (own_tokenizer.load_file, "expected one tokenizer"),
        (own_metrics.load, "no metrics"),
        (own_reader.load, "expected a function `read`"),
    ):
        with pytest.raises(InputError, match=message):
            load(file)
    (tmp_path / "fails.py").write_text("def read(path):\n    return 1 / 0\n")
    (tmp_path / "data.x").write_text("a")
    with pytest.raises(InputError, match=r"ZeroDivisionError in fails\.py"):
        qkv.describe(tmp_path / "data.x", reader=tmp_path / "fails.py")
    with pytest.raises(InputError, match="reads files, and data is list of 160"):
        qkv.describe(TEXTS, reader=SUBTITLES)
    with pytest.raises(InputError, match="does not give"):
        qkv.train(TEXTS, model="gpt-nano", steps=2, run=tmp_path / "run", metrics={"m": lambda true, said: 0.0})
    with pytest.raises(InputError, match=r"a function of the model, or of \(true, predicted\)"):
        qkv.train(TEXTS, steps=2, run=tmp_path / "run2", metrics={"m": lambda: 0.0})
    with pytest.raises(TypeError, match="metrics"):
        qkv.train(TEXTS, steps=2, metrics=5)  # type: ignore[call-overload]
    with pytest.raises(RefusedError, match=r"expected the file's name and its sha256"):
        own_tokenizer.restore({"file": 5}, {}, "here")

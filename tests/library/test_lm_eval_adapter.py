"""The adapter for lm-evaluation-harness: its numbers are the model's own, and the harness runs local tasks with it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import qkv
from qkv.errors import InputError

pytest.importorskip("lm_eval", reason="pip install 'qkv[lm-eval]'")
import lm_eval
from lm_eval.tasks import TaskManager

from qkv.library.lm_eval_adapter import QkvLM

TEXT = "the dog sees the cat and the cat sees the dog. "
SIZES = {"model.layers": 1, "model.heads": 2, "model.width": 16, "model.context": 24}


@dataclass
class Request:
    """As `lm_eval.api.instance.Instance`, without what the adapter does not read."""

    args: tuple[Any, ...]


def requests(*arguments: tuple[Any, ...]) -> list[Request]:
    return [Request(each) for each in arguments]


@pytest.fixture(scope="module", params=["gpt", "lstm"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> qkv.Model:
    run = tmp_path_factory.mktemp("run") / "book"
    sizes = SIZES if request.param == "gpt" else {"model.width": 16, "model.context": 24}
    texts = [TEXT * 3] * 30
    return qkv.train(texts, model=request.param, tokenizer="characters", steps=40, run=run, settings=sizes)


def direct(model: qkv.Model, tokens: list[int], first: int) -> float:
    """log p of the tokens from `first` on, each computed from all before it, as far as the context reaches."""
    total = 0.0
    for place in range(first, len(tokens)):
        seen = tokens[max(0, place - model.language_model.context) : place]
        with torch.inference_mode():
            total += float(model.language_model(torch.tensor([seen]))[0, -1].log_softmax(-1)[tokens[place]])
    return total


def test_a_continuation_is_scored_as_by_hand(model: qkv.Model) -> None:
    adapter = QkvLM(model)
    pairs = [("the dog", " sees"), ("the dog ", "sees"), ("", "the cat"), ("t", "x"), ("the", " cat and the dog")]
    before = list(model.bundle.opening) or [model.tokenizer.separator]
    expected = []
    for context, continuation in pairs:
        length = len(before) + len(model.tokenizer.encode(context.rstrip()))
        expected.append(direct(model, [*before, *model.tokenizer.encode(context + continuation)], length))
    scores = adapter.loglikelihood(requests(*pairs))
    assert [score for score, _ in scores] == pytest.approx(expected, abs=1e-4)
    for size in (1, "2"):
        alone = QkvLM(model, batch_size=size).loglikelihood(requests(*pairs))
        assert [score for score, _ in alone] == pytest.approx(expected, abs=1e-4)
    greedy = model.generate("the dog", length=3, temperature=0.0)
    assert adapter.loglikelihood(requests(("the dog", greedy)))[0][1]
    assert not adapter.loglikelihood(requests(("the dog", "x")))[0][1]


def test_a_text_is_scored_as_evaluate_does(model: qkv.Model) -> None:
    adapter, short = QkvLM(model), TEXT[:20]
    score = model.evaluate(short)  # which counts the end of the document as well
    separator = model.tokenizer.separator
    tokens = [separator, *model.tokenizer.encode(short), separator]
    end = direct(model, tokens, len(tokens) - 1)
    (rolling,) = adapter.loglikelihood_rolling(requests((short,)))
    assert rolling == pytest.approx(-score.loss * score.tokens - end, abs=1e-4)


def test_a_long_text_is_scored_in_windows_and_each_token_once(model: qkv.Model) -> None:
    adapter, context = QkvLM(model), model.language_model.context
    utils = pytest.importorskip("lm_eval.utils")
    tokens = model.tokenizer.encode(TEXT * 3)
    before = (list(model.bundle.opening) or [model.tokenizer.separator])[-1]
    expected = 0.0
    windows = utils.get_rolling_token_windows(tokens, prefix_token=before, max_seq_len=context, context_len=1)
    for seen, targets in map(utils.make_disjoint_window, windows):
        expected += direct(model, [*seen, *targets], len(seen))
    assert adapter.loglikelihood_rolling(requests((TEXT * 3,)))[0] == pytest.approx(expected, abs=1e-3)
    assert adapter.loglikelihood_rolling(requests(("",))) == [0.0]


def test_writing(model: qkv.Model) -> None:
    adapter = QkvLM(model)
    whole = model.generate("the dog", length=12, temperature=0.0)
    written = adapter.generate_until(requests(("the dog", {"until": [], "max_gen_toks": 12, "do_sample": False})))
    assert written == [whole]
    stop = whole[3]
    options = {"until": stop, "max_gen_toks": 12, "temperature": 0.0}
    assert adapter.generate_until(requests(("the dog", options))) == [whole[: whole.index(stop)]]
    warm = {"until": ["."], "max_gen_toks": 12, "do_sample": True, "temperature": 1.0}
    assert adapter.generate_until(requests(("the", warm), ("the", warm))) == [
        model.generate("the", length=12, temperature=1.0, stop=["."], seed=seed) for seed in (0, 1)
    ]


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Local tasks: nothing is downloaded."""
    for name in ("HF_DATASETS_OFFLINE", "HF_HUB_OFFLINE", "HF_EVALUATE_OFFLINE"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    documents = [{"start": "the dog sees the", "choices": ["cat", "xqz"], "answer": 0, "text": TEXT}] * 4
    rows = tmp_path / "rows.jsonl"
    rows.write_text("".join(json.dumps(each) + "\n" for each in documents))
    common = f"dataset_path: json\ndataset_kwargs:\n  data_files:\n    test: {rows}\ntest_split: test\n"
    folder = tmp_path / "tasks"
    folder.mkdir()
    (folder / "choice.yaml").write_text(
        f"task: local_choice\noutput_type: multiple_choice\n{common}doc_to_text: '{{{{start}}}}'\n"
        "doc_to_choice: '{{choices}}'\ndoc_to_target: answer\nmetric_list:\n  - metric: acc\n"
    )
    (folder / "rolling.yaml").write_text(
        f"task: local_perplexity\noutput_type: loglikelihood_rolling\n{common}doc_to_text: ''\n"
        "doc_to_target: '{{text}}'\nmetric_list:\n  - metric: bits_per_byte\n"
    )
    (folder / "writing.yaml").write_text(
        f"task: local_writing\noutput_type: generate_until\n{common}doc_to_text: '{{{{start}}}}'\n"
        "doc_to_target: ' cat'\ngeneration_kwargs:\n  until: ['.']\n  max_gen_toks: 4\n"
        "metric_list:\n  - metric: exact_match\n"
    )
    return folder


@pytest.mark.filterwarnings("ignore")  # the harness's own
def test_the_harness_runs_local_tasks(model: qkv.Model, tasks: Path) -> None:
    adapter, manager = QkvLM(model), TaskManager(include_path=str(tasks), include_defaults=False)
    names = ["local_choice", "local_perplexity", "local_writing"]
    found = lm_eval.simple_evaluate(adapter, tasks=names, task_manager=manager, bootstrap_iters=0)["results"]
    assert found["local_choice"]["acc,none"] == 1.0
    (rolling,) = adapter.loglikelihood_rolling(requests((TEXT,)))
    bits = -rolling / len(TEXT.encode()) / torch.log(torch.tensor(2.0)).item()
    assert found["local_perplexity"]["bits_per_byte,none"] == pytest.approx(bits, abs=1e-4)
    greedy = model.generate("the dog sees the", length=4, temperature=0.0, stop=["."])
    assert found["local_writing"]["exact_match,none"] == float(greedy == " cat")


def test_the_command_line_of_the_harness_knows_qkv(model: qkv.Model, tasks: Path) -> None:
    assert model.bundle.folder
    command = [sys.executable, "-m", "qkv.library.lm_eval_adapter", "--model", "qkv", "--model_args"]
    command += [f"model={model.bundle.folder}", "--tasks", "local_choice", "--include_path", str(tasks)]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ), cwd=tasks, timeout=1800)
    assert done.returncode == 0, done.stderr
    assert "local_choice" in done.stdout


def test_what_does_not_fit_is_refused(model: qkv.Model) -> None:
    with pytest.raises(InputError, match="batch_size 'many': expected a number, or 'auto'"):
        QkvLM(model, batch_size="many")
    with pytest.raises(InputError, match=r"no such model"):
        QkvLM("runs/nowhere")

"""`qkv fill`: texts with gaps in, the likeliest pieces out."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import pytest
import torch

from cli.commands import run
from qkv.errors import InputError
from qkv.generation.writing import Filled, fill
from qkv.models.bert import BertConfig
from qkv.models.masked import Masked, MaskedConfig
from qkv.models.modern import ModernConfig
from qkv.recipe import bundle
from text.kinds import tokenizer

TEXTS = ["The river [MASK] the stone.", "___ keeps the _____"]


def built(context: int = 24) -> tuple[Masked, MaskedConfig]:
    encoder = BertConfig(vocabulary=tokenizer("wordpiece").vocabulary, layers=2, heads=2, width=16, context=context)
    config = MaskedConfig(encoder=encoder)
    torch.manual_seed(0)
    model = config.build()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model.eval(), config


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> str:
    """As it would be trained here."""
    folder = tmp_path_factory.mktemp("models") / "masked"
    bundle.save(folder, bundle.Bundle(*built(), tokenizer("wordpiece"), documents=3))
    return str(folder)


def expected(text: str, top: int = 5) -> Filled:
    return fill(built()[0], tokenizer("wordpiece"), text, top)


def test_the_likeliest_pieces() -> None:
    """One pass, the vectors under the mask, a softmax; special tokens are left out."""
    own, words = built()[0], tokenizer("wordpiece")
    assert words.mask is not None
    ids = [2, *words.encode("The river"), words.mask, *words.encode("the stone."), 3]
    with torch.no_grad():
        shares = own(torch.tensor([ids]))[0, ids.index(words.mask)].softmax(-1)
    order = [token for token in shares.argsort(descending=True).tolist() if not words.is_special(token)]
    found = expected(TEXTS[0], top=7)
    assert [each.token for each in found.gaps[0]] == order[:7]
    assert [each.probability for each in found.gaps[0]] == pytest.approx(shares[order[:7]].tolist(), rel=1e-4)
    assert [each.piece for each in found.gaps[0]] == [words.token(token) for token in order[:7]]


def test_gaps_are_filled_where_they_are() -> None:
    from qkv.generation.writing import _joined

    found = expected(TEXTS[1], top=1)
    assert len(found.gaps) == 2
    assert " keeps the " in found.text.replace("##", "")
    assert "_" not in found.text
    assert _joined(["The  river ", "", " [x]"], ["stone", "##s"]) == "The  river stones [x]"
    assert expected("the ___") == expected("the [MASK]")
    everything = expected(TEXTS[0], top=10_000).gaps[0]
    assert len(everything) == tokenizer("wordpiece").vocabulary - 5


@pytest.mark.parametrize(
    ("text", "top", "words"),
    [
        ("no gap here", 5, r"no gap in 'no gap here'. Write \[MASK\] or ___"),
        ("the " * 30 + "[MASK]", 5, "1 of its gaps lie beyond the model's context of 24"),
        ("[MASK]" + " the" * 30, 5, "its end lies beyond the model's context of 24"),
        ("a [MASK]", 0, "top 0: expected at least 1"),
    ],
)
def test_what_cannot_be_filled(text: str, top: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        expected(text, top)


def test_models_that_do_not_fill() -> None:
    with pytest.raises(InputError, match="does not fill gaps"):
        fill(ModernConfig(vocabulary=9, layers=1, heads=1, width=8).build(), tokenizer("wordpiece"), "a [MASK]")
    with pytest.raises(InputError, match=r"bpe tokenizer has no \[MASK\]"):
        fill(built()[0], tokenizer("bpe"), "a [MASK]")


def test_a_table(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fill", model, *TEXTS, "--top", "3"], False) == 0
    lines = capsys.readouterr().out.splitlines()
    best = expected(TEXTS[0])
    assert lines[0] == best.text
    assert lines[1].split() == ["gap", "1", "probability"]
    assert lines[2].split() == [best.gaps[0][0].piece, f"{best.gaps[0][0].probability:.4f}"]
    assert lines[6].split() == ["gap", "1", "probability", "gap", "2", "probability"]
    assert len(lines) == 2 * (2 + 3)


def test_json_from_a_file_and_from_standard_input(
    model: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "texts.txt"
    source.write_text("\n".join(TEXTS) + "\n")
    assert run(["fill", model, "--file", str(source), "--json"], False) == 0
    found = json.loads(capsys.readouterr().out)
    assert [row["text"] for row in found["texts"]] == TEXTS
    assert found["texts"][0]["filled"] == expected(TEXTS[0]).text
    pieces = [each["piece"] for each in found["texts"][1]["gaps"][1]]
    assert pieces == [each.piece for each in expected(TEXTS[1]).gaps[1]]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(TEXTS).encode())))
    assert run(["fill", model, "-", "--json"], False) == 0
    assert json.loads(capsys.readouterr().out) == found


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no text was given"),
        (["nothing missing"], "no gap in 'nothing missing'"),
        (["a [MASK]", "--top", "0"], "top 0"),
        (["a [MASK]", "--file", "b.txt"], "were given; expected one of them"),
        (["a [MASK]", "--tpo", "1"], "did you mean --top"),
    ],
)
def test_mistakes_exit_with_two(model: str, words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["fill", model, *words], False) == 2
    said = capsys.readouterr()
    assert message in said.err
    assert said.out == ""


def test_a_folder_of_transformers_gives_its_answers(tmp_path: Path) -> None:
    """Exported from here, opened there: the fast tokenizer knows its special tokens, the answers are the same."""
    transformers = pytest.importorskip("transformers")
    from qkv.interop import export

    own, words = bundle.Bundle(*built(), tokenizer("wordpiece"), documents=3), tokenizer("wordpiece")
    export.write(tmp_path / "bert", own, "bert")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "bert")
    named = (theirs.pad_token_id, theirs.unk_token_id, theirs.cls_token_id, theirs.sep_token_id, theirs.mask_token_id)
    assert named == (0, 1, 2, 3, words.mask)
    pair = theirs("The river", "the stone")
    assert pair["input_ids"] == [2, *words.encode("The river"), 3, *words.encode("the stone"), 3]
    assert set(pair["token_type_ids"]) == {0, 1}
    model = transformers.BertForMaskedLM.from_pretrained(tmp_path / "bert").eval()
    with torch.no_grad():
        inputs = theirs(TEXTS[0], return_tensors="pt")
        place = int((inputs["input_ids"][0] == words.mask).nonzero())
        shares = model(**inputs).logits[0, place].softmax(-1)
    again = bundle.load(tmp_path / "bert")
    found = fill(again.model, again.tokenizer, TEXTS[0], 4).gaps[0]
    assert [each.probability for each in found] == pytest.approx(
        [float(shares[each.token]) for each in found], rel=1e-3
    )
    assert [each.token for each in found] == [each.token for each in expected(TEXTS[0], 4).gaps[0]]

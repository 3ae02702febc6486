"""Files of sentencepiece and folders with them, without that package: there and back, every verb, damage."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import marian as made
import qkv
from cli.commands import run
from qkv.errors import RefusedError
from qkv.interop import sentencepiece
from qkv.interop.sentencepiece import BYTE, CONTROL, UNUSED, USER_DEFINED
from text import likely

WHOLE = sentencepiece.pack(likely.SCORES, likely.packed(likely.TABLE), "<unk>")


def message(field: int, data: bytes) -> bytes:
    """A part of a protocol buffer; short ones only."""
    assert len(data) < 128
    return bytes([field << 3 | 2, len(data)]) + data


def piece(text: bytes, score: float = -5.0, kind: int | None = None) -> bytes:
    scored = bytes([2 << 3 | 5]) + struct.pack("<f", score)
    return message(1, message(1, text) + scored + (b"" if kind is None else bytes([3 << 3, kind])))


def test_there_and_back(tmp_path: Path) -> None:
    (tmp_path / "a.spm").write_bytes(WHOLE)
    found = sentencepiece.read(tmp_path / "a.spm")
    assert found.scores == likely.SCORES
    assert found.table == likely.packed(likely.TABLE)
    assert sentencepiece.pack(found.scores, found.table, "<unk>") == WHOLE


def test_what_is_not_cut_with_is_left_out(tmp_path: Path) -> None:
    """Control pieces and unused ones, fields that nobody here knows, and tests of its own."""
    more = piece(b"<s>", 0.0, CONTROL) + piece(b"old", -3.0, UNUSED) + message(4, b"self test")
    (tmp_path / "a.spm").write_bytes(WHOLE + more + b"\xa0\x06\x07")
    assert sentencepiece.read(tmp_path / "a.spm").scores == likely.SCORES


DAMAGED: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "expected a whole sentencepiece model"),
    "JSON": (b'{"model": 1}', "wire type|inside a number|bytes at byte"),
    "cut off": (WHOLE[: len(WHOLE) // 2], "bytes at byte"),
    "cut off inside a number": (WHOLE + b"\x80", "inside a number"),
    "a huge length": (WHOLE + b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "has 9,223,372,036,854,775,807 bytes"),
    "a number without an end": (WHOLE + b"\xff" * 12, "more than ten bytes"),
    "a group": (WHOLE + b"\x0b", "wire type 3"),
    "field zero": (WHOLE + b"\x02\x00", "field 0"),
    "pieces that are numbers": (WHOLE + b"\x08\x01", "pieces: a number; expected bytes"),
    "a piece that is a number": (WHOLE + message(1, b"\x08\x01"), "field 1 is of the wrong kind"),
    "a score that is a number": (WHOLE + message(1, b"\x10\x01"), "field 2 is of the wrong kind"),
    "a type that is a text": (WHOLE + message(1, message(1, b"x") + message(3, b"x")), "field 3 is of the wrong kind"),
    "an empty piece": (WHOLE + piece(b""), "expected a piece and its log-probability"),
    "a piece that is not Unicode": (WHOLE + piece(b"\xff\xfe"), "not UTF-8 at byte 0"),
    "a piece twice": (WHOLE + piece("▁the".encode()), "is there twice"),
    "no number": (WHOLE + piece(b"x", float("nan")), "score nan"),
    "no end of scores": (WHOLE + piece(b"x", float("-inf")), "score -inf"),
    "user-defined pieces": (WHOLE + piece(b"x", 0.0, USER_DEFINED), "user-defined pieces are not supported"),
    "bytes": (WHOLE + piece(b"<0x0A>", 0.0, BYTE), "byte pieces are not supported"),
    "an unknown type": (WHOLE + piece(b"x", 0.0, 99), "type 99"),
    "two unknowns": (WHOLE + piece(b"<unk2>", 0.0, 2), "2 for unknown text"),
    "byte pairs": (WHOLE + message(2, b"\x18\x02"), "model_type: bpe is not supported; expected unigram"),
    "a model of another time": (WHOLE + message(2, b"\x18\x63"), "model_type: 99"),
    "no training": (piece(b"<unk>", 0.0, 2) + piece(b"a"), "expected a whole sentencepiece model"),
    "no first space": (WHOLE + message(3, b"\x18\x00"), "add_dummy_prefix: false"),
    "texts rewritten behind it": (WHOLE + message(5, message(2, b"table")), "denormalizer_spec"),
}  # fmt: skip


@pytest.mark.parametrize(("data", "said"), DAMAGED.values(), ids=DAMAGED)
def test_damaged_files(data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.spm").write_bytes(data)
    with pytest.raises(RefusedError, match=said) as caught:
        sentencepiece.read(tmp_path / "a.spm")
    assert str(caught.value).startswith(str(tmp_path / "a.spm"))


def test_the_index_of_a_piece_counts_every_piece(tmp_path: Path) -> None:
    """Also those that are not normal ones: the unknown piece, and a control piece."""
    (tmp_path / "a.spm").write_bytes(WHOLE + piece(b"<s>", 0.0, CONTROL) + piece(b"\xff"))
    with pytest.raises(RefusedError, match=rf"pieces\[{len(likely.SCORES) + 2}\]: not UTF-8"):
        sentencepiece.read(tmp_path / "a.spm")


@settings(max_examples=300)
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=6), st.integers(0, len(WHOLE)))
def test_any_damage_is_refused_or_harmless(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[int, int]], kept: int
) -> None:
    data = bytearray(WHOLE)
    for place, byte in changes:
        data[place] = byte
    place = tmp_path_factory.getbasetemp() / "damaged.spm"
    place.write_bytes(data[:kept] if kept % 3 == 0 else data)
    try:
        found = sentencepiece.read(place)
    except RefusedError:
        return
    assert all(isinstance(score, float) for score in found.scores.values())


def numbered(change: Callable[[dict[str, int]], Any]) -> Callable[[Path], Any]:
    def changed(place: Path) -> None:
        ids = json.loads((place / "vocab.json").read_text())
        change(ids)
        (place / "vocab.json").write_text(json.dumps(ids))

    return changed


def said(**values: Any) -> Callable[[Path], Any]:
    return lambda place: (place / "tokenizer_config.json").write_text(json.dumps(values))


FOLDERS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a gap": (numbered(lambda ids: ids.pop("▁the")), r"vocab\.json: the 19 ids are not 0 to 18, each once"),
    "a number twice": (numbered(lambda ids: ids.update({"▁the": 3})), "each once"),
    "a number that is a text": (numbered(lambda ids: ids.update({"▁the": "3"})), "expected a JSON object"),
    "no unknown": (numbered(lambda ids: ids.update({"x": ids.pop("<unk>")})), "unk_token '<unk>' is not in it"),
    "no end": (numbered(lambda ids: ids.update({"x": ids.pop("</s>")})), "eos_token '</s>' is not in it"),
    "a list of numbers": (lambda place: (place / "vocab.json").write_text("[1]"), "expected a JSON object"),
    "no numbers": (lambda place: (place / "vocab.json").unlink(), r"vocab\.json: missing"),
    "one language": (lambda place: (place / "target.spm").unlink(), r"target\.spm: missing.*source\.spm, target\.spm"),
    "a damaged language": (lambda place: (place / "target.spm").write_bytes(WHOLE[:99]), r"target\.spm: .*bytes at"),
    "two numberings": (said(separate_vocabs=True), "separate_vocabs = True is not supported"),
    "cuts that are drawn": (said(sp_model_kwargs={"enable_sampling": True}), "sp_model_kwargs"),
    "a table that is damaged": (
        lambda place: (place / "source.spm").write_bytes(sentencepiece.pack(likely.SCORES, b"\1" * 9, "<unk>")),
        r"source\.spm: normalizer\.precompiled_charsmap: 9 bytes",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("change", "message"), FOLDERS.values(), ids=FOLDERS)
def test_folders_that_are_not_whole(change: Callable[[Path], Any], message: str, tmp_path: Path) -> None:
    place = made.spelled(tmp_path / "in")
    change(place)
    with pytest.raises(RefusedError, match=message):
        qkv.load(place)


def test_every_verb(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Import, translate, evaluate, inspect, verify, export; a folder of ours and theirs."""
    theirs, ours, out = str(made.spelled(tmp_path / "in")), str(tmp_path / "ours"), str(tmp_path / "out")
    (tmp_path / "t.en").write_text("the fish\nthe rare fish\n")
    (tmp_path / "t.fra").write_text("fish the\nfi the\n")
    pairs = [str(tmp_path / name) for name in ("t.en", "t.fra")]

    def answer(*words: str) -> dict[str, Any]:
        capsys.readouterr()
        assert run([*words, "--json"], True) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    assert answer("import", theirs, "--to", ours)["tokenizer"] == "unigram"
    assert answer("export", ours, out)
    first = {}
    for model in (theirs, ours, out):
        plain = answer("translate", model, "the fish", "--to", "fra")
        assert (
            answer("translate", model, ">>fra<< the fish")["texts"][0]["translations"]
            == plain["texts"][0]["translations"]
        )
        noted = answer("translate", model, "the fish")
        assert noted["notes"] == ["no language was asked for; this model knows --to fra, deu."]
        judged = answer("evaluate", model, *pairs)
        first.setdefault("translated", plain["texts"])
        first.setdefault("judged", judged["bleu"])
        assert (plain["texts"], judged["bleu"]) == (first["translated"], first["judged"])
    assert answer("inspect", ours, ">>fra<< the fish")
    proofs = answer("verify", ours)
    assert all(proof["passed"] is not False for proof in proofs["proofs"])


def test_another_language_than_the_model_knows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = str(made.spelled(tmp_path / "in"))
    assert run(["translate", place, "the fish", "--to", "xyz"], False) == 2
    assert "language 'xyz' is not known to this model; expected --to with one of fra, deu" in capsys.readouterr().err
    alone = str(made.spelled(tmp_path / "alone", ("</s>", "<unk>")))
    assert run(["translate", alone, "the fish", "--to", "fra"], False) == 2
    assert "translates into one language" in capsys.readouterr().err

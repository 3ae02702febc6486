"""Each file in its own encoding: UTF-8 stays as it is, other text is read in what fits, and what is lost is counted."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from qkv.data.corpus import CorpusConfig
from qkv.data.files import detected_text
from qkv.data.files.decode import decode
from qkv.data.files.guess_encoding import guess_encoding
from qkv.data.findings import Assumption, Caution, Findings
from qkv.data.prepare import prepare
from qkv.errors import DataError
from qkv.text.tokenizer import TokenizerConfig

GERMAN = "Zwei junge weiße Männer sind im Freien in der Nähe vieler Büsche.\n"
TEXTS = {
    "cp1252": GERMAN + "Le garçon a mangé une pêche à l’été, où est-il ? Ça va « très » bien.\n",
    "cp1250": "Dva mladí bílí muži jsou venku poblíž mnoha křoví. Skupina lidí čeká před obchodem.\n",
    "iso8859_2": "Dva mladí bílí muži jsou venku poblíž mnoha křoví. Skupina lidí čeká před obchodem.\n",
    "cp1254": "Pijamalı hasta yağız şoföre çabucak güvendi. İstanbul çok güzel.\n",
    "cp1251": "Съешь ещё этих мягких французских булок, да выпей чаю.\n",
    "koi8_r": "Съешь ещё этих мягких французских булок, да выпей чаю.\n",
    "cp1253": "Ο γρήγορος αλεπού πηδάει πάνω από το τεμπέλικο σκυλί.\n",
    "cp1256": "هذا نص باللغة العربية للاختبار\n",
    "cp932": "これは日本語の文章です。東京は日本の首都です。\n",
    "euc_jp": "これは日本語の文章です。東京は日本の首都です。\n",
    "gb18030": "这是一个中文句子。北京是中国的首都，我们今天去学校。\n",
    "big5": "這是一個中文句子。台北是台灣的首都，我們今天去學校。\n",
    "cp949": "이것은 한국어 문장입니다. 서울은 대한민국의 수도입니다.\n",
    "utf-16": GERMAN,
    "utf-16-be": GERMAN,
    "utf-32": GERMAN,
}


def read(content: bytes, chunk: int = 2**20, encoding: str | None = None) -> tuple[str, Findings]:
    findings = Findings()
    chunks = [content[start : start + chunk] for start in range(0, len(content), chunk)]
    return "".join(decode(chunks, "f", encoding, findings)), findings


@pytest.mark.parametrize("encoding", TEXTS)
def test_text_is_read_in_its_encoding(encoding: str) -> None:
    text = TEXTS[encoding] * 5
    found, findings = read(text.encode(encoding))
    assert found == text
    assert findings.encodings == {"f": encoding}
    assert not findings.unreadable
    assert findings.notes() == (f"f: not UTF-8, so it is read as {encoding}; --encoding names another.",)


def test_utf_8_has_no_note() -> None:
    assert read((GERMAN * 3000).encode()) == (GERMAN * 3000, Findings(newlines=3000))


def test_the_only_foreign_word_of_a_long_text_is_read() -> None:
    text = "plain words\n" * 200_000 + "un café\n" + "plain words\n" * 200_000
    found, findings = read(text.encode("cp1252"))
    assert found == text
    assert findings.encodings == {"f": "cp1252"}


def test_utf_8_is_not_damaged_by_other_lines_of_its_file() -> None:
    """Two files that were put together: each line is read in its own encoding."""
    late = "plain words\n" * 200_000 + GERMAN * 40
    content = GERMAN.encode("cp1252") * 40 + late.encode()
    found, findings = read(content)
    assert found == GERMAN * 40 + late
    assert not findings.unreadable
    (note,) = findings.notes()
    assert note.startswith("f:1: from here on 40 lines are not UTF-8 and are read as cp1252, the others as UTF-8;")


def test_one_line_in_another_encoding_does_not_make_the_file_one_of_that_encoding() -> None:
    whole = "plain\n" * 30_000 + GERMAN * 3
    found, findings = read(whole.encode() + "un café à côté\n".encode("cp1252") + b"plain\n" * 30_000)
    assert found == whole + "un café à côté\n" + "plain\n" * 30_000
    (note,) = findings.notes()
    assert note.startswith("f:30004: 1 line is not UTF-8 and is read as cp1252, the others as UTF-8;")
    assert isinstance(note, Assumption)


@pytest.mark.parametrize("chunk", [1, 7, 2**20])
def test_characters_of_two_surrogates_are_read_as_what_they_mean(chunk: int) -> None:
    line = "Pizza 🍕 und 🎉!\n"
    cesu_8 = b"Pizza \xed\xa0\xbc\xed\xbd\x95 und \xed\xa0\xbc\xed\xbe\x89!\n"
    found, findings = read(b"plain\n" * 9 + cesu_8 + b"plain\n", chunk)
    assert found == "plain\n" * 9 + line + "plain\n"
    expected = "2 characters are written as pairs of surrogates (CESU-8); they were read as what they mean, the first"
    assert findings.notes() == (f"{expected} at f:10.",)
    found, findings = read(GERMAN.encode() * 9 + cesu_8 + b"and \xff\n" + GERMAN.encode() * 9, chunk)
    assert found == GERMAN * 9 + line + "and \ufffd\n" + GERMAN * 9
    assert findings.unreadable == {"f": (1, f"f:11:{9 * len(GERMAN.encode()) + len(cesu_8) + 4}")}


def test_long_lines_are_not_cut_inside_a_pair_of_surrogates(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detected_text, "MAX_LINE", 100)
    for before in range(90, 101):
        assert read(b"x" * before + b"\xed\xa0\xbc\xed\xbd\x95" * 9)[0] == "x" * before + "🍕" * 9


def test_a_few_bad_bytes_in_utf_8_are_counted_with_their_place() -> None:
    content = (GERMAN * 50).encode() + b"bad \xff byte\nand \xfe\n" + (GERMAN * 50).encode()
    found, findings = read(content)
    assert found == GERMAN * 50 + "bad \ufffd byte\nand \ufffd\n" + GERMAN * 50
    offset = 50 * len(GERMAN.encode()) + 4
    assert findings.unreadable == {"f": (2, f"f:51:{offset}")}
    (note,) = findings.notes()
    assert isinstance(note, Caution)
    assert note.startswith("2 bytes in 1 file are in no encoding")


def test_short_lines_of_two_byte_encodings_are_not_taken_for_utf_8() -> None:
    names = "联通\n李明\n王芳\n张伟\n刘洋\n" * 30
    assert read(names.encode("gb18030"))[0] == names


def test_what_is_read_does_not_depend_on_the_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(detected_text, "WINDOW_SIZE", 3000)
    monkeypatch.setattr(detected_text, "MAX_LINE", 500)
    parts = [
        *(b"plain line\n" * 20, b"\xff\x81\n", b"nul \0 here\n", b"\r\nwin\r\n", b"mac\rmac\r"),
        *(GERMAN.encode() * 3, GERMAN.encode("cp1252") * 3, ("é x" * 700 + "\n").encode()),
        b"\xed\xa0\xbc\xed\xbd\x95\xed\xa0\n",
        *(TEXTS["gb18030"].encode("gb18030") * 4, "好\n".encode("gb18030"), "Это предложение".encode("cp1251") * 9),
    ]
    generator = random.Random(1)
    for _ in range(200):
        content = b"".join(generator.choices(parts, k=generator.randint(1, 12)))
        outcomes = set()
        for chunk in (1, 7, 997, 2**20):
            try:
                text, findings = read(content, chunk)
                outcomes.add((text, findings.notes()))
            except DataError as error:
                outcomes.add((str(error), ()))
        assert len(outcomes) == 1


@pytest.mark.parametrize(
    "content",
    [bytes(range(128, 256)) * 40, random.Random(0).randbytes(9000), GERMAN.encode("cp037") * 9, b"ab\n" + b"\0" * 5000],
)
def test_what_is_no_text_is_refused_with_its_place(content: bytes) -> None:
    with pytest.raises(DataError, match=r"^f:\d+:\d+: not text.*--encoding"):
        read(content)


def test_a_given_encoding_reads_all_and_refuses_what_does_not_fit() -> None:
    assert read(GERMAN.encode("cp1252"), encoding="latin-1")[0] == GERMAN
    found, findings = read(GERMAN.encode() * 30 + b"\xff\n", encoding="utf-8")
    assert found == GERMAN * 30 + "\ufffd\n"
    assert findings.unreadable == {"f": (1, f"f:31:{30 * len(GERMAN.encode())}")}
    with pytest.raises(DataError, match=r"f:1:\d+: the byte df is not UTF-8, and 120 of .* Leave --encoding out"):
        read(GERMAN.encode("cp1252") * 30, encoding="utf-8")


def test_a_sample_that_looks_like_no_text_has_no_encoding() -> None:
    assert guess_encoding(random.Random(0).randbytes(5000)) is None


def test_the_encodings_of_a_folder_are_one_note(tmp_path: Path) -> None:
    for number, encoding in enumerate(["utf-8", "cp1252", "cp1252", "koi8_r"]):
        text = TEXTS["koi8_r"] if encoding == "koi8_r" else GERMAN
        (tmp_path / f"{number}.txt").write_bytes(text.replace("\n", f" {number}\n").encode(encoding) * 20)
    prepared = prepare(CorpusConfig(files=(str(tmp_path),)), TokenizerConfig(kind="characters"))
    note = "3 files are not UTF-8 and are read as cp1252 (2), koi8_r (1), the first is"
    assert sum(note in line for line in prepared.notes) == 1
    decoded = prepared.tokenizer.decode(prepared.train.tokens.tolist())
    assert "weiße" in decoded
    (tmp_path / "3.txt").unlink()
    alike = prepare(CorpusConfig(files=(str(tmp_path),)), TokenizerConfig(kind="characters"))
    assert any("2 files are not UTF-8 and are read as cp1252, the first is" in line for line in alike.notes)
    (tmp_path / "3.txt").write_bytes(TEXTS["koi8_r"].replace("\n", " 3\n").encode("koi8_r") * 20)
    again = prepare(prepared.corpus, TokenizerConfig(kind="characters"))
    assert again.fingerprint == prepared.fingerprint

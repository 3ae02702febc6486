"""Translation memories (.tmx): languages, inline codes, units without a language, damaged and hostile files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qkv.data.corpus import ParallelConfig
from qkv.data.detect import detect
from qkv.data.examples import Parallel
from qkv.data.read_pairs import read_parallel
from qkv.errors import DataError

HEADER = (
    '<?xml version="1.0"?>\n<!DOCTYPE tmx SYSTEM "tmx14.dtd">\n<tmx version="1.4"><header srclang="en-us"/><body>\n'
)


def unit(**texts: str) -> str:
    variants = (f'<tuv xml:lang="{name.replace("_", "-")}"><seg>{text}</seg></tuv>' for name, text in texts.items())
    return f"<tu changedate='2023'><prop>a client</prop><note>checked</note>{''.join(variants)}</tu>\n"


def units(count: int = 50) -> list[str]:
    return [unit(de_DE=f"Satz Nummer {n} ist hier", en_US=f"sentence number {n} is here") for n in range(count)]


def write(folder: Path, units: list[str], header: str = HEADER, end: str = "</body></tmx>", code: str = "utf-8") -> str:
    path = folder / "memory.tmx"
    path.write_bytes((header + "".join(units) + end).encode(code))
    return str(path)


def read(file: str, **options: Any) -> Parallel:
    return read_parallel(ParallelConfig(files=(file,), **options), purpose="evaluate")


@pytest.mark.parametrize("code", ["utf-8", "utf-16"])
def test_a_memory_is_parallel_text_from_its_source_language(tmp_path: Path, code: str) -> None:
    file = write(tmp_path, units(), code=code)
    assert detect({"files": [file]}).content == "pairs"
    found = read(file)
    assert found.directions == (("en-US", "de-DE"),)
    assert len(found.train) == 50
    assert next(iter(found.train.texts())) == ("sentence number 0 is here", "Satz Nummer 0 ist hier")


def test_codes_are_left_out_and_marked_text_stays(tmp_path: Path) -> None:
    english = "<bpt i='1'>{\\b </bpt>Save &amp;<hi> close</hi><ept i='1'>}</ept>\n   the <ph x='1'>{0}</ph>file"
    found = read(write(tmp_path, [unit(en_US=english, de_DE="Sichern")]))
    assert list(found.train.texts()) == [("Save & close the file", "Sichern")]


def test_of_several_languages_two_are_taken_with_a_note(tmp_path: Path) -> None:
    file = write(tmp_path, [*units(), unit(en_US="only French", fr_FR="seulement en français")])
    found = read(file)
    assert found.directions == (("en-US", "de-DE"),)
    assert len(found.train) == 50
    assert any("(en-US, de-DE, fr-FR) en-US and de-DE are taken" in note for note in found.notes)
    assert any("1 of 51 translation units have no text in en-US or in de-DE" in note for note in found.notes)
    french = read(file, source="fr-FR", target="en-US")
    assert list(french.train.texts()) == [("seulement en français", "only French")]


def test_damaged_units_are_counted(tmp_path: Path) -> None:
    broken = "<tu><tuv xml:lang='en-US'><seg>a <b</seg></tuv></tu>"
    found = read(write(tmp_path, [*units(200), broken]))
    assert len(found.train) == 200
    assert any("not valid XML" in note for note in found.notes)
    cut = read(write(tmp_path, units(200), end="<tu><tuv xml:lang='en-US'><seg>the last"))
    assert any("cut short" in note for note in cut.notes)
    with pytest.raises(DataError, match="cannot be used, the first here: a translation unit that is not valid XML"):
        read(write(tmp_path, [*units(9), broken]))


def test_entities_are_not_expanded(tmp_path: Path) -> None:
    bomb = '<!DOCTYPE tmx [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;">]>\n<tmx><body>'
    with pytest.raises(DataError, match="undefined entity"):
        read(write(tmp_path, [unit(en_US="&b;", de_DE="&b;")], header=bomb))


def test_a_memory_in_one_language_or_for_a_language_model_is_refused(tmp_path: Path) -> None:
    one = write(tmp_path, [unit(en_US="alone")])
    with pytest.raises(DataError, match="holds texts in one language only, en-US"):
        read(one)
    with pytest.raises(DataError, match=r"no rows|empty"):
        read(write(tmp_path, []))


def test_copies_among_evaluated_pairs_are_not_called_training_pairs(tmp_path: Path) -> None:
    found = read(write(tmp_path, [*units(), *units(1)]))
    assert any("1 of 51 evaluation pairs (2.0%) are copies of others" in note for note in found.notes)

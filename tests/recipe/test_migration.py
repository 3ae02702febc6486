"""What a person writes is never converted; tests/reliability/test_format_1.py resumes runs of the first format."""

from __future__ import annotations

from pathlib import Path

import pytest

from qkv.errors import ConfigError
from qkv.recipe.recipe import FORMAT, migrate, read_sections


def test_format_2_had_a_mark_for_a_tokenizer_of_the_model() -> None:
    values = {"format": 2, "corpus": {"fingerprint": "x"}, "tokenizer": {"kind": "auto", "case": "kept"}}
    assert migrate(values, "the test")["tokenizer"] == {"case": "kept"}
    values["tokenizer"] = {"kind": "bpe", "size": 300}
    assert migrate(values, "the test")["tokenizer"] == {"kind": "bpe", "size": 300}


def test_what_a_person_writes_is_not_converted(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[training]\nrate = 0.1\n", encoding="utf-8")
    assert read_sections(path)["training"] == {"rate": 0.1}  # which the strict config refuses, with the nearest name


@pytest.mark.parametrize("number", ["0", "99", '"two"', "true", "1.0"])
def test_other_formats_are_refused(number: str, tmp_path: Path) -> None:
    path = tmp_path / "recipe.toml"
    path.write_text(f"format = {number}\n[training]\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=f"from 1 to {FORMAT}") as refusal:
        read_sections(path)
    assert ("update qkv" in str(refusal.value)) == (number == "99")


def test_sections_of_a_wrong_kind_are_left_to_the_check() -> None:
    values = {"corpus": {"fingerprint": "x"}, "training": 3}
    assert migrate(values, "the test") == values

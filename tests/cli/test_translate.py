"""`qkv train`, `translate` and `evaluate` on pairs of texts, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import qkv
import small_pairs
from cli.commands import run
from data.bad_examples import FILMS, csv
from data.bad_inputs import prose
from qkv.generation.sampling import Sampling
from qkv.tasks.registry import load_recipe

STEPS = {"transformer": "200", "rnn-translator": "150"}


def trained(folder: Path, kind: str, *words: str) -> str:
    assert run(["train", *words, *small_pairs.settings(kind), "--run", str(folder), "--seed", "1"], True) == 0
    return str(folder)


@pytest.fixture(scope="module", params=["transformer", "rnn-translator"])
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model that has learned most of it."""
    folder = tmp_path_factory.mktemp(request.param)
    files = small_pairs.write(folder)
    return trained(folder / "run", request.param, *files, "--tokenizer", "words", "--steps", STEPS[request.param])


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> str:
    """One that has hardly begun."""
    folder = tmp_path_factory.mktemp("other")
    return trained(folder / "run", "rnn-translator", *small_pairs.write(folder), "--steps", "2")


@pytest.fixture
def tested(tmp_path: Path) -> list[str]:
    return small_pairs.write(tmp_path, "test", 30, 9)


def answer(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run([*words, "--json"], True) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    capsys.readouterr()
    assert run(list(words), False) == 2
    return capsys.readouterr().err


def test_evaluate(model: str, tested: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    found = answer(capsys, "evaluate", model, *tested)
    assert (found["sentences"], found["metric"], found["beams"]) == (30, "bleu", 5)
    assert found["bleu_low"] <= found["bleu"] <= found["bleu_high"]
    assert found["bleu"] > 30
    assert {"chrf", "bleu_lowercased", "signature", "chrf_signature", "loss"} <= found.keys()
    assert sum(each["count"] for each in found["by_length"]) == 30
    assert len(found["worst"]) == 5
    assert {"row", "score", "source", "translation", "references"} == found["worst"][0].keys()
    assert run(["evaluate", model, *tested], True) == 0
    said = capsys.readouterr().out
    assert f"{found['bleu']:.2f}" in said
    assert "BLEU, lowercased" in said
    assert found["signature"] in said
    assert f"chrF  {found['chrf_signature']}" in said
    assert "words of the reference" in said
    assert found["worst"][0]["source"] in said


def test_another_system_beside_it(
    model: str, other: str, tested: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    found = answer(capsys, "evaluate", model, *tested, "--compare-with", other, "--beams", "1")
    assert found["compared_with"]["first"] == pytest.approx(found["bleu"])
    assert found["compared_with"]["second"] < found["bleu"]
    assert found["compared_with"]["p"] < 0.05
    assert run(["evaluate", model, *tested, "--compare-with", other], True) == 0
    assert f"compared with {other}: BLEU" in capsys.readouterr().out


def test_a_table_and_its_columns(other: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    english, german = small_pairs.sides(20, 9)
    path = tmp_path / "table.tsv"
    rows = "".join(f"{n}\t{one}\t{two}\n" for n, (one, two) in enumerate(zip(english, german, strict=True)))
    path.write_text("number\tfrom\tto\n" + rows, encoding="utf-8")
    found = answer(capsys, "evaluate", other, str(path), "--source", "from", "--target", "to", "--beams", "1")
    assert found["sentences"] == 20
    assert "name the columns: --source NAME" in refused(capsys, "evaluate", other, str(path))


def test_what_is_no_pair_or_no_translator(
    other: str, tested: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], book: str
) -> None:
    films = tmp_path / "films.csv"
    films.write_bytes(csv(FILMS))
    assert "name the columns: --source NAME --target NAME" in refused(capsys, "evaluate", other, str(films))
    assert "is a text without its translation" in refused(capsys, "evaluate", other, book)
    assert "no data was given" in refused(capsys, "evaluate", other)
    assert "the model learned en to de. Name the source first" in refused(capsys, "evaluate", other, *tested[::-1])
    assert "scored on pairs of texts. Leave it out" in refused(capsys, "evaluate", other, *tested, "--label", "x")
    assert "expected a language, such as en" in refused(capsys, "evaluate", other, "--languages", "en", "de", *tested)
    small = ["--set", "model.width=24", "--set", "model.layers=1", "--steps", "2", "--tokenizer", "characters"]
    assert run(["train", book, "--model", "gpt", *small, "--run", str(tmp_path / "gpt")], True) == 0
    gpt = str(tmp_path / "gpt")
    assert "scored on plain text. Leave it out" in refused(capsys, "evaluate", gpt, *tested, "--source", "en")
    assert "needs a translator" in refused(capsys, "evaluate", other, *tested, "--compare-with", gpt)
    assert "needs a translator" in refused(capsys, "translate", gpt, "one two")
    assert "gives no vectors of texts" in refused(capsys, "embed", other, "one two")
    assert "gives no vectors of texts" in refused(capsys, "embed", other, "one two", "two", "--word", "two")
    for data in ([str(films)], tested, [book]):
        assert "a translator, which cannot be trained further" in refused(capsys, "finetune", other, *data)
    zeros = tmp_path / "zeros.txt"
    zeros.write_bytes(b"eins\n" + bytes(20))
    assert "one per line." in refused(capsys, "translate", other, "--file", str(zeros))


def test_the_columns_of_training_are_evaluated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "pairs.csv"
    rows = (f"{n},{one},final,{two}\n" for n, (one, two) in enumerate(zip(*small_pairs.sides(), strict=True)))
    table.write_text("Nr,English (US),Status,Deutsch (DE)\n" + "".join(rows), encoding="utf-8")
    columns = ["--source", "English (US)", "--target", "Deutsch (DE)"]
    folder = trained(tmp_path / "run", "rnn-translator", str(table), *columns, "--steps", "1")
    assert "TABLE" in capsys.readouterr().out
    assert answer(capsys, "evaluate", folder, str(table), "--beams", "1")["sentences"] == 160


def test_the_rows_of_a_table_are_translated(other: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = tmp_path / "new.csv"
    table.write_text("id,en\n1,one two\n2,three four\n", encoding="utf-8")
    found = answer(capsys, "translate", other, "--file", str(table), "--beams", "1")
    assert [text["text"] for text in found["texts"]] == ["one two", "three four"]
    assert "only a table that --file names has columns" in refused(capsys, "translate", other, "one", "--source", "en")


def test_alignments(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    text = "one two three"
    capsys.readouterr()
    assert run(["translate", model, text, "--alignments"], True) == 0
    translation, numbers, words = capsys.readouterr().out.splitlines()
    pairs = [tuple(map(int, each.split("-"))) for each in numbers.split()]
    assert [second for _, second in pairs] == list(range(len(translation.split())))
    assert all(0 <= first < 3 for first, _ in pairs)
    assert words.split() == [f"{text.split()[one]}-{translation.split()[two]}" for one, two in pairs]
    found = answer(capsys, "translate", model, text, "--alignments", "--nbest", "2")["texts"][0]["translations"]
    assert len(found) == 2
    assert found[0]["alignment"] == [list(pair) for pair in pairs]
    (sentence,) = found[0]["sentences"]
    assert sentence["source_pieces"][:3] == text.split()
    assert len(sentence["weights"]) == len(sentence["target_pieces"])
    assert all(sum(row) == pytest.approx(1, abs=1e-4) for row in sentence["weights"])
    assert "alignment" not in answer(capsys, "translate", model, text)["texts"][0]["translations"][0]


def test_strange_words_are_carried_over(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Names, numbers and characters that the training never showed; in the order of the texts, and said."""
    texts = ["one Zbigniew three", "one two three", "one 3.141 three 東京"]
    capsys.readouterr()
    assert run(["translate", model, *texts], True) == 0
    shown = capsys.readouterr()
    first, second, third = shown.out.splitlines()
    assert "Zbigniew" in first
    assert {"3.141", "東京"} <= set(third.split())
    assert "carried over as they stand: Zbigniew, 3.141, 東京; --no-carry leaves them to it" in shown.err
    found = answer(capsys, "translate", model, *texts, "--no-carry")["texts"]
    assert found[1]["translations"][0]["text"] == second
    assert all("Zbigniew" not in each["translations"][0]["text"] for each in found)
    assert answer(capsys, "translate", model, *texts)["texts"][2]["translations"][0]["carried"] == ["3.141", "東京"]


def test_drawing(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["translate", model, "one two three", "--nbest", "4"]
    drawn = [answer(capsys, *words, "--temperature", "3", "--seed", seed)["texts"] for seed in ("1", "1", "2")]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len({each["text"] for each in drawn[0][0]["translations"]}) > 1
    opened, texts, wild = qkv.load(model), ["one two three"] * 3, Sampling(temperature=3.0)
    whole = [each[0].text for each in opened.translate(texts, sampling=wild)]
    parts = [opened.translate(texts[n], sampling=wild, first=n)[0][0].text for n in range(3)]  # a slow pipe
    assert whole == parts
    assert len(set(whole)) > 1
    greedy = [answer(capsys, *words[:3], *more)["texts"] for more in (["--temperature", "0"], ["--beams", "1"])]
    assert [each[0]["translations"][0]["text"] for each in greedy] == [greedy[0][0]["translations"][0]["text"]] * 2
    assert "it belongs to sampling. Give --temperature 1" in refused(capsys, *words, "--top-p", "0.5")
    assert "temperature -1.0: expected 0" in refused(capsys, *words, "--temperature", "-1")
    assert "--beams 0: expected 1" in refused(capsys, *words[:3], "--beams", "0")
    assert "--nbest 0: expected 1" in refused(capsys, *words[:3], "--nbest", "0")
    assert "--seed -1: expected" in refused(capsys, *words, "--seed", "-1")


def test_texts_are_cut_by_the_rules_of_the_source_language(tmp_path: Path) -> None:
    """German writes ordinals with a full stop."""
    text = "Der Mann kam am 3. Mai nach Hause, und der Hund lief ihm den ganzen Weg bis zur Brücke entgegen. " * 2
    counts = {}
    for order in (1, -1):
        files = small_pairs.write(tmp_path / str(order))[::order]
        folder = trained(tmp_path / f"run{order}", "rnn-translator", *files, "--steps", "1")
        counts[order] = len(qkv.load(folder).translate(text)[0][0].sentences)
    assert counts == {1: 4, -1: 2}


def test_both_directions(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = small_pairs.write(tmp_path)
    folder = trained(tmp_path / "run", "rnn-translator", *files, "--directions", "both", "--steps", "2")
    recipe: Any = load_recipe(Path(folder) / "recipe.toml")
    assert (recipe.corpus.directions, recipe.corpus.languages) == ("both", ("en", "de"))
    assert run(["translate", folder, "one", "--to", "de"], True) == 0
    assert "expected --to with one of de, en" in refused(capsys, "translate", folder, "one")
    assert answer(capsys, "evaluate", folder, *files[::-1], "--beams", "1")["sentences"] == 160
    strange = [str(Path(name).rename(tmp_path / f"x{n}.txt")) for n, name in enumerate(files)]
    assert "Give --languages" in refused(capsys, "evaluate", folder, *strange)
    assert answer(capsys, "evaluate", folder, *strange, "--languages", "de", "en", "--beams", "1")["sentences"] == 160


def test_separate_vocabularies(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each language has merges of its own and both one numbering; judged, opened and continued by the same."""
    files, valid = small_pairs.write(tmp_path), small_pairs.write(tmp_path, "val", 20, 8)
    apart = ["--set", "corpus.vocabulary=separate", "--tokenizer", "bpe"]
    words = [*files, "--valid", *valid, *apart, "--steps", "4", "--set", "training.checkpoint_every=2"]
    folder = tmp_path / "run"
    learned = answer(capsys, "train", *words, *small_pairs.settings("transformer"), "--run", str(folder))
    opened = qkv.load(folder)
    own, other = opened.bundle.tokenizer, opened.bundle.target_tokenizer
    assert own.vocabulary == other.vocabulary == opened.bundle.config.vocabulary
    assert own.encode("eins zwei drei") != other.encode("eins zwei drei")
    assert own.decode(other.encode("eins zwei drei")) == "eins zwei drei"
    found = answer(capsys, "evaluate", str(folder), *valid)
    assert found["loss"] == pytest.approx(learned["valid"]["loss"], rel=1e-3)
    assert run(["translate", str(folder), "one two"], True) == 0
    assert run(["export", str(folder), str(tmp_path / "hf"), "--to", "huggingface"], True) == 0
    before = own.fingerprint, other.fingerprint
    assert run(["train", "--run", str(folder), "--resume"], True) == 0
    again = qkv.load(folder).bundle
    assert (again.tokenizer.fingerprint, again.target_tokenizer.fingerprint) == before
    (folder / "best" / "target_tokenizer.json").write_text("{}", encoding="utf-8")
    assert run(["translate", str(folder), "one two"], False) == 5
    capsys.readouterr()
    refusal = refused(capsys, "train", *files, *apart, "--directions", "both", "--steps", "2")
    assert "several languages or directions here" in refusal
    words = ["--set", "corpus.vocabulary=separate", "--tokenizer", "words", "--steps", "2"]
    assert "only byte pairs are learned for each" in refused(capsys, "train", *files, *words)


def test_short_files_of_unequal_length_are_refused_as_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """By their names they are a text and its translation: not to be read as text, which would be too short."""
    first, second = small_pairs.write(tmp_path, "train", 30)
    lines = Path(second).read_text(encoding="utf-8").splitlines(keepends=True)
    for left in (29, 2, 0):
        Path(second).write_text("".join(lines[:left]), encoding="utf-8")
        said = refused(capsys, "train", first, second, "--steps", "2", "--run", str(tmp_path / "run"))
        assert f"30 lines here, {left} in" in said
        assert "expected one translation per line" in said


def test_what_the_training_computed_stands_beside_its_scores(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    card = (Path(model) / "card.md").read_text(encoding="utf-8")
    assert "| FLOPs of the training | " in card
    files, steps = small_pairs.write(tmp_path), {}
    for count in ("2", "4"):
        words = [*files, *small_pairs.settings("rnn-translator"), "--run", str(tmp_path / count), "--steps", count]
        steps[count] = answer(capsys, "train", *words)["training_flops"]
    assert steps["4"] == 2 * steps["2"] > 0
    words = [*files, *small_pairs.settings("rnn-translator"), "--run", str(tmp_path / "more"), "--steps", "2"]
    assert run(["train", *words], True) == 0
    assert "FLOPs of the training" in capsys.readouterr().out


def test_options_of_train(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files, valid = small_pairs.write(tmp_path / "a", "pairs"), small_pairs.write(tmp_path / "b", "other", 20, 8)
    renamed = [str(Path(name).rename(tmp_path / f"text{n}.txt")) for n, name in enumerate(files)]
    folder = trained(tmp_path / "run", "rnn-translator", *renamed, "--valid", *valid, "--test", *valid, "--steps", "1")
    recipe: Any = load_recipe(Path(folder) / "recipe.toml")
    assert recipe.corpus.valid == recipe.corpus.test == tuple(valid)
    said = refused(capsys, "train", "--valid", *valid, "--model", "transformer")
    assert "Name it before --valid, which takes all files that follow it" in said
    assert "--valid needs a value" in refused(capsys, "train", *renamed, "--valid")
    assert "expected a language" in refused(capsys, "train", "--languages", "en", "de", renamed[0])
    table = tmp_path / "table.csv"
    lines = [f"{n},{one},{two}" for n, (one, two) in enumerate(zip(*small_pairs.sides(), strict=True))]
    table.write_text("\n".join(["id,left,right", *lines]) + "\n", encoding="utf-8")
    columns = ["--source", "right", "--target", "left", "--steps", "1"]
    recipe = load_recipe(Path(trained(tmp_path / "table", "rnn-translator", str(table), *columns)) / "recipe.toml")
    assert (recipe.corpus.source, recipe.corpus.target) == ("right", "left")


def test_letters_to_phonemes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = small_pairs.spoken(tmp_path)
    words = [table, "--valid", table, "--metric", "errors", "--steps", "150"]
    folder = trained(tmp_path / "run", "rnn-translator", *words)
    assert "symbol error rate" in (Path(folder) / "card.md").read_text(encoding="utf-8")
    recipe: Any = load_recipe(Path(folder) / "recipe.toml")
    assert (recipe.task.metric, recipe.tokenizer.kind) == ("errors", "words")
    found = answer(capsys, "evaluate", folder, table)
    assert found["metric"] == "errors"
    assert found["words"] == 72  # two words have two references each
    assert 0 <= found["symbol_error_rate"] < 0.5
    assert found["symbol_error_rate"] <= found["word_error_rate"]
    assert sum(each["count"] for each in found["by_length"]) == 72
    assert "bleu" not in found
    assert answer(capsys, "evaluate", folder, table, "--metric", "bleu")["sentences"] == 74
    beside = answer(capsys, "evaluate", folder, table, "--compare-with", folder)["compared_with"]
    assert beside["difference"] == 0
    capsys.readouterr()
    assert run(["translate", folder, "s e v e n"], True) == 0
    assert capsys.readouterr().out.strip().isupper()
    assert run(["translate", folder, "s é v e n", "s e"], True) == 0
    shown = capsys.readouterr()
    assert "é" not in shown.out, "no letter stands among phonemes"
    assert "not in the vocabulary, and read as unknown: é." in shown.err


def test_long_sentences_to_check_on_are_no_fault(tmp_path: Path) -> None:
    """Longer than the context of the model, on either side."""
    files, valid = small_pairs.write(tmp_path), []
    for place, ending in enumerate(("en", "de")):
        lines = small_pairs.sides(20, 8)[place]
        lines[3] = " ".join(lines * 12)
        path = tmp_path / f"val.{ending}"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        valid.append(str(path))
    trained(tmp_path / "run", "transformer", *files, "--valid", *valid, "--tokenizer", "words", "--steps", "1")


def test_prose_alone_stays_a_language_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "book.txt"
    path.write_text(prose())
    assert "is a text without its translation" in refused(capsys, "train", str(path), "--task", "translation")

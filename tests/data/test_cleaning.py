"""`qkv.data.clean`: good documents stay, rubbish goes, and what is written is read back as the same documents."""

from __future__ import annotations

import gzip
import json
import random
from collections import Counter
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.rubbish import changed, good, planted
from data_at_hand import real
from qkv.data.clean import measures, pipeline
from qkv.data.clean.filters import FILTERS, MAX_CHARACTERS, Limits, Skippable
from qkv.data.clean.pipeline import CleaningReport, Document, FilterChain, clean
from qkv.data.corpus import CorpusConfig
from qkv.data.findings import Findings
from qkv.data.formats.text import read_documents
from qkv.data.text_files import find_text_files
from qkv.errors import ConfigError, DataError, InputError

NO_COPIES = ("copy", "near-copy")


def judged(texts: list[str], chain: FilterChain | None = None) -> list[str | None]:
    """The filter that drops each text."""
    reasons = (chain or FilterChain(Limits())).decide([Document(text, len(text), len(text.encode())) for text in texts])
    return [None if reason is None else reason.filter for reason in reasons]


def documents(path: Path, **options: Any) -> list[str]:
    corpus = CorpusConfig(files=(str(path),), **options)
    found, current = [], ""
    for text, ends in read_documents(find_text_files(corpus.files, None, Findings()), corpus, Findings()):
        current += text
        if ends:
            found.append(current)
            current = ""
    return found


def rows(path: Path, texts: list[str]) -> Path:
    path.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    return path


def cleaned(
    source: Path | str, out: Path | None = None, limits: Limits | None = None, **options: Any
) -> CleaningReport:
    skip = options.pop("skip", ())
    dropped = options.pop("dropped", None)
    return clean(CorpusConfig(files=(str(source),), **options), limits or Limits(), skip, out, dropped)


def test_good_documents_stay() -> None:
    assert judged(good()) == [None] * 100


@pytest.mark.parametrize("kind", planted())
def test_rubbish_goes(kind: str) -> None:
    texts, wanted = planted()[kind]
    found = Counter(judged(texts, FilterChain(Limits(), NO_COPIES)))
    assert found[wanted] >= 90, found
    assert found[None] <= 5, found


def test_copies_go() -> None:
    chain = FilterChain(Limits())
    assert judged(good(), chain) == [None] * 100
    assert judged([f"\n {text.upper()}".replace(" ", "  ") for text in good()], chain) == ["copy"] * 100
    chance = random.Random(2)
    one_word = Counter(judged([changed(text, chance, 1) for text in good()], chain))
    assert one_word["near-copy"] >= 98, one_word
    assert chain.counts["near-copy"].dropped_documents == one_word["near-copy"]


def test_near_copies_of_longer_documents_go() -> None:
    """Five words exchanged in some 250 to 400."""
    pages = ["\n".join(good()[start : start + 4]) for start in range(0, 100, 4)]
    chance = random.Random(2)
    found = Counter(judged([*pages, *(changed(page, chance, 5) for page in pages)]))
    assert found[None] == 25 + (missed := 25 - found["near-copy"])
    assert missed <= 1


def test_other_texts_are_no_copies() -> None:
    """Half of the words exchanged: another text."""
    chain = FilterChain(Limits())
    judged(good(), chain)
    chance = random.Random(3)
    assert judged([changed(text, chance, len(text.split()) // 2) for text in good()], chain) == [None] * 100


CHINESE = "今天天气很好,我们一家人去公园散步。孩子们在草地上跑来跑去,奶奶坐在长椅上看书。中午我们在湖边吃了自己做的饭。"
JAPANESE = "昨日は雨が降っていたので、家で本を読んでいました。夕方になると空が明るくなり、妹と近くの店まで歩きました。"
THAI = "เมื่อวานนี้ฝนตกทั้งวันฉันจึงอยู่บ้านอ่านหนังสือกับน้องสาว ตอนเย็นเราเดินไปตลาดใกล้บ้านเพื่อซื้อผลไม้และดอกไม้ให้คุณแม่"
KHMER = "ម្សិលមិញភ្លៀងធ្លាក់ពេញមួយថ្ងៃ ដូច្នេះខ្ញុំនៅផ្ទះអានសៀវភៅជាមួយប្អូនស្រី។"
TIBETAN = "བོད་ཀྱི་སྐད་ཡིག་ནི་སྐད་རིགས་ཤིག་ཡིན། ང་ཚོས་དེབ་ཀློག་གི་ཡོད།"
HINDI = "कल पूरे दिन बारिश होती रही, इसलिए मैं घर पर किताब पढ़ता रहा। शाम को हम बाज़ार गए।"
ARABIC = "أمطرت السماء طوال يوم أمس فبقيت في البيت أقرأ كتابا. في المساء ذهبنا إلى السوق."
CZECH = "Strč prst skrz krk. Včera celý den pršelo, a tak jsem zůstal doma a četl knihu se sestrou."
GERMAN = "Rindfleischetikettierungsüberwachung. Gestern hat es den ganzen Tag geregnet, und ich habe gelesen."


@pytest.mark.parametrize("text", [CHINESE, JAPANESE, THAI, KHMER, TIBETAN, HINDI, ARABIC, CZECH, GERMAN])
def test_no_script_is_dropped(text: str) -> None:
    """A sentence, a page, a short line."""
    page = "\n".join(text[start:] + text[:start] for start in range(0, 40, 10))
    assert judged([text, page, text[:6]], FilterChain(Limits(), ("near-copy",))) == [None] * 3


@pytest.mark.parametrize("text", [CHINESE, JAPANESE, THAI])
def test_names_and_numbers_without_spaces(text: str) -> None:
    mixed = "\n".join(f"{text[start : start + 15]} %s: %d, {start} I/O (x)" for start in range(30))
    assert judged([mixed], FilterChain(Limits(), NO_COPIES)) == [None]
    link = "https://example.org/a/very/long/path/to/some/page/of/this/site.html"
    assert judged([text + link], FilterChain(Limits(), NO_COPIES)) == [None]


@pytest.mark.parametrize("text", [CHINESE, JAPANESE, THAI])
def test_near_copies_without_spaces(text: str) -> None:
    long = text + text[::-1]
    near = long.replace(long[30], "", 1)
    assert judged([long, near, text[20:] + text[:5]]) == [None, "near-copy", None]


def test_words_without_spaces_are_counted() -> None:
    found, words = measures.measure([CHINESE, THAI, "two words"])
    assert found.words[0] == sum(character.isalpha() for character in CHINESE)
    assert found.words[1] > 50
    assert found.words[2] == len(words.hashes) - found.words[0] - found.words[1] == 2


def test_every_filter_has_a_limit_and_can_be_left_out() -> None:
    assert [*(each.name for each in FILTERS), *NO_COPIES] == ["too-long", *get_args(Skippable)]
    assert {each.limit for each in FILTERS} | {"similarity"} == set(vars(Limits()))
    for name, (texts, _) in planted().items():
        assert judged(texts, FilterChain(Limits(), get_args(Skippable))) == [None] * 100, name


@pytest.mark.parametrize(
    ("values", "mention"),
    [
        ({"min_words": -1}, "--min-words -1"),
        ({"max_broken": float("nan")}, "--max-broken nan"),
        ({"max_characters": MAX_CHARACTERS + 1}, "10,000,000"),
        ({"similarity": 0.2}, "0.7 to 1"),
        ({"similarity": 1.5}, "--skip near-copy"),
    ],
)
def test_limits_that_cannot_be(values: dict[str, float], mention: str) -> None:
    with pytest.raises(ConfigError, match=mention):
        Limits(**values)  # type: ignore[arg-type]


def test_what_is_dropped_is_counted_and_shown(tmp_path: Path) -> None:
    source = rows(tmp_path / "crawl.jsonl", ["\x1b]0;owned\x07 " * 5, *good()[:3], "\u202eevil\u202c " * 60, good()[0]])
    dropped = tmp_path / "dropped.jsonl"
    found = cleaned(source, tmp_path / "out.jsonl", dropped=dropped)
    assert (found.documents, found.kept_documents) == (6, 3)
    by_name = {each.name: each for each in found.filters}
    assert by_name["broken"].documents == 6
    assert by_name["copy"].documents == 4
    assert by_name["copy"].dropped_bytes == len(good()[0].encode())
    assert sum(each.dropped_bytes for each in found.filters) == found.bytes - found.kept_bytes
    shown = [example for each in found.filters for example in each.examples]
    assert len(shown) == 3
    assert all(example.isprintable() and len(example) < 400 for example in shown)
    written = [json.loads(line) for line in dropped.read_text().splitlines()]
    assert [row["filter"] for row in written] == ["broken", "repeated-words", "copy"]
    assert written[-1]["text"] == good()[0]
    assert written[0]["value"] > Limits().max_broken


def test_a_long_document_is_not_held(tmp_path: Path) -> None:
    source = tmp_path / "long.txt"
    source.write_text("word " * 400_000)
    source.with_name("short.txt").write_text("A short one.")
    dropped = tmp_path / "dropped.jsonl"
    corpus = CorpusConfig(files=(str(source), str(source.with_name("short.txt"))))
    found = clean(corpus, Limits(max_characters=1000), (), tmp_path / "out.txt", dropped)
    assert found.bytes == 2_000_012
    assert (tmp_path / "out.txt").read_text() == "A short one."
    row = json.loads(dropped.read_text())
    assert (row["filter"], row["characters"], len(row["text"])) == ("too-long", 2_000_000, 1000)


def test_batches_hold_what_they_may() -> None:
    pieces = [pipeline.DocumentPiece("x" * 1000, False)] * 5000 + [pipeline.DocumentPiece("", True)]
    (batch,) = pipeline.batches(pieces, 100)
    assert [(len(each.text), each.characters) for each in batch] == [(100, 5_000_000)]
    many = list(pipeline.batches([pipeline.DocumentPiece("é", True)] * 10_000, 100))
    assert [len(each) for each in many] == [4096, 4096, 1808]
    assert many[0][0] == Document("é", 1, 2)


def test_batches_change_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Copies are found within a batch and across batches alike."""
    chance = random.Random(4)
    texts = [text for each in good() for text in (each, changed(each, chance, 1), each.upper())]
    source = rows(tmp_path / "crawl.jsonl", texts)
    whole = cleaned(source, tmp_path / "whole.jsonl")
    monkeypatch.setattr(pipeline, "BATCH_DOCUMENTS", 25)
    assert cleaned(source, tmp_path / "small.jsonl").filters == whole.filters
    assert (tmp_path / "small.jsonl").read_bytes() == (tmp_path / "whole.jsonl").read_bytes()


line = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=30).filter(str.strip)
paragraph = st.lists(line, min_size=1, max_size=4).map("\n".join)
anything = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), min_size=1).filter(str.strip)
EVERYTHING = get_args(Skippable)


@settings(max_examples=8)
@given(st.data())
@pytest.mark.parametrize(
    ("ending", "documents_are", "kind"),
    [
        ("jsonl", "files", anything),
        ("jsonl.gz", "lines", anything),
        ("txt", "lines", line),
        ("txt", "paragraphs", paragraph),
        ("txt.gz", "paragraphs", paragraph),
        ("txt", "files", paragraph),
    ],
)
def test_documents_are_read_back(
    tmp_path_factory: pytest.TempPathFactory, ending: str, documents_are: Any, kind: Any, data: st.DataObject
) -> None:
    texts = data.draw(st.lists(kind, min_size=1, max_size=6))
    folder = tmp_path_factory.mktemp("back")
    source = rows(folder / "in.jsonl", texts)
    out = folder / f"out.{ending}"
    found = cleaned(source, out, skip=EVERYTHING, documents=documents_are)
    back = documents(out, **({"documents": found.read_back} if found.read_back else {}))
    assert back == texts
    if "jsonl" in ending:
        assert found.read_back is None
    elif documents_are == "files" and len(texts) > 1:
        assert found.read_back == "paragraphs"
    else:
        assert found.read_back == documents_are


def test_blank_ends_are_all_that_a_text_file_loses(tmp_path: Path) -> None:
    source = rows(tmp_path / "in.jsonl", ["\n \n  first\nof two \n\n", "second\n"])
    found = cleaned(source, tmp_path / "out.txt")
    assert found.read_back == "paragraphs"
    assert documents(tmp_path / "out.txt", documents="paragraphs") == ["  first\nof two ", "second"]
    cleaned(rows(tmp_path / "one.jsonl", ["\n only\n\none \n\n"]), tmp_path / "one.txt")
    assert documents(tmp_path / "one.txt") == ["\n only\n\none \n\n"]


@pytest.mark.parametrize("first", ["%PDF is how some begin", "BZh and others", "\ufeffa mark inside"])
def test_a_text_is_not_taken_for_something_else(tmp_path: Path, first: str) -> None:
    source = rows(tmp_path / "in.jsonl", [first, "and more"])
    cleaned(source, tmp_path / "out.txt", documents="lines", skip=("broken",))
    assert documents(tmp_path / "out.txt", documents="lines") == [first, "and more"]


@pytest.mark.parametrize(
    ("texts", "kind", "mention"),
    [
        (["one\n\nblank line", "another"], "files", "--documents paragraphs"),
        (["fine", "one\n \nblank"], "paragraphs", "document 2"),
        (["two\nlines", "x"], "lines", "several lines"),
        (["a NUL \0 in a longer text " * 9, "another"], "files", "NUL"),
    ],
)
def test_what_does_not_fit_a_text_file(tmp_path: Path, texts: list[str], kind: Any, mention: str) -> None:
    source = rows(tmp_path / "in.jsonl", texts)
    with pytest.raises(DataError, match=mention) as caught:
        cleaned(source, tmp_path / "out.txt", documents=kind, skip=("broken", "repeated-words"))
    assert "Write .jsonl" in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.jsonl"]


def test_nothing_left_is_no_file(tmp_path: Path) -> None:
    source = rows(tmp_path / "in.jsonl", ["---", "***"])
    dropped = tmp_path / "dropped.jsonl.gz"
    found = cleaned(source, tmp_path / "out.jsonl", dropped=dropped)
    assert found.kept_documents == 0
    assert not (tmp_path / "out.jsonl").exists()
    assert len(gzip.decompress(dropped.read_bytes()).splitlines()) == 2


def test_what_is_read_is_not_written(tmp_path: Path) -> None:
    source = rows(tmp_path / "in.jsonl", good()[:2])
    with pytest.raises(InputError, match="is one of the files that are read"):
        cleaned(tmp_path, source)


def test_a_bad_file_leaves_nothing(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    rows(source, good())
    with source.open("ab") as file:
        file.write(b"\xff\n" * 200)
    with pytest.raises(DataError):
        cleaned(source, tmp_path / "out.jsonl", dropped=tmp_path / "dropped.jsonl")
    assert [path.name for path in tmp_path.iterdir()] == ["in.jsonl"]


@pytest.mark.parametrize(
    ("name", "kind", "most"),
    [
        ("tinyshakespeare/input.txt", "paragraphs", 0.002),
        ("tinystories/tinystories_1000.json.gz", "files", 0.0),
        ("wikitext-2/wikitext_1000.json.gz", "files", 0.0),
        ("ece1786/SmallSimpleCorpus.txt", "files", 0.0),
        ("ece1786/LargerCorpus.txt", "paragraphs", 0.06),  # its price lists
        ("multi30k/val.cs.gz", "lines", 0.002),
    ],
)
def test_real_texts_lose_little(name: str, kind: Any, most: float) -> None:
    found = cleaned(real(name), documents=kind)
    lost = 1 - found.kept_bytes / found.bytes
    assert lost <= most, [(each.name, each.dropped_bytes, each.examples) for each in found.filters if each.examples]


def test_a_list_of_words_stays(tmp_path: Path) -> None:
    """First names; some are there twice, for a girl and for a boy."""
    names = real("names/names.txt").read_text().split()[:3000]
    path = tmp_path / "names.txt"
    path.write_text("\n".join(names))
    found = cleaned(path, tmp_path / "out.txt", documents="lines")
    assert (tmp_path / "out.txt").read_text().split() == list(dict.fromkeys(names))
    assert found.kept_documents == len(set(names))


def test_python_docs_lose_little() -> None:
    found = cleaned("python-docs")
    assert {each.name for each in found.filters if each.dropped_documents} <= {"copy", "near-copy"}
    assert found.kept_bytes > 0.98 * found.bytes

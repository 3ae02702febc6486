"""Labels in lines of text are told from words that texts repeat at the same place."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from data.zoo.shapes import captions, lines, news, news_of, stories, write
from data_at_hand import real
from qkv.data.corpus import ExamplesConfig
from qkv.data.detect import detect
from qkv.data.formats.labelled_lines import LabelledLines, sniff_lines
from qkv.data.read_examples import read_examples

ROOT = Path(__file__).parents[2]
SHAKESPEARE = "tinyshakespeare/input.txt"


def speeches() -> list[tuple[str, str]]:
    """The first speeches of a play, each on a line, and who speaks."""
    parts = real(SHAKESPEARE).read_text(encoding="utf-8")[:80_000].split("\n\n")
    pairs = (part.partition(":\n") for part in parts if ":\n" in part)
    return [(" ".join(text.split()), speaker) for speaker, _, text in pairs if text.strip()]


def turns(first: str, second: str, form: str = "{}: {}") -> str:
    return lines(form.format((first, second)[n % 2], text) for n, text in enumerate(captions("en", 100)))


def drawn(*names: str) -> list[str]:
    """Names in an order without rule, some more often."""
    return random.Random(5).choices(names, weights=range(1, len(names) + 1), k=100)


def with_drawn(*names: str, form: str = "{} {}") -> str:
    return lines(form.format(name, text) for name, text in zip(drawn(*names), captions("en", 100), strict=True))


TEXTS: dict[str, Callable[[], str]] = {
    "a play": lambda: real(SHAKESPEARE).read_text(encoding="utf-8")[:70_000],
    "a play, a speech a line": lambda: lines(f"{speaker}: {text}" for text, speaker in speeches()),
    "a play in capitals": lambda: lines(f"{speaker.upper()} {text}" for text, speaker in speeches()),
    "verse": lambda: lines(line for line in real(SHAKESPEARE).read_text().splitlines()[:900] if line[-1:] != ":"),
    "verse in small letters": lambda: TEXTS["verse"]().lower(),
    "two speakers in turn": lambda: turns("Alice", "Bob"),
    "two speakers in turn, small": lambda: turns("alice", "bob"),
    "a chat": lambda: with_drawn("Alice", "Bob", "Carol", form="{}: {}"),
    "a conversation with a program": lambda: with_drawn("user", "assistant", form="{}: {}"),
    "a chat with times": lambda: lines(f"[12:{n:02}] <bob> {text}" for n, text in enumerate(captions("en", 60))),
    "an interview": lambda: turns("Q", "A"),
    "a log by level": lambda: with_drawn("INFO", "WARNING", "ERROR"),
    "a log by day": lambda: with_drawn("2024-05-01", "2024-05-02", form="{} 12:00:07,113 {}"),
    "a log by year": lambda: with_drawn("2019", "2020", "2021"),
    "numbered verses": lambda: lines(f"{n % 30 + 1} {text}" for n, text in enumerate(captions("en", 120))),
    "captions": lambda: lines(captions("en", 400)),
    "captions in small letters": lambda: lines(captions("de", 400)).lower(),
    "questions in small letters": lambda: with_drawn("what", "who", "where", form="{} is {}").lower(),
    "Markdown": lambda: (ROOT / "docs" / "decisions" / "0010-labelled-data.md").read_text(encoding="utf-8"),
    "stories": lambda: "\n\n".join(stories()),
    "a word list": lambda: lines(sorted({word for text in captions("en", 200) for word in text.split()})),
    "words and their frequencies": lambda: lines(f"{word} {n}" for n, word in enumerate(["and", "the", "a"] * 20)),
    "numbers": lambda: lines(f"{n % 3},{n},{n * n}" for n in range(60)),
    "numbers with blanks": lambda: lines(f"{n % 2} {n} {n * n}" for n in range(60)),
    "a list with marks": lambda: lines(f"- {text}" for text in captions("en", 60)),
    "settings": lambda: "[first]\n" + lines(f"a{n} = {n} and more" for n in range(40)) + "[second]\nb = 1\n",
    "records": lambda: lines(f"name: {text}\nplace: Rome or so\nnote: {text[::-1]}\n" for text in captions("en", 50)),
    "a song": lambda: "\n".join(f"[{part}]\n{lines(captions('en', 60)[start : start + 12])}"
                                for start, part in enumerate(("Verse 1", "Chorus", "Verse 2", "Bridge"))),
    "chapters of wrapped lines": lambda: "\n".join(
        f"# {name}\n" + lines(speeches_wrapped()[30 * n :][:30]) for n, name in enumerate(("Rome", "War", "Peace"))
    ),
}  # fmt: skip


def speeches_wrapped() -> list[str]:
    import textwrap

    return textwrap.wrap(" ".join(text for text, _ in speeches()), 72)


@pytest.mark.parametrize("name", TEXTS)
def test_text_is_no_labelled_data(name: str, tmp_path: Path) -> None:
    content = TEXTS[name]()
    assert len(content.splitlines()) > 40 or name == "Markdown"
    write(tmp_path / "text.txt", content)
    assert detect({"files": [str(tmp_path / "text.txt")]}).content == "text"


BESIDE = ["{1}: {0}", "{1} : {0}", "{1},{0}", "{1};{0}", "{1}|{0}", "{1} ||| {0}", "{1}\t{0}", "{1} {0}", "{1}::{0}"]
BESIDE += ["[{1}] {0}", "{1} => {0}", "{1}@{0}", "{0}@{1}", "{0}|{1}", "{0};{1}", "{0},{1}", "{0} ||| {1}", "{0}\t{1}"]


@pytest.mark.parametrize("form", BESIDE)
def test_a_label_beside_the_text(form: str, tmp_path: Path) -> None:
    """Also with texts that have the mark, and labels that occur in texts."""
    rows = news()
    write(tmp_path / "news.txt", lines(form.format(*row) for row in rows))
    files = (str(tmp_path / "news.txt"),)
    assert detect({"files": files}).content == "examples"
    found = read_examples(ExamplesConfig(files=files), purpose="describe")
    assert found.labels.names == ("business", "science", "sports", "world")
    assert [(example.text.strip(), example.label) for example in found.train] == rows  # type: ignore[union-attr]


@pytest.mark.parametrize("form", ["# {}", "[{}]", "{}:", "== {} ==", "## {} ##"])
def test_examples_below_their_label(form: str, tmp_path: Path) -> None:
    labels = ("world", "sports")
    blocks = [f"{form.format(label)}\n{lines(news_of(label, 30))}" for label in labels]
    write(tmp_path / "news.txt", "\n\n".join(blocks))
    found = read_examples(ExamplesConfig(files=(str(tmp_path / "news.txt"),)), purpose="describe")
    assert sorted(found.labels.names) == sorted(labels)
    assert [example.text for example in found.train] == news_of("world", 30) + news_of("sports", 30)  # type: ignore[union-attr]


def test_names_of_speakers_are_labels_if_an_option_says_so(tmp_path: Path) -> None:
    write(tmp_path / "chat.txt", TEXTS["a chat"]())
    files = (str(tmp_path / "chat.txt"),)
    (note,) = detect({"files": files}).text_notes
    assert "labels such as 'Carol' before the text, a colon between" in note
    assert note.endswith("it is read as text; if these are labels, give --task classification.")
    found = read_examples(ExamplesConfig(files=files, task="classification"), purpose="describe")
    assert found.labels.names == ("Alice", "Bob", "Carol")


def test_a_short_test_file_is_read_as_its_training_file(tmp_path: Path) -> None:
    write(tmp_path / "train.txt", lines(f"{label}: {text}" for text, label in news()))
    write(tmp_path / "final.txt", lines(f"{label}: {text}" for text, label in news(160, 164)))
    config = ExamplesConfig(files=(str(tmp_path / "train.txt"),), test=(str(tmp_path / "final.txt"),))
    found = read_examples(config, purpose="describe")
    assert found.test is not None
    assert [(example.text, example.label) for example in found.test] == news(160, 164)  # type: ignore[union-attr]


def test_lines_without_a_label_are_counted(tmp_path: Path) -> None:
    rows = [f"{label}: {text}" for text, label in news(0, 300)]
    write(tmp_path / "news.txt", lines([*rows, "a line without"]))
    found = read_examples(ExamplesConfig(files=(str(tmp_path / "news.txt"),)), purpose="describe")
    assert len(found.train) == len(rows)
    assert any("news.txt:301: 1 of 301 rows left out" in note for note in found.notes)


@pytest.mark.parametrize(
    "content",
    [
        "text,label\n" + "".join(f'"a film, number {n}",{"np"[n % 2]}\n' for n in range(30)),
        "".join(f"{n / 7:.2f},{n % 5}.5,Iris-{('setosa', 'virginica')[n % 2]}\n" for n in range(60)),
    ],
    ids=["with a header", "numbers and a word"],
)
def test_a_table_named_txt(content: str, tmp_path: Path) -> None:
    write(tmp_path / "table.txt", content)
    assert detect({"files": [str(tmp_path / "table.txt")]}).content == "examples"


def test_few_lines_tell_nothing() -> None:
    assert sniff_lines(["pos: a good film", "neg: a bad film"]) is None
    assert isinstance(sniff_lines(["pos: a good film", "neg: a bad film"] * 5), LabelledLines | None)


@pytest.mark.parametrize("mark", ["", "# ", "[", "=="])
def test_a_book_on_one_line_is_read_at_once(mark: str) -> None:
    """The patterns of headings take quadratic time where their mark is missing: this would take hours."""
    assert sniff_lines([mark + "a b " * 50_000, "and so on\n"]) is None

"""Shapes of labelled examples in which labels stand in the wild: folders, names, endings, beside the text, above it."""

from __future__ import annotations

from pathlib import Path

from data.zoo.shapes import (
    LICENSE,
    README,
    Found,
    Rows,
    captions,
    delimited,
    languages,
    lines,
    messages,
    news,
    news_of,
    reviews,
    shape,
    write,
)
from data.zoo.zoo_tables import classes

TOPICS = ("business", "science", "sports", "world")


def by_topic(count: int) -> Rows:
    return [(text, topic) for topic in TOPICS for text in news_of(topic, count)]


@shape
def folders_some_latin1(folder: Path) -> Found:
    """A sub-folder for each class; some of the files are in Latin-1, the others in UTF-8, with umlauts in both."""
    for number, (text, label) in enumerate(languages()):
        write(folder / label / f"{number:03}.txt", text + "\n", "latin-1" if number % 10 == 1 else "utf-8")
    return classes(languages())


@shape
def splits_above_folders(folder: Path) -> Found:
    for split, rows in (("train", news()), ("test", news(160, 220))):
        for number, (text, label) in enumerate(rows):
            write(folder / split / label / f"{number:03}.txt", text)
    write(folder / "README", README)
    return classes(news(), test=news(160, 220))


@shape
def splits_below_folders(folder: Path) -> Found:
    for split, rows in (("train", news()), ("test", news(160, 220))):
        for number, (text, label) in enumerate(rows):
            write(folder / label / split / f"{number:03}.txt", text)
    return classes(news(), test=news(160, 220))


@shape
def file_names_are_labels(folder: Path) -> Found:
    for topic in TOPICS:
        write(folder / f"{topic}.txt", lines(news_of(topic, 40)))
    write(folder / "README", README)
    return classes(by_topic(40))


@shape
def endings_are_labels(folder: Path) -> Found:
    for label, ending in (("0", "neg"), ("1", "pos")):
        write(folder / f"rt-polarity.{ending}", lines(text for text, found in reviews() if found == label))
    write(folder / "README.txt", README)
    return classes([(text, "pos" if label == "1" else "neg") for text, label in reviews()])


@shape
def label_in_the_name_of_each_file(folder: Path) -> Found:
    for topic in TOPICS:
        for number, text in enumerate(news_of(topic, 30), 1):
            write(folder / f"{topic}_{number:03}.txt", text)
    return classes(by_topic(30))


@shape
def hierarchical_label_before_the_text(folder: Path) -> Found:
    """As in the question classes of TREC, `LOC:city Where is it?`, in Latin-1."""
    groups = {
        "sports": "FUN:sports",
        "science": "WORK:science",
        "business": "WORK:business",
        "world": "WORK:politics",
    }
    parts = {"train": news(), "test": news(160, 220)}
    named = {name: [(f"Café: {text}", groups[label]) for text, label in rows] for name, rows in parts.items()}
    for name, rows in named.items():
        write(folder / f"{name}.txt", lines(f"{label} {text}" for text, label in rows), "latin-1")
    write(folder / "README", README)
    return classes(named["train"], test=named["test"])


@shape
def label_and_blank_before_the_text(folder: Path) -> Found:
    write(folder / "messages.txt", lines(f"{label} {text}" for text, label in messages()))
    return classes(messages(), "messages.txt")


@shape
def label_and_colon_before_the_text(folder: Path) -> Found:
    write(folder / "news.txt", lines(f"{label}: {text}" for text, label in news()))
    return classes(news(), "news.txt")


@shape
def label_and_tab_before_the_text(folder: Path) -> Found:
    write(folder / "SMSSpamCollection", "".join(f"{label}\t{text}\r\n" for text, label in messages()))
    return classes(messages(), "SMSSpamCollection")


@shape
def label_and_comma_before_the_text(folder: Path) -> Found:
    write(folder / "news.txt", lines(f"{label},{text}" for text, label in news()))
    return classes(news(), "news.txt")


@shape
def label_after_an_at_sign(folder: Path) -> Found:
    """As in the Financial PhraseBank, `text@positive`."""
    names = {"1": "positive", "0": "negative"}
    rows = [(text, names[label]) for text, label in reviews()]
    write(folder / "sentences.txt", lines("@".join(row) for row in rows))
    return classes(rows, "sentences.txt")


@shape
def number_after_the_text(folder: Path) -> Found:
    write(folder / "imdb_labelled.txt", lines(f"{text}  \t{label}" for text, label in reviews()))
    return classes(reviews(), "imdb_labelled.txt")


@shape
def fasttext(folder: Path) -> Found:
    write(folder / "news.train", lines(f"__label__{label} {text}" for text, label in news()))
    return classes(news(), "news.train")


@shape
def texts_and_labels_line_by_line(folder: Path) -> Found:
    """Labels are numbers, which a third file names."""
    for split, rows in (("train", news()), ("val", news(160, 220)), ("test", news(220, 280))):
        write(folder / f"{split}_text.txt", lines(text for text, _ in rows))
        write(folder / f"{split}_labels.txt", lines(str(TOPICS.index(label)) for _, label in rows))
    write(folder / "mapping.txt", lines(f"{number}\t{label}" for number, label in enumerate(TOPICS)))
    return classes(news(), valid=news(160, 220), test=news(220, 280))


@shape
def texts_and_labels_by_id(folder: Path) -> Found:
    """Labels are in another order than the texts."""
    ids = [f"n{number * 37 % 1000:03}" for number in range(len(news()))]
    write(folder / "articles.csv", delimited([("id", "article"), *zip(ids, (text for text, _ in news()), strict=True)]))
    pairs = sorted(zip(ids, (label for _, label in news()), strict=True))
    write(folder / "labels.csv", delimited([("id", "category"), *pairs]))
    return classes(news())


@shape
def fasta_with_a_table_of_labels(folder: Path) -> Found:
    """Sequences of amino acids. The letters come from captions in two languages, so that the classes differ."""
    letters = set("ACDEFGHIKLMNPQRSTVWY")
    rows, records, table = [], [], []
    for number, (text, label) in enumerate(languages()):
        sequence = "".join(letter for letter in text.upper() if letter in letters)
        parts = [sequence[place : place + 30] for place in range(0, len(sequence), 30)]
        records.append(f">P{number:05} protein {number}\n{lines(parts)}")
        family = {"english": "kinase", "german": "protease"}[label]
        table.append((f"P{number:05}", family))
        rows.append((sequence, family))
    write(folder / "proteins.fasta", "".join(records))
    write(folder / "families.tsv", delimited([("id", "family"), *table], "\t"))
    return classes(rows)


@shape
def examples_under_their_label(folder: Path) -> Found:
    blocks = [f"{topic}:\n{lines(news_of(topic, 40))}" for topic in TOPICS]
    write(folder / "news.txt", "\n".join(blocks))
    return classes(by_topic(40), "news.txt")


@shape
def folders_beside_documentation(folder: Path) -> Found:
    """Two classes with ordinary names, and notes above them."""
    rows = [(text, "one" if text.startswith("A ") else "many") for text in captions("en")]
    for number, (text, label) in enumerate(rows):
        write(folder / label / f"caption {number}.txt", text)
    write(folder / "LICENSE", LICENSE)
    write(folder / "about.txt", README)
    return classes(rows)

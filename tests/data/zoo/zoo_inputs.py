"""Shapes of images, tagged words, parallel text and text for language models."""

from __future__ import annotations

import gzip
import json
import shutil
import struct
import zipfile
from datetime import date, timedelta
from pathlib import Path

import numpy as np

from data.zoo.shapes import README, Found, captions, conll, json_lines, lines, shape, stories, tagged, write, zipped
from data.zoo.zoo_tables import office_parts
from data_at_hand import real

ROOT = Path(__file__).parents[3]


def digits(count: int = 100) -> tuple[np.ndarray, np.ndarray]:
    """Handwritten digits, 28 by 28, and what they are."""
    with gzip.open(real("mnist-10k/t10k-images-idx3-ubyte.gz")) as file:
        pixels = np.frombuffer(file.read(16 + 784 * count)[16:], np.uint8).reshape(count, 28, 28)
    with gzip.open(real("mnist-10k/t10k-labels-idx1-ubyte.gz")) as file:
        return pixels, np.frombuffer(file.read(8 + count)[8:], np.uint8)


def images(*given: str, packages: tuple[str, ...] = ()) -> Found:
    return Found(
        "images", {"train": [("", str(label)) for label in digits()[1]]}, given, shape=(28, 28), packages=packages
    )


@shape
def idx(folder: Path) -> Found:
    pixels, labels = digits()
    head = struct.pack(">IIII", 0x803, len(pixels), 28, 28)
    (folder / "train-images-idx3-ubyte").write_bytes(head + pixels.tobytes())
    (folder / "train-labels-idx1-ubyte").write_bytes(struct.pack(">II", 0x801, len(labels)) + labels.tobytes())
    return images()


@shape
def npz(folder: Path) -> Found:
    pixels, labels = digits()
    np.savez(folder / "digits.npz", x_train=pixels, y_train=labels)
    return images("digits.npz")


@shape
def folders_of_images(folder: Path) -> Found:
    from PIL import Image

    for number, (pixels, label) in enumerate(zip(*digits(), strict=True)):
        (folder / str(label)).mkdir(exist_ok=True)
        Image.fromarray(pixels).save(folder / str(label) / f"{number:03}.png")
    return images(packages=("PIL",))


def tags(*given: str) -> Found:
    return Found("tagging", {"train": tagged()}, given)


def tagged_splits() -> Found:
    return Found("tagging", {"train": tagged(), "valid": tagged(60, 80), "test": tagged(80, 100)})


@shape
def words_tags_and_documents(folder: Path) -> Found:
    """Four columns with blanks between, as in CoNLL-2003, and lines that say where documents start."""
    write(folder / "news.conll", "-DOCSTART- -X- -X- O\n\n" + conll(tagged(), " ", 3))
    return tags("news.conll")


@shape
def words_tab_tags(folder: Path) -> Found:
    write(folder / "train.tsv", conll(tagged(), "\t"))
    return tags("train.tsv")


@shape
def conllu(folder: Path) -> Found:
    with gzip.open(real("ud-english-ewt/en_ewt-ud-dev.conllu.gz"), "rt", encoding="utf-8") as file:
        sentences = file.read(400_000).split("\n\n")[:60]
    write(folder / "en-ud-train.conllu", "".join(f"{sentence}\n\n" for sentence in sentences))
    words = [[line.split("\t") for line in sentence.splitlines() if line[0] != "#"] for sentence in sentences]
    single = [[cells for cells in sentence if cells[0].isdecimal()] for sentence in words]
    rows = [(" ".join(cells[1] for cells in one), " ".join(cells[3] for cells in one)) for one in single]
    return Found("tagging", {"train": rows}, ("en-ud-train.conllu",))


@shape
def words_and_tags_in_txt(folder: Path) -> Found:
    for name, part in (("train", tagged()), ("dev", tagged(60, 80)), ("test", tagged(80, 100))):
        write(folder / f"{name}.txt", conll(part))
    return tagged_splits()


@shape
def words_and_tags_without_suffix(folder: Path) -> Found:
    for name, part in (("train", tagged()), ("testa", tagged(60, 80)), ("testb", tagged(80, 100))):
        write(folder / f"esp.{name}", conll(part))
    write(folder / "README", README)
    return tagged_splits()


@shape
def folder_with_one_file_of_tags(folder: Path) -> Found:
    write(folder / "data" / "all.txt", conll(tagged(), "\t"))
    write(folder / "README.md", README)
    return tags()


def translated(rows: list[tuple[str, str]], *given: str) -> Found:
    return Found("translation", {"train": rows}, given)


def english_and_german() -> list[tuple[str, str]]:
    return list(zip(captions("en"), captions("de"), strict=True))


@shape
def two_languages_line_by_line(folder: Path) -> Found:
    for language in ("en", "de"):
        write(folder / f"train.{language}", lines(captions(language)))
    return translated([(german, english) for english, german in english_and_german()])


@shape
def table_of_translations(folder: Path) -> Found:
    write(folder / "deu.txt", lines("\t".join(pair) for pair in english_and_german()))
    write(folder / "_about.txt", README)
    return translated(english_and_german())


@shape
def objects_of_languages(folder: Path) -> Found:
    rows = [{"translation": {"en": english, "de": german}} for english, german in english_and_german()]
    write(folder / "train.json", json_lines(rows))
    return translated(english_and_german(), "train.json")


def days() -> list[date]:
    return [date(1953, 1, 1) + timedelta(number * 97) for number in range(150)]


@shape
def dates_line_by_line(folder: Path) -> Found:
    """Dates as people write them, and in ISO 8601."""
    rows = [(f"{day:%d %B %Y}" if day.day % 2 else f"{day:%A, %B %d, %Y}", day.isoformat()) for day in days()]
    write(folder / "dates.en", lines(spoken for spoken, _ in rows))
    write(folder / "dates.iso", lines(iso for _, iso in rows))
    return translated(rows)


@shape
def questions_and_answers(folder: Path) -> Found:
    rows = []
    for number, day in enumerate(days()):
        question = f"It is {day:%A}, {day:%d %B %Y}. Which date is it in {number % 50 + 2} days?"
        later = day + timedelta(number % 50 + 2)
        answer = f"Count {number % 50 + 2} days from {day:%d %B} on.\nThat is a {later:%A}.\n#### {later}"
        rows.append((question, answer))
    write(folder / "train.jsonl", json_lines({"question": question, "answer": answer} for question, answer in rows))
    return translated(rows, "train.jsonl")


def text(documents: list[str], *given: str, unlike: tuple[str, ...] = (), packages: tuple[str, ...] = ()) -> Found:
    return Found("language-modelling", {}, given, documents, unlike, packages=packages)


@shape
def book(folder: Path) -> Found:
    with real("ece1786/LargerCorpus.txt").open(encoding="utf-8") as file:
        content = file.read(60_000)
    write(folder / "book.txt", content)
    return text([content], "book.txt")


@shape
def folder_of_markdown(folder: Path) -> Found:
    """The decisions of this project, with a picture and a table of numbers beside."""
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    for page in pages:
        shutil.copy(page, folder)
    (folder / "figure.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)))
    write(folder / "figures.csv", "year,count\n2019,12\n2020,15\n2021,19\n")
    return text([page.read_text(encoding="utf-8") for page in pages])


@shape
def web_page(folder: Path) -> Found:
    paragraphs = "\n".join(f"<p>{part}</p>" for story in stories() for part in story.split("\n\n"))
    head = "<head><title>Stories</title><style>p { margin: 1em }</style><script>var x = 1 < 2;</script></head>"
    write(folder / "stories.html", f"<!DOCTYPE html>\n<html>{head}\n<body>\n{paragraphs}\n</body></html>\n")
    return text(["\n\n".join(stories())], "stories.html", unlike=("<p>", "margin", "var x"))


WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"


@shape
def word_document(folder: Path) -> Found:
    paragraphs = [part for story in stories() for part in story.split("\n") if part.strip()]
    escaped = [part.replace("&", "&amp;").replace("<", "&lt;") for part in paragraphs]
    body = "".join(f"<w:p><w:r><w:t>{part}</w:t></w:r></w:p>" for part in escaped)
    document = f'<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
    kind = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    parts = office_parts("word/document.xml", {"word/document.xml": kind})
    zipped(folder / "stories.docx", {**parts, "word/document.xml": document})
    return text(["\n\n".join(stories())], "stories.docx", unlike=("<w:", "PK"), packages=("lxml",))


@shape
def pdf(folder: Path) -> Found:
    """Pages of lines in Helvetica, without compression."""
    import textwrap

    objects = [b"<< /Type /Catalog /Pages 2 0 R >>", b"", b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    pages = []
    for story in stories():
        shown = [line.replace("\\", r"\\").replace("(", r"\(").replace(")", r"\)") for line in textwrap.wrap(story, 90)]
        marks = "BT /F1 11 Tf 50 780 Td 14 TL " + " ".join(f"({line}) Tj T*" for line in shown) + " ET"
        stream = marks.encode("cp1252", "replace")
        objects.append(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        page = f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {len(objects)} 0 R /Resources "
        objects.append(f"{page}<< /Font << /F1 3 0 R >> >> >>".encode())
        pages.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{' '.join(pages)}] /Count {len(pages)} >>".encode()
    content, places = b"%PDF-1.4\n", []
    for number, one in enumerate(objects, 1):
        places.append(len(content))
        content += b"%d 0 obj\n%s\nendobj\n" % (number, one)
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(content))
    references = b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table)
    (folder / "stories.pdf").write_bytes(content + references + end)
    return text(["\n\n".join(stories())], "stories.pdf", unlike=("endobj", " Tj"), packages=("pypdf",))


@shape
def notebooks(folder: Path) -> Found:
    """Notebooks of prose and code, a small table beside."""
    documents = []
    for number in range(8):
        cells: list[dict[str, object]] = []
        for story in stories()[5 * number : 5 * number + 5]:
            cells.append({"cell_type": "markdown", "metadata": {}, "source": story.splitlines(keepends=True)})
            code = {"cell_type": "code", "metadata": {}, "source": ["print(story)"], "execution_count": 1}
            cells.append({**code, "outputs": [{"output_type": "stream", "name": "stdout", "text": ["secret output"]}]})
        book = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
        write(folder / f"{number:02}-stories.ipynb", json.dumps(book, indent=1))
        documents.append("\n\n".join(stories()[5 * number : 5 * number + 5]))
    write(folder / "data" / "presidents.csv", "order,name,height(cm)\n1,George Washington,189\n2,John Adams,170\n")
    return text(documents, unlike=("cell_type", "secret output"))


@shape
def electronic_book(folder: Path) -> Found:
    container = '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container" version="1.0"><rootfiles><rootfile '
    container += 'full-path="content.opf" media-type="application/oebps-package+xml"/></rootfiles></container>'
    manifest = "".join(f'<item id="c{n}" href="c{n}.xhtml" media-type="application/xhtml+xml"/>' for n in range(40))
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(40))
    package = '<package xmlns="http://www.idpf.org/2007/opf" version="3.0" unique-identifier="id"><metadata '
    package += 'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>Stories</dc:title><dc:language>en</dc:language>'
    package += '<dc:identifier id="id">stories</dc:identifier></metadata>'
    package += f"<manifest>{manifest}</manifest><spine>{spine}</spine></package>"
    members = {"META-INF/container.xml": container, "content.opf": package}
    for number, story in enumerate(stories()):
        body = "".join(f"<p>{part}</p>" for part in story.replace("&", "&amp;").split("\n\n"))
        members[f"c{number}.xhtml"] = f'<html xmlns="http://www.w3.org/1999/xhtml"><body>{body}</body></html>'
    zipped(folder / "stories.epub", members)
    with zipfile.ZipFile(folder / "stories.epub", "a") as archive:
        archive.writestr("mimetype", "application/epub+zip", zipfile.ZIP_STORED)
    return text(["\n\n".join(stories())], "stories.epub", unlike=("<p>", "PK"))


@shape
def source_code(folder: Path) -> Found:
    files = sorted((ROOT / "src" / "qkv" / "text").glob("*.py"))
    for file in files:
        write(folder / "package" / file.name, file.read_text(encoding="utf-8"))
    write(folder / "package" / "numbers.csv", "a,b\n1,2\n")
    write(folder / "LICENSE", "Permission is granted, free of charge.\n")
    return text([file.read_text(encoding="utf-8") for file in files])

"""Shapes of labelled examples in tables: delimited text in all its dialects, JSON, Parquet, workbooks, archives."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from datetime import date, timedelta
from pathlib import Path

from data.zoo.shapes import (
    LICENSE,
    README,
    Found,
    Rows,
    delimited,
    entailment,
    json_lines,
    languages,
    lines,
    long_reviews,
    messages,
    news,
    records,
    reviews,
    shape,
    similarity,
    write,
    zipped,
)

HEADER = ("text", "label")


def classes(
    rows: Rows, *given: str, test: Rows | None = None, valid: Rows | None = None, packages: tuple[str, ...] = ()
) -> Found:
    splits = {"train": rows, "valid": valid, "test": test}
    return Found("classification", {name: part for name, part in splits.items() if part}, given, packages=packages)


@shape
def csv_with_header(folder: Path) -> Found:
    write(folder / "news.csv", delimited([HEADER, *news()]))
    return classes(news(), "news.csv")


@shape
def tsv_without_header(folder: Path) -> Found:
    write(folder / "news.tsv", lines("\t".join(row) for row in news()))
    return classes(news(), "news.tsv")


@shape
def semicolons(folder: Path) -> Found:
    write(folder / "news.csv", delimited([HEADER, *news()], ";"))
    return classes(news(), "news.csv")


@shape
def pipes(folder: Path) -> Found:
    write(folder / "news.csv", delimited([HEADER, *news()], "|"))
    return classes(news(), "news.csv")


@shape
def quoted_newlines_without_header(folder: Path) -> Found:
    write(folder / "reviews.csv", delimited([(label, text) for text, label in long_reviews()]))
    return classes(long_reviews(), "reviews.csv")


@shape
def byte_order_mark_and_crlf(folder: Path) -> Found:
    write(folder / "news.csv", delimited([HEADER, *news()], end="\r\n"), "utf-8-sig")
    return classes(news(), "news.csv")


@shape
def cp1252(folder: Path) -> Found:
    rows = [(f"“{text}”", label) for text, label in languages()]
    write(folder / "captions.csv", delimited([("caption", "language"), *rows]), "cp1252")
    return classes(rows, "captions.csv")


@shape
def utf16(folder: Path) -> Found:
    write(folder / "captions.csv", delimited([("caption", "language"), *languages()]), "utf-16")
    return classes(languages(), "captions.csv")


@shape
def one_bad_byte(folder: Path) -> Found:
    """Correct UTF-8, with umlauts, but for one byte in the middle of the file."""
    rows = languages()
    content = delimited([HEADER, *rows]).encode()
    place = content.index(rows[60][0].encode()) + 5
    (folder / "captions.csv").write_bytes(content[:place] + b"\xff" + content[place + 1 :])
    text, label = rows[60]
    rows[60] = (f"{text[:5]}\N{REPLACEMENT CHARACTER}{text[6:]}", label)
    return classes(rows, "captions.csv")


@shape
def one_object_a_line(folder: Path) -> Found:
    write(folder / "news.jsonl", json_lines(records(news())))
    return classes(news(), "news.jsonl")


@shape
def a_list_of_objects(folder: Path) -> Found:
    write(folder / "news.json", json.dumps(records(news()), indent=2))
    return classes(news(), "news.json")


@shape
def one_object_of_splits(folder: Path) -> Found:
    write(folder / "news.json", json.dumps({"train": records(news()), "test": records(news(160, 220))}))
    return classes(news(), "news.json", test=news(160, 220))


@shape
def splits_of_pairs(folder: Path) -> Found:
    splits = {"val": news(160, 220), "train": news(), "test": news(220, 280)}
    write(folder / "data_full.json", json.dumps(splits, indent=1))
    return classes(news(), "data_full.json", valid=news(160, 220), test=news(220, 280))


@shape
def parquet(folder: Path) -> Found:
    import pyarrow
    from pyarrow import parquet as pyarrow_parquet

    pyarrow_parquet.write_table(pyarrow.Table.from_pylist(records(news())), folder / "train-00000-of-00001.parquet")
    return classes(news(), "train-00000-of-00001.parquet", packages=("pyarrow",))


CELL = '<c r="{place}" t="inlineStr"><is><t>{text}</t></is></c>'
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
SHEETS = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
TYPES = "application/vnd.openxmlformats-officedocument.spreadsheetml"


def office_parts(main: str, parts: dict[str, str]) -> dict[str, str]:
    """A file of an office program: the types of its parts, and which part is the first."""
    types = "".join(f'<Override PartName="/{name}" ContentType="{part}"/>' for name, part in parts.items())
    relations = "application/vnd.openxmlformats-package.relationships+xml"
    head = '<Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">'
    default = f'<Default Extension="rels" ContentType="{relations}"/>'
    return {"[Content_Types].xml": f"{head}{default}{types}</Types>", "_rels/.rels": relation("officeDocument", main)}


def relation(kind: str, target: str) -> str:
    head = '<Relationships xmlns="http://schemas.openxmlformats.org/package/2006/relationships">'
    return f'{head}<Relationship Id="r1" Type="{OFFICE}/{kind}" Target="{target}"/></Relationships>'


@shape
def workbook(folder: Path) -> Found:
    rows = []
    for number, row in enumerate([HEADER, *news()], 1):
        escaped = [text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;") for text in row]
        cells = "".join(CELL.format(place=f"{'AB'[n]}{number}", text=text) for n, text in enumerate(escaped))
        rows.append(f'<row r="{number}">{cells}</row>')
    parts = {"xl/workbook.xml": f"{TYPES}.sheet.main+xml", "xl/worksheets/sheet1.xml": f"{TYPES}.worksheet+xml"}
    sheets = '<sheets><sheet name="News" sheetId="1" r:id="r1"/></sheets>'
    members = {
        **office_parts("xl/workbook.xml", parts),
        "xl/workbook.xml": f'<workbook xmlns="{SHEETS}" xmlns:r="{OFFICE}">{sheets}</workbook>',
        "xl/_rels/workbook.xml.rels": relation("worksheet", "worksheets/sheet1.xml"),
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{SHEETS}"><sheetData>{"".join(rows)}</sheetData></worksheet>',
    }
    zipped(folder / "news.xlsx", members)
    return classes(news(), "news.xlsx", packages=("openpyxl",))


@shape
def saved_to_disk(folder: Path) -> Found:
    """A DatasetDict of Hugging Face after `save_to_disk`: a folder for each split, with a stream of Arrow."""
    import pyarrow

    write(folder / "dataset_dict.json", '{"splits": ["train", "test"]}')
    for split, rows in (("train", news()), ("test", news(160, 220))):
        table = pyarrow.Table.from_pylist(records(rows))
        (folder / split).mkdir()
        path = folder / split / "data-00000-of-00001.arrow"
        with pyarrow.OSFile(str(path), "wb") as file, pyarrow.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
        features = {name: {"dtype": "string", "_type": "Value"} for name in HEADER}
        write(folder / split / "dataset_info.json", json.dumps({"description": "", "features": features}))
        write(folder / split / "state.json", json.dumps({"_data_files": [{"filename": path.name}], "_split": split}))
    return classes(news(), test=news(160, 220), packages=("pyarrow",))


@shape
def compressed(folder: Path) -> Found:
    (folder / "news.csv.gz").write_bytes(gzip.compress(delimited([HEADER, *news()]).encode(), mtime=0))
    return classes(news(), "news.csv.gz")


@shape
def zip_within_a_folder(folder: Path) -> Found:
    zipped(folder / "news.zip", {"news.csv": delimited([HEADER, *news()])})
    write(folder / "README.md", README)
    return classes(news())


@shape
def tar_of_a_folder(folder: Path) -> Found:
    train, test = (delimited([HEADER, *rows]) for rows in (news(), news(160, 220)))
    with tarfile.open(folder / "news.tar.gz", "w:gz") as archive:
        for name, content in (("train.csv", train), ("test.csv", test), ("README", README)):
            member = tarfile.TarInfo(f"news/{name}")
            member.size = len(content.encode())
            archive.addfile(member, io.BytesIO(content.encode()))
    return classes(news(), "news.tar.gz", test=news(160, 220))


@shape
def folder_within_a_zip(folder: Path) -> Found:
    members = {"News 2024/news.csv": delimited([HEADER, *news()]), "News 2024/README.txt": README}
    beside = {"News 2024/LICENSE": LICENSE, "__MACOSX/News 2024/._news.csv": "\0\5\26\7Mac OS X"}
    zipped(folder / "news.zip", {**members, **beside})
    return classes(news(), "news.zip")


@shape
def splits_by_name_beside_documentation(folder: Path) -> Found:
    for name, rows in (("train", news()), ("dev", news(160, 220)), ("test", news(220, 280))):
        write(folder / f"{name}.csv", delimited([HEADER, *rows]))
    write(folder / "README.md", README)
    write(folder / "LICENSE.txt", LICENSE)
    write(folder / "categories.json", json.dumps(["world", "sports", "business", "science"]))
    return classes(news(), valid=news(160, 220), test=news(220, 280))


@shape
def several_label_columns(folder: Path) -> Found:
    """The class as a number and as a word, as many sets on the Hugging Face hub have it."""
    numbers = {"business": 0, "science": 1, "sports": 2, "world": 3}
    rows = [{"text": text, "label": numbers[label], "label_text": label} for text, label in news()]
    write(folder / "news.jsonl", json_lines(rows))
    return classes([(text, str(numbers[label])) for text, label in news()], "news.jsonl")


@shape
def mixed_spellings_of_a_label(folder: Path) -> Found:
    spellings = [str, str.upper, str.capitalize, "{} ".format]
    rows = [(text, spellings[n % 4](label)) for n, (text, label) in enumerate(messages())]
    write(folder / "messages.csv", delimited([HEADER, *rows]))
    return classes(messages(), "messages.csv")


@shape
def dates_ids_and_addresses_beside(folder: Path) -> Found:
    rows: list[tuple[object, ...]] = [("article_id", "published", "url", "headline", "sentiment")]
    for number, (text, label) in enumerate(reviews()):
        day = date(2019, 1, 1) + timedelta(number // 3)
        rows.append((f"a{number:05}", day.isoformat(), f"https://news.example/{day:%Y/%m}/{number}", text, label))
    write(folder / "headlines.csv", delimited(rows))
    return classes(reviews(), "headlines.csv")


@shape
def pairs_of_sentences(folder: Path) -> Found:
    rows = entailment()
    write(folder / "pairs.tsv", lines("\t".join(row) for row in [("premise", "hypothesis", "gold"), *rows]))
    return classes([(first, label) for first, _, label in rows], "pairs.tsv")


def topics(text: str, label: str) -> list[str]:
    """The topic of news, and others by the words in it."""
    others = {"money": "money" in text or "$" in text, "government": "government" in text or "minister" in text.lower()}
    return sorted([label, *(name for name, is_in in others.items() if is_in)])


def several_labels(*given: str) -> Found:
    return Found("multi-label", {"train": [(text, " ".join(topics(text, label))) for text, label in news()]}, given)


@shape
def lists_of_labels(folder: Path) -> Found:
    rows = [{"text": text, "labels": topics(text, label)} for text, label in news()]
    write(folder / "news.jsonl", json_lines(rows))
    return several_labels("news.jsonl")


@shape
def labels_separated_in_a_cell(folder: Path) -> Found:
    rows = [(text, "; ".join(topics(text, label))) for text, label in news()]
    write(folder / "news.csv", delimited([("text", "topics"), *rows]))
    return several_labels("news.csv")


@shape
def scores_of_pairs(folder: Path) -> Found:
    write(folder / "similarity.csv", delimited([("sentence1", "sentence2", "score"), *similarity()]))
    return Found("regression", {"train": [(first, score) for first, _, score in similarity()]}, ("similarity.csv",))


@shape
def prices_of_texts(folder: Path) -> Found:
    """A number that is measured, here the share of letters that are capitals, for each text."""
    rows = [(text, f"{100 * sum(map(str.isupper, text)) / len(text):.2f}") for text, _ in news()]
    write(folder / "adverts.csv", delimited([("advert", "price"), *rows]))
    return Found("regression", {"train": rows}, ("adverts.csv",))


@shape
def table_of_numbers(folder: Path) -> Found:
    """Counts of letters in film reviews, and the class in the last column, without a header."""
    rows = [[text.count(letter) for letter in "aeinot"] + [label] for text, label in messages()]
    write(folder / "letters.csv", delimited(rows))
    splits = {"train": [("", label) for _, label in messages()]}
    return Found("classification", splits, ("letters.csv",), shape=(6,))

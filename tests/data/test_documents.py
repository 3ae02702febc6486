"""Documents: their text as a reader sees it; damaged and hostile ones are refused or left out, and nothing hangs."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from data import documents
from data.documents import ORDINARY, REFUSED, SENTENCE, book, notebook, paragraph, pdf, word
from qkv.data.corpus import CorpusConfig, ExamplesConfig
from qkv.data.documents import extract, office
from qkv.data.documents.extract import DocumentTexts
from qkv.data.documents.plain_text import PlainText
from qkv.data.files.unpack import DOCUMENTS, Source
from qkv.data.findings import Findings
from qkv.data.formats.text import read_documents
from qkv.data.prepare import prepare
from qkv.data.read_examples import read_examples
from qkv.data.survey import CorpusFiles, fingerprint
from qkv.data.text_files import find_text_files
from qkv.errors import DataError
from qkv.text.tokenizer import TokenizerConfig

for package in ("lxml", "pypdf", "striprtf"):
    pytest.importorskip(package)


@pytest.fixture(scope="module")
def texts() -> Iterator[DocumentTexts]:
    return DocumentTexts()


def text_of(content: bytes, path: Path, texts: DocumentTexts, findings: Findings | None = None) -> str:
    path.write_bytes(content)
    return "".join(texts.read(Source(path), None, findings or Findings()))


def test_every_format_has_an_ordinary_document() -> None:
    assert {Path(name).suffix for name in ORDINARY} == set(DOCUMENTS) - {".htm", ".xhtml"}


@pytest.mark.parametrize("name", ORDINARY)
def test_an_ordinary_document(name: str, tmp_path: Path, texts: DocumentTexts) -> None:
    text = text_of(ORDINARY[name](), tmp_path / name, texts)
    assert SENTENCE in text
    assert len(text) < len(SENTENCE) + 40


PAGE = """<!DOCTYPE html><html><head><title>Site</title><style>p {}</style></head><body>
<nav><a href="/">Home</a></nav><div role="navigation">Menu</div><p hidden>unseen</p><p style="display: none">unseen</p>
<h1>On  <em>rivers</em></h1>
<p>First&nbsp;line<br>second <b>bold</b>, co&shy;operation.</p><p>Next
paragraph.</p><script>var x = "<p>not this</p>";</script>
<ol start="3"><li>three<li><p>four</p><ul><li>inner</ul><li>five</ol>
<table><tr><th>Name<th>Length<tr><td>Elbe<td>1,094 <i>km</i></table>
<table><tr><td><p>left</p></td><td><div>right</div></td></tr></table>
<pre>
  code  here
    more
</pre>After<form><select><option>choice</select><button>Send</button></form></body></html>"""
PAGE_TEXT = """# On rivers

First line
second bold, cooperation.

Next paragraph.

3. three
4. four
  - inner
5. five

Name | Length
Elbe | 1,094 km

left

right

  code  here
    more

After"""


def test_a_page_as_a_reader_sees_it(tmp_path: Path, texts: DocumentTexts) -> None:
    assert text_of(PAGE.encode(), tmp_path / "page.html", texts) == PAGE_TEXT


def test_of_a_page_with_a_main_part_only_that_is_read(tmp_path: Path, texts: DocumentTexts) -> None:
    page = "<body><div>Latest news</div><main><p>One.</p></main><div>Imprint</div></body>"
    assert text_of(page.encode(), tmp_path / "page.htm", texts) == "One."


def test_xhtml_with_empty_elements(tmp_path: Path, texts: DocumentTexts) -> None:
    page = '<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/><script src="x"/></head>'
    assert text_of(f"{page}<body><a id='x'/><p>One.</p></body></html>".encode(), tmp_path / "p.xhtml", texts) == "One."


@pytest.mark.parametrize("declared", ["windows-1251", "koi8-r", "utf-8", "nonsense", "utf-16", "hex"])
def test_the_encoding_that_a_page_declares(declared: str, tmp_path: Path, texts: DocumentTexts) -> None:
    encoding = declared if declared in ("windows-1251", "koi8-r") else "utf-8"
    russian = "Река хранит камень, а окно забывает зиму."
    page = f'<meta charset="{declared}"><p>{russian}</p>'
    findings = Findings()
    assert text_of(page.encode(encoding), tmp_path / "page.html", texts, findings) == russian
    assert len(findings.encodings) == (encoding != "utf-8")


def test_a_word_document_as_a_reader_sees_it(tmp_path: Path, texts: DocumentTexts) -> None:
    """Tracked insertions and controls are text, what was deleted or moved away is not."""
    style = '<w:style w:styleId="Titre2"><w:name w:val="heading 2"/></w:style>'
    item = '<w:numPr><w:ilvl w:val="0"/></w:numPr>'
    changed = "<w:p><w:ins><w:r><w:t>new </w:t></w:r></w:ins><w:del><w:r><w:delText>old</w:delText></w:r></w:del>"
    changed += "<w:moveFrom><w:r><w:t>away</w:t></w:r></w:moveFrom><w:r><w:tab/><w:t>text</w:t></w:r></w:p>"
    cells = "".join(f"<w:tc>{paragraph(cell)}{paragraph('more')}</w:tc>" for cell in "ab")
    control = f"<w:sdt><w:sdtContent>{paragraph('controlled')}</w:sdtContent></w:sdt>"
    body = [
        paragraph("Rivers", '<w:pStyle w:val="Heading1"/>'),
        paragraph("Les", '<w:pStyle w:val="Titre2"/><w:rPr><w:tab/></w:rPr>'),
        paragraph("one", item),
        paragraph("two", item),
        changed,
        f"<w:tbl><w:tr>{cells}</w:tr><w:tr>{cells}</w:tr></w:tbl>",
        control,
    ]
    notes = f'<w:footnote w:type="separator">{paragraph("line")}</w:footnote>'
    notes += f"<w:footnote>{paragraph('A note.')}</w:footnote>"
    content = word("".join(body), styles=style, footnotes=notes)
    expected = (
        "# Rivers\n\n## Les\n\n- one\n- two\n\nnew \ttext\n\na more | b more\na more | b more\n\ncontrolled\n\nA note."
    )
    assert text_of(content, tmp_path / "report.docx", texts) == expected


def test_chapters_of_a_book_without_its_contents(tmp_path: Path, texts: DocumentTexts) -> None:
    content = book("<html><body><h2>One</h2><p>It&nbsp;began.</p></body></html>", "<p>It ended.</p>")
    assert text_of(content, tmp_path / "novel.epub", texts) == "## One\n\nIt began.\n\nIt ended."


def test_cells_of_a_notebook_without_outputs(tmp_path: Path, texts: DocumentTexts) -> None:
    content = notebook(("markdown", "# Rivers\n\nThe *Elbe*."), ("code", "print(1)\n"), ("code", ""), ("raw", "end"))
    expected = "# Rivers\n\nThe *Elbe*.\n\n```python\nprint(1)\n\n```\n\nend"
    assert text_of(content, tmp_path / "notes.ipynb", texts) == expected
    third = {"worksheets": [{"cells": [{"cell_type": "code", "input": ["x = ", "2"]}]}]}
    assert text_of(notebook(**third), tmp_path / "old.ipynb", texts) == "```python\nx = 2\n```"


def test_what_no_text_file_may_hold(tmp_path: Path, texts: DocumentTexts) -> None:
    """Halves of a pair of surrogates are put together, a lone one and NUL become U+FFFD, line ends \\n."""
    content = b'{"cells": [{"cell_type": "raw", "source": "\\ud83d\\ude00 \\ud83d a\\u0000b\\r\\nc\\rd"}]}'
    assert text_of(content, tmp_path / "notes.ipynb", texts) == "\U0001f600 \ufffd a\ufffdb\nc\nd"


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str, tmp_path: Path, texts: DocumentTexts) -> None:
    make, mentioned = REFUSED[name]
    with pytest.raises(DataError, match=mentioned) as caught:
        text_of(make(), tmp_path / name, texts)
    assert str(caught.value).startswith(str(tmp_path / name))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ORDINARY)
def test_cut_short_or_altered_anywhere(name: str, tmp_path: Path, texts: DocumentTexts) -> None:
    """The text, a part of it, or an exception with the name of the file: nothing else."""
    whole, chance = ORDINARY[name](), random.Random(0)
    cut = [whole[: len(whole) * place // 20] for place in range(20)]
    altered = [bytearray(whole) for _ in range(40)]
    for copy in altered:
        copy[chance.randrange(len(whole))] = chance.randrange(256)
    refused = []
    for number, content in enumerate([*cut, *map(bytes, altered)]):
        path = tmp_path / f"{number}-{name}"
        try:
            text_of(content, path, texts)
        except DataError as error:
            refused.append((path, str(error)))
    assert [error for path, error in refused if str(path) not in error] == []
    assert refused or not name.endswith(("docx", "epub", "pdf", "ipynb"))


def test_no_other_file_is_read(tmp_path: Path, texts: DocumentTexts) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("the password is swordfish")
    for name, content in documents.reading(str(secret)).items():
        text = text_of(content, tmp_path / name, texts)
        assert SENTENCE in text, name
        assert "swordfish" not in text, name


def test_entities_are_not_multiplied(tmp_path: Path, texts: DocumentTexts) -> None:
    page = f"{documents.BOMB}<html><body><p title='&e12;'>{SENTENCE} &e12;</p></body></html>"
    assert len(text_of(page.encode(), tmp_path / "laughs.html", texts)) < 1000
    assert len(text_of(book(page), tmp_path / "laughs.epub", texts)) < 1000
    for name, body in (
        ("text.docx", paragraph("&e12;")),
        ("value.docx", f"<w:p x='&e12;'>{paragraph(SENTENCE)}</w:p>"),
    ):
        with suppress(DataError):
            assert len(text_of(word(body, documents.BOMB), tmp_path / name, texts)) < 1000


def test_a_part_that_unpacks_to_too_much(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(office, "MAX_PART", 2**20)
    bomb = word(paragraph("a" * 2**22))
    assert len(bomb) < 2**14
    with pytest.raises(office.UnreadableError, match="unpacks to more than 1,048,576 bytes"):
        office.read_word(bomb, PlainText(lambda text: None))


def test_a_page_that_takes_too_long_is_refused_and_the_next_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = DocumentTexts()
    monkeypatch.setattr(extract, "SECONDS", 0)
    monkeypatch.setattr(extract, "SECONDS_PER_MEGABYTE", 0)
    with pytest.raises(DataError, match="takes more than 0 seconds") as caught:
        text_of(b"<p>a<b>" * 2_000_000, tmp_path / "long.html", texts)
    assert not isinstance(caught.value, extract.UnreadableDocumentError)  # it is left out nowhere
    monkeypatch.undo()
    assert text_of(b"<p>short", tmp_path / "short.html", texts) == "short"


def test_a_document_that_takes_too_much_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(extract, "MEMORY", 2**28)
    monkeypatch.setattr(extract, "MEMORY_PER_BYTE", 1)
    content = b'{"cells": [' + b"[[],[]]," * 2**20 + b"0]}"
    with pytest.raises(DataError, match="GB of memory") as caught:
        text_of(content, tmp_path / "large.ipynb", DocumentTexts())
    assert not isinstance(caught.value, extract.UnreadableDocumentError)


def folder_of(path: Path) -> Path:
    path.mkdir()
    for name, make in ORDINARY.items():
        (path / name).write_bytes(make())
    for name in ("scanned.pdf", "old.docx"):
        (path / name).write_bytes(REFUSED[name][0]())
    (path / "half.pdf").write_bytes(pdf(SENTENCE, "", contents="99 0 R")[:-40])
    return path


def test_in_a_folder_what_cannot_be_read_is_left_out_with_a_note(tmp_path: Path) -> None:
    folder = str(folder_of(tmp_path / "papers"))
    findings, corpus = Findings(), CorpusConfig(files=(folder,))
    pieces = list(read_documents(find_text_files(corpus.files, None, findings), corpus, findings))
    assert sum(piece.is_last for piece in pieces) == len(ORDINARY)
    (note,) = [note for note in findings.notes() if "cannot be read" in note]
    assert note.startswith("3 documents cannot be read and were left out, the first: ")
    named = CorpusConfig(files=(str(Path(folder, "page.html")), str(Path(folder, "scanned.pdf"))))
    with pytest.raises(DataError, match=r"scanned\.pdf: has no text"):
        list(read_documents(find_text_files(named.files, None, findings), named, findings))


def test_a_folder_in_which_nothing_can_be_read(tmp_path: Path) -> None:
    for name in ("scanned.pdf", "old.docx"):
        (tmp_path / name).write_bytes(REFUSED[name][0]())
    corpus = CorpusConfig(files=(str(tmp_path),))
    with pytest.raises(DataError, match=r"old\.docx: .*, and 1 more document cannot be read either"):
        list(read_documents(find_text_files(corpus.files, None, Findings()), corpus, Findings()))


def test_each_document_is_extracted_once_and_training_resumes_on_the_same_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(tmp_path / "papers")
    extracted, answers = [], extract._extracted_text

    def counted(process: object, source: Source, *more: object) -> Iterator[bytes]:
        extracted.append(source.file_name)
        return answers(process, source, *more)  # type: ignore[arg-type]

    monkeypatch.setattr(extract, "_extracted_text", counted)
    corpus = CorpusConfig(files=(str(folder),))
    prepared = prepare(corpus, TokenizerConfig())
    assert sorted(extracted) == sorted(path.name for path in folder.iterdir())
    again = prepare(corpus, TokenizerConfig(), given_tokenizer=prepared.tokenizer, resumed=True)
    assert (again.corpus.fingerprint, again.fingerprint) == (prepared.corpus.fingerprint, prepared.fingerprint)
    assert len(extracted) == len(list(folder.iterdir()))  # the rest comes from the cache
    assert [note for note in again.notes if "cannot be read" in note]


def test_the_identity_of_documents_has_the_version_of_the_extraction(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "page.html").write_bytes(ORDINARY["page.html"]())
    (tmp_path / "page.txt").write_text(SENTENCE)

    def identity(name: str) -> str:
        parts = CorpusFiles.of(CorpusConfig(files=(str(tmp_path / name),)))
        return fingerprint(parts, lambda *progress: None)[0]

    before = {name: identity(name) for name in ("page.html", "page.txt")}
    monkeypatch.setattr(extract, "EXTRACTION_VERSION", extract.EXTRACTION_VERSION + 1)
    assert identity("page.txt") == before["page.txt"]
    assert identity("page.html") != before["page.html"]


def test_documents_in_folders_named_for_labels(tmp_path: Path) -> None:
    for label in ("neg", "pos"):
        (tmp_path / label).mkdir()
        for number in range(8):
            text = f"<nav>menu</nav><p>{SENTENCE} {label} {number}</p>"
            (tmp_path / label / f"{number}.html").write_text(text)
    (tmp_path / "pos" / "scan.pdf").write_bytes(REFUSED["scanned.pdf"][0]())
    examples = read_examples(ExamplesConfig(files=(str(tmp_path),)), purpose="describe")
    assert sorted(example.text for example in examples.train)[0] == f"{SENTENCE} neg 0"
    assert len(examples.train) == 16
    assert any("1 document cannot be read" in note for note in examples.notes)

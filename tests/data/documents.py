"""Documents of every kind, made for tests: ordinary, damaged and hostile ones."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from email.message import EmailMessage

WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
SENTENCE = "The river keeps the stone and the window forgets the winter."


def packed(members: dict[str, str | bytes]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(name), content, zipfile.ZIP_DEFLATED)
    return out.getvalue()


def word(body: str, before: str = "", **parts: str) -> bytes:
    members: dict[str, str | bytes] = {
        "word/document.xml": f'{before}<w:document xmlns:w="{WORD}"><w:body>{body}</w:body></w:document>'
    }
    for name, content in parts.items():
        members[f"word/{name}.xml"] = f'<w:{name} xmlns:w="{WORD}">{content}</w:{name}>'
    return packed(members)


def paragraph(text: str, properties: str = "") -> str:
    return f"<w:p><w:pPr>{properties}</w:pPr><w:r><w:t>{text}</w:t></w:r></w:p>"


def book(*chapters: str, **members: str) -> bytes:
    container = '<container><rootfiles><rootfile full-path="OPS/content.opf"/></rootfiles></container>'
    kind = 'media-type="application/xhtml+xml"'
    items = "".join(f'<item id="c{number}" href="c%20{number}.xhtml" {kind}/>' for number in range(len(chapters)))
    items += f'<item id="nav" href="nav.xhtml" {kind} properties="nav"/>'
    spine = "".join(f'<itemref idref="{name}"/>' for name in ["nav", *(f"c{n}" for n in range(len(chapters)))])
    package = f"<package><manifest>{items}</manifest><spine>{spine}</spine></package>"
    content = {f"OPS/c {number}.xhtml": chapter for number, chapter in enumerate(chapters)}
    ends = {name.replace("__", "/"): text for name, text in members.items()}
    return packed(
        {"META-INF/container.xml": container, "OPS/content.opf": package, "OPS/nav.xhtml": "TOC"} | content | ends
    )


def notebook(*cells: tuple[str, str], **more: object) -> bytes:
    listed = [{"cell_type": kind, "metadata": {}, "source": source.splitlines(True)} for kind, source in cells]
    return json.dumps({"cells": listed, "metadata": {}, "nbformat": 4, "nbformat_minor": 5} | more).encode()


def pdf(*pages: str, kids: str | None = None, contents: str | None = None) -> bytes:
    """Pages of one line each; `kids` and `contents` are written in place of the right references."""
    objects = ["<< /Type /Catalog /Pages 2 0 R >>", "", "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>"]
    references = []
    for text in pages:
        stream = f"BT /F1 11 Tf 50 780 Td ({text}) Tj ET" if text else ""
        objects.append(f"<< /Length {len(stream)} >>\nstream\n{stream}\nendstream")
        content = contents or f"{len(objects)} 0 R"
        resources = "/Resources << /Font << /F1 3 0 R >> >>"
        objects.append(f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {content} {resources} >>")
        references.append(f"{len(objects)} 0 R")
    objects[1] = f"<< /Type /Pages /Kids [{kids or ' '.join(references)}] /Count {len(pages)} >>"
    written, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(written))
        written += f"{number} 0 obj\n{content}\nendobj\n".encode()
    table = b"".join(b"%010d 00000 n \n" % place for place in places)
    end = b"trailer << /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, len(written))
    return written + b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, table) + end


def mail(subject: str, text: str, html: str = "", attached: bytes = b"") -> bytes:
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "me@example.org", "you@example.org", subject
    if text:
        message.set_content(text, cte="quoted-printable")
    if html:
        message.add_alternative(html, subtype="html")
    if attached:
        message.add_attachment(attached, maintype="image", subtype="png", filename="a.png")
    return message.as_bytes()


def encrypted_pdf() -> bytes:
    import pypdf

    out = io.BytesIO()
    writer = pypdf.PdfWriter(io.BytesIO(pdf(SENTENCE)))
    writer.encrypt("secret", algorithm="RC4-128")
    writer.write(out)
    return out.getvalue()


ORDINARY: dict[str, Callable[[], bytes]] = {
    "page.html": lambda: f"<html><body><h1>Rivers</h1><p>{SENTENCE}</p></body></html>".encode(),
    "report.docx": lambda: word(paragraph(SENTENCE)),
    "paper.pdf": lambda: pdf("Rivers", SENTENCE),
    "notes.ipynb": lambda: notebook(("markdown", SENTENCE), ("code", "print(1)")),
    "novel.epub": lambda: book(f"<html><body><p>{SENTENCE}</p></body></html>"),
    "letter.rtf": lambda: f"{{\\rtf1\\ansi {{\\b Dear}} reader,\\par {SENTENCE}}}".encode(),
    "message.eml": lambda: mail("Rivers", SENTENCE),
    "all.mbox": lambda: b"From me@x Sat Jan 01 00:00:00 2022\n" + mail("Rivers", SENTENCE) + b"\n",
}
"""A document of each format that holds SENTENCE."""

_SECRET = '<!DOCTYPE x [<!ENTITY e SYSTEM "file://{}">]>'
_LAUGHS = "".join(f'<!ENTITY e{n + 1} "{f"&e{n};" * 10}">' for n in range(12))
BOMB = f'<!DOCTYPE x [<!ENTITY e0 "ha ha ha">{_LAUGHS}]>'
DRM = "<encryption><CipherData><CipherReference URI='OPS/c 0.xhtml'/></CipherData></encryption>"

REFUSED: dict[str, tuple[Callable[[], bytes], str]] = {
    "encrypted.pdf": (encrypted_pdf, "encrypted"),
    "scanned.pdf": (lambda: pdf("", "", ""), "3 pages without any"),
    "cyclic-pages.pdf": (lambda: pdf(SENTENCE, kids="2 0 R"), "damaged"),
    "no-pages.pdf": (lambda: b"%PDF-1.7\n" + bytes(range(256)) * 8, "damaged"),
    "an-error-page.pdf": (lambda: b"<html>404 Not found</html>", "holds no pdf data"),
    "old.docx": (lambda: b"\xd0\xcf\x11\xe0" + bytes(600), "old binary format"),
    "text.docx": (lambda: SENTENCE.encode(), "holds no docx data"),
    "without-text.docx": (lambda: packed({"other.xml": "<x/>"}), "missing"),
    "sheet.docx": (
        lambda: packed({"_rels/.rels": '<r><s Type="x/officeDocument" Target="xl/workbook.xml"/></r>'}),
        "holds 'xl/workbook.xml'",
    ),
    "not-xml.docx": (lambda: packed({"word/document.xml": "<w:p>"}), "damaged"),
    "deep.docx": (lambda: word("<w:p>" * 400 + "</w:p>" * 400), "damaged"),
    "no-chapters.epub": (book, "names no chapters"),
    "missing-chapter.epub": (lambda: book("<p>x</p>").replace(b"OPS/c 0", b"OPS/c 9"), "missing"),
    "drm.epub": (lambda: book(f"<p>{SENTENCE}</p>", **{"META-INF__encryption.xml": DRM}), "DRM"),
    "no-json.ipynb": (lambda: b"{", "damaged"),
    "a-list.ipynb": (lambda: b"[1, 2]", "damaged"),
    "deep.ipynb": (lambda: b'{"cells": ' + b"[" * 100_000, "nested too deep"),
    "deep.html": (lambda: b"<div>" * 100_000 + SENTENCE.encode(), "nested more than 2,000 deep"),
    "text.rtf": (lambda: SENTENCE.encode(), "holds no rtf data"),
}
"""Documents that are refused, and what the message mentions."""


def reading(secret: str) -> dict[str, bytes]:
    """Documents that ask for the content of another file, or of an address, where their text should be."""
    entity = _SECRET.format(secret)
    page = f"{entity}<html><body><p>{SENTENCE} &e;</p><iframe src='file://{secret}'></iframe></body></html>"
    include = f"<x:include xmlns:x='http://www.w3.org/2001/XInclude' href='{secret}' parse='text'/>"
    return {
        "entity.docx": word(paragraph(f"{SENTENCE} &e;"), entity),
        "include.docx": word(paragraph(SENTENCE) + include),
        "entity.html": page.encode(),
        "entity.epub": book(page),
        "address.docx": word(paragraph(SENTENCE), '<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd">'),
    }

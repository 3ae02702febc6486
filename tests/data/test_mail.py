"""E-mail: the subject and the text of messages and mailboxes, without headers, attachments and base64."""

from __future__ import annotations

from pathlib import Path

import pytest

from data.documents import SENTENCE, mail
from qkv.data.corpus import CorpusConfig, ExamplesConfig
from qkv.data.documents.mail import split_mailbox
from qkv.data.files.unpack import Source
from qkv.data.findings import Findings
from qkv.data.formats.text import read_documents
from qkv.data.read_examples import read_examples
from qkv.errors import DataError

pytest.importorskip("lxml")
FROM = b"From 1@xxx Sat Jan 01 00:00:00 +0000 2022\n"
PICTURE = bytes(range(256)) * 20


def read(path: Path, findings: Findings | None = None) -> list[str]:
    """The texts of the documents of one file."""
    texts, held = list[str](), ""
    for piece in read_documents([Source(path)], CorpusConfig(files=(str(path),)), findings or Findings()):
        held += piece.text
        if piece.is_last:
            texts.append(held)
            held = ""
    return texts


def test_a_message_is_its_subject_and_its_decoded_text(tmp_path: Path) -> None:
    file, findings = tmp_path / "a.eml", Findings()
    text = "Grüße aus Köln,\n\n> zitiert\n  eingerückt"
    file.write_bytes(mail("Fäden & Nähte", text, "<p>not this one</p>", PICTURE))
    assert read(file, findings) == [f"Fäden & Nähte\n\n{text}"]
    assert findings.notes() == ("1 attachment of e-mail messages was left out.",)


def test_a_message_with_a_web_page_only(tmp_path: Path) -> None:
    file = tmp_path / "a.eml"
    file.write_bytes(mail("Rivers", "", f"<html><style>x</style><p>{SENTENCE}</p><ul><li>one</ul></html>"))
    assert read(file) == [f"Rivers\n\n{SENTENCE}\n\n- one"]


@pytest.mark.parametrize("charset", ["x-unknown", "utf-8", ""])
def test_a_wrong_charset_is_replaced_by_one_that_fits(tmp_path: Path, charset: str) -> None:
    file = tmp_path / "a.eml"
    kind = f"Content-Type: text/plain; charset={charset}\n" if charset else ""
    file.write_bytes(f"Subject: a\n{kind}\nschöner Tag".encode("cp1252"))
    assert read(file) == ["a\n\nschöner Tag"]


def test_each_message_of_a_mailbox_is_a_document(tmp_path: Path) -> None:
    file, findings = tmp_path / "all.mbox", Findings()
    quoted = mail("two", "first\n\n").replace(b"first", b"first\n\n>From here on\nFrom there")
    file.write_bytes(b"\n".join(FROM + one for one in (mail("one", SENTENCE, attached=PICTURE), quoted, b"no header")))
    assert read(file, findings) == [f"one\n\n{SENTENCE}", "two\n\nfirst\n\nFrom here on\nFrom there"]
    assert findings.attachments == 1
    assert len(findings.unread_documents) == 1


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_mailbox_is_split_the_same_in_chunks_of_any_size(size: int) -> None:
    for end in (b"\n", b"\r\n"):
        messages = [b"Subject: %d" % n + end + end + b"body" + end for n in range(3)]
        box = end.join(FROM.replace(b"\n", end) + one for one in messages)
        split = list(split_mailbox(box[start : start + size] for start in range(0, len(box), size)))
        assert [one.strip() for one in split] == [one.strip() for one in messages]


def test_what_is_no_mail_is_refused(tmp_path: Path) -> None:
    for name, problem in (("a.mbox", "holds no mailbox"), ("a.eml", "holds no eml data")):
        (tmp_path / name).write_bytes(b"\nonly some text")
        with pytest.raises(DataError, match=problem):
            read(tmp_path / name)


def test_folders_of_messages_are_labels(tmp_path: Path) -> None:
    for label in ("spam", "ham"):
        (tmp_path / label).mkdir()
        for number in range(12):
            (tmp_path / label / f"{number}.eml").write_bytes(mail(f"{label} {number}", SENTENCE))
    found = read_examples(ExamplesConfig(files=(str(tmp_path),)))
    assert sorted(found.labels.names) == ["ham", "spam"]
    assert any(example.text.startswith("spam") for example in found.train)

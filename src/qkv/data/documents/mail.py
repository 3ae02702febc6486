"""The text of e-mail messages: the subject, and the body as plain text. Attachments and other headers are left out.

Of the alternatives of a body the plain text is taken, else the web page. A mailbox (.mbox) is cut at its `From ` lines
while it is read, and each message is a document: a mailbox of many gigabytes needs the memory of its largest message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from email import message_from_bytes, policy
from email.message import EmailMessage

from qkv.data.documents.plain_text import PlainText
from qkv.data.documents.unreadable import UnreadableError, misnamed_error

_BEGIN = re.compile(rb"(?:\A|\n\r?\n)(?=From )")
_QUOTED = re.compile(rb"(?m)^>(?=>*From )")
_LEFT_BEHIND = 8
"""How many bytes at the end of a chunk may begin a separator that the next chunk completes."""


def split_mailbox(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """The messages of a mailbox, each without its `From ` line; ValueError if the first line is none."""
    buffer, searched = b"", 0
    for chunk in chunks:
        buffer += chunk
        while (found := _BEGIN.search(buffer, searched)) is not None:
            if found.end():
                yield _message(buffer[: found.end()])
            buffer, searched = buffer[found.end() :], 1
        searched = max(min(1, len(buffer)), len(buffer) - _LEFT_BEHIND)
    if buffer.strip():
        yield _message(buffer)


def _message(content: bytes) -> bytes:
    first, _, message = content.partition(b"\n")
    if not first.startswith(b"From "):
        raise ValueError("the first line does not begin with From")
    return _QUOTED.sub(b"", message)


def read_message(content: bytes, text: PlainText) -> int:
    """Write the subject and the body; return how many attachments were left out."""
    message = message_from_bytes(content, policy=policy.default)
    if not message.keys():
        raise misnamed_error("eml")
    subject = " ".join(str(message.get("subject", "")).split())
    if subject:
        text.text(subject)
        text.end_line(2)
    bodies, attachments = _bodies(message)
    for body in bodies:
        if body.get_content_type() == "text/html":
            from qkv.data.documents.web_pages import read_page

            read_page(_decoded(body).encode("utf-8", "replace"), text)
        else:
            text.preformatted(_decoded(body).strip().replace("\r\n", "\n"))
        text.end_line(2)
    if not bodies and not subject:
        raise UnreadableError("has no subject and no text", "Leave it out.")
    return attachments


def _bodies(message: EmailMessage) -> tuple[list[EmailMessage], int]:
    """The parts that hold the text of a message, in order, and the number of the others."""
    bodies, attachments, waiting = list[EmailMessage](), 0, [message]
    while waiting:
        part = waiting.pop()
        kind = part.get_content_type()
        if part.is_multipart() and kind.startswith("multipart/"):
            parts = [sub for sub in part.iter_parts() if isinstance(sub, EmailMessage)]
            if kind == "multipart/alternative":
                parts = [min(parts, key=_preference)] if parts else []
            waiting += reversed(parts)
        elif kind in ("text/plain", "text/html") and not part.is_attachment():
            bodies.append(part)
        else:
            attachments += 1
    return bodies, attachments


def _preference(part: EmailMessage) -> int:
    kind = part.get_content_type()
    return 0 if kind == "text/plain" else 1 if kind.startswith("multipart/") else 2 if kind == "text/html" else 3


def _decoded(part: EmailMessage) -> str:
    """The text of a part in the encoding that it names, else in UTF-8 or that of Western Europe."""
    content = part.get_payload(decode=True)
    assert isinstance(content, bytes)
    for encoding in (part.get_content_charset(), "utf-8"):
        try:
            return content.decode(encoding or "utf-8")
        except (LookupError, ValueError):
            continue
    return content.decode("cp1252", "replace")

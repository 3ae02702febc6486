"""The process that reads documents: it receives their bytes and sends back their text, with limited time and memory.

It opens no files or connections, and runs no code of a document. When it exceeds the limits, the system ends it; the
process that started it reports that and starts another.

A message in either direction is one letter, the length of the content in four bytes, and the content. The process
receives the bytes of a document (B) and a request (R, JSON); it sends the text (T), notes on it (N), the number of
attachments that were left out (A) and its end (.), or instead a problem with its remedy (P, JSON), or that there is not
enough memory (M).
"""

from __future__ import annotations

import json
import logging
import struct
from collections.abc import Callable
from io import BytesIO
from typing import IO

from qkv.data.documents.plain_text import PlainText
from qkv.data.documents.unreadable import UnreadableError, misnamed_error
from qkv.visible import counted

MAX_TEXT = 2**28
"""How many characters the text of a document may have."""
COPY_AGAIN = "Copy or download it again."
Reader = Callable[[bytes, "Answer"], None]


class Answer:
    """Sends the answer on one document."""

    def __init__(self, output: IO[bytes]) -> None:
        self.output = output
        self._held: list[str] = []
        self._held_size = self._size = 0
        self.has_text = False

    def write(self, text: str) -> None:
        self._held.append(text)
        self._held_size += len(text)
        self.has_text = self.has_text or bool(text.strip())
        if self._held_size > 2**16:
            self._send_text()

    def note(self, text: str) -> None:
        send(self.output, b"N", text.encode())

    def end(self) -> None:
        self._send_text()
        send(self.output, b".")

    def refuse(self, problem: str, remedy: str) -> None:
        send(self.output, b"P", json.dumps([problem, remedy]).encode())

    def _send_text(self) -> None:
        text = "".join(self._held).replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
        encoded = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()  # joins surrogate pairs
        self._size += len(text)
        if self._size > MAX_TEXT:
            raise UnreadableError(f"its text is longer than {MAX_TEXT:,} characters", "Split it.")
        self._held, self._held_size = [], 0
        if encoded:
            send(self.output, b"T", encoded)


def _read_page(content: bytes, answer: Answer) -> None:
    from qkv.data.documents.web_pages import read_page

    read_page(content, PlainText(answer.write))


def _read_word(content: bytes, answer: Answer) -> None:
    from qkv.data.documents.office import read_word

    read_word(content, PlainText(answer.write))


def _read_book(content: bytes, answer: Answer) -> None:
    from qkv.data.documents.office import read_book

    read_book(content, PlainText(answer.write))


def _read_notebook(content: bytes, answer: Answer) -> None:
    """Write the cells of a Jupyter notebook: text unchanged, code as blocks of Markdown, without outputs."""
    notebook = json.loads(content)
    sheets = notebook.get("worksheets") or [notebook]  # before format 4, cells were in worksheets
    language = (notebook.get("metadata") or {}).get("language_info") or {}
    name = language.get("name") or "python"
    separator = ""
    for cell in (cell for sheet in sheets for cell in sheet["cells"]):
        source = cell.get("source", cell.get("input", ""))
        text = source if isinstance(source, str) else "".join(source)
        if not text.strip():
            continue
        is_code = cell.get("cell_type") == "code"
        answer.write(f"{separator}```{name}\n{text}\n```" if is_code else f"{separator}{text}")
        separator = "\n\n"


def _read_rich_text(content: bytes, answer: Answer) -> None:
    from striprtf.striprtf import rtf_to_text

    if not content.lstrip().startswith(b"{\\rtf"):
        raise misnamed_error("rtf")
    text: str = rtf_to_text(content.decode("latin-1"), errors="replace")  # type: ignore[no-untyped-call]
    answer.write(text)


def _read_mail(content: bytes, answer: Answer) -> None:
    from qkv.data.documents.mail import read_message

    attachments = read_message(content, PlainText(answer.write))
    send(answer.output, b"A", str(attachments).encode())


def _read_pdf(content: bytes, answer: Answer) -> None:
    import pypdf

    if b"%PDF" not in content[:1024]:
        raise misnamed_error("pdf")
    reader = pypdf.PdfReader(BytesIO(content), strict=False)
    if reader.is_encrypted:
        raise UnreadableError("it is encrypted", "Save it without protection, such as with `qpdf --decrypt IN OUT`.")
    unread = count = 0
    for page in reader.pages:
        count += 1
        try:
            text = page.extract_text()
        except (MemoryError, RecursionError):
            raise
        except Exception:  # the library may raise anything for a damaged page; the others may be readable
            unread += 1
            continue
        if text.strip():
            answer.write(f"\n\n{text.strip()}" if answer.has_text else text.strip())
    if unread and not answer.has_text:
        raise ValueError("no page can be read")
    if count and not answer.has_text:
        problem = f"has no text: {counted(count, 'page')} without any, as in scanned documents"
        raise UnreadableError(problem, "Recognise its text first, such as with `ocrmypdf IN OUT`.")
    if unread:
        answer.note(f"{unread:,} of {count:,} pages cannot be read and were left out")


READERS: dict[str, Reader] = {
    "html": _read_page,
    "docx": _read_word,
    "epub": _read_book,
    "ipynb": _read_notebook,
    "rtf": _read_rich_text,
    "pdf": _read_pdf,
    "eml": _read_mail,
}


def send(output: IO[bytes], kind: bytes, content: bytes = b"") -> None:
    output.write(kind + struct.pack(">I", len(content)) + content)
    output.flush()


def receive(stream: IO[bytes]) -> tuple[bytes, bytes]:
    """The letter and the content of the next message; EOFError if there are no more."""
    head = stream.read(5)
    if len(head) < 5:
        raise EOFError
    size = struct.unpack(">I", head[1:])[0]
    content = stream.read(size)
    if len(content) < size:
        raise EOFError
    return head[:1], content


def _limit(seconds: int, memory: int) -> None:
    """Let the system end this process after this many more seconds of CPU time, and limit its memory."""
    try:
        import resource

        usage = resource.getrusage(resource.RUSAGE_SELF)
        _, most = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(usage.ru_utime + usage.ru_stime) + 1 + seconds, most))
        _, most = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (memory, most))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):  # a system without these limits, or with stricter ones
        pass


def _answer(kind: str, content: bytes, answer: Answer) -> None:
    try:
        READERS[kind](content, answer)
        answer.end()
    except UnreadableError as error:
        answer.refuse(error.problem, error.remedy)
    except MemoryError:
        send(answer.output, b"M")
    except RecursionError:
        answer.refuse("its parts are nested too deeply", "Give its text instead.")
    except Exception as error:  # a hostile file may make the libraries raise anything
        reason = " ".join(str(error).split())[:120] or type(error).__name__
        answer.refuse(f"the {kind} data is damaged or cut short ({reason})", COPY_AGAIN)


def main(source: IO[bytes], output: IO[bytes]) -> None:
    logging.disable(logging.CRITICAL)
    chunks: list[bytes] = []
    while True:
        try:
            letter, content = receive(source)
        except EOFError:
            return
        if letter == b"B":
            chunks.append(content)
            continue
        document, chunks = b"".join(chunks), []
        kind, seconds, memory = json.loads(content)
        _limit(seconds, memory)
        _answer(kind, document, Answer(output))

"""What `qkv data clean` drops of good texts, and how fast: the figures of decision 0005.

    python bench/cleaning.py texts FOLDER       losses on the real texts of a folder, one line each
    python bench/cleaning.py languages FOLDER   losses on the messages of gettext catalogs, LANGUAGE/LC_MESSAGES/*.mo
    python bench/cleaning.py speed FILE         megabytes a second of processor time
    python bench/cleaning.py memory DOCUMENTS   bytes remembered of each document

What goes of planted rubbish is in tests/data/test_cleaning.py.
"""

from __future__ import annotations

import gettext
import random
import sys
import time
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

from qkv.data.clean.filters import Limits
from qkv.data.clean.pipeline import Document, FilterChain, clean
from qkv.data.corpus import CorpusConfig
from qkv.data.findings import Findings
from qkv.data.formats.text import read_documents
from qkv.data.text_files import find_text_files

TEXTS = [
    ("tinyshakespeare/input.txt", "files"),
    ("tinyshakespeare/input.txt", "paragraphs"),
    ("ece1786/LargerCorpus.txt", "paragraphs"),
    ("ece1786/SmallSimpleCorpus.txt", "files"),
    ("tinystories/tinystories_1000.json.gz", "files"),
    ("wikitext-2/wikitext_1000.json.gz", "files"),
    ("wikitext-2/valid.txt.gz", "lines"),
    ("sotu/sotu.zip", "files"),
    ("multi30k/train.en.gz", "lines"),
    ("multi30k/train.de.gz", "lines"),
    ("multi30k/train.cs.gz", "lines"),
    ("names/names.txt", "lines"),
    ("python-docs", "files"),
    ("python-docs", "paragraphs"),
    ("python-stdlib", "files"),
]


def texts(folder: str) -> None:
    for name, documents in TEXTS:
        path = name if name.startswith("python-") else str(Path(folder) / name)
        found = clean(CorpusConfig(files=(path,), documents=documents), Limits())  # type: ignore[arg-type]
        lost = {each.name: f"{each.dropped_bytes / found.bytes:.2%}" for each in found.filters if each.dropped_bytes}
        share = 1 - found.kept_bytes / found.bytes
        gone = found.documents - found.kept_documents
        print(f"{name} as {documents}: {gone:,} of {found.documents:,} documents, {share:.2%} of the bytes; {lost}")


def languages(folder: str) -> None:
    messages: dict[str, list[str]] = defaultdict(list)
    for path in sorted(Path(folder).glob("*/LC_MESSAGES/*.mo")):
        with path.open("rb") as file, suppress(ValueError, IndexError):
            catalog = gettext.GNUTranslations(file)._catalog  # type: ignore[attr-defined]
            messages[path.parts[-3]] += [text for key, text in catalog.items() if key and isinstance(text, str)]
    lost = []
    for language, found in messages.items():
        if len(found) >= 400:
            random.Random(0).shuffle(found)
            pages = ["\n".join(found[start : start + 15]) for start in range(0, min(len(found), 3000), 15)]
            reasons = FilterChain(Limits(), ("copy", "near-copy")).decide([document(page) for page in pages])
            lost.append((sum(reason is not None for reason in reasons) / len(pages), language))
    lost.sort(reverse=True)
    print(
        f"{len(lost)} languages, pages of 15 messages; most lost:", [f"{name} {share:.1%}" for share, name in lost[:8]]
    )


def document(text: str) -> Document:
    return Document(text, len(text), len(text.encode()))


def speed(path: str) -> None:
    for documents in ("files", "paragraphs", "lines"):
        corpus = CorpusConfig(files=(path,), documents=documents)  # type: ignore[arg-type]
        only_reading, seconds = [], []
        for _ in range(5):
            start = time.process_time()
            for _piece in read_documents(find_text_files(corpus.files, None, Findings()), corpus, Findings()):
                pass
            middle = time.process_time()
            found = clean(corpus, Limits())
            only_reading.append(middle - start)
            seconds.append(time.process_time() - middle)
        mean, size = found.bytes / found.documents, found.bytes / 1e6
        rates = f"{size / min(seconds):.1f} MB/s, {size / min(only_reading):.1f} MB/s for reading alone"
        print(f"{documents} of {mean:,.0f} bytes: {rates}", flush=True)


def memory(documents: str) -> None:
    """Documents of random words, none like another."""
    chain = FilterChain(Limits())
    numbers = random.Random(0)
    for done in range(4096, int(documents) + 1, 4096):
        chain.decide([document(" ".join(numbers.choices(WORDS, k=12))) for _ in range(4096)])
        if done & (done - 1) == 0 or done + 4096 > int(documents):
            print(f"{done:,} documents: {chain.remembered_bytes / done:.0f} bytes each", flush=True)


WORDS = [f"word{number}" for number in range(20_000)]

if __name__ == "__main__":
    {"texts": texts, "languages": languages, "speed": speed, "memory": memory}[sys.argv[1]](*sys.argv[2:])

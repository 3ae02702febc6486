"""Standard input as a corpus: kept in the cache, so that it can be read twice, and found again by `--resume`."""

from __future__ import annotations

import os
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from qkv.data.cachefolder import REMEDY, cache_folder
from qkv.data.corpus import CorpusConfig
from qkv.data.formats import CHUNK
from qkv.errors import DataError, InputError
from qkv.storage import advised, writing

NAME = "-"


def received(corpus: CorpusConfig) -> tuple[CorpusConfig, Path | None]:
    """The file that holds standard input, when the corpus names it."""
    if NAME in corpus.valid:
        raise InputError("standard input cannot be the validation text; put it into a file and say --valid FILE.")
    if NAME not in corpus.files:
        return corpus, None
    if corpus.files != (NAME,):
        raise InputError("standard input (-) cannot be mixed with files; pipe everything in, or name files only.")
    if corpus.fingerprint and (kept := _kept(corpus.fingerprint)).is_file():
        return replace(corpus), kept
    if sys.stdin is None or sys.stdin.isatty():
        if corpus.fingerprint:
            raise InputError("the text that was piped in is no longer in the cache; pipe the same text in again.")
        raise InputError("nothing is piped in. Use it as in: cat book.txt | qkv train -")
    return corpus, _spool()


def _spool() -> Path:
    folder = cache_folder("input")
    size = 0
    with (
        advised(REMEDY),
        writing(folder),
        tempfile.NamedTemporaryFile("wb", dir=folder, suffix=".part", delete=False) as file,
    ):
        try:
            while chunk := sys.stdin.buffer.read(CHUNK):
                file.write(chunk)
                size += len(chunk)
            file.flush()
            os.fsync(file.fileno())
        except BaseException:
            os.unlink(file.name)
            raise
    if not size:
        os.unlink(file.name)
        raise DataError("standard input", "nothing came in", "Use it as in: cat book.txt | qkv train -")
    return Path(file.name)


def keep(spool: Path, fingerprint: str) -> Path:
    """Give the text its lasting name."""
    kept = _kept(fingerprint)
    if spool != kept:
        os.replace(spool, kept)
    return kept


def _kept(fingerprint: str) -> Path:
    return cache_folder("input") / f"{fingerprint}.txt"

"""`qkv tokenize`: tokens, ids and compression of a text under a tokenizer; trains one alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from qkv import ranges
from qkv.cli.options import Flag, Prompt, refuse, typed_text, within
from qkv.cli.output import Json, document, notes, show
from qkv.cli.progress import reading
from qkv.errors import InputError
from qkv.tasks.report import ReportSection, TableSection, lines

if TYPE_CHECKING:
    from qkv.text.tokenizer import Tokenizer

SHOWN = 200


def tokenize(
    *text: Prompt,
    tokenizer: str | None = None,
    file: str | None = None,
    train: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="")] = (),
    kind: Literal["auto", "characters", "words", "bpe", "wordpiece"] | None = None,
    size: Annotated[int | None, within(ranges.VOCABULARY)] = None,
    save: str | None = None,
    force: Flag = False,
    encoding: str = "utf-8",
    json: Json = False,
) -> None:
    """Show the tokens of a text, or train a tokenizer.

    qkv tokenize "O Romeo" --tokenizer runs/book-modern
    qkv tokenize --train book.txt --kind bpe --size 2000 --save tokenizer.json
    qkv tokenize --file book.txt --tokenizer tokenizer.json

    Args:
        text: The text to tokenize; - reads it from standard input.
        tokenizer: A model's folder, a tokenizer.json, or a kind to train on --train.
        file: Tokenize the text of a file, folder or named data set.
        train: Train a tokenizer on these files.
        kind: The kind to train.
        size: How many tokens the vocabulary may have.
        save: Write the tokenizer.json here.
        force: Replace a file of the name --save.
        encoding: The encoding of the files.
    """
    if save is None:
        refuse({"force": force}, "only --save FILE writes a file")
    words = typed_text(text, "tokenize", encoding)
    chosen, resolved = _choose(words, tokenizer, tuple(train), kind, size, encoding, file)
    saved = _save(chosen, save, force)
    values: dict[str, Any] = {
        "tokenizer": {
            "kind": chosen.kind,
            "vocabulary": chosen.vocabulary,
            "fingerprint": chosen.fingerprint,
            **({"config": resolved} if resolved else {}),
            **({"saved": saved} if saved else {}),
        }
    }
    if words:
        values["text"] = _tokens(chosen, words)
    if file is not None:
        values["file"] = _measure(chosen, file, encoding)
    if json:
        return document(values)
    if unknown := values.get("text", {}).get("unknown"):
        notes([f"not in the vocabulary, read as UNK: {', '.join(map(repr, unknown[:20]))}."])
    return show(*_sections(chosen, values))


def _choose(
    words: str,
    tokenizer: str | None,
    train: tuple[str, ...],
    kind: str | None,
    size: int | None,
    encoding: str,
    file: str | None,
) -> tuple[Tokenizer, dict[str, Any] | None]:
    from qkv.config import toml_values

    if kind is not None and tokenizer is not None:
        raise InputError("--kind and --tokenizer both name a tokenizer; give one of them.")
    from qkv.library.new_run import tokenizer_by_name

    config, given = tokenizer_by_name(tokenizer or kind or "auto")
    if given is not None:
        if train or size is not None:
            raise InputError(
                "--tokenizer names a finished tokenizer; --train and --size would train another. Drop one."
            )
        return given, None
    config = replace(config, size=size)
    if train or (not words and file is not None):
        from qkv.data.corpus import CorpusConfig
        from qkv.data.prepare import learn_tokenizer

        corpus = CorpusConfig(files=train or (str(file),), encoding=encoding)
        with reading() as watch:
            learned, resolved, noted = learn_tokenizer(corpus, config, progress=watch)
        notes(noted)
        return learned, toml_values(resolved)
    if not words:
        raise InputError("nothing to do. Give a text and --tokenizer, or --train DATA to train a tokenizer.")
    from qkv.text.vocabulary import train_tokenizer

    if config.kind is None:
        config = replace(config, kind="characters")
    # enough to see how a kind works
    notes([f"the {config.kind} tokenizer was trained on this text alone; --train or --tokenizer change that."])
    return train_tokenizer(config, [words]), toml_values(config)


def _save(tokenizer: Tokenizer, save: str | None, force: bool) -> str | None:
    if save is None:
        return None
    path = Path(save)
    if path.is_dir():
        path = path / "tokenizer.json"
    if path.exists() and not force:
        raise InputError(f"{path}: is already there. Choose another name, or replace it with --force.")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} is not there. Make it first.")
    tokenizer.save(path)
    return str(path)


def _tokens(tokenizer: Tokenizer, words: str) -> dict[str, Any]:
    ids = tokenizer.encode(words)
    pieces = [tokenizer.piece(number) for number in ids]
    unknown = tokenizer.unknown_characters(words)
    counts = _counts(len(ids), len(words), len(words.encode()), len(words.split()))
    return {**counts, "ids": ids, "pieces": pieces, "unknown": unknown, "decoded": tokenizer.decode(ids)}


def _measure(tokenizer: Tokenizer, file: str, encoding: str) -> dict[str, Any]:
    from qkv.data.corpus import CorpusConfig
    from qkv.data.prepare import stream

    with reading() as watch:
        tokens, noted = stream(tokenizer, CorpusConfig(files=(file,), encoding=encoding), progress=watch)
    notes(noted)
    # the separators between documents are not text
    counts = _counts(len(tokens.tokens) - tokens.documents - 1, tokens.characters, tokens.bytes, None)
    return {"name": file, **counts, "documents": tokens.documents, "unknown_tokens": tokens.unknown}


def _counts(tokens: int, characters: int, size: int, words: int | None) -> dict[str, Any]:
    counts: dict[str, Any] = {"tokens": tokens, "characters": characters, "bytes": size}
    if words is not None:
        counts |= {"words": words, "tokens_per_word": tokens / words if words else None}
    counts["tokens_per_character"] = tokens / characters if characters else None
    counts["tokens_per_byte"] = tokens / size if size else None
    return counts


def _sections(tokenizer: Tokenizer, values: dict[str, Any]) -> Iterator[ReportSection]:
    rows: list[tuple[str, str]] = [("kind", tokenizer.kind), ("vocabulary", f"{tokenizer.vocabulary:,}")]
    if text := values.get("text"):
        tokens = list(zip(map(repr, text["pieces"]), text["ids"], strict=True))
        yield TableSection("", ("token", "id"), tokens[:SHOWN])
        yield lines(*([f"... and {len(tokens) - SHOWN:,} more"] if len(tokens) > SHOWN else []), "")
    for part in ("text", "file"):
        for name, value in values.get(part, {}).items():
            if isinstance(value, int | float):
                rows.append((name.replace("_", " "), f"{value:,}" if isinstance(value, int) else f"{value:.3f}"))
    yield TableSection("", ("what", "value"), rows)
    if saved := values["tokenizer"].get("saved"):
        yield lines(f"saved: {saved}")

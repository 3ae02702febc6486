"""`qkv tokenize`: show the tokens, ids and compression of a text; train a tokenizer without a model."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from qkv import ranges
from qkv.cli.options import Flag, Prompt, in_range, joined_text
from qkv.cli.output import Json, print_json, print_notes, print_sections
from qkv.cli.progress import progress_in_bytes
from qkv.errors import InputError
from qkv.tasks.report import ReportSection, TableSection, lines

if TYPE_CHECKING:
    from qkv.text.tokenizer import Tokenizer

SHOWN_TOKENS = 200


def tokenize(
    *text: Prompt,
    tokenizer: str | None = None,
    file: str | None = None,
    train: Annotated[tuple[str, ...], Parameter(consume_multiple=True, negative="")] = (),
    kind: Literal["auto", "characters", "words", "bpe", "wordpiece"] | None = None,
    size: Annotated[int | None, in_range(ranges.VOCABULARY)] = None,
    save: str | None = None,
    force: Flag = False,
    encoding: str | None = None,
    json: Json = False,
) -> None:
    """Show the tokens of a text, or train a tokenizer.

    qkv tokenize "O Romeo" --tokenizer runs/book-modern
    qkv tokenize --train book.txt --kind bpe --size 2000 --save tokenizer.json
    qkv tokenize --file book.txt --tokenizer tokenizer.json

    Args:
        text: The text to tokenize; - reads it from standard input.
        tokenizer: A model folder, a tokenizer.json, or the kind of a new tokenizer.
        file: Tokenize the text of a file, folder or named data set.
        train: Train a tokenizer on these files.
        kind: The kind to train.
        size: How many tokens the vocabulary may have.
        save: Write the tokenizer.json here.
        force: Replace the file of --save if it exists.
        encoding: The encoding of the files. Default: that of each file, detected.
    """
    joined = joined_text(text, "tokenize", encoding)
    used_tokenizer, config = _load_or_train(joined, tokenizer, tuple(train), kind, size, encoding, file)
    saved = _save(used_tokenizer, save, force)
    values: dict[str, Any] = {
        "tokenizer": {
            "kind": used_tokenizer.kind,
            "vocabulary": used_tokenizer.vocabulary,
            "fingerprint": used_tokenizer.fingerprint,
            **({"config": config} if config else {}),
            **({"saved": saved} if saved else {}),
        }
    }
    if joined:
        values["text"] = _text_values(used_tokenizer, joined)
    if file is not None:
        values["file"] = _file_values(used_tokenizer, file, encoding)
    if json:
        return print_json(values)
    if unknown := values.get("text", {}).get("unknown"):
        print_notes(f"not in the vocabulary, read as UNK: {', '.join(map(repr, unknown[:20]))}.")
    return print_sections(*_sections(used_tokenizer, values))


def _load_or_train(
    text: str,
    tokenizer: str | None,
    train: tuple[str, ...],
    kind: str | None,
    size: int | None,
    encoding: str | None,
    file: str | None,
) -> tuple[Tokenizer, dict[str, object] | None]:
    """The tokenizer that is named, or a new one trained on the files of `train`, on `file`, or on the text; with the
    config of a new one."""
    from qkv.config import toml_values

    if kind is not None and tokenizer is not None:
        raise InputError("--kind and --tokenizer both name a tokenizer; give one of them.")
    from qkv.library.new_run import tokenizer_by_name

    config, existing = tokenizer_by_name(tokenizer or kind or "auto")
    if existing is not None:
        if train or size is not None:
            raise InputError(
                "--tokenizer names an existing tokenizer; --train and --size would train a new one. Leave one out."
            )
        return existing, None
    config = replace(config, size=size)
    if train or (not text and file is not None):
        from qkv.data.corpus import CorpusConfig
        from qkv.data.prepare import learn_tokenizer

        corpus = CorpusConfig(files=train or (str(file),), encoding=encoding)
        with progress_in_bytes() as progress:
            trained, resolved, notes = learn_tokenizer(corpus, config, progress=progress)
        print_notes(*notes)
        return trained, toml_values(resolved)
    if not text:
        raise InputError("nothing to do. Give a text and --tokenizer, or --train DATA to train a tokenizer.")
    from qkv.text.vocabulary import train_tokenizer

    if config.kind is None:
        config = replace(config, kind="characters")
    print_notes(f"the {config.kind} tokenizer was trained on this text alone; --train or --tokenizer change that.")
    return train_tokenizer(config, [text]), toml_values(config)


def _save(tokenizer: Tokenizer, save: str | None, force: bool) -> str | None:
    if save is None:
        return None
    path = Path(save)
    if path.is_dir():
        path = path / "tokenizer.json"
    if path.exists() and not force:
        raise InputError(f"{path}: already exists. Choose another name, or replace it with --force.")
    if not path.parent.is_dir():
        raise InputError(f"{path}: the folder {path.parent} does not exist. Create it first.")
    tokenizer.save(path)
    return str(path)


def _text_values(tokenizer: Tokenizer, text: str) -> dict[str, object]:
    """The tokens and counts of a text, for JSON."""
    ids = tokenizer.encode(text)
    pieces = [tokenizer.piece(token) for token in ids]
    unknown = tokenizer.unknown_characters(text)
    counts = _counts(len(ids), len(text), len(text.encode()), len(text.split()))
    return {**counts, "ids": ids, "pieces": pieces, "unknown": unknown, "decoded": tokenizer.decode(ids)}


def _file_values(tokenizer: Tokenizer, file: str, encoding: str | None) -> dict[str, object]:
    """The counts of a file or data set, for JSON."""
    from qkv.data.corpus import CorpusConfig
    from qkv.data.prepare import stream

    with progress_in_bytes() as progress:
        token_stream, notes = stream(tokenizer, CorpusConfig(files=(file,), encoding=encoding), progress=progress)
    print_notes(*notes)
    documents = token_stream.documents
    text_tokens = len(token_stream.tokens) - documents - 1  # without the separators around the documents
    counts = _counts(text_tokens, token_stream.characters, token_stream.bytes, None)
    return {"name": file, **counts, "documents": documents, "unknown_tokens": token_stream.unknown}


def _counts(tokens: int, characters: int, size: int, words: int | None) -> dict[str, object]:
    """Counts and compression rates by their JSON keys; `size` is in bytes."""
    counts: dict[str, object] = {"tokens": tokens, "characters": characters, "bytes": size}
    if words is not None:
        counts |= {"words": words, "tokens_per_word": tokens / words if words else None}
    counts["tokens_per_character"] = tokens / characters if characters else None
    counts["tokens_per_byte"] = tokens / size if size else None
    return counts


def _sections(tokenizer: Tokenizer, values: dict[str, Any]) -> Iterator[ReportSection]:
    rows: list[tuple[str, str]] = [("kind", tokenizer.kind), ("vocabulary", f"{tokenizer.vocabulary:,}")]
    if text := values.get("text"):
        tokens = list(zip(map(repr, text["pieces"]), text["ids"], strict=True))
        yield TableSection("", ("token", "id"), tokens[:SHOWN_TOKENS])
        hidden = len(tokens) - SHOWN_TOKENS
        yield lines(*([f"... and {hidden:,} more"] if hidden > 0 else []), "")
    for part in ("text", "file"):
        for name, value in values.get(part, {}).items():
            if isinstance(value, int | float):
                rows.append((name.replace("_", " "), f"{value:,}" if isinstance(value, int) else f"{value:.3f}"))
    yield TableSection("", ("what", "value"), rows)
    if saved := values["tokenizer"].get("saved"):
        yield lines(f"saved: {saved}")

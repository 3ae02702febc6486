"""`qkv embed`: vectors of texts and of their tokens, from any layer of a model; the nearest texts, one word in many
texts, what each layer knows."""

from __future__ import annotations

import io
import json as json_module
from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

import qkv
from qkv.cli.lines import answer, batches
from qkv.cli.lines import lines as lines_of
from qkv.cli.options import DEFAULT_DATA, AnyModel, Flag, Repeatable, TextFile, Texts, read_config, refuse, within
from qkv.cli.output import Json, document, notes, print_answer, show
from qkv.errors import InputError, require_package
from qkv.ranges import COUNT
from qkv.storage import write_file
from qkv.tasks.report import ReportSection, TableSection, lines
from qkv.visible import counted, shortened

if TYPE_CHECKING:
    from torch import Tensor

    from qkv.api import Model
    from qkv.evaluation.vectors import Layer, Tokens
    from qkv.studies.linear_probe import Probed

ENDINGS = (".npy", ".parquet", ".jsonl")
TOGETHER = 256  # texts that are answered together
CANDIDATES = 1024  # texts of --among that are embedded at once
SHOWN = 12  # texts whose cosines are shown on a terminal
PAIRS = 6  # pairs of texts that are shown for every layer
TOP = 5


def embed(
    model: AnyModel,
    *texts: Texts,
    file: TextFile = None,
    layer: Annotated[str | None, Parameter(allow_leading_hyphen=True)] = None,
    pool: Literal["mean", "first", "last", "max"] | None = None,
    tokens: Flag = False,
    precision: Literal["f32", "bf16"] | None = None,
    out: Path | None = None,
    among: str | None = None,
    top: Annotated[int | None, within(COUNT)] = None,
    word: str | None = None,
    probe: Repeatable = None,
    label: str | None = None,
    picture: Path | None = None,
    json: Json = False,
) -> None:
    """Turn texts into vectors. Texts that mean the same have vectors that point the same way.

    qkv embed MODEL "That is a happy person" "That is a very happy person" "Today is a sunny day"
    qkv embed MODEL --file sentences.txt --out sentences.npy
    qkv embed MODEL "a good film" --among reviews.txt
    qkv embed MODEL --word bank "the river bank" "a bank account"
    qkv embed MODEL --probe wnut17/ --picture layers.svg

    Args:
        layer: 0 is what enters the first layer, 1 what leaves it ..., -1 the last. mean, sum or concat: the last four,
            joined. Default: -1.
        pool: How a text's tokens become one vector: their mean, the first ([CLS] in BERT), the last, or the largest
            numbers (max). Default: mean.
        tokens: A vector for each token instead of one a text.
        precision: The number format of products. bf16 is about twice as fast where the processor has it, and right to
            two or three digits. Default: f32.
        out: Write the vectors to FILE.npy, FILE.parquet or FILE.jsonl. A .npy of tokens holds them all, text after
            text.
        among: A file with one text a line: those nearest to each text are shown.
        top: For --among: how many of them. Default: 5.
        word: One word in several texts: how alike its vectors are, layer by layer. Of bank, station and it the
            lectures' own texts are taken when none are given.
        probe: Labelled examples (a table, CoNLL): linear probes, how well a linear classifier tells the labels from the
            vectors of each layer. Repeat it for more files.
        label: The column to learn, for --probe.
        picture: Plot the scores of --probe into this .svg or .png file.
    """
    modes = {"among": among, "word": word, "probe": probe, "out": out}
    given = [f"--{name}" for name, value in modes.items() if value is not None]
    if len(given) > 1:
        raise InputError(f"{given[0]} and {given[1]}: expected one of them.")
    if probe is None:
        refuse({"label": label, "picture": picture}, "only --probe DATA uses it")
    if among is None:
        refuse({"top": top}, "only --among FILE uses it")
    else:
        refuse({"tokens": tokens}, "--among compares whole texts")
    how = {"layer": layer, "pool": pool, "tokens": tokens, "precision": precision}
    if probe is not None:
        refuse({"file": file, **how}, "--probe reads labelled examples at every layer")
        if texts:
            raise InputError(f"{len(texts)} texts and --probe: a probe reads labelled examples. Leave the texts out.")
        return show_probe(model, probe, label, picture, json)
    if word is not None:
        refuse({"file": file, **how}, "--word compares the texts of the command at every layer")
        return show_word(model, word, list(texts), json)
    all_batches = batches(texts, file, "embed", TOGETHER, piped=False)
    if out is not None:
        require_writable(out)
    options: dict[str, Any] = {"layer": parse_layer(layer or "-1"), "pool": "none" if tokens else pool or "mean"}
    options["precision"] = precision or "f32"
    if json and out is None and among is None:
        opened = qkv.load(model)
        answer(
            opened,
            all_batches,
            lambda batch: list(opened.embed(batch, **options)),
            values,
            lambda batch, vectors: None,
            {"model": model, **options},
        )
        return None
    all_texts = [text for batch in all_batches for text in batch]
    opened = qkv.load(model)
    if among is not None:
        noted, nearest = nearest_in(opened, all_texts, among, top or TOP, options)
        if json:
            rows = [
                {"text": text, "near": [{"text": other, "cosine": cosine} for other, cosine in near]}
                for text, near in zip(all_texts, nearest, strict=True)
            ]
            about = {"layer": options["layer"], "pool": options["pool"], "among": among}
            return document({**about, "texts": rows, "notes": noted})
        notes(noted)
        return show(*near_sections(all_texts, nearest))
    vectors: Any = opened.embed(all_texts, **options)
    notes(opened.notes)
    if out is not None:
        write(out, all_texts, vectors)
        width = int((vectors[0].vectors if tokens else vectors).shape[-1])
        facts = {"texts": len(all_texts), "width": width, "file": str(out), "notes": opened.notes}
        if json:
            return document({"model": model, **options, **facts})
        return print_answer(f"{counted(len(all_texts), 'text')} -> {out}")
    show(*(token_tables(all_texts, vectors) if tokens else [cosine_table(all_texts, vectors)]))
    if len(all_texts) > SHOWN:
        notes([f"{SHOWN} of {len(all_texts):,} texts are shown; --out FILE.npy or --json gives all."])
    return None


def require_writable(path: Path) -> None:
    """Refuse a file that could not be written, before anything is computed."""
    if path.suffix not in ENDINGS:
        raise InputError(f"--out {path}: expected a name that ends in {', '.join(ENDINGS)}.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"--out {path}: there is no folder {path.parent}. Make it, or choose another place.")
    if path.suffix == ".parquet":
        require_package("pyarrow", f"--out {path}")


def parse_layer(layer: str) -> Layer:
    match layer:
        case "mean" | "sum" | "concat":
            return layer
    try:
        return int(layer)
    except ValueError:
        raise InputError(f"--layer {layer}: expected a number (-1: the last), mean, sum or concat.") from None


def values(text: str, vectors: Tensor | Tokens) -> dict[str, Any]:
    """A text and its vector, or those of its tokens, for JSON."""
    from qkv.evaluation.vectors import Tokens

    if isinstance(vectors, Tokens):
        return {"text": text, "tokens": vectors.ids, "pieces": vectors.pieces, "vectors": vectors.vectors.tolist()}
    return {"text": text, "vector": vectors.tolist()}


def write(path: Path, texts: list[str], vectors: Tensor | list[Tokens]) -> None:
    """The whole file, or none of it."""
    import numpy as np
    import torch

    content = io.BytesIO()
    rows = map(values, texts, vectors)
    if path.suffix == ".npy":
        flat = torch.cat([tokens.vectors for tokens in vectors]) if isinstance(vectors, list) else vectors
        np.save(content, flat.numpy(), allow_pickle=False)
    elif path.suffix == ".jsonl":
        for row in rows:
            content.write(json_module.dumps(row, ensure_ascii=False).encode("utf-8") + b"\n")
    else:
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), content)
    write_file(path, content.getvalue())


def cosine_table(texts: list[str], vectors: Tensor) -> TableSection:
    """Each text's size; for two or more, how alike they are."""
    import torch.nn.functional as F

    unit = F.normalize(vectors[:SHOWN])
    cosines = (unit @ unit.T).tolist() if len(texts) > 1 else [[]]
    rows = [
        (f"{number} {shortened(text, 40)}", len(vector), f"{vector.norm():.3f}", *(f"{cosine:.3f}" for cosine in near))
        for number, (text, vector, near) in enumerate(zip(texts, vectors[:SHOWN], cosines, strict=False), 1)
    ]
    numbers = [str(number + 1) for number in range(len(cosines[0]))]
    return TableSection("cosines on the right" if numbers else "", ["text", "width", "length", *numbers], rows)


def token_tables(texts: list[str], vectors: list[Tokens]) -> Iterator[TableSection]:
    for text, tokens in list(zip(texts, vectors, strict=True))[:SHOWN]:
        lengths = (f"{length:.3f}" for length in tokens.vectors.norm(dim=-1).tolist())
        rows = list(zip(map(repr, tokens.pieces), tokens.ids, lengths, strict=True))
        yield TableSection(shortened(text, 100), ("token", "id", "length"), rows)


def nearest_in(
    opened: Model, texts: list[str], file: str, top: int, options: dict[str, Any]
) -> tuple[list[str], list[list[tuple[str, float]]]]:
    """The texts of a file that are nearest to each of those given, with their cosines; before them, the notes."""
    from qkv.evaluation.vectors import nearest_texts

    noted: set[str] = set()

    def vectors(part: list[str]) -> Tensor:
        embedded: Tensor = opened.embed(part, **options)
        noted.update(opened.notes)
        return embedded

    def candidates() -> Iterator[tuple[list[str], Tensor]]:
        source = (line for line in lines_of([], file, "embed") if line.strip())
        while part := list(islice(source, CANDIDATES)):
            yield part, vectors(part)

    nearest = nearest_texts(vectors(texts), candidates(), top)
    return sorted(noted), nearest


def near_sections(texts: list[str], nearest: list[list[tuple[str, float]]]) -> Iterator[ReportSection]:
    for text, near in zip(texts, nearest, strict=True):
        yield lines(f"Nearest to {shortened(text, 100)!r}:")
        rows = [(f"{cosine:.3f}", shortened(other, 100)) for other, cosine in near]
        yield TableSection("", ("cosine", "text"), rows, words=("text",))


def show_word(model: str, word: str, texts: list[str], json: bool) -> None:
    """The cosines of one word's vectors in every two texts, layer by layer."""
    from qkv.evaluation.vectors import CONTEXTS

    texts = texts or list(CONTEXTS.get(word, ()))
    if len(texts) < 2:
        own = ", ".join(CONTEXTS)
        raise InputError(f"--word {word}: expected two texts at least that hold it ({own} have texts of their own).")
    layers = qkv.load(model).contexts(word, texts)
    if json:
        return document({"word": word, "texts": texts, "layers": [cosines.tolist() for cosines in layers]})
    pairs = list(combinations(range(len(texts)), 2))
    columns = ("layer", *(f"{one + 1} and {other + 1}" for one, other in pairs[:PAIRS]))
    rows = [(layer, *(f"{near[pair]:.3f}" for pair in pairs[:PAIRS])) for layer, near in enumerate(layers)]
    numbered = (f"{number}  {text}" for number, text in enumerate(texts, 1))
    show(lines(*numbered, "", f"How alike {word!r} is in two texts, by cosine:"), TableSection("", columns, rows))
    if len(pairs) > PAIRS:
        notes([f"{PAIRS} of {len(pairs):,} pairs of texts are shown; --json gives all."])
    return None


def show_probe(model: str, files: list[str], label: str | None, picture: Path | None, json: bool) -> None:
    """A score for each layer, and whether later layers are better."""
    from qkv.data.corpus import ExamplesConfig
    from qkv.data.read_examples import read_examples
    from qkv.evaluation.labelled_evaluation import NAMES
    from qkv.studies import picture as drawing
    from qkv.studies.linear_probe import NEED, probe

    require_package("sklearn", NEED)
    if picture is not None:
        drawing.check(picture)
    opened = qkv.load(model)
    reading = replace(DEFAULT_DATA, label=label)
    data = read_examples(read_config(ExamplesConfig, tuple(files), "embed", reading, "a probe reads labelled examples"))
    notes(data.notes)
    layers = probe(opened.module.eval(), opened.tokenizer, data)
    metric = layers[0].score.name
    if picture is not None:
        scores = [(float(layer.layer), layer.score.figure) for layer in layers]
        drawing.draw_curves(picture, {opened.bundle.config.kind: scores}, f"{NAMES[metric]} by layer", "layer")
    summary = probe_summary(layers)
    if json:
        return document({"metric": metric, "layers": [layer.values() for layer in layers], "summary": summary})
    rows = []
    for layer in layers:
        score = layer.score.figure
        interval = "" if score.low is None or score.high is None else f"{score.low:.4f} to {score.high:.4f}"
        rows.append((layer.layer, "-" if score.value is None else f"{score.value:.4f}", interval))
    return show(TableSection("", ("layer", NAMES[metric], "95 %"), rows), lines("", summary))


def probe_summary(layers: list[Probed]) -> str:
    """Are later layers better?"""
    from qkv.studies.linear_probe import last_compared_with

    best = max(layers, key=lambda layer: layer.score.value)
    where = "the last layer" if best is layers[-1] else f"layer {best.layer}"
    difference = last_compared_with(layers, 0)
    last, first = layers[-1].score.value, layers[0].score.value
    rise = last - first if difference is None else difference.difference
    doubt = "; that may be noise" if difference is not None and difference.noise else ""
    return f"Best: {where}. The last layer has {rise:+.4f} compared with layer 0, which sees no context{doubt}."

"""`qkv embed`: vectors of texts or tokens from any layer of a model; nearest texts, a word in several texts, probes."""

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
from qkv.cli.batches import answer_batches, read_texts, text_batches
from qkv.cli.options import DEFAULT_DATA, AnyModel, Flag, Repeatable, TextFile, Texts, data_config, in_range
from qkv.cli.output import Json, print_answer, print_json, print_notes, print_sections
from qkv.errors import InputError, require_package
from qkv.ranges import COUNT
from qkv.storage import write_file
from qkv.tasks.report import ReportSection, TableSection, lines
from qkv.visible import counted, shortened

if TYPE_CHECKING:
    from torch import Tensor

    from qkv.api import Model
    from qkv.evaluation.vectors import Layer, TokenVectors

OUTPUT_ENDINGS = (".npy", ".parquet", ".jsonl")
BATCH_TEXTS = 256
BATCH_CANDIDATES = 1024  # texts of --among that are embedded together
SHOWN_TEXTS = 12
SHOWN_PAIRS = 6
DEFAULT_TOP = 5


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
    top: Annotated[int | None, in_range(COUNT)] = None,
    word: str | None = None,
    probe: Repeatable = None,
    label: str | None = None,
    picture: Path | None = None,
    json: Json = False,
) -> None:
    """Turn texts into vectors. Texts with similar meanings have vectors with similar directions.

    qkv embed MODEL "That is a happy person" "That is a very happy person" "Today is a sunny day"
    qkv embed MODEL --file sentences.txt --out sentences.npy
    qkv embed MODEL "a good film" --among reviews.txt
    qkv embed MODEL --word bank "the river bank" "a bank account"
    qkv embed MODEL --probe wnut17/ --picture layers.svg

    Args:
        layer: 0 is the input of the first layer, 1 its output, and so on; -1 is the output of the last layer. mean, sum
            or concat joins the last four. Default: -1.
        pool: How a text's tokens become one vector: their mean, the first ([CLS] in BERT), the last, or the largest
            value in each dimension (max). Default: mean.
        tokens: Compute a vector for each token instead of one for each text.
        precision: The number format of matrix products. bf16 is about twice as fast if the processor supports it, and
            right to two or three digits. Default: f32.
        out: Write the vectors to FILE.npy, FILE.parquet or FILE.jsonl. With --tokens, a .npy file holds the vectors of
            all texts in one array.
        among: A file with one text per line: show the texts that are nearest to each given text.
        top: With --among: how many texts to show. Default: 5.
        word: Compare the vectors of this word in several texts, layer by layer. For bank, station and it, texts of the
            lectures are used by default.
        probe: Labelled examples (a table, CoNLL): show how well a linear classifier predicts the labels from the
            vectors of each layer. May be repeated for several files.
        label: With --probe: the column with the labels.
        picture: With --probe: plot the scores to this .svg or .png file.
    """
    if probe is not None:
        if texts:
            raise InputError(f"{len(texts)} texts and --probe: a probe reads labelled examples. Leave the texts out.")
        return print_probe(model, probe, label, picture, json)
    if word is not None:
        return print_word(model, word, list(texts), json)
    batches = text_batches(texts, file, "embed", BATCH_TEXTS, piped=False)
    if out is not None:
        require_writable(out)
    options: dict[str, Any] = {"layer": parse_layer(layer or "-1"), "pool": "none" if tokens else pool or "mean"}
    options["precision"] = precision or "f32"
    if json and out is None and among is None:
        opened = qkv.load(model)
        answer_batches(
            opened,
            batches,
            lambda batch: list(opened.embed(batch, **options)),
            json_values,
            lambda batch, vectors: None,
            {"model": model, **options},
        )
        return None
    all_texts = [text for batch in batches for text in batch]
    opened = qkv.load(model)
    if among is not None:
        notes, nearest = nearest_in_file(opened, all_texts, among, top or DEFAULT_TOP, options)
        if json:
            rows = [
                {"text": text, "near": [{"text": other, "cosine": cosine} for other, cosine in neighbours]}
                for text, neighbours in zip(all_texts, nearest, strict=True)
            ]
            header = {"layer": options["layer"], "pool": options["pool"], "among": among}
            return print_json({**header, "texts": rows, "notes": notes})
        print_notes(*notes)
        return print_sections(*nearest_sections(all_texts, nearest))
    vectors: Any = opened.embed(all_texts, **options)
    print_notes(*opened.notes)
    if out is not None:
        write_vectors(out, all_texts, vectors)
        width = int((vectors[0].vectors if tokens else vectors).shape[-1])
        facts = {"texts": len(all_texts), "width": width, "file": str(out), "notes": opened.notes}
        if json:
            return print_json({"model": model, **options, **facts})
        return print_answer(f"{counted(len(all_texts), 'text')} -> {out}")
    print_sections(*(token_tables(all_texts, vectors) if tokens else [cosine_table(all_texts, vectors)]))
    if len(all_texts) > SHOWN_TEXTS:
        print_notes(f"{SHOWN_TEXTS} of {len(all_texts):,} texts are shown; --out FILE.npy or --json gives all.")
    return None


def require_writable(path: Path) -> None:
    """Refuse a name that cannot be written before anything is computed."""
    if path.suffix not in OUTPUT_ENDINGS:
        raise InputError(f"--out {path}: expected a name that ends in {', '.join(OUTPUT_ENDINGS)}.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"--out {path}: there is no folder {path.parent}. Create it, or choose another one.")
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


def json_values(text: str, vectors: Tensor | TokenVectors) -> dict[str, object]:
    """A text with its vector or with the vectors of its tokens."""
    from qkv.evaluation.vectors import TokenVectors

    if isinstance(vectors, TokenVectors):
        return {"text": text, "tokens": vectors.ids, "pieces": vectors.tokens, "vectors": vectors.vectors.tolist()}
    return {"text": text, "vector": vectors.tolist()}


def write_vectors(path: Path, texts: list[str], vectors: Tensor | list[TokenVectors]) -> None:
    import numpy as np
    import torch

    content = io.BytesIO()
    rows = map(json_values, texts, vectors)
    if path.suffix == ".npy":
        matrix = torch.cat([tokens.vectors for tokens in vectors]) if isinstance(vectors, list) else vectors
        np.save(content, matrix.numpy(), allow_pickle=False)
    elif path.suffix == ".jsonl":
        for row in rows:
            content.write(json_module.dumps(row, ensure_ascii=False).encode("utf-8") + b"\n")
    else:
        import pyarrow
        import pyarrow.parquet

        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(list(rows)), content)
    write_file(path, content.getvalue())


def cosine_table(texts: list[str], vectors: Tensor) -> TableSection:
    """The width and length of each text's vector; for two or more texts, also their cosines."""
    import torch.nn.functional as F

    unit_vectors = F.normalize(vectors[:SHOWN_TEXTS])
    cosines = (unit_vectors @ unit_vectors.T).tolist() if len(texts) > 1 else [[]]
    rows = []
    for number, (text, vector, row) in enumerate(zip(texts, vectors[:SHOWN_TEXTS], cosines, strict=False), 1):
        title = f"{number} {shortened(text, 40)}"
        rows.append((title, len(vector), f"{vector.norm():.3f}", *(f"{cosine:.3f}" for cosine in row)))
    numbers = [str(number + 1) for number in range(len(cosines[0]))]
    return TableSection("cosines on the right" if numbers else "", ["text", "width", "length", *numbers], rows)


def token_tables(texts: list[str], vectors: list[TokenVectors]) -> Iterator[TableSection]:
    for text, tokens in list(zip(texts, vectors, strict=True))[:SHOWN_TEXTS]:
        lengths = (f"{length:.3f}" for length in tokens.vectors.norm(dim=-1).tolist())
        rows = list(zip(map(repr, tokens.tokens), tokens.ids, lengths, strict=True))
        yield TableSection(shortened(text, 100), ("token", "id", "length"), rows)


def nearest_in_file(
    opened: Model, texts: list[str], file: str, top: int, options: dict[str, Any]
) -> tuple[list[str], list[list[tuple[str, float]]]]:
    """The notes, and for each text its `top` nearest texts of the file with their cosines."""
    from qkv.evaluation.vectors import nearest_texts

    notes: set[str] = set()

    def embedded(part: list[str]) -> Tensor:
        vectors: Tensor = opened.embed(part, **options)
        notes.update(opened.notes)
        return vectors

    def candidates() -> Iterator[tuple[list[str], Tensor]]:
        file_texts = (line for line in read_texts(file, "embed") if line.strip())
        while part := list(islice(file_texts, BATCH_CANDIDATES)):
            yield part, embedded(part)

    nearest = nearest_texts(embedded(texts), candidates(), top)
    return sorted(notes), nearest


def nearest_sections(texts: list[str], nearest: list[list[tuple[str, float]]]) -> Iterator[ReportSection]:
    for text, neighbours in zip(texts, nearest, strict=True):
        yield lines(f"Nearest to {shortened(text, 100)!r}:")
        rows = [(f"{cosine:.3f}", shortened(other, 100)) for other, cosine in neighbours]
        yield TableSection("", ("cosine", "text"), rows, words=("text",))


def print_word(model: str, word: str, texts: list[str], json: bool) -> None:
    """Print the cosines of one word's vectors in every two texts, layer by layer."""
    from qkv.evaluation.vectors import CONTEXTS

    texts = texts or list(CONTEXTS.get(word, ()))
    if len(texts) < 2:
        examples = ", ".join(CONTEXTS)
        raise InputError(f"--word {word}: expected at least two texts with it (only {examples} have default texts).")
    layers = qkv.load(model).contexts(word, texts)
    if json:
        return print_json({"word": word, "texts": texts, "layers": [cosines.tolist() for cosines in layers]})
    pairs = list(combinations(range(len(texts)), 2))
    shown_pairs = pairs[:SHOWN_PAIRS]
    columns = ("layer", *(f"{first + 1} and {second + 1}" for first, second in shown_pairs))
    rows = [(layer, *(f"{cosines[pair]:.3f}" for pair in shown_pairs)) for layer, cosines in enumerate(layers)]
    numbered = (f"{number}  {text}" for number, text in enumerate(texts, 1))
    title = f"Similarity of {word!r} in two texts, by cosine:"
    print_sections(lines(*numbered, "", title), TableSection("", columns, rows))
    if len(pairs) > SHOWN_PAIRS:
        print_notes(f"{SHOWN_PAIRS} of {len(pairs):,} pairs of texts are shown; --json gives all.")
    return None


def print_probe(model: str, files: list[str], label: str | None, picture: Path | None, json: bool) -> None:
    """Print the score of a linear probe for each layer, and whether later layers are better."""
    from qkv.data.corpus import ExamplesConfig
    from qkv.data.read_examples import read_examples
    from qkv.evaluation.intervals import interval_text
    from qkv.evaluation.labelled_evaluation import LABELLED_TITLES
    from qkv.studies import picture as pictures
    from qkv.studies.linear_probe import NEED, probe, summarize

    require_package("sklearn", NEED)
    if picture is not None:
        pictures.require_format(picture)
    opened = qkv.load(model)
    reading = replace(DEFAULT_DATA, label=label)
    data = read_examples(data_config(ExamplesConfig, tuple(files), "embed", reading, "a probe reads labelled examples"))
    print_notes(*data.notes)
    layers = probe(opened.module.eval(), opened.tokenizer, data)
    metric = layers[0].score.name
    if picture is not None:
        scores = [(float(layer.layer), layer.score.main_score) for layer in layers]
        title = f"{LABELLED_TITLES[metric]} by layer"
        pictures.draw_curves(picture, {opened.bundle.config.kind: scores}, title, "layer")
    summary = summarize(layers)
    if json:
        return print_json({"metric": metric, "layers": [layer.values() for layer in layers], "summary": summary})
    rows = []
    for layer in layers:
        score = layer.score.main_score
        interval = interval_text(score.low, score.high)
        rows.append((layer.layer, "-" if score.value is None else f"{score.value:.4f}", interval))
    return print_sections(TableSection("", ("layer", LABELLED_TITLES[metric], "95 %"), rows), lines("", summary))

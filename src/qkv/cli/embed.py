"""`qkv embed`: vectors of texts and of their tokens, from any layer of a model; the nearest texts, one word in many
texts, what each layer knows."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from qkv.cli.lines import answer, batches, lines, require
from qkv.cli.options import NO_DATA, Flag, ModelFolder, TextFile, Texts, Top, named, read_config, refuse
from qkv.cli.output import Json, document, notes, print_answer, table
from qkv.visible import counted, shortened

if TYPE_CHECKING:
    from torch import Tensor

    from qkv.api import Model
    from qkv.evaluation.vectors import Layer, Pool, Tokens
    from qkv.studies.linear_probe import Probed

ENDINGS = (".npy", ".parquet", ".jsonl")
TOGETHER = 256  # texts that are answered together
CANDIDATES = 1024  # texts of --among that are embedded at once
SHOWN = 12  # texts whose cosines are shown on a terminal
PAIRS = 6  # pairs of texts that are shown for every layer


def embed(
    model: ModelFolder,
    *texts: Texts,
    file: TextFile = None,
    layer: Annotated[str, Parameter(allow_leading_hyphen=True)] = "-1",
    pool: Literal["mean", "first", "last", "max"] = "mean",
    tokens: Flag = False,
    precision: Literal["f32", "bf16"] = "f32",
    out: str | None = None,
    among: str | None = None,
    top: Top = 5,
    word: str | None = None,
    probe: list[str] | None = None,
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

    Parameters
    ----------
    layer
        0 is what enters the first layer, 1 what leaves it ..., -1 the last. mean, sum or concat: the last four, joined.
    pool
        How a text's tokens become one vector: their mean, the first ([CLS] in BERT), the last, or the largest numbers.
    tokens
        A vector for each token instead of one a text.
    precision
        The number format of products. bf16 is about twice as fast where the processor has it, and right to two or
        three digits.
    out
        Write the vectors to FILE.npy, FILE.parquet or FILE.jsonl. A .npy of tokens holds them all, text after text.
    among
        A file with one text a line: those nearest to each text are shown.
    top
        How many of them.
    word
        One word in several texts: how alike its vectors are, layer by layer. Of bank, station and it the lectures' own
        texts are taken when none are given.
    probe
        Labelled examples (a table, CoNLL): linear probes, how well a linear classifier tells the labels from the
        vectors of each layer. Repeat it for more files.
    label
        The column to learn, for --probe.
    picture
        Plot the scores of --probe into this .svg or .png file.
    """
    import qkv
    from qkv.errors import InputError, require_package

    modes = {"among": among, "word": word, "probe": probe, "out": out}
    given = [f"--{name}" for name, value in modes.items() if value is not None]
    if len(given) > 1:
        raise InputError(f"{given[0]} and {given[1]}: expected one of them.")
    for option, value in {"label": label, "picture": picture}.items():
        if value is not None and probe is None:
            refuse(option, value, "only --probe DATA uses it")
    if probe is not None:
        return show_probe(model, probe, label, picture, json)
    if word is not None:
        return show_word(model, word, list(texts) or None, json)
    require(list(texts), file, "embed")
    path = Path(out) if out is not None else None
    if path is not None:
        require_writable(path)
        if path.suffix == ".parquet":
            require_package("pyarrow", f"--out {out}")
    chosen = parse_layer(layer)
    pooling: Any = "none" if tokens else pool
    about = {"model": model, "layer": chosen, "pool": pooling, "precision": precision}
    given_texts = batches(named(texts, "embed"), file, "embed", TOGETHER)
    if json and path is None and among is None:
        opened = qkv.load(model)
        answer(
            opened,
            given_texts,
            lambda batch: list(opened.embed(batch, layer=chosen, pool=pooling, precision=precision)),
            values,
            lambda batch, vectors: None,
            about,
        )
        return None
    all_texts = [text for batch in given_texts for text in batch]
    opened = qkv.load(model)
    if among is not None:
        return show_near(opened, all_texts, among, top, chosen, pool, json)
    vectors: Any = opened.embed(all_texts, layer=chosen, pool=pooling, precision=precision)
    notes(opened.notes)
    if path is not None:
        write(path, all_texts, vectors)
        width = int((vectors[0].vectors if tokens else vectors).shape[-1])
        summary = {**about, "texts": len(all_texts), "width": width, "file": str(path), "notes": opened.notes}
        return document(summary) if json else print_answer(f"{counted(len(all_texts), 'text')} -> {path}")
    if tokens:
        show_tokens(all_texts, vectors)
    else:
        show_cosines(all_texts, vectors)
    if len(all_texts) > SHOWN:
        notes([f"{SHOWN} of {len(all_texts):,} texts are shown; --out FILE.npy or --json gives all."])
    return None


def require_writable(path: Path) -> None:
    """Refuse a file that could not be written, before anything is computed."""
    from qkv.errors import InputError

    if path.suffix not in ENDINGS:
        raise InputError(f"--out {path}: expected a name that ends in {', '.join(ENDINGS)}.")
    if not path.absolute().parent.is_dir():
        raise InputError(f"--out {path}: there is no folder {path.parent}. Make it, or choose another place.")


def parse_layer(layer: str) -> Layer:
    from qkv.errors import InputError

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
    import io
    import json as json_module

    import numpy as np
    import torch

    from qkv.storage import write_file

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


def show_cosines(texts: list[str], vectors: Tensor) -> None:
    """Each text's size; for two or more, how alike they are."""
    import torch.nn.functional as F

    several = len(texts) > 1
    unit = F.normalize(vectors[:SHOWN])
    cosines = (unit @ unit.T).tolist()
    rows = [
        (
            f"{number} {shortened(text, 40)}",
            len(vector),
            f"{vector.norm():.3f}",
            *(f"{cosine:.3f}" for cosine in near if several),
        )
        for number, (text, vector, near) in enumerate(zip(texts, vectors[:SHOWN], cosines, strict=False), 1)
    ]
    numbers = [str(number + 1) for number in range(len(cosines) if several else 0)]
    table("cosines on the right" if several else "", ["text", "width", "length", *numbers], rows)


def show_tokens(texts: list[str], vectors: list[Tokens]) -> None:
    for text, tokens in list(zip(texts, vectors, strict=True))[:SHOWN]:
        lengths = tokens.vectors.norm(dim=-1).tolist()
        rows = [
            (repr(piece), token, f"{length:.3f}")
            for piece, token, length in zip(tokens.pieces, tokens.ids, lengths, strict=True)
        ]
        table(shortened(text, 100), ("token", "id", "length"), rows)


def show_near(opened: Model, texts: list[str], file: str, top: int, layer: Layer, pool: Pool, json: bool) -> None:
    """The texts of a file that are nearest to each of those given."""
    from qkv.evaluation.vectors import nearest_texts

    noted: set[str] = set()

    def vectors(part: list[str]) -> Tensor:
        embedded = opened.embed(part, layer=layer, pool=pool)
        noted.update(opened.notes)
        return embedded

    def candidates() -> Iterator[tuple[list[str], Tensor]]:
        source = (line for line in lines([], file, "embed") if line.strip())
        while part := list(islice(source, CANDIDATES)):
            yield part, vectors(part)

    nearest = nearest_texts(vectors(texts), candidates(), top)
    if json:
        rows = [
            {"text": text, "near": [{"text": other, "cosine": cosine} for other, cosine in near]}
            for text, near in zip(texts, nearest, strict=True)
        ]
        return document({"layer": layer, "pool": pool, "among": file, "texts": rows, "notes": sorted(noted)})
    notes(sorted(noted))
    for text, near in zip(texts, nearest, strict=True):
        print_answer(f"Nearest to {shortened(text, 100)!r}:")
        cells = [(f"{cosine:.3f}", shortened(other, 100)) for other, cosine in near]
        table("", ("cosine", "text"), cells, words=("text",))
    return None


def show_word(model: str, word: str, texts: list[str] | None, json: bool) -> None:
    """The cosines of one word's vectors in every two texts, layer by layer."""
    import qkv
    from qkv.errors import InputError
    from qkv.evaluation.vectors import CONTEXTS

    given = texts or list(CONTEXTS.get(word, ()))
    if len(given) < 2:
        own = ", ".join(CONTEXTS)
        raise InputError(f"--word {word}: expected two texts at least that hold it ({own} have texts of their own).")
    layers = qkv.load(model).contexts(word, given)
    if json:
        return document({"word": word, "texts": given, "layers": [cosines.tolist() for cosines in layers]})
    pairs = list(combinations(range(len(given)), 2))
    cells = [(layer, *(f"{near[one, other]:.3f}" for one, other in pairs[:PAIRS])) for layer, near in enumerate(layers)]
    print_answer(*(f"{number}  {text}" for number, text in enumerate(given, 1)))
    print_answer("", f"How alike {word!r} is in two texts, by cosine:")
    table("", ("layer", *(f"{one + 1} and {other + 1}" for one, other in pairs[:PAIRS])), cells)
    if len(pairs) > PAIRS:
        notes([f"{PAIRS} of {len(pairs):,} pairs of texts are shown; --json gives all."])
    return None


def show_probe(model: str, files: list[str], label: str | None, picture: Path | None, json: bool) -> None:
    """A score for each layer, and whether later layers are better."""
    from dataclasses import replace

    import qkv
    from qkv.data.corpus import ExamplesConfig
    from qkv.data.read_examples import read_examples
    from qkv.errors import require_package
    from qkv.evaluation.labelled_evaluation import NAMES
    from qkv.studies import picture as drawing
    from qkv.studies.linear_probe import NEED, probe

    require_package("sklearn", NEED)
    if picture is not None:
        drawing.check(picture)
    opened = qkv.load(model)
    reading = replace(NO_DATA, label=label)
    data = read_examples(read_config(ExamplesConfig, tuple(files), "embed", reading, "a probe reads labelled examples"))
    notes(data.notes)
    layers = probe(opened.module.eval(), opened.tokenizer, data)
    metric = layers[0].judgement.name
    if picture is not None:
        scores = [(float(layer.layer), layer.judgement.figure) for layer in layers]
        drawing.draw_curves(picture, {opened.bundle.config.kind: scores}, f"{NAMES[metric]} by layer", "layer")
    if json:
        return document({"metric": metric, "layers": [each.values() for each in layers], "said": probe_summary(layers)})
    cells = []
    for layer in layers:
        score = layer.judgement.figure
        interval = "" if score.low is None or score.high is None else f"{score.low:.4f} to {score.high:.4f}"
        cells.append((layer.layer, "-" if score.value is None else f"{score.value:.4f}", interval))
    table("", ("layer", NAMES[metric], "95 %"), cells)
    return print_answer("", probe_summary(layers))


def probe_summary(layers: list[Probed]) -> str:
    """Are later layers better?"""
    from qkv.studies.linear_probe import last_compared_with

    best = max(layers, key=lambda layer: layer.judgement.value)
    where = "the last layer" if best is layers[-1] else f"layer {best.layer}"
    difference = last_compared_with(layers, 0)
    last, first = layers[-1].judgement.value, layers[0].judgement.value
    rise = last - first if difference is None else difference.difference
    doubt = "; that may be noise" if difference is not None and difference.noise else ""
    return f"Best: {where}. The last layer has {rise:+.4f} compared with layer 0, which sees no context{doubt}."

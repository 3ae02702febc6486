"""Documents as `qkv inspect --html` makes them (format qkv-inspect/1), from random numbers and real sentences."""

from __future__ import annotations

import base64
import sys
from pathlib import Path
from typing import Any

import numpy as np

SENTENCE = "The animal did not cross the street because it was too tired , and the driver who had seen it stopped ."
SOURCE = "Das Tier überquerte die Straße nicht , weil es zu müde war ."
TEXT = (
    "It was the best of times , it was the worst of times , it was the age of wisdom , it was the age of foolishness , "
    "it was the epoch of belief , it was the epoch of incredulity , it was the season of Light , it was the season of "
    "Darkness , it was the spring of hope , it was the winter of despair , we had everything before us , we had "
    "nothing before us , we were all going direct to Heaven , we were all going direct the other way ."
)
CONTEXTS = [
    "She sat on the bank of the river and watched the boats.",
    "The bank raised its rates again in spring.",
    "He robbed a bank in broad daylight.",
    "Reeds grow along the bank where the water is slow.",
    "My bank closed the account.",
    "The canoe slid up the muddy bank.",
]
DENSE_LIMIT = 3e6


def pack(values: np.ndarray) -> dict[str, Any]:
    return {"shape": list(values.shape), "data": encode(values.astype("<f2"))}


def encode(values: np.ndarray) -> str:
    return base64.b64encode(values.tobytes()).decode()


def softmax(scores: np.ndarray) -> np.ndarray:
    exponent = np.exp(scores - scores.max(-1, keepdims=True))
    return exponent / exponent.sum(-1, keepdims=True)


def head_scores(draw: np.random.Generator, head: int, rows: int, columns: int) -> np.ndarray:
    """Scores of heads as trained models have them: the word before, the first, the same again, all alike, noise."""
    here = np.arange(rows)[:, None] * columns / rows
    there = np.arange(columns)[None, :]
    scores = draw.normal(0, 1.2, (rows, columns))
    kinds = [
        -6.0 * np.abs(here - 1 - there),
        9.0 * (there == 0) - 0.0 * here,
        -0.35 * np.abs(here - there),
        -2.5 * np.abs((here - there) % 13 - 1),
        0.0 * here + 0.0 * there,
    ]
    return scores + kinds[head % len(kinds)]


def attention(
    draw: np.random.Generator,
    name: str,
    layers: int,
    heads: int,
    rows: int,
    columns: int,
    *,
    causal: bool = True,
    k: int = 8,
) -> dict[str, Any]:
    header = {"name": name, "layers": layers, "heads": heads, "rows": rows, "columns": columns}
    header |= {"causal": causal, "scale": 1 / 8}
    mask = np.tril(np.ones((rows, columns), bool)) if causal else np.ones((rows, columns), bool)
    dense = layers * heads * rows * columns <= DENSE_LIMIT
    index, value = [], []
    for layer in range(layers):
        for head in range(heads):
            scores = np.where(mask, head_scores(draw, layer + head, rows, columns), -np.inf)
            byte = np.round(softmax(scores) * 255).astype("u1")
            if dense:
                value.append(byte)
                continue
            top = np.sort(np.argpartition(-byte.astype(int), k, axis=-1)[:, :k])
            index.append(top.astype("<u2"))
            value.append(np.take_along_axis(byte, top, -1))
    if dense:
        return header | {"data": encode(np.stack(value))}
    return header | {"k": k, "index": encode(np.stack(index)), "value": encode(np.stack(value))}


def worked(draw: np.random.Generator, tokens: list[int], length: int, width: int = 16) -> dict[str, Any]:
    items = []
    for token in tokens:
        query = draw.normal(0, 1, width)
        keys, values = draw.normal(0, 1, (length, width)), draw.normal(0, 1, (length, width))
        dots = keys @ query
        scaled = dots / np.sqrt(width)
        allowed = np.arange(length) <= token
        weights = softmax(np.where(allowed, scaled, -np.inf))
        vectors = {"query": query, "keys": keys, "values": values, "dots": dots, "scaled": scaled, "weights": weights}
        vectors["mixed"] = weights @ values
        item = {name: np.round(vector, 5).tolist() for name, vector in vectors.items()}
        items.append({"token": token, "allowed": allowed.tolist(), **item})
    return {"layer": 2, "head": 3, "size": width, "items": items}


def guesses(draw: np.random.Generator, words: list[str], count: int = 5) -> list[dict[str, Any]]:
    chosen = draw.choice(len(words), size=count, replace=False)
    p = np.sort(softmax(draw.normal(0, 1.6, 20)))[::-1][:count]
    return [{"text": words[i], "p": round(float(x), 5)} for i, x in zip(chosen, p, strict=True)]


def anatomy(layers: int, width: int, vocabulary: int, length: int) -> list[dict[str, Any]]:
    def part(path: str, kind: str, shape: list[int], parameters: int, flops: int, source: str) -> dict[str, Any]:
        names = ("path", "kind", "shape", "parameters", "flops", "source")
        return dict(zip(names, (path, kind, shape, parameters, flops, source), strict=True))

    block, size = 12 * width * width, [1, length, width]
    found = [part("embedding", "Embedding", size, vocabulary * width, 0, "blocks/embeddings.py:14")]
    found += [part("positions", "Learned", size, 1024 * width, 0, "blocks/positions.py:22")]
    for i in range(layers):
        at = f"blocks.{i}"
        found.append(part(at, "Block", size, block, 2 * block * length, "blocks/block.py:18"))
        a, f = f"{at}.attention", f"{at}.feedforward"
        found.append(part(a, "PreNorm", size, block // 3, 2 * block * length // 3, "blocks/block.py:12"))
        for name in ("query", "key", "value", "output"):
            found.append(
                part(f"{a}.{name}", "Linear", size, block // 12, block * length // 6, "blocks/attention.py:61")
            )
        found.append(part(f, "PreNorm", size, 2 * block // 3, 4 * block * length // 3, "blocks/block.py:12"))
        found.append(
            part(
                f"{f}.up",
                "Linear",
                [1, length, 4 * width],
                block // 3,
                2 * block * length // 3,
                "blocks/block.py:9",
            )
        )
        found.append(part(f"{f}.down", "Linear", size, block // 3, 2 * block * length // 3, "blocks/block.py:12"))
    out = [1, length, vocabulary]
    return [*found, part("head", "Head", out, vocabulary * width, 2 * vocabulary * width * length, "blocks/heads.py:8")]


EXPLAIN = {
    "walk": "Deck 002, “The Transformer”: from words to vectors, through the blocks, to a table of next words.",
    "tokens": "The tokenizer cuts the text; each piece has a number (deck 003, “Tokenization”).",
    "embeddings": "Each piece becomes a vector, and where it stands is added (deck 002, “Position encodings”).",
    "block": "Attention and feed-forward add to the stream (deck 001, “Residual connections”).",
    "residual": "What every block adds stays in the stream (deck 004, “Residual connections”).",
    "next": "Softmax over the vocabulary, then each knob of sampling in turn (deck 003, “Generation”).",
    "attention": "Who looks at whom: softmax(QKᵀ/√d) (deck 003, “Introducing … the attention head”).",
    "worked": "The slide's steps 1 to 4 with the numbers of this model (deck 002, “Self-attention”).",
    "heads": "“What do attention heads learn?” (deck 001): each head scored for what the slide names.",
    "lens": "What the model would say if it stopped after this layer.",
    "why": "Which words moved the answer, by three methods.",
    "meaning": "One word, several sentences: its vector moves with its context (deck 000, “Contextual embeddings”).",
    "anatomy": "Every part, what it gives for this input, and the line that computes it.",
}


def sample(
    *,
    length: int | None = None,
    layers: int = 6,
    heads: int = 8,
    width: int = 256,
    k: int = 8,
    seed: int = 0,
    translator: bool = False,
) -> dict[str, Any]:
    """A whole document with every view."""
    draw = np.random.default_rng(seed)
    plain = SENTENCE.split() if length is None else (TEXT.split() * (length // 20 + 1))[:length]
    texts = [word if i == 0 or word in ",." else " " + word for i, word in enumerate(plain)]
    count = len(texts)
    words = sorted({" " + word for word in (SENTENCE + TEXT).split()})
    source = SOURCE.split()
    shown = min(width, 64)
    positions = np.stack(
        [np.sin(np.arange(count) / 1000 ** (2 * i / shown)) for i in range(shown // 2)]
        + [np.cos(np.arange(count) / 1000 ** (2 * i / shown)) for i in range(shown // 2)],
        axis=1,
    )
    maps = [attention(draw, "self", layers, heads, count, count, k=k)]
    if translator:
        lengths = [("encoder", len(source), len(source), False), ("decoder", count, count, True)]
        lengths.append(("cross", count, len(source), False))
        maps = [attention(draw, n, layers, heads, r, c, causal=causal) for n, r, c, causal in lengths]
    roles = ["previous token", "first token", "induction", "same token", "nsubj", "pronoun to antecedent"]
    found = []
    for layer in range(1, layers + 1):
        for head in range(1, heads + 1):
            score = float(draw.beta(1.2, 4))
            row = {"layer": layer, "head": head, "role": roles[(layer + head) % 6], "score": score}
            row |= {"baseline": 0.31 * score + 0.05, "low": max(0.0, score - 0.04), "high": min(1.0, score + 0.05)}
            row |= {"without": 3.2 + 0.3 * score, "only": 5.1 - score, "measured": "repeated" if head % 3 else None}
            found.append(row)
    guess = guesses(draw, words, 10)
    values = [row["p"] for row in guess]
    steps = [{"name": "softmax", "knob": "", "rows": guess}]
    for name, knob, kept in [("temperature", "0.7", 10), ("top-k", "6", 6), ("top-p", "0.9", 4)]:
        raised = np.array([p ** (1 / 0.7) if i < kept else 0 for i, p in enumerate(values)])
        rows = [{"text": row["text"], "p": float(p)} for row, p in zip(guess, raised / raised.sum(), strict=True)]
        steps.append({"name": name, "knob": knob, "rows": rows})
    attributions = draw.normal(0, 1, (3, count)) * draw.exponential(1, (3, count))
    points = []
    for i, text in enumerate(CONTEXTS):
        river = 1 if i in (0, 3, 5) else -1
        for layer in range(layers + 1):
            apart = layer / layers
            x, y = river * apart * 2 + draw.normal(0, 0.25), (i - 2.5) * 0.3 * apart + draw.normal(0, 0.2)
            points.append({"text": text, "layer": layer, "x": float(x), "y": float(y)})
    document: dict[str, Any] = {
        "format": "qkv-inspect/1",
        "model": {"name": "shakespeare-modern", "kind": "modern", "layers": layers, "heads": heads, "width": width}
        | {"parameters": 12 * layers * width**2 + 8192 * width, "vocabulary": 8192, "context": 1024},
        "text": "".join(texts),
        "answer": "next",
        "focus": count - 1,
        "block": {"norm": "before", "cross": translator},
        "tokens": [{"id": int(draw.integers(3, 8000)), "text": text} for text in texts],
        "exact": {
            "attention": f"The {k} largest weights of each row, to 1/255; the others are not in this file."
            if "k" in maps[0]
            else "Every weight, rounded to 1/255.",
            "worked": "Exact to five digits.",
            "embeddings": f"The first {shown} of {width} numbers, as float16.",
            "lens": "The five likeliest words of each layer, exact to five digits.",
        },
        "explain": EXPLAIN,
        "anatomy": anatomy(layers, width, 8192, count),
        "positions": pack(positions),
        "embeddings": pack(draw.normal(0, 0.6, (count, shown))),
        "residual": {"norms": np.cumsum(draw.gamma(3, 1, (layers + 1, count)), axis=0).round(3).tolist()},
        "attention": maps,
        "heads": found,
        "worked": worked(
            draw, list(range(count)) if count < 40 else [count - 1], min(count, 64 if count > 64 else count)
        ),
        "lens": [{"layer": layer, "top": [guesses(draw, words) for _ in range(count)]} for layer in range(layers + 1)],
        "next": {"steps": steps},
        "why": {
            "methods": [
                {"name": name, "values": row.round(4).tolist()}
                for name, row in zip(
                    ["gradient × input", "integrated gradients", "occlusion"], attributions, strict=True
                )
            ],
            "target": " tired",
            "p": 0.4312,
            "over": "tokens",
            "places": list(range(count)),
            "words": [text.strip() for text in texts],
            "faithful": "Without the top fifth of the words the probability falls by 0.31; without others by 0.06.",
        },
        "meaning": {"word": "bank", "points": points, "alike": [1 - 0.1 * layer for layer in range(layers + 1)]},
    }
    if translator:
        document["source_tokens"] = [{"id": 10 + i, "text": " " + word} for i, word in enumerate(source)]
        document["worked"] = {**worked(draw, list(range(count)), len(source)), "stack": "cross"}
        document["why"] |= {"over": "source_tokens", "places": list(range(len(source))), "words": source}
        for method in document["why"]["methods"]:
            method["values"] = draw.normal(0, 1, len(source)).round(4).tolist()
    document["views"] = [name for name in EXPLAIN if name in document] + ["walk", "tokens"]
    return document


def main(folder: str) -> None:
    """Pages to look at."""
    from qkv.inspection.page import fill, template

    page = template()
    samples = {
        "small": sample(),
        "translator": sample(translator=True, layers=3, heads=4),
        "smollm2": sample(length=256, layers=30, heads=9, width=576, k=12),
        "long": sample(length=1024, layers=4, heads=4, k=16),
    }
    for name, document in samples.items():
        path = Path(folder) / f"{name}.html"
        path.write_text(fill(page, document), encoding="utf-8")
        print(f"{path} {path.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main(sys.argv[1])

"""Small labelled data that can be learned: tables, tagged words, pictures, text."""

from __future__ import annotations

from pathlib import Path

import numpy as np

GOOD, BAD = ("lovely", "brilliant", "warm", "fine"), ("dull", "awful", "cold", "poor")
REST = ("film", "plot", "actor", "scene", "music", "ending", "story", "hero")


def sentences(rows: int, seed: int = 0) -> list[tuple[str, str]]:
    random = np.random.default_rng(seed)
    found = []
    for _ in range(rows):
        good = bool(random.integers(2))
        words = [*random.choice(REST, 5), str(random.choice(GOOD if good else BAD))]
        random.shuffle(words)
        found.append((" ".join(map(str, words)), "good" if good else "bad"))
    return found


def table(path: Path, rows: int = 240, seed: int = 0) -> str:
    lines = ["text,label", *(f"{text},{label}" for text, label in sentences(rows, seed))]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def numbers(path: Path, rows: int = 240) -> str:
    """Pairs of texts, and how many words they share."""
    random = np.random.default_rng(1)
    lines = ["sentence1\tsentence2\tscore"]
    for _ in range(rows):
        first, second = random.choice(REST, 4), random.choice(REST, 4)
        value = len(set(first) & set(second)) + 0.5 * ("film" in first) + random.random() / 10
        lines.append(f"{' '.join(first)}\t{' '.join(second)}\t{value:.2f}")
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def columns(path: Path, rows: int = 240) -> str:
    """Three numbers, of which two decide."""
    random = np.random.default_rng(4)
    values = random.normal(size=(rows, 3))
    lines = ["a,b,c,label", *(f"{a:.3f},{b:.3f},{c:.3f},{'in' if a + b > 0 else 'out'}" for a, b, c in values)]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def tagged(path: Path, rows: int = 120) -> str:
    random = np.random.default_rng(2)
    kinds = {"the": "DET", "a": "DET", "dog": "NOUN", "cat": "NOUN", "runs": "VERB", "sleeps": "VERB"}
    parts = []
    for _ in range(rows):
        words = random.choice(list(kinds), int(random.integers(3, 8)))
        parts.append("\n".join(f"{word}\t{kinds[str(word)]}" for word in words))
    path.write_text("\n\n".join(parts) + "\n")
    return str(path)


def pictures(path: Path, rows: int = 160) -> str:
    """A bright left or right half."""
    random = np.random.default_rng(3)
    labels = random.integers(0, 2, rows)
    pixels = random.integers(0, 90, (rows, 8, 8)).astype(np.uint8)
    for picture, label in zip(pixels, labels, strict=True):
        picture[:, 4 * label : 4 * label + 4] += 120
    np.savez(path, x_train=pixels, y_train=labels)
    return str(path)


def book(path: Path) -> str:
    path.write_text(" ".join(f"{text}." for text, _ in sentences(900, 5)) + "\n")
    return str(path)

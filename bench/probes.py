"""Are later layers better? What each layer of a model knows about the sense of a word, without training it. Deck 002.

    python bench/probes.py CoarseWSD-20.zip WIC_FOLDER MODEL [MODEL ...] [--picture FILE.svg] [--most 400]

CoarseWSD (Loureiro et al. 2021): is the nearest known sentence, by the cosine of the word's vectors, of the same sense?
The mean over twenty words. WiC (Pilehvar and Camacho-Collados 2019): is a word used in one sense in two sentences? The
cosine above which the answer is yes is chosen on the training side; the development side is reported. Twelve words are
read on each side of the word.
"""

from __future__ import annotations

import argparse
import statistics
import zipfile
from pathlib import Path

import torch
import torch.nn.functional as F

import qkv
from qkv.evaluation.intervals import Estimate
from qkv.evaluation.vectors import WordInSentence, nearest_senses, vectors_of_words
from qkv.studies.picture import draw_curves
from qkv.text.tokenizer import Tokenizer
from senses import side

AROUND = 12  # words that are read before and after the one that is meant: a small model's context is short


def cut(example: WordInSentence) -> WordInSentence:
    first = max(0, example.index - AROUND)
    return WordInSentence(example.words[first : example.index + AROUND + 1], example.index - first)


def by_layer(model: torch.nn.Module, tokenizer: Tokenizer, examples: list[WordInSentence]) -> list[torch.Tensor]:
    return list(vectors_of_words(model, tokenizer, [cut(each) for each in examples]))


def wic(folder: Path, name: str) -> tuple[list[WordInSentence], list[WordInSentence], torch.Tensor]:
    lines = (folder / name / f"{name}.data.txt").read_text(encoding="utf-8").splitlines()
    gold = (folder / name / f"{name}.gold.txt").read_text(encoding="utf-8").split()
    first, second = [], []
    for line in lines:
        _, _, places, one, other = line.split("\t")
        at = [int(place) for place in places.split("-")]
        first.append(WordInSentence(one.split(), at[0]))
        second.append(WordInSentence(other.split(), at[1]))
    return first, second, torch.tensor([each == "T" for each in gold])


def threshold(cosines: torch.Tensor, same: torch.Tensor) -> float:
    """Above which cosine to say "the same sense", so that most of the known pairs come out right."""
    order = cosines.argsort(descending=True)
    truth = same[order].long()
    # with the first k said to be the same: those among them that are, and those behind that are not
    right = torch.cat([torch.zeros(1, dtype=torch.long), truth.cumsum(0)])
    right = right + torch.cat([(1 - truth).flip(0).cumsum(0).flip(0), torch.zeros(1, dtype=torch.long)])
    best = int(right.argmax())
    edges = torch.cat([cosines[order][:1] + 1, cosines[order], cosines[order][-1:] - 1])
    return float((edges[best] + edges[best + 1]) / 2)


def wic_by_layer(model: torch.nn.Module, tokenizer: Tokenizer, folder: Path) -> list[float]:
    known, asked = (
        (*(by_layer(model, tokenizer, each) for each in (one, other)), same)
        for one, other, same in (wic(folder, "train"), wic(folder, "dev"))
    )
    found = []
    for layer in range(len(known[0])):
        edge = threshold(F.cosine_similarity(known[0][layer], known[1][layer]), known[2])
        said = F.cosine_similarity(asked[0][layer], asked[1][layer]) > edge
        found.append(float((said == asked[2]).float().mean()))
    return found


def senses_by_layer(model: torch.nn.Module, tokenizer: Tokenizer, path: Path, most: int) -> list[float]:
    archive = zipfile.ZipFile(path)
    words = sorted({name.split("/")[1] for name in archive.namelist() if name.endswith("train.data.txt")})
    rows: list[list[float]] = []
    for word in words:
        known, senses = side(archive, word, "train")
        asked, gold = side(archive, word, "test")
        before = by_layer(model, tokenizer, known[:most])
        after = by_layer(model, tokenizer, asked[:most])
        rows.append(
            [
                statistics.mean(
                    guess == sense for guess, sense in zip(nearest_senses(other, one, senses), gold[:most], strict=True)
                )
                for one, other in zip(before, after, strict=True)
            ]
        )
    return [statistics.mean(column) for column in zip(*rows, strict=True)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("senses", type=Path, help="CoarseWSD-20.zip")
    parser.add_argument("wic", type=Path, help="the folder of WiC, with train/ and dev/")
    parser.add_argument("models", nargs="+", help="as NAME=FOLDER")
    parser.add_argument("--picture", type=Path)
    parser.add_argument("--most", type=int, default=400, help="sentences of each word and side of CoarseWSD")
    options = parser.parse_args()
    curves: dict[str, list[float]] = {}
    for named in options.models:
        name, _, folder = named.partition("=")
        opened = qkv.load(folder or name)
        model, tokenizer = opened.bundle.model, opened.tokenizer
        assert isinstance(model, torch.nn.Module)
        curves[f"CoarseWSD, {name}"] = senses_by_layer(model.eval(), tokenizer, options.senses, options.most)
        curves[f"WiC, {name}"] = wic_by_layer(model.eval(), tokenizer, options.wic)
    layers = max(map(len, curves.values()))
    print(f"| | {' | '.join(str(layer) for layer in range(layers))} |\n|---|{'---|' * layers}")
    for name, values in curves.items():
        cells = [f"{value:.1%}" for value in values] + [""] * (layers - len(values))
        print(f"| {name} | {' | '.join(cells)} |")
    if options.picture:
        figures = {
            name: [(float(layer), Estimate(value, None, None)) for layer, value in enumerate(values)]
            for name, values in curves.items()
        }
        draw_curves(options.picture, figures, "The share that is right, by layer", "layer")


if __name__ == "__main__":
    main()

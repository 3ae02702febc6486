"""Directions that nobody taught: one model of several languages, directly, by way of a third, and where it was taught.

    qkv train train.en train.de train.en train.cs --directions both --minutes 60 --run RUN
    python bench/zero_shot.py RUN test.en test.de test.cs --between de cs --by en

The files are line-aligned; a file's ending is its language. For each direction BLEU with its interval, and the share of
sentences that are in the language asked for, by py3langid among those of the files (deck 002; arXiv 1611.04558).
"""

from __future__ import annotations

import argparse
from pathlib import Path

import py3langid

from qkv.evaluation.intervals import Estimate
from qkv.evaluation.translation_metrics import BleuOutputs
from qkv.generation.beam import Search
from qkv.recipe import bundle
from qkv.tasks.translation.predict import translate_texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--between", nargs=2, required=True, help="the two languages that were never paired")
    parser.add_argument("--by", required=True, help="the language between them")
    parser.add_argument("--beams", type=int, default=5)
    options = parser.parse_args()
    texts = {path.suffix[1:]: path.read_text(encoding="utf-8").split("\n")[:-1] for path in options.files}
    py3langid.set_languages(sorted(texts))
    made = bundle.load(options.run, "cpu")

    def into(sources: list[str], language: str) -> list[str]:
        found, _ = translate_texts(made, sources, Search(beams=options.beams), to=language)
        return [best[0].text for best in found]

    def report(name: str, said: list[str], language: str) -> None:
        score = BleuOutputs(said, said, [(text,) for text in texts[language]]).score().scores["bleu"]
        assert isinstance(score, Estimate)
        right = sum(py3langid.classify(each)[0] == language for each in said) / len(said)
        print(f"| {name} | {score.value:.1f} ({score.low:.1f}-{score.high:.1f}) | {right:.1%} |", flush=True)

    one, other = options.between
    print("| direction | BLEU (95 %) | in the right language |\n| --- | ---: | ---: |")
    for language in options.between:
        real = sum(py3langid.classify(each)[0] == language for each in texts[language]) / len(texts[language])
        print(f"| (the references in {language}) | - | {real:.1%} |")
    for source, target in ((one, other), (other, one)):
        report(f"{source} to {target}, never taught", into(texts[source], target), target)
        between = into(texts[source], options.by)
        report(f"{source} to {target} by way of {options.by}", into(between, target), target)
    for language in options.between:
        report(f"{language} to {options.by}, taught", into(texts[language], options.by), options.by)
        report(f"{options.by} to {language}, taught", into(texts[options.by], language), language)


if __name__ == "__main__":
    main()

"""Is attribution faithful on SST-2? Of how many sentences does the probability fall more without the first fifth of the
words than without as many words drawn at random (DeYoung et al. 2020, comprehensiveness)?

    python bench/faithful.py MODEL sst2/dev.tsv [SENTENCES]

MODEL is a classifier, as `qkv train sst2/train.tsv.gz --valid sst2/dev.tsv --minutes 3` makes one. Sentences have five
words at least. `share` is that of sentences, with its interval of the bootstrap; `falls` the mean fall. Beside them
stand values drawn at random: a check that they pass as often would say nothing.
"""

from __future__ import annotations

import sys
from collections import defaultdict

import numpy as np
import torch

import qkv
from qkv.evaluation.intervals import bootstrap
from qkv.inspection.answer_scores import answers
from qkv.inspection.attribution import Method, first, why, without
from qkv.tasks import inspection_subject


def main(model: str, path: str, most: str = "200") -> None:
    opened = qkv.load(model)
    with open(path, encoding="utf-8") as file:
        texts = [line.split("\t")[0].strip() for line in file][1:]
    chosen = [text for text in texts if len(text.split()) >= 5][: int(most)]
    found: defaultdict[str, list[Method]] = defaultdict(list)
    drawn = np.random.default_rng(0)
    for text in chosen:
        subject = inspection_subject.inspection_subject(opened.bundle, text)
        made = why(subject)
        for method in made.methods:
            found[method.name].append(method)
        with torch.no_grad():
            target = int(answers(subject, [subject.inputs])[0].argmax())
        values = drawn.normal(size=len(made.places)).tolist()
        (left,) = without(subject, target, made.places, [first(values, made.places, len(made.words))])
        found["drawn values"].append(Method("drawn values", values, made.p - left, made.methods[0].at_random))
    print(f"{model}: {len(chosen)} sentences")
    print("| method | share | 95 % | falls | at random |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for name, methods in found.items():
        right = np.array([each.faithful for each in methods], dtype=float)
        (share,) = bootstrap(
            np.ones(len(right), dtype=np.int64),
            lambda counts, right=right: (counts @ right / counts.sum(1))[:, None],  # type: ignore[misc]
        )
        falls, at_random = (np.mean([getattr(each, at) for each in methods]) for at in ("drop", "at_random"))
        print(f"| {name} | {share.value:.3f} | {share.low:.3f} to {share.high:.3f} | {falls:.3f} | {at_random:.3f} |")


if __name__ == "__main__":
    main(*sys.argv[1:])

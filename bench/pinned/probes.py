"""What is run on both commits: every probe is a command line, and what of its outcome is kept.

In the words of a probe `{data}` is the folder of data, `{out}` a folder of the probe's own, and `@NAME` the run folder
that the probe NAME has trained. Words are those of the base; the table of renames gives those of the head.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Literal

Group = Literal["recipes", "weights", "json", "errors"]
GROUPS: tuple[Group, ...] = ("recipes", "weights", "json", "errors")
EXACT = ("training.threads=1", "training.device=cpu", "training.dtype=f32", "training.compile=off")
SIZES = {
    "layers": 1, "heads": 2, "width": 24, "hidden": 32, "embedding_width": 16, "letters": 300, "context": 32,
    "window": 4, "kernel": 3, "buckets": 512, "patch": 7,
}  # fmt: skip
DECODERS = {  # kinds of language models and which of the sizes each has
    "modern": "layers heads width hidden context", "modern-fast": "layers heads width context",
    "gpt": "layers heads width context", "llama": "layers heads width hidden context",
    "qwen2": "layers heads width hidden context", "rnn": "layers width context", "gru": "layers width context",
    "lstm": "layers width context", "mlp": "layers width context", "cnn": "layers width context kernel",
}  # fmt: skip
ENCODERS = {  # kinds on labelled texts
    "linear": "buckets", "bag": "width buckets", "mlp": "width buckets", "cnn": "width embedding_width",
    "rnn": "width layers", "gru": "width embedding_width letters", "lstm": "width embedding_width letters",
    "encoder": "layers heads width", "bert": "layers heads width", "modern": "layers heads width",
    "gpt": "layers heads width",
}  # fmt: skip
WHOLE_TEXT = ("linear", "bag", "mlp")  # they say nothing about single words
TABLES = {
    "classification": "classes/train.csv", "pairs": "two/train.csv", "regression": "scores/train.csv",
    "multi-label": "several/train.tsv", "tagging": "tagged/train.conll", "images": "pictures.npz",
}  # fmt: skip
MODES = {"full": "", "freeze": "--freeze", "lora": "--lora 2"}


@dataclass(frozen=True)
class Probe:
    """One command line."""

    name: str
    group: Group
    words: tuple[str, ...]
    needs: tuple[str, ...] = ()
    """Names of probes whose run folders it reads."""


def probe(group: Group, name: str, words: str | list[str], *settings: str) -> Probe:
    """Make a probe; a string is split at blanks, `settings` are values of `--set`."""
    parts = [*(words.split() if isinstance(words, str) else words)]
    parts += [word for setting in settings for word in ("--set", setting)]
    needs = tuple(dict.fromkeys(word[1:].partition("/")[0] for word in parts if word.startswith("@")))
    return Probe(f"{group}: {name}", group, tuple(parts), tuple(f"json: {need}" for need in needs))


def sizes(names: str) -> list[str]:
    return [f"model.{name}={SIZES[name]}" for name in names.split()]


def trained(group: Group, name: str, words: str, *settings: str, steps: int = 30) -> Probe:
    """A training in f32 on one thread."""
    return probe(group, name, f"{words} --steps {steps} --run {{out}}/run --json", *EXACT, *settings)


def recipes(files: list[str]) -> Iterator[Probe]:
    """Every recipe file of the base on suitable data, and typical commands for every task, in two steps each."""
    suits = {
        "bert-mini": "train {data}/notes", "glue": "finetune @bert {data}/two/train.csv",
        "sentiment": "finetune @gpt {data}/classes/train.csv", "mlp": "train {data}/numbers/train-class.csv",
        "regression": "train {data}/numbers/train-amount.csv --label amount",
        "mean-pooled-classifier": "train {data}/classes/train.csv", "rnn-classifier": "train {data}/classes/train.csv",
        "transformer-classifier": "train {data}/classes/train.csv", "picture-cnn": "train {data}/pictures.npz",
        "picture-patches": "train {data}/pictures.npz",
        "tagger": "train {data}/universal/train.conllu --valid {data}/universal/dev.conllu",
        "translator": "train {data}/pairs/train.en {data}/pairs/train.de",
        "rnn-translator": "train {data}/pairs/train.en {data}/pairs/train.de",
        "multilingual": "train {data}/languages/a.de {data}/languages/a.en {data}/languages/b.en {data}/languages/b.cs",
    }  # fmt: skip
    for name in files:
        words = suits.get(name, "train {data}/book.txt")
        yield probe("recipes", f"file {name}", f"{words} --recipe {name} --steps 2 --run {{out}}/run")
    for line in TYPICAL.strip().splitlines():
        yield probe("recipes", line, f"{line} --steps 2 --run {{out}}/run")


TYPICAL = """
train {data}/book.txt
train {data}/book.txt --model gpt-nano --seed 3
train {data}/book.txt --model modern-fast --tokenizer bpe
train {data}/book.txt --model lstm --tokenizer words --valid {data}/other.txt
train {data}/notes --documents paragraphs --filter *.md
train {data}/book.jsonl --text text --model mlp
train {data}/notes --model bert-tiny
train {data}/book.txt --model bert-tiny --set task.next_sentence="none"
train {data}/classes/train.csv
train {data}/classes/train.csv --valid {data}/classes/dev.csv --test {data}/classes/test.csv --model bag --class-weights
train {data}/classes
train {data}/tabs/train.tsv --text review --label sentiment --id id --model cnn
train {data}/fasttext/train.txt --model linear
train {data}/classes-as-folders --model bert-tiny
train {data}/objects/train.jsonl --text review --label stars --model gru
train {data}/objects/train.jsonl --text review --label stars --task regression
train {data}/glue --model encoder
train {data}/two/train.csv --text sentence1 --text2 sentence2 --model modern
train {data}/several/train.tsv
train {data}/scores/train.csv --model gpt
train {data}/numbers/train-class.csv
train {data}/numbers/train-amount.csv --label amount --model linear
train {data}/pictures.npz
train {data}/digits --model vision
train {data}/tagged/train.conll
train {data}/names/train.conll --valid {data}/names/dev.conll --model bert
train {data}/universal/train.conllu --label upos --model gru
train {data}/pairs/train.en {data}/pairs/train.de
train {data}/pairs --languages en de --model transformer-tiny
train {data}/pairs/train.en {data}/pairs/train.de --valid {data}/pairs/dev.en {data}/pairs/dev.de --model rnn-translator
train {data}/table.tsv --source english --target german --directions both
train {data}/languages/a.de {data}/languages/a.en {data}/languages/b.en {data}/languages/b.cs --directions both
train {data}/words.tsv --metric errors --model rnn-translator
finetune @gpt {data}/other.txt
finetune @gpt {data}/classes/train.csv --layer-decay 0.9
finetune @bert {data}/classes/train.csv --freeze
finetune @bert {data}/tagged/train.conll --lora 4
finetune @lstm {data}/scores/train.csv
"""


def models() -> Iterator[Probe]:
    """Small models that other probes read; what training says of each is compared, too."""
    book = "train {data}/book.txt --tokenizer characters --model"
    yield trained("json", "gpt", f"{book} gpt", *sizes("layers heads width context"), "training.batch=8")
    yield trained("json", "lstm", f"{book} lstm", *sizes("layers width context"), "training.batch=8")
    small = (*sizes("width hidden"), "tokenizer.size=300", "training.batch=8")
    yield trained("json", "bert", "train {data}/book.txt --model bert-tiny", *small)
    words = "train {data}/classes --tokenizer wordpiece --model"
    size = "tokenizer.size=300"
    yield trained("json", "classifier", f"{words} bert", *sizes(ENCODERS["bert"]), size)
    yield trained("json", "bag", f"{words} bag", *sizes(ENCODERS["bag"]), size)
    yield trained("json", "pair", "train {data}/two/train.csv --tokenizer wordpiece --model gru", *sizes("width"), size)
    yield trained("json", "several", "train {data}/several --model cnn", *sizes(ENCODERS["cnn"]))
    yield trained("json", "regressor", "train {data}/scores --model modern", *sizes(ENCODERS["modern"]))
    yield trained("json", "tagger", "train {data}/tagged --model lstm", *sizes(ENCODERS["lstm"]))
    yield trained("json", "names", "train {data}/names --model encoder", *sizes(ENCODERS["encoder"]))
    yield trained(
        "json", "table", "train {data}/numbers/train-class.csv --model mlp --valid {data}/numbers/dev-class.csv"
    )
    yield trained("json", "amounts", "train {data}/numbers/train-amount.csv --model linear --label amount")
    yield trained("json", "pictures", "train {data}/pictures.npz --model cnn", *sizes("layers width"))
    pairs = "train {data}/pairs/train.en {data}/pairs/train.de --test {data}/pairs/test.en {data}/pairs/test.de --model"
    small = ("tokenizer.size=300", "task.tokens=256")
    yield trained(
        "json", "translator", f"{pairs} transformer --tokenizer bpe", *sizes("layers heads width hidden"), *small
    )
    yield trained("json", "second", f"{pairs} rnn-translator --tokenizer bpe", "model.width=24", *small)
    yield trained(
        "json", "both", "train {data}/table.tsv --directions both --model rnn-translator", "model.width=24", *small
    )
    yield trained("json", "spoken", "train {data}/words.tsv --metric errors --model rnn-translator", "model.width=24")
    yield trained("json", "tuned", "finetune @gpt {data}/classes/train.csv --lora 2")


def weights() -> Iterator[Probe]:
    """Every kind of model on every task it fits."""
    for kind, names in DECODERS.items():
        words = f"train {{data}}/book.txt --tokenizer characters --model {kind}"
        yield trained("weights", f"text {kind}", words, *sizes(names), "training.batch=4")
    for pairs in ("pairs", "none"):
        words = "train {data}/notes --model bert-tiny"
        small = (*sizes("width hidden"), "tokenizer.size=300", "training.batch=4", f'task.next_sentence="{pairs}"')
        yield trained("weights", f"masked {pairs}", words, *small)
    for task, (kind, names) in product(
        ("classification", "pairs", "regression", "multi-label", "tagging"), ENCODERS.items()
    ):
        if task == "tagging" and kind in WHOLE_TEXT:
            continue
        words = f"train {{data}}/{TABLES[task]} --tokenizer wordpiece --model {kind}"
        yield trained("weights", f"{task} {kind}", words, *sizes(names), "tokenizer.size=300", "training.batch=16")
    for kind, names in {"cnn": "layers width", "vision": "layers heads width patch"}.items():
        yield trained("weights", f"images {kind}", f"train {{data}}/pictures.npz --model {kind}", *sizes(names))
    for kind, label in product(("linear", "mlp"), ("class", "amount")):
        words = f"train {{data}}/numbers/train-{label}.csv --label {label} --model {kind}"
        yield trained("weights", f"numbers {kind} {label}", words, "training.batch=16")
    for kind, directions in product(("transformer", "rnn-translator"), ("forward", "both")):
        names = "layers heads width hidden" if kind == "transformer" else "width"
        words = f"train {{data}}/pairs/train.en {{data}}/pairs/train.de --model {kind} --directions {directions}"
        small = (*sizes(names), "tokenizer.size=300", "task.tokens=256")
        yield trained("weights", f"translation {kind} {directions}", f"{words} --tokenizer bpe", *small)
    for number, start in enumerate(("gpt", "lstm", "bert", "classifier")):
        for shift, (mode, words) in enumerate(MODES.items()):
            task = ("classification", "tagging", "regression")[(number + shift) % 3]
            yield trained(
                "weights", f"finetune {start} {mode} {task}", f"finetune @{start} {{data}}/{TABLES[task]} {words}"
            )
        if start in DECODERS:
            yield trained("weights", f"finetune {start} text", f"finetune @{start} {{data}}/other.txt")


READING = """
evaluate @gpt {data}/other.txt
evaluate @lstm {data}/other.txt --window 16
evaluate @bert {data}/other.txt
evaluate @classifier {data}/classes/dev.csv
evaluate @pair {data}/two/dev.csv
evaluate @several {data}/several/dev.tsv
evaluate @regressor {data}/scores/dev.csv
evaluate @tagger {data}/tagged/dev.conll
evaluate @names {data}/names/dev.conll
evaluate @table {data}/numbers/dev-class.csv
evaluate @amounts {data}/numbers/dev-amount.csv
evaluate @pictures {data}/pictures.npz
evaluate @translator {data}/pairs/dev.en {data}/pairs/dev.de --beams 2
evaluate @translator {data}/pairs/dev.en {data}/pairs/dev.de --beside @second --beams 1
evaluate @spoken {data}/words.tsv
classify @classifier bright --top 2
classify @bag --file {data}/other.txt
classify @table --file {data}/numbers/dev-class.csv
classify @amounts --file {data}/numbers/dev-amount.csv
classify @several bright
classify @regressor dull
classify @pair --file {data}/two/dev.csv
tag @tagger river
tag @names --file {data}/other.txt --probabilities
translate @translator one --beams 2 --nbest 2
translate @translator two --alignments
translate @both drei --to english
translate @translator three --temperature 0.9 --seed 4
translate @spoken two
fill @bert the_[MASK]_keeps --top 3
embed @bert river stone
embed @gpt river stone --layer 1 --pool last --tokens
embed @bert river --among {data}/other.txt --top 3
embed @bert --word river the_river a_river_keeps
embed @bert --probe {data}/classes/train.csv
generate @gpt The --next 5
generate @gpt The --length 20 --samples 2 --seed 3 --precision f32
generate @lstm The --length 20 --greedy
inspect @gpt the_river
inspect @gpt the_river --head 1.1 --lens --why --decks
inspect @gpt --heads --ablate 2 --data {data}/other.txt
inspect @classifier the_fine_river --why
inspect @bert the_river_keeps --lens
inspect @translator one_two --target eins_zwei
inspect @tagger the_river
tokenize the_river --tokenizer @gpt
tokenize --train {data}/book.txt --kind bpe --size 400 --save {out}.json
tokenize --file {data}/other.txt --tokenizer @classifier
data list
data describe {data}/book.txt
data describe {data}/notes
data describe {data}/book.jsonl
data describe {data}/classes
data describe {data}/tabs/train.tsv --label sentiment
data describe {data}/glue
data describe {data}/several/train.tsv
data describe {data}/scores/train.csv
data describe {data}/numbers/train-class.csv
data describe {data}/pictures.npz
data describe {data}/tagged/train.conll
data describe {data}/universal/train.conllu
data describe {data}/classes-as-folders
data describe {data}/fasttext/train.txt
data check {data}/book.txt
data check {data}/notes --context 64 --tokenizer characters
data check {data}/book.jsonl
data clean {data}/book.jsonl --dry-run
data clean {data}/notes --out {out}.jsonl --documents paragraphs
verify @gpt
verify @classifier
verify @translator
export @gpt {out}/exported
export @classifier {out}/exported
export @translator {out}/exported
import @gpt/best --to {out}/imported
compare {data}/classes/train.csv --models bag --minutes 0.05 --run {out}/run
compare {data}/numbers/train-class.csv --models linear --minutes 0.05 --run {out}/run
tune {data}/classes/train.csv --model bag --trials 1 --each 0.02 --run {out}/run
"""
"""Blanks within a word are written as underscores."""


def documents() -> Iterator[Probe]:
    for line in READING.strip().splitlines():
        words = [word if "{" in word or word[0] in "@-" else word.replace("_", " ") for word in line.split()]
        yield probe("json", line, [*words, "--json"])


COMMANDS = """

trian {data}/book.txt
train
train {data}/gone.txt
train {data}/book.txt --steps 0
train {data}/book.txt --steps x
train {data}/book.txt --steps 3 --minutes 1
train {data}/book.txt --lenght 3
train {data}/book.txt --model gtp --steps 1
train {data}/book.txt --model transformer --steps 1
train {data}/book.txt --tokenizer gone --steps 1
train {data}/book.txt --minutes 1e300
train {data}/book.txt --seed -1 --steps 1
train {data}/book.txt --set model.layer=1 --steps 1
train {data}/book.txt --set model.layers=0 --steps 1
train {data}/book.txt --set model.layers=x --steps 1
train {data}/book.txt --set model.heads=5 --set model.width=48 --model gpt --steps 1
train {data}/book.txt --set training.rate=nan --steps 1
train {data}/book.txt --set training.batch=-1 --steps 1
train {data}/book.txt --set nothing=1 --steps 1
train {data}/book.txt --set training --steps 1
train {data}/book.txt --recipe gone --steps 1
train {data}/book.txt --recipe gpt-nan --steps 1
train {data}/book.txt --task tagging --steps 1
train {data}/book.txt --metric errors --steps 1
train {data}/book.txt --encoding utf-9 --steps 1
train --resume --run {out}/gone
train --resume --run @gpt --minutes 3
train --resume --run @gpt --steps 3
train --resume --run @gpt --tokenizer bpe
train {data}/book.txt --run @gpt --steps 1
train {data}/classes/train.csv --label lable --steps 1
train {data}/classes/train.csv --text txet --steps 1
train {data}/classes/train.csv --task images --steps 1
train {data}/classes/train.csv --task tagging --steps 1
train {data}/classes/train.csv --model vision --steps 1
train {data}/classes/train.csv --model rnn-translator --steps 1
train {data}/classes/train.csv --valid {data}/gone.csv --steps 1
train {data}/classes/train.csv --set model.context=x --steps 1
train {data}/pictures.npz --model lstm --steps 1
train {data}/pictures.npz --text image --steps 1
train {data}/numbers/train-class.csv --model lstm --steps 1
train {data}/numbers/train-class.csv --label clas --steps 1
train {data}/tagged/train.conll --model bag --steps 1
train {data}/tagged/train.conll --label upos --steps 1
train {data}/universal/train.conllu --label upso --steps 1
train {data}/pairs/train.en --task translation --steps 1
train {data}/pairs/train.en {data}/pairs/train.de --model gpt --steps 1
train {data}/pairs/train.en {data}/pairs/train.de --languages en cs --steps 1
train {data}/pairs/train.en {data}/pairs/dev.de --steps 1
train {data}/table.tsv --source englisch --target german --steps 1
train {data}/pairs/train.en {data}/pairs/train.de --metric accuracy --steps 1
finetune
finetune @gpt
finetune {data}/book.txt {data}/classes/train.csv --steps 1
finetune @gpt {data}/classes/train.csv --lora 0 --steps 1
finetune @gpt {data}/classes/train.csv --lora 2 --freeze --steps 1
finetune @bert {data}/classes/train.csv --layer-decay 0 --steps 1
finetune @translator {data}/classes/train.csv --steps 1
finetune @bag {data}/classes/train.csv --lora 2 --steps 1
finetune @pictures {data}/classes/train.csv --steps 1
generate
generate {data}/gone The
generate {data}/book.txt The
generate @classifier The
generate @gpt The --length -1
generate @gpt The --temperature -1
generate @gpt The --top-p 2
generate @gpt The --next 0
generate @gpt The --precision f64
generate @translator The
chat @gpt hello
evaluate @gpt
evaluate @gpt {data}/gone.txt
evaluate @gpt {data}/classes/train.csv
evaluate @gpt {data}/other.txt --window 0
evaluate @gpt {data}/other.txt --window 1000000
evaluate @classifier {data}/other.txt
evaluate @classifier {data}/scores/dev.csv
evaluate @classifier {data}/tagged/dev.conll
evaluate @classifier {data}/classes/dev.csv --label lable
evaluate @tagger {data}/classes/dev.csv
evaluate @table {data}/numbers/dev-amount.csv
evaluate @translator {data}/classes/dev.csv
evaluate @translator {data}/pairs/dev.de {data}/pairs/dev.en
evaluate @translator {data}/pairs/dev.en
evaluate @translator {data}/pairs/dev.en {data}/pairs/dev.de --beams 0
evaluate @translator {data}/pairs/dev.en {data}/pairs/dev.de --beside @gpt
classify @gpt bright
classify @classifier
classify @classifier bright --top 0
classify @classifier --file {data}/gone.txt
classify @pair bright
classify @table 1,2
classify @table x,y,z
classify @tagger bright
tag @classifier river
tag @tagger
tag @tagger --file {data}/gone.txt
translate @gpt one
translate @translator one --to cs
translate @translator one --beams 0
translate @translator one --nbest 9 --beams 2
translate @both one --to cs
fill @gpt the_[MASK]
fill @bert river
fill @bert the_[MASK] --top 0
embed @bert
embed @bert river --layer 99
embed @bert river --out {out}.xyz
embed @translator river
embed @bert --word lake the_river
inspect @gpt river --head 9.9
inspect @gpt river --head x
inspect @gpt river --token 99
inspect @bag river --heads
inspect {data}/book.txt river
import {data}/book.txt --to {out}/imported
import {data}/gone --to {out}/imported
export @bag {out}/exported
export @gpt {data}
verify {data}/gone
verify {data}/book.txt
tokenize
tokenize river --tokenizer {data}/gone
tokenize river --kind bpe --tokenizer @gpt
tokenize --train {data}/book.txt --size 1
tokenize --train {data}/book.txt --kind bpe --size 400 --save {data}/gone/x.json
data
data get no-such-set
data describe
data describe {data}/gone
data describe {data}/classes/train.csv --label lable
data check {data}/gone.txt
data check {data}/classes/train.csv
data check {data}/book.txt --context 0
data check {data}/book.txt --context 1000000
data clean {data}/book.txt
data clean {data}/book.txt --out {data}/book.txt
data clean {data}/book.txt --out {out}.txt --documents lines --min-words x
compare {data}/gone.csv
compare {data}/classes/train.csv --models bga --minutes 1
compare {data}/classes/train.csv --minutes 0
compare {data}/classes/train.csv --metric bleu
compare {data}/pairs/train.en {data}/pairs/train.de --minutes 1
compare {data}/classes/train.csv --report test --minutes 1
compare {data}/book.txt --models bag --minutes 1
tune {data}/classes/train.csv
tune {data}/gone.csv --trials 2
tune {data}/classes/train.csv --trials 0
tune {data}/classes/train.csv --trials 1 --model gtp
tune {data}/pairs/train.en {data}/pairs/train.de --trials 1
"""


def errors(bad: list[tuple[str, list[str]]]) -> Iterator[Probe]:
    """Bad files of the tests through `train` (texts also through `data check`), and commands with a mistake."""
    tiny = ["--steps", "2", "--run", "{out}/run", "--set", "training.threads=1"]
    for name, words in bad:
        yield probe("errors", name, ["train", *words, *tiny])
        if name.startswith("text"):
            yield probe("errors", f"check {name}", ["data", "check", *words, "--context", "64"])
    for line in COMMANDS[1:].rstrip("\n").splitlines():
        words = [word if "{" in word or word[0] in "@-" else word.replace("_", " ") for word in line.split()]
        run = ["--run", "{out}/run"] if words[:1] == ["train"] and "--steps" in words and "--run" not in words else []
        yield probe("errors", line or "no words", [*words, *run])


def every(base: Path, bad: list[tuple[str, list[str]]]) -> list[Probe]:
    """All probes; the recipe files are those of the base."""
    files = sorted(path.stem for path in (base / "src" / "qkv" / "recipes").glob("*.toml"))
    found = [*models(), *recipes(files), *weights(), *documents(), *errors(bad)]
    names = [each.name for each in found]
    assert len(set(names)) == len(names), sorted({name for name in names if names.count(name) > 1})
    return found

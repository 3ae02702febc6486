"""`qkv finetune`: from a trained or imported model to one for your own task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from qkv import ranges
from qkv.cli.numbers import MinutesOrNone, SeedOrNone, StepsOrNone, within
from qkv.cli.options import Column, Data, Encoding, Identity, Label, Second, Task, named
from qkv.cli.output import Json
from qkv.cli.train import Flag, Many, resumed, started, work
from qkv.ranges import Range


def finetune(
    model: str,
    *data: Data,
    minutes: MinutesOrNone = None,
    steps: StepsOrNone = None,
    freeze: Flag = False,
    lora: Annotated[int | None, within(Range(1, 2**16, "a rank, as 8"))] = None,
    layer_decay: Annotated[float | None, within(ranges.ABOVE_ZERO)] = None,
    valid: Many = None,
    test: Many = None,
    task: Task = None,
    text: Column = None,
    text2: Second = None,
    label: Label = None,
    id: Identity = None,
    class_weights: Flag = False,
    encoding: Encoding = None,
    run: Path | None = None,
    resume: Flag = False,
    seed: SeedOrNone = None,
    recipe: Path | None = None,
    set: Many = None,
    json: Json = False,
) -> None:
    """Teach a model that has learned from much text a task of your own.

    A table with labels makes a classifier or a tagger of it; text goes on
    training a language model.

    qkv finetune MINILM reviews.csv
    qkv finetune runs/sotu-modern reviews.csv --freeze
    qkv finetune MINILM reviews.csv --lora 8 --minutes 10

    Parameters
    ----------
    model
        The model to start from: a run, a model folder, a Hugging Face folder or a .gguf file.
    minutes
        How long you have, in all. 5 when nothing is said.
    steps
        The number of steps, instead of a time.
    freeze
        Only the part that decides learns; the model underneath stays as it is.
    lora
        The rank of narrow layers that learn beside the model's own (LoRA); 8 is usual.
    layer_decay
        The rate of each layer beside that of the one above it, as 0.9: lower layers move less.
    valid
        Examples to check on. Otherwise a tenth is held out.
    test
        Examples to judge the model by in the end.
    class_weights
        Every class counts alike, however rare: a mistake on one of few examples weighs more.
    run
        The run's folder. runs/DATA-MODEL when nothing is said, numbered when taken.
    resume
        Continue the run in --run where it stopped.
    seed
        Where all randomness starts from. 0 when nothing is said.
    recipe
        A recipe: a file, or the name of one of qkv's own, such as sentiment. Options and --set override it.
    set
        One value of the recipe, as --set training.rate=0.0001. Repeat it for more.
    """
    from qkv.cli.train import stem
    from qkv.errors import InputError

    if freeze and lora:
        raise InputError("--freeze and --lora: expected one of them; LoRA leaves the model's own layers as they are.")
    options = {
        "training.start": model,
        "training.frozen": "encoder" if freeze else None,
        "training.lora": lora,
        "training.layer_decay": layer_decay,
        "training.steps": steps,
        "training.seed": seed,
        "corpus.files": named(data, "finetune") or None,
        "corpus.valid": valid,
        "corpus.test": test,
        "corpus.task": task,
        "corpus.text": text,
        "corpus.text2": text2,
        "corpus.label": label,
        "corpus.id": id,
        "task.weights": "balanced" if class_weights else None,
        "corpus.encoding": encoding,
    }
    given = {key: value for key, value in options.items() if value is not None}
    if resume:
        more = {"--minutes": minutes, "--recipe": recipe, "--set": set}
        given.pop("training.start")
        session = resumed(data, run, given, [name for name, value in more.items() if value is not None])
    else:
        name = f"{stem(data[0])}-{stem(model.rstrip('/'))}" if data else ""
        session = started(given, recipe, set or [], run, minutes, name)
    work(session, False, json)

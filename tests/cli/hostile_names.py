"""Models, data and folders whose labels, tags, columns, texts and names try to steer a terminal or to forge rows."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import marian
from cli.commands import run
from interop import tiny_folder
from qkv.recipe import bundle
from small_tasks import origin, sentences, trained, write

STEERS = "\x1b]0;PWNED\x07\x1b[2J\r\x08\x7f\x9b31m\x85\u2028\u202e\u2066[/bold]"
FORGES = f"{STEERS}\nfake\t0.99\tline"
QUICK = ["--steps", "2", "--set", "training.threads=1", "--set", "model.width=16"]


def labelled(folder: Path) -> str:
    """A table of texts and labels, both hostile; its column of labels too."""
    path = folder / "reviews.jsonl"
    rows = [{"text": f"{text} {STEERS}", "label": f"{good}{FORGES}"} for text, good in sentences(60)]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return str(path)


def text(folder: Path) -> str:
    path = folder / f"book{STEERS.replace('/', '')}.txt"
    path.write_text("".join(f"{line}\n\n" for line, _ in sentences(160)))
    return str(path)


def models(folder: Path) -> dict[str, str]:
    """One of each kind, in folders of hostile names."""
    named = FORGES.replace("/", "")
    places = {kind: folder / kind / named for kind in ("language", "tagger", "translator", "classifier")}
    for place in places.values():
        place.parent.mkdir()
    tiny_folder.write(places["language"])
    said = {"kind": "gru", "width": 16}
    words = [labelled(folder), "--label", "label", "--model", "gru", "--run", str(places["classifier"])]
    assert run(["train", *words, *QUICK], True) == 0
    session = trained(write(folder, "tagging"), folder / "honest", "tagging", model=said, training={"steps": 2})
    tagger = bundle.load(session.run.folder)
    labels = tuple(f"{label}{FORGES}" for label in tagger.config.labels)
    bundle.save(places["tagger"], replace(tagger, config=replace(tagger.config, labels=labels), step=2))
    bundle.save(places["translator"], marian.bundle(ending=3.0))
    origin(folder / "masked", "masked")
    return {**{kind: str(place) for kind, place in places.items()}, "masked": str(folder / "masked")}

"""The forecast of memory beside what runs really take: ten models, each trained for a moment in a process of its own.

    python bench/memory.py TEXT          (Tiny Shakespeare, say)

Real is how far the process grew at its peak (resident, Linux) from when everything was imported until the last
evaluation was over. Tokenizers are learned beforehand.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

CHILD = """
import json, re, sys, tempfile
from pathlib import Path
import qkv.api
from qkv.recipe import memory
from qkv import session as sessions

def peak():
    # of this program alone: what getrusage says begins with its parent
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

before = peak()
with tempfile.TemporaryDirectory() as folder:
    session = sessions.start(json.loads(sys.argv[1]), Path(folder) / "run", numbered=False, minutes=1.0)
    for event in session.run.events(session.state, session.objective):
        pass
    session.task.final_score(session.recipe, session.run.folder)
print(json.dumps({"real": peak() - before, "forecast": memory.forecast(session.recipe).total}))
"""
LEARN = """
import json, sys
from qkv.data.corpus import CorpusConfig
from qkv.data.prepare import prepare
from qkv.text.tokenizer import TokenizerConfig
prepare(CorpusConfig(files=(sys.argv[1],)), TokenizerConfig(**json.loads(sys.argv[2])))
"""
CHARACTERS, PIECES, MANY = {"kind": "characters"}, {"kind": "bpe", "size": 2048}, {"kind": "bpe", "size": 8192}
RUNS: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = [
    ({"kind": "modern", "layers": 4, "heads": 4, "width": 128, "context": 128}, CHARACTERS, {"batch": 32}),
    ({"kind": "modern", "layers": 4, "heads": 4, "width": 256, "context": 128}, PIECES, {"batch": 16}),
    ({"kind": "modern", "layers": 2, "heads": 4, "width": 128, "context": 64}, MANY, {"batch": 64}),
    ({"kind": "gpt", "layers": 4, "heads": 4, "width": 256, "context": 256}, CHARACTERS, {"batch": 16}),
    ({"kind": "gpt", "layers": 6, "heads": 6, "width": 384, "context": 256}, MANY, {"batch": 8, "accumulate": 2}),
    ({"kind": "rnn", "layers": 1, "width": 256, "context": 128}, CHARACTERS, {"batch": 64}),
    ({"kind": "rnn", "layers": 2, "width": 512, "context": 64}, MANY, {"batch": 32}),
    ({"kind": "gru", "layers": 2, "width": 384, "context": 64}, PIECES, {"batch": 32}),
    ({"kind": "lstm", "layers": 1, "width": 256, "context": 128}, CHARACTERS, {"batch": 64}),
    ({"kind": "lstm", "layers": 2, "width": 384, "context": 64}, PIECES, {"batch": 32}),
]  # fmt: skip


def run(cache: str, program: str, *words: str) -> str:
    environment = {**os.environ, "QKV_CACHE": cache}
    command = [sys.executable, "-c", program, *words]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout


def main(text: str) -> None:
    settings = {"steps": 12, "evaluate_every": 6, "checkpoint_every": 6, "threads": 1, "device": "cpu", "dtype": "f32"}
    print("| model | pieces | batch x context | forecast, MiB | real, MiB | |")
    print("| --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as cache:
        for tokenizer in (CHARACTERS, PIECES, MANY):
            run(cache, LEARN, text, json.dumps(tokenizer))
        for model, tokenizer, training in RUNS:
            values = {"corpus": {"files": [text]}, "tokenizer": tokenizer, "model": model}
            answer = json.loads(run(cache, CHILD, json.dumps({**values, "training": {**settings, **training}})))
            real, forecast = (answer[name] / 2**20 for name in ("real", "forecast"))
            batch = f"{training['batch']} x {model['context']}" + (" in parts" if "accumulate" in training else "")
            cells = [
                f"{model['kind']} {model['layers']} x {model['width']}",
                tokenizer.get("size", "characters"),
                batch,
            ]
            cells += [f"{forecast:.0f}", f"{real:.0f}", f"{forecast / real - 1:+.0%}"]
            print(f"| {' | '.join(map(str, cells))} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1])

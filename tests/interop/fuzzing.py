"""A reader and damaged copies of a file, in a process of its own: what is neither a refusal nor a model is a fault.

python fuzzing.py gguf|llama2c FILE SEED COUNT          prints {"refused", "opened", "faults", "peak", "slowest"}
"""

from __future__ import annotations

import json
import random
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HEADER = 0.6  # of the changes hit the first half of what is not weights


def damaged(data: bytes, seed: int, count: int, header: int) -> Iterator[bytes]:
    """One to eight flipped bits, mostly in front; sometimes a few bytes overwritten, sometimes the rest cut off."""
    draw = random.Random(seed)
    for _ in range(count):
        copy, way = bytearray(data), draw.random()
        place = draw.randrange(header if draw.random() < HEADER else len(data))
        if way < 0.1:
            yield bytes(copy[:place])
            continue
        if way < 0.25:
            copy[place : place + 8] = draw.choice([b"\xff" * 8, bytes(8), draw.randbytes(8), b"\0\0\0\0\0\0\0\x7f"])
        for _ in range(draw.choice([1, 1, 2, 8])):
            near = min(len(copy) - 1, max(0, place + draw.randrange(-16, 17)))
            copy[near] ^= 1 << draw.randrange(8)
        yield bytes(copy)


def peak() -> int:
    """Of this program alone: what getrusage says begins with its parent."""
    found = re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())
    return 1024 * int(found[1]) if found else 0


def main(kind: str, name: str, seed: str, count: str) -> None:
    import qkv.text.foreign
    from qkv.blocks.initialization import outline
    from qkv.errors import MissingExtraError, RefusedError
    from qkv.interop import gguf, llama2c

    # its child process is tested elsewhere, and costs more than all else
    qkv.text.foreign.try_in_subprocess = lambda *_: None
    source = Path(name)
    data, found = source.read_bytes(), {"refused": 0, "opened": 0}
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "damaged"

        def opened() -> Any:
            return gguf.read(path) if kind == "gguf" else llama2c.read(path, source.with_name("tok512.bin"))

        path.write_bytes(data)
        opened()  # what is imported late is there now
        before, slowest = peak(), 0.0
        header = data.find(b"output_norm.weight") + 40 if kind == "gguf" else 64
        for copy in damaged(data, int(seed), int(count), header):
            path.write_bytes(copy)
            started_at = time.process_time()
            try:
                model = opened()
                with outline():
                    built = model.config.build()
                built.load_state_dict(model.weights, assign=True)
                assert model.tokenizer.vocabulary == model.config.vocabulary
                found["opened"] += 1
            except (RefusedError, MissingExtraError) as error:
                named = str(path) in str(error) or isinstance(error, MissingExtraError)
                found["refused"] += named
                faults += [] if named else [f"the file is not named: {error}"[:300]]
            except BaseException as error:
                faults.append(f"{type(error).__name__}: {error}"[:300])
            slowest = max(slowest, time.process_time() - started_at)
    print(json.dumps({**found, "faults": faults[:5], "peak": peak() - before, "slowest": slowest}))


if __name__ == "__main__":
    main(*sys.argv[1:])

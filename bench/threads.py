"""Seconds per step with one and two threads, spinning and passive, with and without a busy neighbour.

    python bench/threads.py

Threads of one step wait for each other many times. Those of libgomp spin meanwhile: best on a quiet machine,
worst where another program takes a core.
"""

from __future__ import annotations

import os
import subprocess
import sys

STEPS = 15
CHILD = f"""
import sys, time, torch
from qkv.models.modern import ModernConfig
torch.set_num_threads(int(sys.argv[1]))
model = ModernConfig(layers=4, heads=4, width=128, context=64, vocabulary=66).build()
tokens = torch.randint(0, 66, (32, 64))
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
spent = []
for _ in range({STEPS}):
    began = time.perf_counter()
    torch.nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
    spent.append(time.perf_counter() - began)
print(sorted(spent)[len(spent) // 2])
"""
WAYS = {
    "one thread": ("1", {}),
    "two threads, spinning": ("2", {}),
    "two threads, spin count 1000": ("2", {"GOMP_SPINCOUNT": "1000"}),
    "two threads, passive": ("2", {"OMP_WAIT_POLICY": "PASSIVE"}),
}


def seconds(threads: str, settings: dict[str, str]) -> float:
    command = [sys.executable, "-c", CHILD, threads]
    done = subprocess.run(command, env={**os.environ, **settings}, capture_output=True, text=True, check=True)
    return float(done.stdout)


def main() -> None:
    found: dict[str, list[list[float]]] = {name: [] for name in WAYS}
    for busy in (False, True):
        neighbour = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if busy else None
        rounds = [{name: seconds(*way) for name, way in WAYS.items()} for _ in range(3)]
        if neighbour:
            neighbour.kill()
            neighbour.wait()
        for name in WAYS:
            found[name].append([each[name] for each in rounds])
    print("| | seconds per step, quiet | with one busy neighbour |")
    print("| --- | --- | --- |")
    for name, columns in found.items():
        print(f"| {name} | " + " | ".join(f"{min(each):.3f}-{max(each):.3f}" for each in columns) + " |")


if __name__ == "__main__":
    main()

"""What opening a GGUF file takes: how far the process grows at its peak, beside the bytes of its tensors as f32.

    python bench/opening.py FILE          (SmolLM2-135M-Instruct.Q4_1.gguf, say)

Everything is imported beforehand. At most 1.2 times the tensors' bytes is promised.
"""

from __future__ import annotations

import json
import subprocess
import sys

CHILD = """
import json, re, resource, sys, time
from pathlib import Path
from qkv.blocks.initialization import outline
from qkv.interop import gguf

def peak():
    # of this program alone: what getrusage says begins with its parent, which is small
    return max(1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]), 0)

before, started_at = peak(), time.perf_counter()
found = gguf.read(Path(sys.argv[1]))
read_in = time.perf_counter() - started_at
grown = peak() - before
with outline():
    model = found.config.build()
model.load_state_dict(found.weights, assign=True)
tensors = sum(tensor.nbytes for tensor in found.weights.values())
usage = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(json.dumps({"tensors": tensors, "grown": grown, "with_model": peak() - before, "usage": usage - before,
                  "seconds": read_in}))
"""


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    done = subprocess.run([sys.executable, "-c", CHILD, sys.argv[1]], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr)
    found = json.loads(done.stdout)
    print(f"read in {found['seconds']:.1f} s; tensors as f32: {found['tensors'] / 2**20:,.0f} MB")
    for name, words in (("grown", "reading"), ("with_model", "and as a model"), ("usage", "by getrusage")):
        print(f"{words:<16} {found[name] / 2**20:8,.0f} MB  {found[name] / found['tensors']:.2f} x")


if __name__ == "__main__":
    main()

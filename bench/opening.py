"""What opening a model takes: how far the process grows at its peak, beside the bytes of its tensors as f32.

    python bench/opening.py MODEL [MODEL ...]       (.gguf files, Hugging Face folders, folders of qkv)

Everything is imported beforehand, and the libraries are used once on something tiny: their code belongs to the start.
Every weight is read once after opening, so that a mapped file counts. At most 1.2 times the tensors' bytes is promised.
"""

from __future__ import annotations

import json
import subprocess
import sys

CHILD = """
import json, re, sys, tempfile, time
from pathlib import Path
import safetensors.torch, tokenizers, torch, qkv
import qkv.api
import qkv.recipe.recipe

with tempfile.TemporaryDirectory() as folder:
    tiny = Path(folder) / "tiny.safetensors"
    safetensors.torch.save_file({"a": torch.ones(8, 8)}, tiny)
    torch.nn.functional.linear(safetensors.torch.load_file(tiny)["a"], torch.ones(8, 8)).sum()
for model in (tokenizers.models.WordPiece({"[UNK]": 0, "a": 1}, unk_token="[UNK]"), tokenizers.models.BPE()):
    used = tokenizers.Tokenizer(model)
    used.normalizer = tokenizers.normalizers.BertNormalizer()
    used.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    used.decoder = tokenizers.decoders.WordPiece()
    used = tokenizers.Tokenizer.from_str(used.to_str())
    used.decode(used.encode("a B").ids)
shape = {"kind": "bert", "vocabulary": 8, "layers": 1, "heads": 1, "width": 8, "context": 8}
qkv.recipe.recipe.parse_model(shape, "tiny").build()

def peak():
    return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

before, started_at = peak(), time.perf_counter()
model = qkv.load(sys.argv[1])
opened_in, grown = time.perf_counter() - started_at, peak() - before
weights = list(model.bundle.model.parameters())
read = sum(float(weight.detach().view(-1)[:: 1024].sum()) for weight in weights)
print(json.dumps({"tensors": sum(weight.nbytes for weight in weights), "opened": grown, "read": peak() - before,
                  "seconds": opened_in}))
"""


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    for model in sys.argv[1:]:
        done = subprocess.run([sys.executable, "-c", CHILD, model], capture_output=True, text=True, check=False)
        if done.returncode:
            sys.exit(done.stderr)
        found = json.loads(done.stdout)
        print(f"{model}: opened in {found['seconds']:.1f} s; tensors as f32: {found['tensors'] / 2**20:,.0f} MB")
        for name, words in (("opened", "opening"), ("read", "every page read")):
            print(f"  {words:<16} {found[name] / 2**20:8,.0f} MB  {found[name] / found['tensors']:.3f} x")


if __name__ == "__main__":
    main()

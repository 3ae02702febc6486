"""A foreign tokenizer is tried in a process of its own first.

The `tokenizers` library panics on some files, and a panic ends more than a call. `checks.py` refuses all that is known
to do so; this is for what is not known: the child loads the file and uses it, within limits of time and memory.
"""

from __future__ import annotations

import subprocess
import sys

from qkv.text.refusal import Refusal

SECONDS = 20
BYTES = 4 * 2**30
_CHILD = """
import sys
seconds, size = (int(word) for word in sys.argv[1:3])
try:
    import resource
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
except (ImportError, ValueError, OSError):
    pass
import tokenizers
tokenizer = tokenizers.Tokenizer.from_str(sys.stdin.buffer.read().decode("utf-8"))
words = "The dog's 12,345 bones.\\n\\n\\tWo? \\u00e9\\u4e2d\\U0001f600 "
for text in ("", "a", words, " " * 300, "^" * 300, "\\u0301" * 300):
    tokenizer.decode(tokenizer.encode(text, add_special_tokens=True).ids)
"""


def survive(text: str, where: str) -> None:
    """Refuse a tokenizer.json that the library cannot load and use."""
    refuse = Refusal(where)
    try:
        order = [sys.executable, "-I", "-c", _CHILD, str(SECONDS), str(BYTES)]
        done = subprocess.run(order, input=text.encode(), capture_output=True, timeout=SECONDS, check=False)
    except subprocess.TimeoutExpired:
        raise refuse("file", f"the tokenizers library did not finish with it in {SECONDS} s") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit code {done.returncode}"]
        raise refuse("file", f"the tokenizers library fails on it: {said[-1][:200]}")

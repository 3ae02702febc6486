"""A reader of your own: subtitles, .srt. `qkv train film.srt --reader subtitles.py`

`read` gives a list of texts, or whatever else `qkv.train` takes: pairs, dicts, (texts, labels), a DataFrame.
"""

from __future__ import annotations

from pathlib import Path


def read(path: str) -> list[str]:
    """What is said, a text for each subtitle, without numbers and times."""
    blocks = Path(path).read_text(encoding="utf-8").split("\n\n")
    texts = []
    for block in blocks:
        lines = [line for line in block.split("\n") if line and "-->" not in line and not line.isdigit()]
        texts.append(" ".join(lines))
    return [text for text in texts if text]

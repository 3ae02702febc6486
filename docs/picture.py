"""Run a command on a terminal of its own and draw the screen it leaves behind as an SVG: the pictures of the README.

python docs/picture.py docs/demo.svg .venv/bin/qkv train python-docs --minutes 1
"""

from __future__ import annotations

import io
import os
import pty
import re
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

WIDTH = 112
CODE = re.compile(r"\x1b\[(\d*)([A-Za-z])|\x1b\[\?\d+[a-z]|\r|\n")


def record(command: list[str]) -> str:
    """Everything the command prints on a terminal of WIDTH columns."""
    os.environ.update(COLUMNS=str(WIDTH), LINES="60", TERM="xterm-256color")
    output = io.BytesIO()

    def read(descriptor: int) -> bytes:
        data = os.read(descriptor, 65536)
        output.write(data)
        return data

    status = pty.spawn(command, read)
    if status:
        sys.exit(f"the command failed with {os.waitstatus_to_exitcode(status)}")
    return output.getvalue().decode()


def screen(text: str) -> list[str]:
    """The lines left after all cursor movements; colours are dropped."""
    lines, row, place = [""], 0, 0
    for match in re.finditer(rf"({CODE.pattern})|([^\x1b\r\n]+)|(\x1b\[[0-9;]*m)", text):
        code = match.group(1)
        if code == "\n":
            row, place = row + 1, 0
            lines += [""] * (row + 1 - len(lines))
        elif code == "\r":
            place = 0
        elif code and code.endswith("A"):
            row = max(0, row - int(re.sub(r"\D", "", code) or 1))
        elif code and code.endswith("K"):
            lines[row] = ""
        elif match.group(0) and not match.group(0).startswith("\x1b"):
            piece = match.group(0)
            lines[row] = lines[row].ljust(place)[:place] + piece + lines[row][place + len(piece) :]
            place += len(piece)
    return [line.rstrip() for line in lines]


def main(target: Path, command: list[str]) -> None:
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    shown = " ".join(Path(word).name if index == 0 else word for index, word in enumerate(command))
    console.print(Text(f"$ {shown}", style="bold"))
    for line in screen(record(command)):
        console.print(Text(line))
    console.save_svg(str(target), title="qkv")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

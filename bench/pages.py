"""A measurement writes its own part of docs/measurements.md."""

from __future__ import annotations

from pathlib import Path


def replace_section(page: Path, heading: str, body: str) -> None:
    """Put `body` under `## heading`, in place of what stands there, or at the end."""
    text = page.read_text(encoding="utf-8")
    parts = text.split("\n## ")
    section = f"{heading}\n\n{body.strip()}\n"
    places = [number for number, part in enumerate(parts) if part.partition("\n")[0] == heading]
    if places:
        parts[places[0]] = section
    else:
        parts.append(section)
    page.write_text("\n## ".join(part.rstrip("\n") + "\n" for part in parts), encoding="utf-8")

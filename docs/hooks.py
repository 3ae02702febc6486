"""What mkdocs does not find in docs/: pages of modules, of notebooks, of decisions; the reference of recipe keys.

A page in docs/ says with `<!-- generated: NAME -->` where a generated part belongs.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import recipe_keys
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

DOCS = Path(__file__).parent
SOURCE = DOCS.parent / "src" / "qkv"
PACKAGES = ("blocks", "models")


def modules(package: str) -> dict[str, str]:
    """The modules of a package, each with the first sentence of its docstring."""
    found = {}
    for path in sorted((SOURCE / package).glob("[!_]*.py")):
        text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
        found[path.stem] = " ".join(text.split("\n\n")[0].split())
    return found


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """The navigation gets the pages that follow from folders."""
    sections = dict(_sections(config.nav))
    for package in PACKAGES:
        sections[package.capitalize()] += [{name: f"reference/{package}/{name}.md"} for name in modules(package)]
    sections["Decisions"] += [f"decisions/{path.name}" for path in sorted((DOCS / "decisions").glob("*.md"))]
    return config


def _sections(nav: Any) -> Iterator[tuple[str, list[Any]]]:
    for entry in nav:
        for title, content in entry.items() if isinstance(entry, dict) else ():
            if isinstance(content, list):
                yield title, content
                yield from _sections(content)


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """A page for each module of the blocks and models, and for each notebook."""
    for package in PACKAGES:
        for name in modules(package):
            text = f"# {package}.{name}\n\n::: qkv.{package}.{name}\n"
            files.append(File.generated(config, f"reference/{package}/{name}.md", content=text))
    for path in sorted((DOCS / "notebooks").glob("*.ipynb")):
        files.append(File.generated(config, f"notebooks/{path.stem}.md", content=notebook(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    markdown = re.sub(r"(notebooks/[\w-]+)\.ipynb\)", r"\1.md)", markdown)  # a notebook is a page here
    return re.sub(r"<!-- generated: (\S+) -->", lambda match: generated(match[1]), markdown)


def generated(name: str) -> str:
    if name == "recipe-keys":
        return recipe_keys.page()
    rows = [f"| [{module}]({module}.md) | {text} |" for module, text in modules(name).items()]
    return "\n".join(["| module | what it is |", "| --- | --- |", *rows])


def notebook(path: Path) -> str:
    """A notebook as a page: its texts, its code, and the outputs that it holds."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    parts = []
    for cell in cells:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            parts += [f"```python\n{source}\n```", *map(_output, cell["outputs"])]
    parts.insert(1, f"[Download this notebook]({path.name})")
    return "\n\n".join(parts) + "\n"


def _output(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if html := "".join(data.get("text/html", "")):
        return f'<div class="notebook-output">\n{html}\n</div>'
    text = "".join(output.get("text", data.get("text/plain", ""))).rstrip()
    return f"```text\n{text}\n```"

"""The front of the library: `qkv.load` gives a model with a method for each thing one does with it.

import qkv
model = qkv.load("runs/shakespeare")
for piece in model.generate("O Romeo", stream=True):
    print(piece, end="")
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from qkv.blocks.fast_paths import evaluating
from qkv.data.corpus import CorpusConfig
from qkv.data.prepare import stream_text
from qkv.errors import InputError, require_type
from qkv.evaluation.perplexity import Score
from qkv.evaluation.timed_scoring import Pace
from qkv.generation.beam import Translator
from qkv.models.language_model import count
from qkv.recipe import bundle, own_model
from qkv.tasks.inspected import inspected
from qkv.tasks.language_modelling.evaluate import require_window, score_files, score_tokens
from qkv.tasks.text_generator import TextGenerator
from qkv.training import devices

if TYPE_CHECKING:
    from qkv.interop.parity import Parity


class Model(TextGenerator):
    """A trained model, ready for use."""

    def __repr__(self) -> str:
        config = self.bundle.config
        return f"<qkv model: {config.kind}, {self.parameters:,} parameters, context {config.context}>"

    @property
    def translates(self) -> bool:
        """Whether it reads a text and writes another."""
        return isinstance(self.bundle.model, Translator)

    @property
    def parameters(self) -> int:
        return count(self.module)

    def export(self, folder: str | Path, to: str = "huggingface", *, force: bool = False) -> list[Parity]:
        """Write the model for others to open; gives what was compared before the folder got its name."""
        from qkv.interop import export as shipping

        if to not in shipping.FORMATS:
            raise InputError(f"format {to!r}: expected one of {', '.join(shipping.FORMATS)}.")
        own = self.bundle.folder
        card = None if own is None or self.bundle.source else own.parent / "card.md"
        story = card.read_text(encoding="utf-8") if card is not None and card.is_file() else ""
        name = self.bundle.source or Path(folder).resolve().name
        return shipping.write(Path(folder), self.bundle, name, story, force=force)

    def page(self, text: str | tuple[str, str] | None = None, file: str | Path = "inspect.html") -> Path:
        """Write one HTML page that shows the model at work on a text; gives its place."""
        from qkv.inspection import page

        require_type("text", text, str, tuple, type(None))
        with evaluating(self.module):
            page.write(Path(file), page.document(inspected(self.bundle, text)))
        return Path(file)

    def evaluate(
        self,
        text: str | Path | None = None,
        *,
        corpus: CorpusConfig | None = None,
        window: int | None = None,
        pace: Pace | None = None,
    ) -> Score:
        """Loss, perplexity and bits per byte on a text, on a file (its path, or a name of one that exists), or on the
        files of a corpus."""
        self.notes = []
        require_type("text", text, str, Path, type(None))
        require_type("corpus", corpus, CorpusConfig, type(None))
        if (text is None) == (corpus is None):
            raise InputError("evaluate needs a text or a file, or a corpus, and takes one of them.")
        require_window(self.bundle, window)
        if isinstance(text, str) and names_file(text):
            self.notes.append(f"{text}: this file is evaluated, not its name.")
            text = Path(text)
        if isinstance(text, Path):
            corpus = CorpusConfig(files=(str(text),))
        if corpus is not None:
            scored, notes = score_files(self.bundle, corpus, window, pace)
            self.notes += notes
            return scored
        assert isinstance(text, str)
        found = stream_text(self.tokenizer, text)
        if found.unknown:
            self.notes.append(f"{found.unknown:,} tokens of the text are not in the vocabulary and become UNK.")
        return score_tokens(self.bundle, found, window, pace)


def names_file(text: str) -> bool:
    """Whether a text is really the name of a file: then nobody wants the letters of the name scored."""
    try:
        return len(text) < 256 and "\n" not in text and Path(text).is_file()
    except (OSError, ValueError):  # a name that no system takes
        return False


def load(model: str | Path, device: str = "auto", *, model_file: str | Path | None = None) -> Model:
    """Open the model of a run folder, a model folder, a Hugging Face folder, a GGUF file or one of llama2.c.

    Args:
        model: The folder or file.
        device: Where it computes: "cpu", "cuda" ... Default: the fastest there is.
        model_file: The Python file of a model of one's own, as it was given to `train`.
    """
    require_type("model", model, str, Path)
    if model_file is not None:
        own_model.load_file(model_file)
    chosen = devices.choose_device(device)
    return Model(bundle.load(model, chosen), chosen)

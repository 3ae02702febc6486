"""Who writes for a model: its compiled copy, kept for as long as it is true to the model, or the model itself."""

from __future__ import annotations

from typing import Literal, get_args

from qkv.errors import InputError
from qkv.generation.compilable import obstacle
from qkv.generation.native import Native, choose
from qkv.models.language_model import LanguageModel

Precision = Literal["auto", "f32", "bf16", "int8"]


class Writers:
    """The compiled copies of one model, one for each number format that was asked for."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model
        self.copies: dict[str, Native] = {}

    def writer(self, precision: Precision = "auto", *, int8_passed: bool = False) -> LanguageModel:
        """A model with hooks, replaced parts or another `mix` writes by its own modules; weights that have changed are
        copied anew. `int8_passed`: whether int8 was seen to keep this model's quality, so that `auto` may choose it."""
        if precision not in get_args(Precision):
            raise InputError(f"precision {precision!r}: expected one of {', '.join(get_args(Precision))}.")
        if problem := obstacle(self.model):
            if precision not in ("auto", "f32"):
                raise InputError(
                    f"precision {precision}: this model writes in f32 only, as it {problem}. bf16 and int8 need a "
                    "modern, gpt, llama or qwen2 model as it was built, without a window, the CPU, and a C compiler."
                )
            return self.model
        chosen = choose(self.model, int8_passed) if precision == "auto" else precision
        copy = self.copies.get(chosen)
        if copy is None or not copy.current():
            copy = self.copies[chosen] = Native(self.model, chosen)
        return copy

"""A model as a Hugging Face folder: config.json, model.safetensors, the tokenizer, generation settings, a model card.

It is written aside, opened again by our own reader, and by `transformers` where that is installed; only when all give
the original's answers does it get its name. `transformers` 5 opens it with AutoModelForCausalLM and AutoTokenizer.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from qkv.errors import RefusedError
from qkv.interop import huggingface
from qkv.interop.comparing import Comparison, Reader, compare, reads
from qkv.interop.imported import filled
from qkv.interop.names import export_weights
from qkv.models.language_model import LanguageModel, count
from qkv.reading import require_replaceable
from qkv.storage import new_folder, replace_folder
from qkv.text.tokenizer import Tokenizer
from qkv.training.checkpoints import write_tensors

FORMATS = ("huggingface",)
TEMPERATURE = 0.8  # as `qkv generate` has it


@runtime_checkable
class Exportable(Protocol):
    """What is needed of a model to write it (recipe.bundle.Bundle has it)."""

    @property
    def model(self) -> Any: ...
    @property
    def config(self) -> Any: ...
    @property
    def tokenizer(self) -> Tokenizer: ...
    @property
    def opening(self) -> tuple[int, ...]: ...


def write(
    folder: Path, bundle: Exportable, name: str, story: str = "", *, force: bool = False, outside: bool = True
) -> list[Comparison]:
    """Write `folder`, compare, and give it its name. `outside`: also open it with transformers, where it is there."""
    huggingface.twin(bundle.config)  # a model that has none is refused before anything else
    if folder.exists() or folder.is_symlink():
        require_replaceable(folder, huggingface.CONFIG, force)
    weights = huggingface_weights(bundle)
    needed = sum(tensor.nbytes for tensor in weights.values()) + 2**20
    with new_folder(folder, needed, replace_folder if folder.exists() else None) as aside:
        write_tensors(aside / huggingface.WEIGHTS, weights, {"format": "pt"})
        for file, values in _settings(bundle).items():
            (aside / file).write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        (aside / "tokenizer.json").write_text(bundle.tokenizer.published(bundle.opening), encoding="utf-8")
        (aside / "README.md").write_text(_card(bundle, name, story), encoding="utf-8")
        del weights
        found = check(aside, bundle, outside)
        for each in found:
            if not each.passed:
                raise RefusedError(f"{folder}: not written: the copy differs from the original. {each}.")
    return found


def huggingface_weights(bundle: Exportable) -> dict[str, Tensor]:
    """The model's tensors by their names elsewhere."""
    room = huggingface.twin(bundle.config)
    own = {name: tensor.detach().cpu() for name, tensor in bundle.model.state_dict().items()}
    tensors = export_weights(room.table(bundle.config), own)
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def _settings(bundle: Exportable) -> dict[str, dict[str, Any]]:
    config, tokenizer = bundle.config, bundle.tokenizer
    values = huggingface.twin(config).export_config(config)
    sizes = getattr(config, "encoder", config)
    padding = tokenizer.padding if tokenizer.padding is not None else tokenizer.ends[0]
    ends = tokenizer.ends[0] if len(tokenizer.ends) == 1 else list(tokenizer.ends)
    named = {"bos_token": tokenizer.start, "eos_token": tokenizer.ends[0], "pad_token": padding}
    if tokenizer.unknown is not None:
        named["unk_token"] = tokenizer.unknown
    if tokenizer.kind == "wordpiece":
        pairs = (("cls_token", "[CLS]"), ("sep_token", "[SEP]"), ("mask_token", "[MASK]"))
        named |= {key: tokenizer.named[word] for key, word in pairs if word in tokenizer.named}
    inputs = ["input_ids", *(["token_type_ids"] if getattr(sizes, "segments", 0) else []), "attention_mask"]
    words = {key: tokenizer.token(number) for key, number in named.items()}
    settings: dict[str, Any] = {
        # without the class, transformers 5 builds the model type's own tokenizer, with other ids
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": config.context,
        "clean_up_tokenization_spaces": False,
        "model_input_names": inputs,
        **words,
    }
    ids = {"bos_token_id": tokenizer.start, "eos_token_id": ends, "pad_token_id": padding}
    files = {"tokenizer_config.json": settings, "special_tokens_map.json": words}
    if isinstance(bundle.model, LanguageModel):
        files["config.json"] = {**values, **ids}
        files["generation_config.json"] = {**ids, "do_sample": True, "temperature": TEMPERATURE}
    else:
        files["config.json"] = {**values, "pad_token_id": padding}
    return files


def _card(bundle: Exportable, name: str, story: str) -> str:
    writes = isinstance(bundle.model, LanguageModel)
    assert isinstance(bundle.model, nn.Module)
    values = huggingface.twin(bundle.config).export_config(bundle.config)
    auto = "AutoModelForCausalLM" if writes else "AutoModel"
    use = (
        'print(tokenizer.decode(model.generate(**tokenizer("Once", return_tensors="pt"), max_new_tokens=50)[0]))'
        if writes
        else 'print(model(**tokenizer("Once", return_tensors="pt")).last_hidden_state.shape)'
    )
    lines = [
        "---", "library_name: transformers", "tags: [qkv]",
        *(["pipeline_tag: text-generation"] if writes else []), "---", "", f"# {name}", "",
        f"A `{bundle.config.kind}` model of qkv as `{values['architectures'][0]}`: {count(bundle.model):,} parameters, "
        f"a {bundle.tokenizer.kind} vocabulary of {bundle.tokenizer.vocabulary:,} tokens. `manifest.json` holds the "
        "sha256 of every file.", "",
        "```python", f"from transformers import {auto}, AutoTokenizer", "",
        'tokenizer = AutoTokenizer.from_pretrained(".")',
        f'model = {auto}.from_pretrained(".")', use, "```", "",
    ]  # fmt: skip
    return "\n".join(lines) + (f"\n{story.strip()}\n" if story.strip() else "")


def check(folder: Path, bundle: Exportable, outside: bool = True) -> list[Comparison]:
    """Open the folder again, by our reader and by transformers where it is installed, and compare."""
    again = huggingface.read(folder)
    copy = filled(again.config, again.weights, "cpu")
    readers: dict[str, Reader] = {"read again by qkv": reads(copy)}
    if outside and (theirs := _transformers(folder, bundle)):
        readers |= theirs
    return compare(bundle.model, readers, bundle.tokenizer, bundle.opening, bundle.config.context)


def _transformers(folder: Path, bundle: Exportable) -> dict[str, Reader]:
    try:
        with quiet():
            import transformers

            transformers.utils.logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    except ImportError:
        return {}
    values = huggingface.settings(folder)
    with quiet():
        build: Callable[..., Any] = getattr(transformers, values["architectures"][0]).from_pretrained
        model = build(folder, local_files_only=True, dtype=torch.float32).eval()
        words = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
    _same_ids(words, bundle, folder)
    masked = not isinstance(bundle.model, LanguageModel)

    def read(tokens: Tensor, present: Tensor) -> Tensor:
        # a decoder is asked row by row as it stands: padding at the end changes nothing before it
        made = model(tokens, attention_mask=present.long()) if masked else model(tokens)
        return made["logits"] if "logits" in made else made["last_hidden_state"]

    return {f"opened by transformers {transformers.__version__}": read}


def _same_ids(words: Any, bundle: Exportable, folder: Path) -> None:
    """Their tokenizer must cut real sentences as ours does, with what stands around them."""
    from qkv.interop.comparing import SENTENCES

    writes = isinstance(bundle.model, LanguageModel)
    before, after = (bundle.opening, ()) if writes else (bundle.tokenizer.opening, bundle.tokenizer.closing)
    for text in SENTENCES:
        with quiet():
            theirs = words(text)["input_ids"]
        ours = [*before, *bundle.tokenizer.encode(text), *after]
        if ours != theirs:
            at = next((i for i, pair in enumerate(zip(ours, theirs, strict=False)) if pair[0] != pair[1]), -1)
            raise RefusedError(
                f"{folder}: not written: transformers cuts {text[:40]!a} differently from token {at} on."
            )


@contextmanager
def quiet() -> Iterator[None]:
    """Another library's remarks are not ours."""
    import logging

    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)

"""A model as a Hugging Face folder: config.json, model.safetensors, the tokenizer, generation settings, a model card.

The folder is written under a temporary name and read again by qkv, and by `transformers` if that is installed. It gets
its name only if all give the same outputs as the original model. `transformers` 5 opens it with its Auto classes,
offline.
"""

from __future__ import annotations

import itertools
import json
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from qkv.data.encode import end_of
from qkv.errors import InputError, RefusedError
from qkv.generation.beam import Translator
from qkv.interop import architectures, huggingface, marian
from qkv.interop.architectures import fold_scale
from qkv.interop.parity import SENTENCES, Exportable, Parity, Reader, classifies_pairs, compare, reader_of
from qkv.interop.tensors import build_model, export_weights
from qkv.models.language_model import LanguageModel, count
from qkv.safe_json import require_replaceable
from qkv.storage import atomic_folder, replace_folder
from qkv.text.vocabulary import tags
from qkv.training.checkpoints import write_tensors
from qkv.visible import visible

FORMATS = ("huggingface",)


def write(
    folder: Path, bundle: Exportable, name: str, story: str = "", *, force: bool = False, outside: bool = True
) -> list[Parity]:
    """Write `folder` and compare its outputs. With `outside`, also open it with transformers if that is installed."""
    values = huggingface.architecture_of(bundle.config).export_config(bundle.config)  # first, because it may refuse
    architectures.require_end(bundle.config, bundle.tokenizer)
    if folder.exists() or folder.is_symlink():
        require_replaceable(folder, huggingface.CONFIG, force)
    weights = huggingface_weights(bundle)
    needed = sum(tensor.nbytes for tensor in weights.values()) + 2**20
    with atomic_folder(folder, needed, replace_folder if folder.exists() else None) as aside:
        write_tensors(aside / huggingface.WEIGHTS, weights, {"format": "pt"})
        for file, content in settings(bundle, values).items():
            (aside / file).write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        for file, data in _vocabulary(bundle).items():
            (aside / file).write_bytes(data)
        (aside / "README.md").write_text(card(bundle, values["architectures"][0], name, story), encoding="utf-8")
        del weights
        results = check(aside, bundle, outside)
        for parity in results:
            if not parity.passed:
                raise RefusedError(f"{folder}: not written: the copy differs from the original. {parity}.")
    return results


def _vocabulary(bundle: Exportable) -> dict[str, bytes]:
    """The files from which transformers reads the vocabulary."""
    tokenizer = bundle.tokenizer
    if tokenizer.kind == "own":
        raise InputError("a tokenizer of your own cannot be exported: transformers has no class for it.")
    if tokenizer.kind == "unigram":
        return marian.files(tokenizer, bundle.target_tokenizer)
    closing = end_of(tokenizer) if isinstance(bundle.model, Translator) else None
    # a tokenizer that adds a token at the end of texts, like BERT's, already has a template for pairs
    middle = end_of(tokenizer) if classifies_pairs(bundle) and not tokenizer.closing else None
    return {"tokenizer.json": tokenizer.published(bundle.opening, closing, middle).encode()}


def huggingface_weights(bundle: Exportable) -> dict[str, Tensor]:
    """The model's weights with their names in transformers."""
    architecture = huggingface.architecture_of(bundle.config)
    own = {name: tensor.detach().cpu() for name, tensor in bundle.model.state_dict().items()}
    tensors = export_weights(architecture.table(bundle.config), fold_scale(bundle.config, own))
    return {name: tensor.contiguous() for name, tensor in tensors.items()}


def check(folder: Path, bundle: Exportable, outside: bool = True) -> list[Parity]:
    """Open the folder with qkv's reader, and with transformers if it is installed, and compare the outputs."""
    again = huggingface.read(folder)
    copy = build_model(again.config, again.weights, "cpu")
    others = _transformers(folder, bundle) if outside else {}
    return compare(bundle, {"read again by qkv": reader_of(copy), **others})


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
        if bundle.tokenizer.kind != "unigram" or find_spec("sentencepiece"):  # MarianTokenizer needs this package
            words = transformers.AutoTokenizer.from_pretrained(folder, local_files_only=True)
            _same_ids(words, bundle, folder)
    writes = isinstance(bundle.model, LanguageModel)
    third = "token_type_ids" if "type_vocab_size" in values else ""
    third = "decoder_input_ids" if isinstance(bundle.model, Translator) else third

    def read(tokens: Tensor, present: Tensor, more: Tensor | None = None) -> Tensor:
        # a language model needs no mask: padding at the end does not change the outputs before it
        inputs = {} if writes else {"attention_mask": present.long()}
        with quiet():
            output = model(tokens, **inputs, **({third: more} if third and more is not None else {}))
        answers: Tensor = next(output[key] for key in SCORES if key in output)
        return answers

    return {f"opened by transformers {transformers.__version__}": read}


SCORES = ("logits", "prediction_logits", "last_hidden_state")  # names of outputs in transformers


def _same_ids(words: Any, bundle: Exportable, folder: Path) -> None:
    """Refuse a folder whose tokenizer in transformers gives other ids than qkv's, special tokens and tags included."""
    tokenizer = bundle.tokenizer
    before, after, languages = tokenizer.opening, tokenizer.closing, [""]
    if isinstance(bundle.model, LanguageModel):
        before, after = bundle.opening, ()
    elif isinstance(bundle.model, Translator):
        after, languages = end_of(tokenizer), ["", *tags(tokenizer).values()]
    cases: list[tuple[tuple[str, ...], list[int]]] = []
    for text, tag in itertools.product(SENTENCES, languages):
        named = [tokenizer.named[tag]] if tag else []
        cases.append(((tag + text,), [*before, *named, *tokenizer.encode(text), *after]))
    if classifies_pairs(bundle):
        first, second = SENTENCES[:2]
        together = [*tokenizer.encode(first), *end_of(tokenizer), *tokenizer.encode(second)]
        cases.append(((first, second), [*before, *together, *after]))
    for texts, expected in cases:
        ids = words(*texts)["input_ids"]
        if ids != expected:
            at = next((i for i, pair in enumerate(zip(expected, ids, strict=False)) if pair[0] != pair[1]), -1)
            shown = " and ".join(ascii(text[:40]) for text in texts)
            raise RefusedError(f"{folder}: not written: transformers tokenizes {shown} differently from token {at} on.")


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress the warnings and the log of another library."""
    import logging

    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


TEMPERATURE = 0.8  # the default of `qkv generate`
BEAMS, PENALTY = 5, 1.0  # the defaults of `qkv translate`
ASKED = 'print(model(**tokenizer("Once", return_tensors="pt"))'
WRITES = 'model.generate(**tokenizer("Once", return_tensors="pt")'
# for each kind of model: the class that opens it, its task, and a first line of code
OPENED = {
    "language model": (
        "AutoModelForCausalLM",
        "text-generation",
        f"print(tokenizer.decode({WRITES}, max_new_tokens=50)[0]))",
    ),
    "translator": (
        "AutoModelForSeq2SeqLM",
        "translation",
        f"print(tokenizer.decode({WRITES})[0], skip_special_tokens=True))",
    ),
    "bert": ("AutoModel", "", f"{ASKED}.last_hidden_state.shape)"),
    "masked": ("AutoModelForMaskedLM", "fill-mask", f"{ASKED}.logits.shape)"),
    "classifier": ("AutoModelForSequenceClassification", "text-classification", f"{ASKED}.logits)"),
    "tagger": ("AutoModelForTokenClassification", "token-classification", f"{ASKED}.logits.argmax(-1))"),
}


def settings(bundle: Exportable, values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The JSON files by name; `values` are the values of config.json that the architecture has exported."""
    config, tokenizer = bundle.config, bundle.tokenizer
    sizes = getattr(config, "encoder", config)
    padding = tokenizer.filler
    ends = tokenizer.ends[0] if len(tokenizer.ends) == 1 else list(tokenizer.ends)
    named = {"bos_token": tokenizer.start, "eos_token": tokenizer.ends[0], "pad_token": padding}
    if isinstance(bundle.model, Translator):
        named = {"eos_token": bundle.start_and_end[1], "pad_token": padding}
    if tokenizer.unknown is not None:
        named["unk_token"] = tokenizer.unknown
    if tokenizer.kind == "wordpiece":
        pairs = (("cls_token", "[CLS]"), ("sep_token", "[SEP]"), ("mask_token", "[MASK]"))
        named |= {key: tokenizer.named[word] for key, word in pairs if word in tokenizer.named}
    inputs = ["input_ids", *(["token_type_ids"] if getattr(sizes, "segments", 0) else []), "attention_mask"]
    words = {key: tokenizer.token(number) for key, number in named.items()}
    tokenizer_config: dict[str, Any] = {
        # without this class, transformers 5 builds the default tokenizer of the model type, which gives other ids
        "tokenizer_class": marian.CLASS if tokenizer.kind == "unigram" else "PreTrainedTokenizerFast",
        "model_max_length": config.context,
        "clean_up_tokenization_spaces": False,
        "model_input_names": inputs,
        **words,
    }
    files = {"tokenizer_config.json": tokenizer_config, "special_tokens_map.json": words}
    if isinstance(bundle.model, LanguageModel):
        ids = {"bos_token_id": tokenizer.start, "eos_token_id": ends, "pad_token_id": padding}
        files["config.json"] = {**values, **ids}
        files["generation_config.json"] = {**ids, "do_sample": True, "temperature": TEMPERATURE}
    elif isinstance(bundle.model, Translator):
        files |= _translating(bundle, values, padding)
    else:
        files["config.json"] = {**values, "pad_token_id": padding}
    return files


def _translating(bundle: Exportable, values: dict[str, Any], padding: int) -> dict[str, dict[str, Any]]:
    """The start and end tokens of a translator, and the settings of its beam search."""
    start, end = bundle.start_and_end
    ids: dict[str, Any] = {"decoder_start_token_id": start, "eos_token_id": end, "pad_token_id": padding}
    # written, because the defaults of transformers are others
    none = {"bos_token_id": None, "forced_eos_token_id": None}
    search: dict[str, Any] = {"num_beams": BEAMS, "length_penalty": PENALTY, "early_stopping": False}
    search |= {"do_sample": False, "max_length": bundle.config.context}
    if never := sorted(number for number in bundle.forbidden_ids if number < bundle.tokenizer.vocabulary):
        search["bad_words_ids"] = [[number] for number in never]
    return {"config.json": {**values, **ids, **none}, "generation_config.json": {**ids, **search}}


def card(bundle: Exportable, architecture: str, name: str, story: str) -> str:
    """The text of README.md: what the model is, and how to open it."""
    kind, languages = bundle.config.kind, ""
    if isinstance(bundle.model, LanguageModel):
        kind = "language model"
    elif isinstance(bundle.model, Translator):
        kind = "translator"
    auto, purpose, use = OPENED[kind]
    if getattr(bundle.config, "texts", 1) == 2:
        use = use.replace('"Once"', '"Once", "Twice"')
    if kind == "translator" and (known := list(tags(bundle.tokenizer).values())):
        use = use.replace("Once", f"{known[0]}Once")
        languages = f" The tag right before a text names the language to translate into: {visible(', '.join(known))}."
    lines = [
        "---", "library_name: transformers", "tags: [qkv]",
        *([f"pipeline_tag: {purpose}"] if purpose else []), "---", "", f"# {visible(name)}", "",
        f"A `{bundle.config.kind}` model of qkv as `{architecture}`: {count(bundle.model):,} parameters, "
        f"a {bundle.tokenizer.kind} vocabulary of {bundle.tokenizer.vocabulary:,} tokens. `manifest.json` holds the "
        f"sha256 of every file.{languages}", "",
        "```python", f"from transformers import {auto}, AutoTokenizer", "",
        'tokenizer = AutoTokenizer.from_pretrained(".")',
        f'model = {auto}.from_pretrained(".")', use, "```", "",
    ]  # fmt: skip
    return "\n".join(lines) + (f"\n{story.strip()}\n" if story.strip() else "")

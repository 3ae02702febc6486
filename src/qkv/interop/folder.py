"""The small files of a Hugging Face folder: settings of the model, its tokenizer and its writing; a model card."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from torch import nn

from qkv.generation.beam import Translator
from qkv.interop import huggingface, marian
from qkv.models.language_model import LanguageModel, count
from qkv.text.tokenizer import Tokenizer
from qkv.text.vocabulary import tags
from qkv.visible import visible

TEMPERATURE = 0.8  # as `qkv generate` has it
BEAMS, PENALTY = 5, 1.0  # as `qkv translate` has them
ASKED = 'print(model(**tokenizer("Once", return_tensors="pt"))'
WRITES = 'model.generate(**tokenizer("Once", return_tensors="pt")'
# how each kind is opened there, what it is for, and a first line
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
    def target_tokenizer(self) -> Tokenizer: ...
    @property
    def opening(self) -> tuple[int, ...]: ...
    @property
    def marks(self) -> tuple[int, int]: ...
    @property
    def unwritten(self) -> frozenset[int]: ...


def settings(bundle: Exportable) -> dict[str, dict[str, Any]]:
    """The JSON files by their names."""
    config, tokenizer = bundle.config, bundle.tokenizer
    values = huggingface.twin(config).export_config(config)
    sizes = getattr(config, "encoder", config)
    padding = tokenizer.filler
    ends = tokenizer.ends[0] if len(tokenizer.ends) == 1 else list(tokenizer.ends)
    named = {"bos_token": tokenizer.start, "eos_token": tokenizer.ends[0], "pad_token": padding}
    if isinstance(bundle.model, Translator):
        named = {"eos_token": bundle.marks[1], "pad_token": padding}
    if tokenizer.unknown is not None:
        named["unk_token"] = tokenizer.unknown
    if tokenizer.kind == "wordpiece":
        pairs = (("cls_token", "[CLS]"), ("sep_token", "[SEP]"), ("mask_token", "[MASK]"))
        named |= {key: tokenizer.named[word] for key, word in pairs if word in tokenizer.named}
    inputs = ["input_ids", *(["token_type_ids"] if getattr(sizes, "segments", 0) else []), "attention_mask"]
    words = {key: tokenizer.token(number) for key, number in named.items()}
    said: dict[str, Any] = {
        # without the class, transformers 5 builds the model type's own tokenizer, with other ids
        "tokenizer_class": marian.CLASS if tokenizer.kind == "unigram" else "PreTrainedTokenizerFast",
        "model_max_length": config.context,
        "clean_up_tokenization_spaces": False,
        "model_input_names": inputs,
        **words,
    }
    files = {"tokenizer_config.json": said, "special_tokens_map.json": words}
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
    """Where a translator starts and ends, and how it searches."""
    start, end = bundle.marks
    ids: dict[str, Any] = {"decoder_start_token_id": start, "eos_token_id": end, "pad_token_id": padding}
    # named, since theirs has others where nothing is said
    none = {"bos_token_id": None, "forced_eos_token_id": None}
    search: dict[str, Any] = {"num_beams": BEAMS, "length_penalty": PENALTY, "early_stopping": False}
    search |= {"do_sample": False, "max_length": bundle.config.context}
    if never := sorted(number for number in bundle.unwritten if number < bundle.tokenizer.vocabulary):
        search["bad_words_ids"] = [[number] for number in never]
    return {"config.json": {**values, **ids, **none}, "generation_config.json": {**ids, **search}}


def card(bundle: Exportable, name: str, story: str) -> str:
    """README.md: what it is, and how it is opened."""
    assert isinstance(bundle.model, nn.Module)
    values = huggingface.twin(bundle.config).export_config(bundle.config)
    kind, said = bundle.config.kind, ""
    if isinstance(bundle.model, LanguageModel):
        kind = "language model"
    elif isinstance(bundle.model, Translator):
        kind = "translator"
    auto, purpose, use = OPENED[kind]
    if getattr(bundle.config, "texts", 1) == 2:
        use = use.replace('"Once"', '"Once", "Twice"')
    if kind == "translator" and (known := list(tags(bundle.tokenizer).values())):
        use = use.replace("Once", f"{known[0]}Once")
        said = f" The tag right before a text says the language to translate into: {visible(', '.join(known))}."
    lines = [
        "---", "library_name: transformers", "tags: [qkv]",
        *([f"pipeline_tag: {purpose}"] if purpose else []), "---", "", f"# {visible(name)}", "",
        f"A `{bundle.config.kind}` model of qkv as `{values['architectures'][0]}`: {count(bundle.model):,} parameters, "
        f"a {bundle.tokenizer.kind} vocabulary of {bundle.tokenizer.vocabulary:,} tokens. `manifest.json` holds the "
        f"sha256 of every file.{said}", "",
        "```python", f"from transformers import {auto}, AutoTokenizer", "",
        'tokenizer = AutoTokenizer.from_pretrained(".")',
        f'model = {auto}.from_pretrained(".")', use, "```", "",
    ]  # fmt: skip
    return "\n".join(lines) + (f"\n{story.strip()}\n" if story.strip() else "")

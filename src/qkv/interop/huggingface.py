"""A Hugging Face folder: config.json, safetensors (one file or several), a tokenizer. Nothing in it is run.

`ARCHITECTURES` says which file of this package knows which `model_type`. Needs only safetensors and tokenizers;
`transformers` is for tests.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qkv.errors import ConfigError, InputError, RefusedError
from qkv.interop import architectures, marian
from qkv.interop.architectures import Architecture
from qkv.interop.bert_architectures import bert, distilbert
from qkv.interop.decoder_architectures import gpt2, llama
from qkv.interop.tensor_files import Imported, TensorFiles, fitted
from qkv.interop.tensor_names import import_weights
from qkv.safe_json import plain_file, read_json
from qkv.text import foreign
from qkv.text.tokenizer import Roles, Tokenizer

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
GENERATION = "generation_config.json"
LARGEST_CONFIG = 2**20
ARCHITECTURES: dict[str, Architecture[Any]] = {
    kind: each for each in (gpt2, llama, bert, distilbert, marian.marian) for kind in each.model_types
}

# what asks for a program that lies in the folder or elsewhere; nothing here would run it, and no honest reading is left
PROGRAMS = ("auto_map", "custom_pipelines", "_attn_implementation_internal")
PICKLES = (".bin", ".pt", ".pth", ".pkl", ".ckpt", ".msgpack", ".h5")


def read(folder: Path) -> Imported:
    values = settings(folder)
    architecture = ARCHITECTURES[values["model_type"]]
    where = str(folder / CONFIG)
    try:
        config = architecture.import_config(values)
    except ConfigError as error:
        raise RefusedError(f"{where}: {str(error).removeprefix(f'{CONFIG}: ')}") from None
    except (TypeError, ValueError, KeyError, AttributeError) as error:  # a list where an object belongs, and the like
        raise RefusedError(f"{where}: a value of the wrong kind ({type(error).__name__}: {error!s:.80}).") from None
    files = TensorFiles(weight_files(folder))
    architecture.confirm(config, files)
    tokenizer, target = read_tokenizer(folder, values)
    try:
        architectures.require_end(config, tokenizer)
    except ConfigError as error:
        raise RefusedError(f"{where}: {error}") from None
    files = files.renamed(architecture.tidy(config, files))
    found = Imported(config, {}, tokenizer, folder.resolve().name, target=target)
    return fitted(found, lambda tensors: import_weights(architecture.table(config), tensors), files, where)


def settings(folder: Path) -> dict[str, Any]:
    """config.json, of a model type that is known here and without a program in it."""
    path = plain_file(folder, CONFIG, LARGEST_CONFIG)
    values = read_json(path)
    for key in PROGRAMS:
        if key in values:
            raise RefusedError(f"{path}: {key} asks for a program; models are data here. Use one without it.")
    if "quantization_config" in values:
        raise RefusedError(f"{path}: quantization_config: quantised weights are read from GGUF files only.")
    kind = values.get("model_type")
    if not isinstance(kind, str) or kind not in ARCHITECTURES:
        raise RefusedError(
            f"{path}: model_type = {kind!a:.80} is not known here; expected one of {', '.join(ARCHITECTURES)}."
        )
    return values


def weight_files(folder: Path) -> list[Path]:
    """model.safetensors, or the files that the index names."""
    if (folder / WEIGHTS).exists() or (folder / WEIGHTS).is_symlink():
        return [plain_file(folder, WEIGHTS)]
    if (folder / INDEX).exists():
        index = read_json(plain_file(folder, INDEX, 2**26)).get("weight_map")
        names = list(index.values()) if isinstance(index, dict) and index else [None]
        if not all(isinstance(name, str) and name.endswith(".safetensors") for name in names):
            raise RefusedError(f"{folder / INDEX}: weight_map must name a .safetensors file for each tensor.")
        return [plain_file(folder, name) for name in sorted(set(map(str, names)))]
    pickled = sorted(path.name for path in folder.iterdir() if path.name.endswith(PICKLES))
    if pickled:
        raise RefusedError(
            f"{folder / pickled[0]}: weights in this format may hold programs and are not read. Get the model as "
            "safetensors; most are offered so."
        )
    raise RefusedError(f"{folder / WEIGHTS}: missing. Expected the weights as safetensors.")


def read_tokenizer(folder: Path, config: Mapping[str, Any]) -> tuple[Tokenizer, Tokenizer | None]:
    """Marian's files of two languages, or tokenizer.json, or GPT-2's and BERT's older files; who ends a text, as the
    settings beside it say. The second is what cuts targets, where that is another."""
    said, target = _optional(folder, "tokenizer_config.json"), None
    there = {path.name for path in folder.iterdir()}
    if there.issuperset(marian.FILES) and config["model_type"] in marian.marian.model_types:
        tokenizer, target = marian.read(folder, said)
    elif "tokenizer.json" in there:
        tokenizer = foreign.read(plain_file(folder, "tokenizer.json"))
    elif {"vocab.json", "merges.txt"} <= there:
        tokenizer = foreign.gpt2(plain_file(folder, "vocab.json"), plain_file(folder, "merges.txt"), None)
    elif "vocab.txt" in there:
        tokenizer = foreign.wordpiece(plain_file(folder, "vocab.txt"), lowercase=said.get("do_lower_case") is not False)
    else:
        spelled = any(name.endswith(".spm") for name in there)
        missing = next(name for name in marian.FILES if name not in there) if spelled else "tokenizer.json"
        raise RefusedError(
            f"{folder / missing}: missing. Expected tokenizer.json, or vocab.json and merges.txt, or vocab.txt, or "
            f"Marian's {', '.join(marian.FILES)}."
        )
    settings = {GENERATION: _optional(folder, GENERATION), CONFIG: config}
    roles = _roles(tokenizer, settings, said, folder)
    return tokenizer.playing(roles), target.playing(roles) if target is not None else None


def _optional(folder: Path, name: str) -> dict[str, Any]:
    return read_json(plain_file(folder, name, 2**24)) if (folder / name).exists() else {}


def _roles(
    tokenizer: Tokenizer, settings: Mapping[str, Mapping[str, Any]], said: Mapping[str, Any], folder: Path
) -> Roles:
    """Ids of the settings first, then names of tokenizer_config.json, then what names alone tell."""

    def ids(key: str) -> tuple[int, ...]:
        for file, values in settings.items():
            found = values.get(f"{key}_token_id")
            if found is None or found == []:
                continue
            several = found if isinstance(found, list) else [found]
            if len(several) > 100 or any(type(n) is not int or not 0 <= n < tokenizer.vocabulary for n in several):
                said_there = f"{folder / file}: {key}_token_id = {found!a:.80}"
                raise RefusedError(f"{said_there} is not in the vocabulary of {tokenizer.vocabulary:,}.")
            return tuple(several)
        name = said.get(f"{key}_token")
        name = name.get("content") if isinstance(name, dict) else name
        return (tokenizer.named[name],) if isinstance(name, str) and name in tokenizer.named else ()

    usual = tokenizer.roles
    if tokenizer.kind == "wordpiece":
        return usual
    ends, translates = ids("eos") or usual.ends, settings[CONFIG].get("model_type") in marian.marian.model_types
    return Roles(
        start=(ids("decoder_start" if translates else "bos") or (usual.start,))[0],
        ends=ends,
        unknown=usual.unknown,
        padding=(ids("pad") or (usual.padding,))[0],
        opening=usual.opening,
        closing=usual.closing or (ends[:1] if translates else ()),  # a translator reads where its source ends
    )


def twin(config: Any) -> Architecture[Any]:
    """The architecture that a model of ours is one of; what has none gets a sentence."""
    encoder = getattr(config, "encoder", config)
    if encoder is not config:
        architectures.inside(config)  # around many encoders theirs has no models that judge
    match encoder.kind:
        case "gpt":
            return gpt2
        case "modern" | "llama" | "qwen2":
            return llama
        case "bert":
            return bert if encoder.segments else distilbert
        case "transformer":
            return marian.marian
    raise InputError(
        f"a {config.kind} model has no twin in Hugging Face transformers, so it cannot be exported there. The models "
        "that have one: modern, gpt, llama, qwen2, bert and transformer."
    )

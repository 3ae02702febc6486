"""Reads a Hugging Face folder: config.json, safetensors (one file or several), a tokenizer. No code in it is run.

`ARCHITECTURES` has the architecture of each `model_type`. The `transformers` package is not needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from qkv.errors import ConfigError, InputError, RefusedError
from qkv.interop import architectures, marian
from qkv.interop.architectures import Architecture
from qkv.interop.bert_architectures import bert, distilbert
from qkv.interop.decoder_architectures import gpt2, llama, qwen2, qwen3
from qkv.interop.tensors import Imported, Settings, TensorFiles, with_weights
from qkv.safe_json import plain_file, read_json
from qkv.text import foreign
from qkv.text.tokenizer import Roles, Tokenizer

CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
GENERATION, TOKENIZER = "generation_config.json", "tokenizer_config.json"
LARGEST_CONFIG = 2**20
ARCHITECTURES: dict[str, Architecture[Any]] = {
    architecture.model_types[0]: architecture
    for architecture in (gpt2, llama, qwen2, qwen3, bert, distilbert, marian.marian)
}

# keys of config.json that name a program; qkv would not run it, and cannot know what the model computes without it
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
    imported = Imported(config, {}, tokenizer, folder.resolve().name, target=target)
    return with_weights(imported, architecture.table(config), files, where)


def settings(folder: Path) -> dict[str, Any]:
    """Read config.json; refuse an unknown model type, and a config that names a program."""
    path = plain_file(folder, CONFIG, LARGEST_CONFIG)
    values = read_json(path)
    for key in PROGRAMS:
        if key in values:
            raise RefusedError(f"{path}: {key} names a program, and programs are not run. Use a model without one.")
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
            "safetensors; most models are published in this format."
        )
    raise RefusedError(f"{folder / WEIGHTS}: missing. Expected the weights as safetensors.")


def read_tokenizer(folder: Path, config: Mapping[str, Any]) -> tuple[Tokenizer, Tokenizer | None]:
    """Read the tokenizer from Marian's files of two languages, from tokenizer.json, or from GPT-2's or BERT's older
    files. The second tokenizer is that of a translator's targets, if it is another one."""
    names, target = {path.name for path in folder.iterdir()}, None
    settings = {name: read_json(plain_file(folder, name, 2**24)) for name in (TOKENIZER, GENERATION) if name in names}
    tokenizer_settings, translates = settings.pop(TOKENIZER, {}), config["model_type"] == "marian"
    if translates and names.issuperset(marian.FILES):
        tokenizer, target = marian.read(folder, tokenizer_settings)
    elif "tokenizer.json" in names:
        tokenizer = foreign.read(plain_file(folder, "tokenizer.json"))
    elif {"vocab.json", "merges.txt"} <= names:
        tokenizer = foreign.gpt2(plain_file(folder, "vocab.json"), plain_file(folder, "merges.txt"))
    elif "vocab.txt" in names:
        tokenizer = foreign.wordpiece(
            plain_file(folder, "vocab.txt"), lowercase=tokenizer_settings.get("do_lower_case") is not False
        )
    else:
        spelled = any(name.endswith(".spm") for name in names)
        missing = next(name for name in marian.FILES if name not in names) if spelled else "tokenizer.json"
        raise RefusedError(
            f"{folder / missing}: missing. Expected tokenizer.json, or vocab.json and merges.txt, or vocab.txt, or "
            f"Marian's {', '.join(marian.FILES)}."
        )
    if tokenizer.kind != "wordpiece":
        roles = _roles(tokenizer, {**settings, CONFIG: config}, tokenizer_settings, folder, translates)
        tokenizer, target = tokenizer.with_roles(roles), target.with_roles(roles) if target is not None else None
    return tokenizer, target


def _roles(
    tokenizer: Tokenizer, settings: Mapping[str, Settings], tokenizer_settings: Settings, folder: Path, translates: bool
) -> Roles:
    """The roles of special tokens: from ids in the settings, else from names in tokenizer_config.json, else from the
    usual names of such tokens."""

    def ids(key: str) -> tuple[int, ...]:
        for file, values in settings.items():
            given = values.get(f"{key}_token_id")
            if given is None or given == []:
                continue
            several = given if isinstance(given, list) else [given]
            if len(several) > 100 or any(type(n) is not int or not 0 <= n < tokenizer.vocabulary for n in several):
                problem = f"{key}_token_id = {given!a:.80} is not in the vocabulary of {tokenizer.vocabulary:,}"
                raise RefusedError(f"{folder / file}: {problem}.")
            return tuple(several)
        name = foreign.token_name(tokenizer_settings.get(f"{key}_token"))
        return (tokenizer.named[name],) if name in tokenizer.named else ()

    default = tokenizer.roles
    ends = ids("eos") or default.ends
    return replace(
        default,
        start=(ids("decoder_start" if translates else "bos") or (default.start,))[0],
        ends=ends,
        padding=(ids("pad") or (default.padding,))[0],
        closing=default.closing or (ends[:1] if translates else ()),  # a translator's source ends with this token
    )


def architecture_of(config: Any) -> Architecture[Any]:
    """The architecture as which a model of qkv is exported; a model without an equivalent is refused."""
    encoder = getattr(config, "encoder", config)
    if encoder is not config:
        architectures.encoder_of(config)  # refuses a head around an encoder for which transformers has none
    kinds: dict[str, Architecture[Any]] = {"gpt": gpt2, "modern": qwen3, "llama": llama, "qwen2": qwen2, "bert": bert}
    kinds["transformer"] = marian.marian
    if encoder.kind not in kinds:
        raise InputError(
            f"a {config.kind} model has no equivalent in Hugging Face transformers, so it cannot be exported there. "
            "The models that have one: modern, gpt, llama, qwen2, bert and transformer."
        )
    return distilbert if encoder.kind == "bert" and not encoder.segments else kinds[encoder.kind]

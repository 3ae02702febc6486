"""Every value of a model's metadata, replaced by a value of every other type: the file is refused or it opens."""

from __future__ import annotations

import functools
import hashlib
import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import marian
import translators
from interop import test_llama2c as tiny_llama2c
from interop import tiny_folder, tiny_gguf
from qkv.errors import RefusedError
from qkv.interop import export, gguf, huggingface
from qkv.models.bert import BertConfig
from qkv.models.gpt import GPTConfig
from qkv.models.llama import LlamaConfig
from qkv.models.masked import MaskedConfig
from qkv.models.modern import ModernConfig
from qkv.models.tagger import TaggerConfig
from qkv.recipe import bundle
from qkv.text import foreign, tokenizer
from text.kinds import tokenizer as words_of

JSON_VALUES: tuple[Any, ...] = (None, 7, "x", [[0]], {"x": 0})
GGUF_NUMBERS = {4: "I", 6: "f", 11: "q"}  # the other widths are read into the same types of Python
DEPTH = 4  # of JSON
SIZES = {"layers": 1, "heads": 2, "width": 16, "context": 16}


@pytest.fixture(autouse=True)
def each_tokenizer_is_tried_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trial in a child process is remembered by content: most changes leave the tokenizer as it is."""
    tried = functools.cache(foreign.try_in_subprocess)
    for module in (foreign, tokenizer):
        if hasattr(module, "try_in_subprocess"):
            monkeypatch.setattr(module, "try_in_subprocess", tried)


def open_all(path: Path, copies: Iterator[tuple[str, Callable[[], None]]]) -> None:
    """Write each copy and open the model; whatever is neither a refusal nor a model is a fault."""
    faults: list[str] = []
    found = {"refused": 0, "opened": 0}
    for name, write in copies:
        write()
        try:
            bundle.load(path)
            found["opened"] += 1
        except RefusedError:
            found["refused"] += 1
        except BaseException as error:  # a panic of the tokenizers library is no Exception
            faults.append(f"{name}: {type(error).__name__}: {error!s:.120}")
    assert not faults, f"{len(faults)} faults, as\n" + "\n".join(faults[:20])
    assert min(found.values()) > 0, f"both happen, or the test shows nothing: {found}"


def gguf_values() -> dict[str, bytes]:
    """One value and one list of each type."""
    single = {letter: struct.pack(f"<I{letter}", kind, 1) for kind, letter in GGUF_NUMBERS.items()}
    single |= {"boolean": struct.pack("<IB", 7, 1), "text": struct.pack("<I", 8) + tiny_gguf.text("x")}
    lists = {
        f"list of {name}": struct.pack("<I", 9) + data[:4] + struct.pack("<Q", 2) + 2 * data[4:]
        for name, data in single.items()
    }
    return single | lists


@pytest.mark.parametrize("architecture", gguf.KINDS)
def test_gguf(architecture: str, tmp_path: Path) -> None:
    path, tensors = tmp_path / "model.gguf", tiny_gguf.tensors_of(architecture)
    own = {key: neutral[0] for key, neutral in gguf.UNSUPPORTED.items()}
    own |= {"attention.key_length": tiny_gguf.HEAD_WIDTH, "rope.dimension_count": tiny_gguf.HEAD_WIDTH}
    good = tiny_gguf.values_of(architecture) | {f"{architecture}.{key}": value for key, value in own.items()}
    good |= {"general.alignment": 32, "tokenizer.ggml.padding_token_id": 0, "tokenizer.ggml.add_bos_token": True}
    path.write_bytes(tiny_gguf.assembled(good, tensors))
    bundle.load(path)

    def copies() -> Iterator[tuple[str, Callable[[], None]]]:
        for key in good:
            for name, data in gguf_values().items():
                changed = tiny_gguf.assembled(good | {key: data}, tensors)
                yield f"{key} as {name}", functools.partial(path.write_bytes, changed)  # type: ignore[misc]

    open_all(path, copies())


def test_llama2c(tmp_path: Path) -> None:
    """Its metadata are numbers: seven sizes before the weights, and a score and a length before each token."""
    path, beside = tmp_path / "tiny.bin", tmp_path / "tok512.bin"
    sound = {path: tiny_llama2c.header() + tiny_llama2c.numbers(), beside: tiny_llama2c.vocabulary()}
    extremes = [struct.pack("<i", number) for number in (0, 1, -1, 7, 2**31 - 1, -(2**31))]
    extremes += [struct.pack("<f", number) for number in (0.5, float("nan"), float("inf"))]

    def write(changed: Path, content: bytes) -> None:
        for file, good in sound.items():
            file.write_bytes(content if file == changed else good)

    def copies() -> Iterator[tuple[str, Callable[[], None]]]:
        yield "sound", functools.partial(write, path, sound[path])
        for file, places in ((path, range(0, 28, 4)), (beside, range(0, 60, 4))):
            for place in places:
                for data in extremes:
                    changed = sound[file][:place] + data + sound[file][place + 4 :]
                    yield f"{file.name}, byte {place}: {data!r}", functools.partial(write, file, changed)

    open_all(path, copies())


def bundles() -> dict[str, bundle.Bundle]:
    """A tiny model of each architecture of Hugging Face, and of each kind of head."""
    bpe, wordpiece = words_of("bpe"), words_of("wordpiece")
    decoder, encoder = {"vocabulary": bpe.vocabulary, **SIZES}, {"vocabulary": wordpiece.vocabulary, **SIZES}
    labels = ("bad", "good")
    configs: dict[str, tuple[Any, Any]] = {
        "gpt2": (GPTConfig(**decoder), bpe),
        "llama": (LlamaConfig(**decoder), bpe),
        "qwen2": (LlamaConfig(kind="qwen2", **decoder), bpe),
        "qwen3": (ModernConfig(**decoder), bpe),
        "bert": (MaskedConfig(encoder=BertConfig(**encoder)), wordpiece),
        "bert that tags": (TaggerConfig(encoder=BertConfig(**encoder), labels=labels), wordpiece),
        "distilbert": (MaskedConfig(encoder=BertConfig(segments=0, **encoder)), wordpiece),
    }
    made = {name: bundle.Bundle(translators.built(made), made, words, 2) for name, (made, words) in configs.items()}
    return {**made, "marian": marian.bundle()}


BUNDLES = ("gpt2", "llama", "qwen2", "qwen3", "bert", "bert that tags", "distilbert", "marian")


def places(values: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where values stand in a JSON document, those of long lists and vocabularies by their first."""
    yield above
    if len(above) < DEPTH and isinstance(values, dict | list):
        keys = list(values) if isinstance(values, dict) else list(range(len(values)))
        for key in keys if len(keys) < 60 else keys[:2]:
            yield from places(values[key], (*above, key))


def replaced(values: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return value
    copy = dict(values) if isinstance(values, dict) else list(values)
    copy[place[0]] = replaced(values[place[0]], place[1:], value)
    return copy


def json_copies(file: Path, finish: Callable[[], None] = lambda: None) -> Iterator[tuple[str, Callable[[], None]]]:
    sound = file.read_text()
    values = json.loads(sound)

    def write(place: tuple[Any, ...], value: Any) -> None:
        file.write_text(json.dumps(replaced(values, place, value)))
        finish()

    for place in places(values):
        for value in JSON_VALUES:
            yield f"{file.name}: {place} = {value!r}", functools.partial(write, place, value)
    file.write_text(sound)


def test_every_architecture_of_hugging_face_is_here() -> None:
    models = {
        huggingface.architecture_of(each.config).export_config(each.config)["model_type"] for each in bundles().values()
    }
    assert models == set(huggingface.ARCHITECTURES)
    assert set(BUNDLES) == set(bundles())


@pytest.mark.parametrize("name", BUNDLES)
def test_config_of_hugging_face(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    export.write(folder, bundles()[name], "tiny", outside=False)
    open_all(folder, json_copies(folder / huggingface.CONFIG))


@pytest.mark.parametrize("file", ["generation_config.json", "tokenizer_config.json"])
def test_settings_of_hugging_face(file: str, tmp_path: Path) -> None:
    folder = tiny_folder.write(tmp_path / "model")
    open_all(folder, json_copies(folder / file))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["llama", "bert"])
def test_tokenizer_of_hugging_face(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "model"
    export.write(folder, bundles()[name], "tiny", outside=False)
    open_all(folder, json_copies(folder / "tokenizer.json"))


def test_a_folder_of_our_own(tmp_path: Path) -> None:
    """With a manifest that fits: whoever alters a file can write its checksum as well."""
    folder = tmp_path / "model"
    bundle.save(folder, bundles()["qwen3"])
    open_all(folder, json_copies(folder / "config.json", lambda: sealed(folder)))


def sealed(folder: Path) -> None:
    listed = json.loads((folder / "manifest.json").read_text())
    data = (folder / "config.json").read_bytes()
    listed["files"]["config.json"] = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    (folder / "manifest.json").write_text(json.dumps(listed))

"""GGUF: what a file holds, bit for bit; and files that lie, which are refused before they cost anything."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from interop import tiny_gguf as tiny
from qkv.errors import InputError, MissingExtraError, RefusedError
from qkv.interop import gguf, gguf_file
from qkv.interop.gguf_file import LAYOUTS, READERS, reader
from qkv.interop.tensors import Imported
from qkv.models.llama import LlamaConfig
from qkv.models.modern import ModernConfig

ARCHITECTURES = ["llama", "qwen2", "qwen3"]
HUGE = struct.pack("<Q", 2**60)


def opened(data: bytes, folder: Path) -> Imported:
    path = folder / "tiny.gguf"
    path.write_bytes(data)
    return gguf.read(path)


def built(found: Imported) -> Any:
    model = found.config.build()
    model.load_state_dict(found.weights)
    return model.eval()


def test_values_become_a_config(tmp_path: Path) -> None:
    shape: dict[str, Any] = {"layers": 2, "heads": 4, "key_heads": 2, "width": 32, "head_width": 8, "hidden": 64}
    shape |= {"context": 24, "rotary_base": 5000.0, "norm_epsilon": 1e-5}
    expected: dict[str, Any] = {
        "llama": LlamaConfig(vocabulary=264, head="tied", **shape),
        "qwen2": LlamaConfig(kind="qwen2", vocabulary=260, head="own", **shape),
        "qwen3": ModernConfig(vocabulary=260, head="tied", **shape),
    }
    for architecture, config in expected.items():
        found = opened(tiny.whole(architecture), tmp_path)
        assert (found.config, found.name, found.notes) == (config, "tiny", ())
        assert {name: w.shape for name, w in found.weights.items()} == {
            name: w.shape for name, w in config.build().state_dict().items()
        }
        assert all(w.dtype == torch.float32 and w.is_contiguous() for w in found.weights.values())
        assert built(found)(torch.tensor([[1, 2, 3]])).isfinite().all()


def test_versions_and_alignments_are_read_alike(tmp_path: Path) -> None:
    first = opened(tiny.whole("qwen3"), tmp_path).weights
    aligned = tiny.values_of("qwen3") | {"general.alignment": 128}
    others = tiny.whole("qwen3", version=2), tiny.assembled(aligned, tiny.tensors_of("qwen3"), alignment=128)
    for other in others:
        found = opened(other, tmp_path).weights
        assert all(torch.equal(found[name], tensor) for name, tensor in first.items())


def test_the_rows_of_queries_and_keys_are_put_back(tmp_path: Path) -> None:
    """llama.cpp's converter: (heads, 2, half) -> (heads, half, 2) for Llama; Qwen keeps its order."""
    rows = np.random.default_rng(1).normal(size=(32, 32)).astype("<f4")
    there = rows.reshape(tiny.HEADS, 2, tiny.HEAD_WIDTH // 2, 32).swapaxes(1, 2).reshape(32, 32)
    for architecture, stored in (("llama", there), ("qwen2", rows)):
        tensors = tiny.tensors_of(architecture) | {"blk.1.attn_q.weight": ([32, 32], tiny.F32, stored.tobytes())}
        found = opened(tiny.assembled(tiny.values_of(architecture), tensors), tmp_path).weights
        assert torch.equal(found["blocks.1.attention.sublayer.query.weight"], torch.from_numpy(rows))


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=lambda layout: layout.name)
def test_numbers_are_those_of_the_gguf_package(layout: gguf_file.Layout) -> None:
    package = pytest.importorskip("gguf", reason="the gguf package is the reference here: pip install 'qkv[gguf]'")
    import gguf.quants as quants

    blocks = np.random.default_rng(2).integers(0, 256, (512, layout.size), dtype=np.uint8)
    kind = package.GGMLQuantizationType[layout.name]
    with np.errstate(all="ignore"):
        expected = quants.dequantize(blocks, kind)
        found = reader(layout)(blocks)
    assert found.dtype == np.float32
    assert found.tobytes() == expected.tobytes()


def test_other_forms_need_a_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "gguf", None)
    tensors = tiny.tensors_of("qwen3") | {"blk.0.ffn_up.weight": ([32, 64], 6, bytes(32 * 64 // 32 * 22))}
    with pytest.raises(MissingExtraError, match=r"reading Q5_0 weights .*qkv\[gguf\]"):
        opened(tiny.assembled(tiny.values_of("qwen3"), tensors), tmp_path)
    assert all(reader(layout) for layout in LAYOUTS.values() if layout.name in READERS)


def test_other_forms_are_read_by_the_package(tmp_path: Path) -> None:
    pytest.importorskip("gguf", reason="needs the extra: pip install 'qkv[gguf]'")
    blocks = np.zeros((64, 22), np.uint8)  # Q5_0: a factor, 32 upper bits, 16 bytes of lower ones
    blocks[:, :2] = np.array([0.5], "<f2").view(np.uint8)
    tensors = tiny.tensors_of("qwen3") | {"blk.0.ffn_up.weight": ([32, 64], 6, blocks.tobytes())}
    found = opened(tiny.assembled(tiny.values_of("qwen3"), tensors), tmp_path).weights
    assert found["blocks.0.feedforward.sublayer.up.weight"].eq(-8.0).all()


def test_what_a_file_says_is_fit_for_a_terminal(tmp_path: Path) -> None:
    with pytest.raises(RefusedError) as caught:
        opened(raw(0, 1, tiny.text("\x1b[2J\n" + "k" * 900) + struct.pack("<I", 99)), tmp_path)
    assert str(caught.value).isprintable()
    assert len(str(caught.value)) < 600
    values = tiny.values_of("qwen3") | {"general.name": "a\x1b[2J\nb", "qwen3.\x07": 1}
    found = opened(tiny.assembled(values, tiny.tensors_of("qwen3")), tmp_path)
    assert all(words.isprintable() for words in (found.name, *found.notes))


def test_both_vocabularies_are_read(tmp_path: Path) -> None:
    words = opened(tiny.whole("qwen2"), tmp_path).tokenizer
    assert words.decode(words.encode("he is he\x00 é")) == "he is he\x00 é"
    assert words.encode("he he") == [258, 259]
    pieces = opened(tiny.whole("llama"), tmp_path).tokenizer
    assert pieces.encode("he he") == [263, 263]
    assert pieces.decode(pieces.encode("he é")) == "he é"


def test_the_stretch_of_llama_3_is_found(tmp_path: Path) -> None:
    """A file with `rope_freqs.weight` turns as Hugging Face's rule does; other factors are refused."""
    from qkv.blocks.positions import llama3_rates, rotary_rates

    rates = rotary_rates(tiny.HEAD_WIDTH, 500000.0)
    values = tiny.values_of("llama") | {"llama.rope.freq_base": 500000.0}
    factors = (rates / llama3_rates(rates, 32.0, 1.0, 4.0, 8192)).numpy()
    for change, words in ((1.0, None), (1.1, "not those of Llama 3.1's rule")):
        stored = ([4], tiny.F32, (factors * np.array([change, 1, 1, 1], "<f4")).astype("<f4").tobytes())
        data = tiny.assembled(values, tiny.tensors_of("llama") | {"rope_freqs.weight": stored})
        if words is None:
            assert factors.max() == pytest.approx(32.0)
            assert opened(data, tmp_path).config.rotary_factor == pytest.approx(32.0)
        else:
            with pytest.raises(RefusedError, match=words):
                opened(data, tmp_path)


def test_what_is_not_understood_is_said(tmp_path: Path) -> None:
    values = tiny.values_of("qwen3") | {"qwen3.new_thing": 7, "tokenizer.ggml.pre": "default"}
    notes = opened(tiny.assembled(values, tiny.tensors_of("qwen3")), tmp_path).notes
    assert notes[0] == "keys that are not known, and were ignored: qwen3.new_thing"
    assert "that of GPT-2 is used" in notes[1]


def with_values(**changes: Any) -> bytes:
    """A tiny Llama with other values; None takes one away, a dot is written as two underscores."""
    named = {key.replace("__", "."): item for key, item in changes.items()}
    values = {key: item for key, item in (tiny.values_of("llama") | named).items() if item is not None}
    return tiny.assembled(values, tiny.tensors_of("llama"))


def with_tensors(**changes: Any) -> bytes:
    named = {key.replace("__", "."): item for key, item in changes.items()}
    tensors = {key: item for key, item in (tiny.tensors_of("llama") | named).items() if item is not None}
    return tiny.assembled(tiny.values_of("llama"), tensors)


def raw(tensors: int, keys: int, rest: bytes = b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + rest + bytes(4096)


def one_tensor(sizes: list[int], form: int = 0, offset: int = 0) -> bytes:
    return raw(1, 0, tiny.info("t", sizes, form, offset))


LIST = struct.pack("<I", 9)
NOT_NUMBERS = np.full(32, np.nan, "<f4").tobytes()
HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "magic: not a GGUF file"),
    "another format": (lambda: b"PK\x03\x04" + bytes(100), "magic: not a GGUF file"),
    "version 1": (lambda: b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version: 1, expected 2 or 3"),
    "big-endian": (lambda: b"GGUF" + struct.pack(">IQQ", 3, 0, 0), "version: 50331648"),
    "a billion keys": (lambda: raw(0, 10**9), "metadata_kv_count: 1,000,000,000"),
    "a billion tensors": (lambda: raw(10**9, 0), "tensor_count: 1,000,000,000"),
    "a long key": (lambda: raw(0, 1, HUGE), "length of key 0"),
    "a long text": (lambda: raw(0, 1, tiny.text("k") + struct.pack("<I", 8) + HUGE), "length of k"),
    "a long list": (lambda: raw(0, 1, tiny.text("k") + LIST + struct.pack("<I", 0) + HUGE), "length of k"),
    "long texts in a list": (
        lambda: raw(0, 1, tiny.text("k") + LIST + struct.pack("<IQ", 8, 2) + tiny.text("a") + HUGE),
        r"k\[1\]",
    ),
    "lists of lists": (lambda: raw(0, 1, tiny.text("k") + LIST + struct.pack("<IQ", 9, 1) * 99), "a list of lists"),
    "an unknown type": (lambda: raw(0, 1, tiny.text("k") + struct.pack("<I", 13)), "k: type 13 is not known"),
    "neither true nor false": (lambda: raw(0, 1, tiny.text("k") + struct.pack("<IB", 7, 2)), "k: 2 is neither"),
    "not UTF-8": (lambda: raw(0, 1, tiny.text(b"\xff\xfe")), "key 0: not UTF-8"),
    "a key twice": (lambda: raw(0, 2, (tiny.text("k") + struct.pack("<II", 4, 1)) * 2), "k: the key is there twice"),
    "a tensor twice": (lambda: raw(2, 0, tiny.info("t", [1], 0, 0) * 2), "t: the tensor is there twice"),
    "no dimensions": (lambda: one_tensor([]), "0 dimensions"),
    "five dimensions": (lambda: one_tensor([1] * 5), "5 dimensions"),
    "a terabyte": (lambda: one_tensor([2**20, 2**18]), "need 1,099,511,627,776 bytes"),
    "more than 64 bits": (lambda: one_tensor([2**63, 2**63]), "bytes, but the file has"),
    "nothing": (lambda: one_tensor([0, 2**63]), "need 0 bytes"),
    "an unknown form": (lambda: one_tensor([1], 4), "type 4 is not known"),
    "half a block": (lambda: one_tensor([16], tiny.Q8_0), "rows of 16 do not divide"),
    "between two places": (lambda: one_tensor([1], 0, 4), "offset 4 is no multiple of 32"),
    "behind the end": (lambda: one_tensor([1], 0, 2**40), "but the file has"),
    "on another tensor": (
        lambda: raw(2, 0, tiny.info("a", [64], 0, 0) + tiny.info("b", [64], 0, 128)),
        "b: its bytes from .* belong to another",
    ),
    "no alignment": (lambda: with_values(general__alignment=0), "general.alignment: 0"),
    "an odd alignment": (lambda: with_values(general__alignment=36), "general.alignment: 36"),
    "a huge alignment": (lambda: with_values(general__alignment=2**31), "general.alignment"),
    "no architecture": (lambda: with_values(general__architecture=None), "'None' is not supported"),
    "another architecture": (lambda: with_values(general__architecture="mamba"), "'mamba' is not supported"),
    "experts": (lambda: with_values(llama__expert_count=8), "llama.expert_count: 8 is not supported"),
    "scaled turns": (lambda: with_values(llama__rope__scaling__type="yarn"), "yarn is not supported"),
    "half turned": (lambda: with_values(llama__rope__dimension_count=4), "rope.dimension_count: 4 is not supported"),
    "no layers": (lambda: with_values(llama__block_count=0), "layers = 0"),
    "many layers": (lambda: with_values(llama__block_count=2**31), "layers = 2147483648"),
    "no sizes": (lambda: with_values(llama__embedding_length=None), "llama.embedding_length: missing"),
    "no heads": (lambda: with_values(llama__attention__head_count=0), "heads = 0"),
    "many heads": (lambda: with_values(llama__attention__head_count=2**31), "heads = 2147483648"),
    "a list of heads": (lambda: with_values(llama__attention__head_count=[4, 4]), r"heads = \[4, 4\]"),
    "wrong keys": (lambda: with_values(llama__attention__head_count_kv=3), "multiple of key_heads = 3"),
    "a wide head": (lambda: with_values(llama__attention__key_length=2**30), "head_width = 1073741824"),
    "a long context": (lambda: with_values(llama__context_length=2**31), "context = 2147483648"),
    "a base that is a word": (lambda: with_values(llama__rope__freq_base="x"), "rotary_base = 'x'"),
    "no norm": (lambda: with_tensors(output_norm__weight=None), r"1 missing \(output_norm.weight\)"),
    "no embedding": (lambda: with_tensors(token_embd__weight=None), "token_embd.weight: missing"),
    "one tensor more": (lambda: with_tensors(extra=([1], 0, bytes(4))), r"1 unknown \(extra\)"),
    "another shape": (lambda: with_tensors(blk__0__ffn_up__weight=([32, 32], 0, bytes(4096))), "the model needs"),
    "no numbers": (lambda: with_tensors(output_norm__weight=([32], 0, NOT_NUMBERS)), "output_norm.weight: contains"),
    "cut short": (lambda: tiny.whole("llama")[:-40], "but the file has"),
    "another tokenizer": (lambda: with_values(tokenizer__ggml__model="bert"), "'bert' is not supported"),
    "no tokens": (lambda: with_values(tokenizer__ggml__tokens=None), "tokenizer.ggml.tokens: not a list"),
    "too few tokens": (lambda: with_values(tokenizer__ggml__tokens=["a"]), "1 values; expected 264"),
    "tokens that are numbers": (lambda: with_values(tokenizer__ggml__tokens=[1] * 264), "expected 264 of str"),
    "an id too far": (lambda: with_values(tokenizer__ggml__eos_token_id=264), "eos_token_id: 264, expected an id"),
    "no end": (
        lambda: with_values(tokenizer__ggml__eos_token_id=None, tokenizer__ggml__token_type=None),
        "no token ends a text",
    ),
    "another space": (lambda: with_values(tokenizer__ggml__add_space_prefix=False), "add_space_prefix: false"),
    "a switch that is a word": (lambda: with_values(tokenizer__ggml__add_bos_token="yes"), "expected true or false"),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_refused_at_once(name: str, tmp_path: Path) -> None:
    make, words = HOSTILE[name]
    path = tmp_path / "hostile.gguf"
    path.write_bytes(make())
    started_at = time.process_time()
    with pytest.raises(RefusedError, match=words) as caught:
        gguf.read(path)
    assert time.process_time() - started_at < 2
    assert str(caught.value).startswith(f"{path}: ")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"pre": "klingon"}, "'klingon': this pre-tokenizer is not known"),
        ({"merges": ["h e", "he"]}, r"merges\[1\]: 'he' is not a pair of tokens"),
        ({"merges": 7}, "merges: expected a list"),
        ({"token_type": [1]}, "token_type: 1 values"),
    ],
)
def test_hostile_merges_are_refused(change: dict[str, Any], words: str, tmp_path: Path) -> None:
    values = tiny.values_of("qwen3") | {f"tokenizer.ggml.{key}": item for key, item in change.items()}
    with pytest.raises(RefusedError, match=words):
        opened(tiny.assembled(values, tiny.tensors_of("qwen3")), tmp_path)


def test_no_such_file(tmp_path: Path) -> None:
    for path in (tmp_path / "nothing.gguf", tmp_path):
        with pytest.raises(InputError, match="no such file"):
            gguf.read(path)


def fuzzed(kind: str, path: Path, seed: int, count: int) -> dict[str, Any]:
    script = Path(__file__).with_name("fuzzing.py")
    order = [sys.executable, str(script), kind, str(path), str(seed), str(count)]
    done = subprocess.run(order, capture_output=True, text=True, check=False, timeout=1800)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(("seed", "count"), [(0, 150), pytest.param(1, 2000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("architecture", ["llama", "qwen2"])
def test_damaged_copies_are_refused_or_open(architecture: str, seed: int, count: int, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(tiny.whole(architecture))
    found = fuzzed("gguf", path, seed, count)
    assert not found["faults"]
    assert found["refused"] + found["opened"] == count
    assert min(found["refused"], found["opened"]) > count / 20, "both happen, or the test says little"
    assert found["peak"] < 200 * 2**20
    assert found["slowest"] < 2

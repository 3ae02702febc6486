"""llama2.c's files: the real stories, byte for byte; and files that lie."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest
import torch

from data_at_hand import real
from interop.test_gguf import built, fuzzed
from qkv.errors import InputError, RefusedError
from qkv.generation.sampling import Sampling
from qkv.generation.writing import write
from qkv.interop import llama2c

WIDTH, HIDDEN, LAYERS, HEADS, KEY_HEADS, VOCABULARY, CONTEXT = 16, 24, 2, 4, 2, 264, 12
PIECES = ["<unk>", "\n<s>\n", "\n</s>\n", *(f"<0x{byte:02X}>" for byte in range(256)), " ", "h", "e", "he", " he"]
SCORES = [0.0] * 259 + [-5.0, -6.0, -7.0, -1.0, -2.0]


def header(**changes: int) -> bytes:
    usual = {"width": WIDTH, "hidden": HIDDEN, "layers": LAYERS, "heads": HEADS, "key_heads": KEY_HEADS}
    usual |= {"vocabulary": VOCABULARY, "context": CONTEXT}
    return struct.pack("<7i", *(usual | changes).values())


def count(own_head: bool) -> int:
    half, keys = WIDTH // HEADS // 2, WIDTH // HEADS * KEY_HEADS
    block = 2 * WIDTH + 2 * WIDTH * WIDTH + 2 * WIDTH * keys + 3 * WIDTH * HIDDEN
    return (1 + own_head) * VOCABULARY * WIDTH + LAYERS * block + WIDTH + 2 * CONTEXT * half


def numbers(own_head: bool = False) -> bytes:
    return np.random.default_rng(1).normal(0, 0.3, count(own_head)).astype("<f4").tobytes()


def vocabulary() -> bytes:
    tokens = ((score, piece.encode()) for score, piece in zip(SCORES, PIECES, strict=True))
    return struct.pack("<i", 6) + b"".join(struct.pack("<fi", score, len(data)) + data for score, data in tokens)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.bin"
    path.write_bytes(header() + numbers())
    (tmp_path / "tok512.bin").write_bytes(vocabulary())
    return path


@pytest.mark.parametrize("cached", [True, False])
def test_the_stories_byte_for_byte(cached: bool) -> None:
    """The golden text of karpathy/llama2.c: greedy from the start token, 200 steps."""
    found = llama2c.read(real("weights/stories260K/stories260K.bin"))
    steps = write(built(found), [1], Sampling(temperature=0.0), length=200, cached=cached)
    text = found.tokenizer.decode([step[0].token for step in steps if step[0]])
    assert text.encode() == real("weights/stories260K/expected_greedy_200.txt").read_bytes()
    assert found.notes == ("the vocabulary is that of tok512.bin, next to the model",)


def test_a_story_is_encoded_as_it_is_decoded() -> None:
    words = llama2c.read(real("weights/stories260K/stories260K.bin")).tokenizer
    text = "Once upon a time, there was a little girl named Lily.\nShe saw a 猫."
    assert words.decode(words.encode(text)) == text
    assert len(words.encode("Once upon a time")) <= 6


def test_a_head_of_its_own(tmp_path: Path, model: Path) -> None:
    shared = llama2c.read(model)
    assert "head.weight" not in shared.weights
    data = numbers(own_head=True)
    model.write_bytes(header(vocabulary=-VOCABULARY) + data)
    own = llama2c.read(model, tmp_path / "tok512.bin")
    assert own.notes == ()
    assert own.config.head == "own"
    last = np.frombuffer(data, "<f4")[-VOCABULARY * WIDTH :].reshape(VOCABULARY, WIDTH)
    assert torch.equal(own.weights["head.weight"], torch.from_numpy(last.copy()))
    assert {name: w.shape for name, w in own.weights.items()} == {
        name: w.shape for name, w in own.config.build().state_dict().items()
    }


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "header: 0 bytes"),
        (header(), "header: its sizes need .* bytes, but the file has 28"),
        (header() + numbers()[:-1], "its sizes need"),
        (header() + numbers() + b"\0", "its sizes need"),
        (header(width=2**16, hidden=2**18, layers=1024), "its sizes need"),
        (header(width=2**31 - 1), "header: width = 2147483647"),
        (header(layers=0), "sizes must be above 0"),
        (header(heads=-4), "sizes must be above 0"),
        (header(vocabulary=-(2**31)), "sizes must be above 0"),
        (header(vocabulary=0), "sizes must be above 0"),
        (header(heads=3, key_heads=3), "does not divide into 3 heads"),
        (header(key_heads=3), "multiple of key_heads = 3"),
        (header() + numbers()[:-4] + struct.pack("<f", float("nan")), "angles: contains values that are not numbers"),
        (header() + struct.pack("<f", float("inf")) + numbers()[4:], "embedding.weight: contains values"),
    ],
)
def test_hostile_models_are_refused(data: bytes, words: str, model: Path) -> None:
    model.write_bytes(data)
    with pytest.raises(RefusedError, match=words) as caught:
        llama2c.read(model)
    assert str(caught.value).startswith(f"{model}: ")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "too few for the 264 tokens"),
        (vocabulary()[:-1], "token 263: cut short"),
        (vocabulary() + b"\0", "264 tokens end at byte"),
        (struct.pack("<i", 0) + vocabulary()[4:], "token 0: length 5"),
        (struct.pack("<ifi", 6, 0.0, -1) + vocabulary()[12:], "token 0: length -1"),
        (struct.pack("<ifi", 2**31 - 1, 0.0, 2**31 - 1) + vocabulary()[12:], "token 0: length 2147483647"),
        (struct.pack("<if", 6, float("nan")) + vocabulary()[8:], "token 0: .* score nan"),
        (vocabulary().replace(b"<unk>", b"<abc>"), "token 0: .*expected <unk>"),
        (vocabulary().replace(b"<0x41>", b"<0x42>"), "is listed twice"),
        (vocabulary()[:-1] + b"\xff", "token 263: not UTF-8"),
    ],
)
def test_hostile_vocabularies_are_refused(data: bytes, words: str, model: Path) -> None:
    path = model.with_name("tok512.bin")
    path.write_bytes(data)
    with pytest.raises(RefusedError, match=words) as caught:
        llama2c.read(model)
    assert str(caught.value).startswith(f"{path}: ")


def test_which_vocabulary_must_be_clear(model: Path) -> None:
    model.with_name("tok32000.bin").write_bytes(vocabulary())
    with pytest.raises(InputError, match=r"one tok\*.bin next to it; found: tok32000.bin, tok512.bin"):
        llama2c.read(model)
    model.with_name("tok32000.bin").unlink()
    model.with_name("tok512.bin").unlink()
    with pytest.raises(InputError, match="found: none"):
        llama2c.read(model)
    with pytest.raises(InputError, match="no such file"):
        llama2c.read(model.with_name("nothing.bin"))


@pytest.mark.parametrize(("seed", "number"), [(0, 150), pytest.param(1, 2000, marks=pytest.mark.slow)])
def test_damaged_copies_are_refused_or_open(seed: int, number: int, model: Path) -> None:
    found = fuzzed("llama2c", model, seed, number)
    assert not found["faults"]
    assert found["refused"] + found["opened"] == number
    assert min(found["refused"], found["opened"]) > number / 20, "both happen, or the test says little"
    assert found["peak"] < 200 * 2**20
    assert found["slowest"] < 2

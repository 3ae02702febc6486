"""What the machine gives: a container's limit, and one sentence where memory ends."""

from __future__ import annotations

import errno
import platform
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from qkv.errors import InputError, TooLittleMemoryError
from qkv.training.devices import HeapTrimmer, container_limits, enough_memory, memory_bytes, resident_bytes
from tiny import TRAINING


def refuse(kind: type[Exception], *words: object) -> None:
    raise kind(*words)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (MemoryError, ()),
        (torch.OutOfMemoryError, ("CUDA out of memory. Tried to allocate 2.00 GiB.",)),
        (RuntimeError, ("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 64 bytes",)),
        (RuntimeError, ("DefaultCPUAllocator: not enough memory: you tried to allocate 64 bytes.",)),
        (OSError, (errno.ENOMEM, "Cannot allocate memory")),
    ],
)
def test_every_kind_of_refusal_becomes_one_sentence(kind: type[Exception], words: tuple[object, ...]) -> None:
    expected = r"8 x 16 .*training\.accumulate=2 .*smaller model\.context"
    with pytest.raises(TooLittleMemoryError, match=expected) as caught, enough_memory(TRAINING, 16):
        refuse(kind, *words)
    assert caught.value.exit_code == 2


def test_the_smallest_parts_leave_only_a_smaller_model() -> None:
    least = replace(TRAINING, accumulate=8)
    with pytest.raises(TooLittleMemoryError, match="anew with a smaller"), enough_memory(least, 16):
        raise MemoryError


def test_other_errors_pass() -> None:
    for error in (RuntimeError("shapes do not fit"), InputError("out of memory lane")):
        with pytest.raises(type(error), match=str(error)), enough_memory(TRAINING, 16):
            raise error


@pytest.mark.parametrize(
    ("said", "files", "expected"),
    [
        ("0::/a/b\n", {"a/memory.max": "3000", "a/b/memory.max": "max", "memory.max": "9000"}, [3000, 9000]),
        ("0::/host/path\n", {"memory.max": "4096\n"}, [4096]),  # inside a container
        ("5:cpu:/x\n4:memory:/x\n", {"memory/x/memory.limit_in_bytes": "77", "memory.max": "1"}, [77]),
        ("4:memory:/docker/1\n", {"memory/memory.limit_in_bytes": "9223372036854771712"}, [9223372036854771712]),
        ("0::/\n", {}, []),
        ("nonsense\n", {}, []),
    ],
)
def test_a_container_limits_memory(tmp_path: Path, said: str, files: dict[str, str], expected: list[int]) -> None:
    (tmp_path / "groups").write_text(said)
    for name, content in files.items():
        path = tmp_path / "root" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    assert container_limits(tmp_path / "groups", tmp_path / "root") == expected
    assert container_limits(tmp_path / "none", tmp_path / "root") == []


def test_the_smaller_of_machine_and_container_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    there = memory_bytes("cpu")
    assert there is not None
    monkeypatch.setattr("qkv.training.devices.container_limits", lambda groups, root: [there // 2, 2**63])
    assert memory_bytes("cpu") == there // 2


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="other C libraries give back by themselves, or never")
def test_holes_between_what_is_kept_are_given_back_once_memory_has_grown() -> None:
    holes = HeapTrimmer(seconds=0.0)
    holes.trim()
    held = holes.smallest
    blocks = [torch.ones(16_384) for _ in range(max(8_000, 2 * held // 65_536))]  # 64 KiB each
    kept = blocks[::2]
    del blocks
    before = resident_bytes()
    holes.trim()
    after = resident_bytes()
    freed = len(kept) * 65_536
    assert before - after > 0.5 * freed, f"{before:,} bytes, then {after:,}: expected about {freed:,} less"
    patient = HeapTrimmer(seconds=3600.0)
    patient.trim()
    assert not patient.smallest

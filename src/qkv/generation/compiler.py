"""`decode.c` and `beam.c` as one library: compiled once with the machine's C compiler, kept in the cache, and its types
for ctypes."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from torch import Tensor

from qkv.data.cache import obtain, write_facts
from qkv.errors import QkvError
from qkv.storage import verify

SOURCES = [Path(__file__).with_name(name) for name in ("decode.c", "beam.c")]
HEADER = Path(__file__).with_name("norm.h")
NAME = "decode.so"
COMPILERS = ("cc", "gcc", "clang")
# sums may be reordered, so that they run side by side; the linker must not see it, or it changes how torch rounds
COMPILE = ("-O3", "-march=native", "-ffast-math", "-fPIC", "-std=c11", "-c")
THREADS = "-fopenmp"


class Matrix(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("plain", "half", "whole", "factors", "bias")),
        *((name, ctypes.c_int64) for name in ("rows", "columns")),
    )


class Layer(ctypes.Structure):
    _fields_ = (
        *((name, Matrix) for name in ("project", "output", "inner", "outer")),
        *(
            (name, ctypes.c_void_p)
            for name in ("before_scale", "before_shift", "after_scale", "after_shift", "small_norm")
        ),
    )


class Model(ctypes.Structure):
    _fields_ = (
        *(
            (name, ctypes.c_int64)
            for name in ("layers", "width", "heads", "key_heads", "head_width", "hidden", "vocabulary", "gated")
        ),
        *((name, ctypes.c_float) for name in ("epsilon", "small_epsilon", "scale")),
        *((name, ctypes.c_void_p) for name in ("cosines", "sines", "final_scale", "final_shift")),
        ("head", Matrix),
        ("layer", ctypes.POINTER(Layer)),
    )


def address(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


@cache
def library() -> Any:
    """The compiled library; None where there is no compiler, or QKV_NATIVE is set to 0."""
    compiler = os.environ.get("CC") or next(filter(shutil.which, COMPILERS), None)
    if os.environ.get("QKV_NATIVE") == "0" or not compiler:
        return None
    sources = [source.read_bytes() for source in (*SOURCES, HEADER)]
    parts = (*sources, compiler.encode(), _processor().encode(), " ".join((*COMPILE, THREADS)).encode())
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]
    try:
        folder = obtain("native", key, lambda aside: _build(compiler, aside))
        verify(folder)
        found = ctypes.CDLL(str(folder / NAME))
    except (QkvError, OSError, subprocess.SubprocessError):
        return None  # the model itself writes, only slower
    pointers, number = ctypes.c_void_p, ctypes.c_int64
    found.decode.argtypes = [
        ctypes.POINTER(Model), number, pointers, ctypes.POINTER(pointers), ctypes.POINTER(number), number, pointers,
        pointers, ctypes.c_int,
    ]  # fmt: skip
    found.attend_rows.argtypes = [
        *[number] * 4, ctypes.c_float, pointers, pointers, number, pointers, pointers, ctypes.c_int
    ]  # fmt: skip
    found.add_and_normalize.argtypes = [
        pointers, pointers, number, number, pointers, pointers, ctypes.c_float, pointers, ctypes.c_int
    ]  # fmt: skip
    found.candidates.argtypes = [
        pointers, number, number, pointers, number, number, pointers, pointers, ctypes.c_int
    ]  # fmt: skip
    for function in (found.decode, found.attend_rows, found.add_and_normalize, found.candidates):
        function.restype = None
    found.fingerprint.argtypes, found.fingerprint.restype = [pointers, number, ctypes.c_int], ctypes.c_uint64
    return found


def _build(compiler: str, folder: Path) -> None:
    """With threads where the compiler knows them, else without."""
    made = [folder / f"{source.stem}.o" for source in SOURCES]
    for threads in ((THREADS,), ()):
        with suppress(subprocess.CalledProcessError):
            for words in (
                *([*COMPILE, *threads, "-o", *both] for both in zip(made, SOURCES, strict=True)),
                ["-shared", *threads, "-o", folder / NAME, *made, "-lm"],
            ):
                subprocess.run([*shlex.split(compiler), *words], check=True, capture_output=True, timeout=120)
            break
    else:
        raise OSError(f"{compiler} could not compile {' and '.join(source.name for source in SOURCES)}")
    for each in made:
        each.unlink()
    write_facts(folder, {"compiler": compiler, "threads": bool(threads)})


def _processor() -> str:
    """What -march=native depends on: a cache may be shared between machines."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return line
    return f"{platform.machine()} {platform.processor()}"

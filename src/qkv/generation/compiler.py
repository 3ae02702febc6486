"""Compiles `decode.c` and `beam.c` into one library with the machine's C compiler, caches it, and declares its types
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
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from qkv.data.cache import cache_folder, default_root, obtain, only_user_can_write, root, write_facts
from qkv.errors import QkvError, StorageError
from qkv.storage import verify_files

SOURCES = [Path(__file__).with_name(name) for name in ("decode.c", "beam.c")]
HEADER = Path(__file__).with_name("norm.h")
NAME = "decode.so"
COMPILERS = ("cc", "gcc", "clang")
# -ffast-math lets sums be vectorized; it is only for compiling, because the linker would change torch's rounding with
# it
COMPILE = ("-O3", "-march=native", "-ffast-math", "-fPIC", "-std=c11", "-c")
THREADS = "-fopenmp"
TIMEOUT = 600  # seconds for one step: stops a compiler that hangs, but not one on a busy machine
MAX_MESSAGE_LENGTH = 200  # characters of the compiler's message
ROOM = "native"


C = TypeVar("C")


def _fields(kind: type[C], names: str) -> list[tuple[str, type[C]]]:
    return [(name, kind) for name in names.split()]


class DecodeMatrix(ctypes.Structure):
    _fields_ = (
        *_fields(ctypes.c_void_p, "plain half whole factors bias"),
        *_fields(ctypes.c_int64, "rows columns"),
    )


class DecodeLayer(ctypes.Structure):
    _fields_ = (
        *_fields(DecodeMatrix, "project output inner outer"),
        *_fields(ctypes.c_void_p, "before_scale before_shift after_scale after_shift small_norm"),
    )


class DecodeModel(ctypes.Structure):
    _fields_ = (
        *_fields(ctypes.c_int64, "layers width heads key_heads head_width hidden vocabulary gated"),
        *_fields(ctypes.c_float, "epsilon small_epsilon scale"),
        *_fields(ctypes.c_void_p, "cosines sines final_scale final_shift"),
        ("head", DecodeMatrix),
        ("layer", ctypes.POINTER(DecodeLayer)),
    )


TYPES: dict[str, Any] = {"p": ctypes.c_void_p, "n": ctypes.c_int64, "f": ctypes.c_float, "i": ctypes.c_int}
SIGNATURES = {  # pointers, numbers, floats and the number of threads, in the order of C
    "decode": "pnpppnppi",
    "attend_rows": "nnnnfppnppi",
    "add_and_normalize": "ppnnppfpi",
    "candidates": "pnnpnnppi",
    "fingerprint": "pni",
}


def f32_on_cpu(model: nn.Module) -> bool:
    return all(p.device.type == "cpu" and p.dtype == torch.float32 for p in model.parameters())


def address(tensor: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(tensor.data_ptr())


_unreported: list[str] = []


def unreported() -> list[str]:
    """Why there is no compiled library although there is a compiler. Only the first call returns the messages."""
    messages = _unreported.copy()
    _unreported.clear()
    return messages


@cache
def library() -> Any:
    """The compiled library; None without a compiler, if it fails (see `unreported`), or if QKV_NATIVE is 0."""
    compiler = os.environ.get("CC") or next(filter(shutil.which, COMPILERS), None)
    if os.environ.get("QKV_NATIVE") == "0" or not compiler:
        return None
    sources = [source.read_bytes() for source in (*SOURCES, HEADER)]
    parts = (*sources, compiler.encode(), _processor().encode(), " ".join((*COMPILE, THREADS)).encode())
    key = hashlib.sha256(b"\0".join(parts)).hexdigest()[:32]
    try:
        compiled = ctypes.CDLL(str(_obtained(key, compiler)))
    except (QkvError, OSError) as error:  # the model generates without the library, only more slowly
        _unreported.append(
            f"text is generated more slowly, without compiled code: {str(error).rstrip('.')}. "
            "Set CC to another compiler, or QKV_NATIVE=0 to use none."
        )
        return None
    for name, letters in SIGNATURES.items():
        function = getattr(compiled, name)
        function.argtypes, function.restype = [TYPES[letter] for letter in letters], None
    compiled.fingerprint.restype = ctypes.c_uint64
    return compiled


def _obtained(key: str, compiler: str) -> Path:
    """The library's file in the cache, compiled if it is missing. If other users can write to the folder, it is refused
    or another one is used."""
    for place in dict.fromkeys((root(), default_root())):
        top = place.absolute().resolve()
        try:
            room = cache_folder(str(top / ROOM))
        except StorageError:  # another user's
            continue
        for folder in (top, room) if place == default_root() else ():
            with suppress(OSError):  # an earlier version, or a lax umask, may have let others write there
                folder.chmod(folder.stat().st_mode & ~0o022)
        if not only_user_can_write(room, top):
            continue
        folder = obtain(str(room), key, lambda aside: _build(compiler, aside))
        verify_files(folder, NAME)
        if only_user_can_write(folder / NAME, top):
            return folder / NAME
    raise StorageError(f"{root() / ROOM}: other users can write there. Set QKV_CACHE to a folder of your own")


def _build(compiler: str, folder: Path) -> None:
    """Compile the library, with OpenMP threads if the compiler supports them."""
    folder.chmod(0o700)
    objects = [folder / f"{source.stem}.o" for source in SOURCES]
    for threads in ((THREADS,), ()):
        steps = (
            *([*COMPILE, *threads, "-o", *both] for both in zip(objects, SOURCES, strict=True)),
            ["-shared", *threads, "-o", folder / NAME, *objects, "-lm"],
        )
        failed = next(filter(None, (_failure(compiler, words) for words in steps)), None)
        if failed is None:
            break
    else:
        raise OSError(f"{compiler} could not compile {' and '.join(source.name for source in SOURCES)} ({failed})")
    for path in objects:
        path.unlink()
    (folder / NAME).chmod(0o700)
    write_facts(folder, {"compiler": compiler, "threads": bool(threads)})


def _failure(compiler: str, words: list[str | Path]) -> str | None:
    """Run one step of the compiler; return its error message in one line, or None."""
    try:
        done = subprocess.run([*shlex.split(compiler), *words], capture_output=True, timeout=TIMEOUT, text=True)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:  # ValueError: CC has a quote without its end
        return getattr(error, "strerror", None) or str(error)
    if not done.returncode:
        return None
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    worst = next((line for line in lines if "error" in line.lower()), lines[-1] if lines else "")
    return worst[:MAX_MESSAGE_LENGTH] or f"exit code {done.returncode}, without a message"


def _processor() -> str:
    """The processor, on which -march=native depends: machines may share a cache."""
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("flags", "Features")):
                return line
    return f"{platform.machine()} {platform.processor()}"

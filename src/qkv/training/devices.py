"""The machine: device, number format and threads. The only place that knows what hardware there is.

"auto" is resolved once, into the recipe; a resumed run decides nothing again.
"""

from __future__ import annotations

import ctypes
import os
import platform
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

import torch

from qkv.errors import InputError, TooLittleMemoryError, is_out_of_memory
from qkv.training.settings import TrainingConfig


def choose_device(wanted: str = "auto") -> str:
    if wanted != "auto":
        try:
            torch.empty(1, device=wanted)
        except (RuntimeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise InputError(
                f"device {wanted!r} cannot be used here: {reason}. Try the device cpu (training.device)."
            ) from None
        return wanted
    if torch.cuda.is_available():
        return "cuda"
    if torch.backends.mps.is_available():
        return "mps"
    return "cpu"


def choose_dtype(wanted: str, device: str) -> str:
    """bf16 where the machine computes it natively: elsewhere it is emulated and many times slower than f32.

    Under a limit (`ulimit -v`) f32: kernels for bf16 end the program where memory runs out, those for f32 say so.
    """
    if wanted != "auto":
        return wanted
    if device.startswith("cuda"):
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "f32"
    if device == "cpu" and not limited():
        able = torch.cpu.get_capabilities()
        return "bf16" if able.get("avx512_bf16") or able.get("amx_bf16") else "f32"
    return "f32"


def choose_threads(wanted: int = 0) -> int:
    return wanted or torch.get_num_threads()


def set_threads(threads: int) -> None:
    """The number of threads is part of what makes a run repeatable: sums are split by it."""
    torch.set_num_threads(threads)


def memory_bytes(device: str) -> int | None:
    """All memory that we may use on the device; None where it is not known."""
    if device.startswith("cuda"):
        return int(torch.cuda.get_device_properties(device).total_memory)
    known = container_limits(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
    with suppress(AttributeError, ValueError, OSError):
        known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(known, default=None)


def container_limits(groups: Path, root: Path) -> list[int]:
    """What a container's own group and those above it may use (Linux control groups, versions 1 and 2)."""
    known = []
    try:
        for line in groups.read_text().splitlines():
            _, controllers, name = line.split(":", 2)
            top, file = (root / "memory", "memory.limit_in_bytes") if controllers else (root, "memory.max")
            if controllers and "memory" not in controllers.split(","):
                continue
            own = top / name.lstrip("/")  # of the host, at times: inside a container only `top` is there
            for folder in (own, *own.parents):
                limit = folder / file
                if folder.is_relative_to(top) and limit.is_file() and (size := limit.read_text().strip()).isdigit():
                    known.append(int(size))
    except (OSError, ValueError):
        pass  # not Linux, or not readable
    return known


def give_back() -> None:
    """Return what was freed to the system, between two kinds of work: the C library (glibc) keeps it, in gaps that
    fit the work before. In the midst of training it would cost time: the next step asks for it again."""
    with suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def resident_bytes() -> int:
    """Memory that this process holds now; 0 where it is not known."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


class HeapTrimmer:
    """Against heap fragmentation: batches of ever other shapes leave gaps that no other fits, and a long run would hold
    several times what it needs. Every `seconds` they are given back, where memory has grown by half."""

    def __init__(self, seconds: float = 30.0) -> None:
        self.seconds, self.checked, self.least = seconds, time.monotonic(), 0

    def trim(self) -> None:
        if time.monotonic() - self.checked < self.seconds:
            return
        held = resident_bytes()
        if self.least and held > 1.5 * self.least:
            give_back()
            held = resident_bytes()
        self.checked, self.least = time.monotonic(), min(self.least or held, held)


def limited() -> bool:
    """Whether this process may only map so much memory (`ulimit -v`)."""
    try:
        import resource
    except ImportError:  # Windows
        return False
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def ask_for(size: int) -> None:
    """Under a limit, take `size` bytes once, untouched, and give them back: some libraries end the program where they
    get none, others say so. Without a limit the system promises more than it has, and nothing is learned."""
    if limited():
        torch.empty(size, dtype=torch.uint8)


@contextmanager
def enough_memory(training: TrainingConfig, context: object) -> Iterator[None]:
    """Turn the refusal of more memory, in any of its forms, into one sentence that says what would need less."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        parts, most = training.accumulate, training.batch
        less = (
            f"--set training.accumulate={training.parts(2 * parts)} (or more, up to {most}), or "
            if parts < most
            else ""
        )
        raise TooLittleMemoryError(
            f"not enough memory for a batch of {most} x {context} tokens (training.batch x model.context) computed in "
            f"{parts} part{'s' if parts > 1 else ''}. What was saved before is intact. Start anew with {less}"
            "a smaller model.context or model.width."
        ) from error


def autocast(device: str, dtype: str) -> AbstractContextManager[object]:
    """Within it, matrix products run in the chosen format; the weights stay f32."""
    if dtype == "bf16":
        return torch.autocast(device.partition(":")[0], torch.bfloat16)
    return nullcontext()


def random_state(device: str) -> dict[str, torch.Tensor]:
    """All random generators that training draws from, as tensors."""
    states = {"cpu": torch.get_rng_state()}
    if device != "cpu":
        states["device"] = torch.get_device_module(device).get_rng_state(device)
    return states


def restore_random_state(device: str, states: dict[str, torch.Tensor]) -> None:
    torch.set_rng_state(states["cpu"])
    if device != "cpu":
        torch.get_device_module(device).set_rng_state(states["device"], device)


def describe(device: str) -> str:
    """The machine in one line, for the card."""
    chip = torch.cuda.get_device_name(device) if device.startswith("cuda") else _processor()
    software = f"{platform.system()}, Python {platform.python_version()}, torch {torch.__version__}"
    return f"{chip}, {os.cpu_count()} cores, {software}"


def _processor() -> str:
    able = torch.cpu.get_capabilities()
    return str(able.get("cpu_name") or platform.processor() or platform.machine())

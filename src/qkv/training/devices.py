"""The machine: its devices, number formats, threads and memory.

The value "auto" is resolved when a run starts, and the result is saved in its recipe for a resume.
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
            unknown = "device type at start of device string" in str(error)
            reason = "no such kind of device" if unknown else str(error).splitlines()[0].rstrip(".")
            raise InputError(
                f"device {wanted!r} cannot be used here: {reason}. Choose another, such as cpu, cuda, cuda:1 or mps."
            ) from None
        return wanted
    if torch.cuda.is_available():
        return "cuda"
    if torch.backends.mps.is_available():
        return "mps"
    return "cpu"


def choose_dtype(wanted: str, device: str) -> str:
    """bf16 if the machine computes it natively, else f32: emulated bf16 is many times slower.

    Under a memory limit (`ulimit -v`) it is f32, because kernels for bf16 end the program when memory runs out, while
    those for f32 raise an exception.
    """
    if wanted != "auto":
        return wanted
    if device.startswith("cuda"):
        return "bf16" if torch.cuda.is_bf16_supported(including_emulation=False) else "f32"
    if device == "cpu" and not has_memory_limit():
        able = torch.cpu.get_capabilities()
        return "bf16" if able.get("avx512_bf16") or able.get("amx_bf16") else "f32"
    return "f32"


def choose_threads(wanted: int = 0) -> int:
    return wanted or torch.get_num_threads()


def set_threads(threads: int) -> None:
    """Set torch's number of threads. Sums are split among them, so a run is repeatable only with the same number."""
    torch.set_num_threads(threads)


def memory_bytes(device: str) -> int | None:
    """The memory that this process may use on the device; None if that is unknown."""
    if device.startswith("cuda"):
        return int(torch.cuda.get_device_properties(device).total_memory)
    limits = container_limits(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
    with suppress(AttributeError, ValueError, OSError):
        limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    return min(limits, default=None)


def container_limits(groups: Path, root: Path) -> list[int]:
    """The memory limits of the process's control group and of the groups above it (Linux, versions 1 and 2)."""
    limits = []
    try:
        for line in groups.read_text().splitlines():
            _, controllers, name = line.split(":", 2)
            top, file = (root / "memory", "memory.limit_in_bytes") if controllers else (root, "memory.max")
            if controllers and "memory" not in controllers.split(","):
                continue
            own = top / name.lstrip("/")  # may be the host's path, of which a container sees only `top`
            for folder in (own, *own.parents):
                limit = folder / file
                if folder.is_relative_to(top) and limit.is_file() and (size := limit.read_text().strip()).isdigit():
                    limits.append(int(size))
    except (OSError, ValueError):
        pass  # not Linux, or not readable
    return limits


def trim_heap() -> None:
    """Return freed memory to the system between two phases of work; the C library (glibc) would keep it in gaps that
    the next phase may not be able to use. During training this would cost time, because every step needs it again."""
    with suppress(AttributeError, OSError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def resident_bytes() -> int:
    """The physical memory that this process uses; 0 if that is unknown."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


class HeapTrimmer:
    """Limits heap fragmentation: batches of different shapes leave gaps that other batches cannot use, and a long run
    would hold several times the memory that it needs. Every `seconds`, if memory has grown by half, it is trimmed."""

    def __init__(self, seconds: float = 30.0) -> None:
        self.seconds, self.checked_at, self.smallest = seconds, time.monotonic(), 0

    def trim(self) -> None:
        if time.monotonic() - self.checked_at < self.seconds:
            return
        used = resident_bytes()
        if self.smallest and used > 1.5 * self.smallest:
            trim_heap()
            used = resident_bytes()
        self.checked_at, self.smallest = time.monotonic(), min(self.smallest or used, used)


def has_memory_limit() -> bool:
    """Whether the address space of this process is limited (`ulimit -v`)."""
    try:
        import resource
    except ImportError:  # Windows
        return False
    return resource.getrlimit(resource.RLIMIT_AS)[0] != resource.RLIM_INFINITY


def require_allocatable(size: int) -> None:
    """Under a memory limit, allocate `size` bytes and free them again, so that too low a limit raises an exception
    here: some libraries end the program instead. Without a limit, the system allows more than it has."""
    if has_memory_limit():
        torch.empty(size, dtype=torch.uint8)


@contextmanager
def enough_memory(training: TrainingConfig, context: object) -> Iterator[None]:
    """Turn every kind of out-of-memory error into one whose message says which settings need less memory."""
    try:
        yield
    except Exception as error:
        if not is_out_of_memory(error):
            raise
        parts, batch = training.accumulate, training.batch
        more_parts = ""
        if parts < batch:
            more_parts = f"--set training.accumulate={training.equal_parts(2 * parts)} (or more, up to {batch}), or "
        raise TooLittleMemoryError(
            f"not enough memory for a batch of {batch} x {context} tokens (training.batch x model.context) computed in "
            f"{parts} part{'s' if parts > 1 else ''}. What was saved before is intact. Start anew with {more_parts}"
            "a smaller model.context or model.width."
        ) from error


def autocast(device: str, dtype: str) -> AbstractContextManager[object]:
    """A context in which matrix products are computed in this number format; the weights stay f32."""
    if dtype == "bf16":
        return torch.autocast(device.partition(":")[0], torch.bfloat16)
    return nullcontext()


def random_state(device: str) -> dict[str, torch.Tensor]:
    """The states of the random generators that training uses, as tensors."""
    states = {"cpu": torch.get_rng_state()}
    if device != "cpu":
        states["device"] = torch.get_device_module(device).get_rng_state(device)
    return states


def restore_random_state(device: str, states: dict[str, torch.Tensor]) -> None:
    torch.set_rng_state(states["cpu"])
    if device != "cpu":
        torch.get_device_module(device).set_rng_state(states["device"], device)


def describe(device: str) -> str:
    """The processor and the software in one line, for card.md."""
    processor = torch.cuda.get_device_name(device) if device.startswith("cuda") else _processor()
    software = f"{platform.system()}, Python {platform.python_version()}, torch {torch.__version__}"
    return f"{processor}, {os.cpu_count()} cores, {software}"


def _processor() -> str:
    able = torch.cpu.get_capabilities()
    return str(able.get("cpu_name") or platform.processor() or platform.machine())

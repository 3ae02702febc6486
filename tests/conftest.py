"""What every test stands on: checked shapes, no network, its own cache, the same numbers every time."""

from __future__ import annotations

import gc
import ipaddress
import os
import shutil
import socket
import sys
from collections.abc import Iterator
from typing import Any

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"
if os.path.isdir("/dev/shm") and shutil.disk_usage("/dev/shm").free > 8 * 2**30:
    # temporary folders in memory: a disk that others use takes milliseconds for each of many thousand fsyncs
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", "/dev/shm")
os.environ.setdefault("OMP_NUM_THREADS", "1")  # for tests that import torch late, and for the commands they start

from hypothesis import settings
from jaxtyping import install_import_hook

from reliability.nursery import Nursery

# Before the first `import qkv`: every annotation, shapes included, is checked at run time.
install_import_hook("qkv", "beartype.beartype")

settings.register_profile("here", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") or os.environ.get("QKV_TESTS_REPEAT") else "here")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `root` skip, saying so, where they cannot run."""
    if hasattr(os, "geteuid") and os.geteuid() == 0 and shutil.which("strace"):
        return
    for item in items:
        if item.get_closest_marker("root"):
            item.add_marker(pytest.mark.skip(reason="needs root and strace"))


def pytest_collection_finish() -> None:
    """What was imported stays until the end: no collection need look at it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QKV_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session")
def nursery(own_cache: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nursery]:
    """Commands as processes of their own, without the seconds that each would spend on imports."""
    if not hasattr(os, "fork"):
        pytest.skip("commands are run in forks of one process, which this system does not have")
    with Nursery(tmp_path_factory.mktemp("nursery")) as running:
        yield running


@pytest.fixture(scope="module", autouse=True)
def no_models_of_other_tests() -> Iterator[None]:
    """Models that tests load from files are forgotten: lists of models and messages name qkv's own again."""
    yield
    own_model, registry = sys.modules.get("qkv.recipe.own_model"), sys.modules.get("qkv.models.registry")
    for kind in [*own_model.LOADED] if own_model and registry else []:
        del own_model.LOADED[kind]
        for models in (registry.LANGUAGE_MODELS, registry.TEXT_ENCODERS):
            models.sources.pop(kind, None)


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Sums depend on how many threads share them."""
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)


@pytest.fixture(scope="session", autouse=True)
def no_network() -> Iterator[None]:
    """A test that reaches for the network fails; this machine's own servers may be called."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex"):
            patch.setattr(socket.socket, name, _only_local(getattr(socket.socket, name)))
        yield


def _only_local(connect: Any) -> Any:
    def guarded(self: socket.socket, address: Any) -> Any:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_local(str(address[0])):
            raise PermissionError(f"a test tried to reach {address[0]}: tests have no network")
        return connect(self, address)

    return guarded


def _is_local(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"

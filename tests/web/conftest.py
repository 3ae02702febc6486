"""One Chromium for the tests of a file."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from web.browser import Browser, browsing


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browsing(tmp_path_factory.mktemp("chromium") / "profile") as started:
        started.size(1280, 900)
        yield started

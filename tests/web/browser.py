"""A headless Chromium, told what to do over its own pipe: no package is needed for it.

`--remote-debugging-pipe` makes Chromium read orders from file descriptor 3 and write answers to 4: JSON, a zero byte
after each (https://chromedevtools.github.io/devtools-protocol/).
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--disable-extensions", "--disable-dev-shm-usage", "--disable-default-apps", "--no-first-run",
    "--mute-audio", "--hide-scrollbars", "--remote-debugging-pipe",
]  # fmt: skip
# the pipe's two ends become 3 and 4, then Chromium takes this process over
LAUNCH = (
    "import os, sys; r, w = map(int, sys.argv[1:3]); os.dup2(r, 3); os.dup2(w, 4); os.execv(sys.argv[3], sys.argv[3:])"
)


def executable() -> str | None:
    return next((path for name in NAMES if (path := shutil.which(name))), None)


class Browser:
    """One page in one Chromium. `events` keeps what it said unasked."""

    def __init__(self, profile: Path, seconds: float = 1800) -> None:
        self.seconds, self.events, self._number, self._buffer = seconds, deque[dict[str, Any]](), 0, b""
        orders, self._to = os.pipe()
        self._from, answers = os.pipe()
        # away from 3 and 4, which are filled in the new process
        high = [fcntl.fcntl(fd, fcntl.F_DUPFD, 10) for fd in (orders, answers)]
        command = [
            sys.executable,
            "-c",
            LAUNCH,
            *map(str, high),
            str(executable()),
            *FLAGS,
            f"--user-data-dir={profile}",
        ]
        self._log = (profile.parent / f"{profile.name}.log").open("wb")
        self._process = subprocess.Popen(command, pass_fds=high, stdout=self._log, stderr=self._log)
        for fd in (orders, answers, *high):
            os.close(fd)
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network", "Security"):
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        order: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            order["sessionId"] = self._session
        data = json.dumps(order).encode() + b"\0"
        while data:
            data = data[os.write(self._to, data) :]
        end = time.monotonic() + self.seconds
        while True:
            answer = self._receive(end)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def _receive(self, end: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._from], [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError("Chromium does not answer")
            if not (more := os.read(self._from, 1 << 20)):
                raise RuntimeError("Chromium has ended")
            self._buffer += more
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def run(self, script: str) -> Any:
        """The value of `script`, awaited; what it throws is raised."""
        done = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True)
        if "exceptionDetails" in done:
            raise AssertionError(json.dumps(done["exceptionDetails"])[:2000])
        return done["result"].get("value")

    def open(self, path: Path) -> None:
        """Opens a file and waits until it is drawn."""
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait("document.readyState === 'complete' && document.querySelector('h1, .refusal')")

    def wait(self, condition: str) -> None:
        end = time.monotonic() + self.seconds
        while not self.run(f"!!({condition})"):
            if time.monotonic() > end:
                raise TimeoutError(condition)
            time.sleep(0.02)

    def size(self, width: int, height: int, scale: float = 1) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )

    def theme(self, name: str) -> None:
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def picture(self, path: Path, selector: str = "html") -> None:
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        box = self.run(
            f"(() => {{ const r = document.querySelector({selector!r}).getBoundingClientRect();"
            " return [r.left + scrollX, r.top + scrollY, r.width, r.height] })()"
        )
        clip = dict(zip(("x", "y", "width", "height"), box, strict=True), scale=1)
        done = self.call("Page.captureScreenshot", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(done["data"]))

    def complaints(self) -> list[str]:
        """Errors and warnings of the console, exceptions, and refusals of the policy since the page was opened."""
        self.run("0")
        found = []
        for event in self.events:
            parameters = event.get("params", {})
            if event.get("method") == "Runtime.exceptionThrown":
                found.append(json.dumps(parameters["exceptionDetails"])[:500])
            elif event.get("method") == "Runtime.consoleAPICalled" and parameters["type"] in (
                "error",
                "warning",
                "assert",
            ):
                found.append(json.dumps(parameters["args"])[:500])
            elif event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                found.append(parameters["entry"]["text"])
        return found

    def requests(self) -> list[str]:
        """Addresses of everything that was asked for since the page was opened."""
        self.run("0")
        sent = [event["params"] for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [parameters["request"]["url"] for parameters in sent]

    def dialogs(self) -> int:
        return sum(event.get("method") == "Page.javascriptDialogOpening" for event in self.events)

    def close(self) -> None:
        with contextlib.suppress(Exception):
            self._session = None
            self.call("Browser.close")
        for fd in (self._to, self._from):
            os.close(fd)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._log.close()


@contextlib.contextmanager
def browsing(profile: Path) -> Iterator[Browser]:
    browser = Browser(profile)
    try:
        yield browser
    finally:
        browser.close()

"""SIGTERM, SIGINT and SIGHUP ask the run to stop after the current step; a second one ends the process at once."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

NUMBERS = [getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)]


class Stop:
    """Set to the signal's number once one has come."""

    signal: int | None = None


@contextmanager
def listening(last_words: str) -> Iterator[Stop]:
    """Hear signals meanwhile; `last_words` are said when a second one ends the process."""
    stop = Stop()
    if threading.current_thread() is not threading.main_thread():
        yield stop  # only the main thread hears signals
        return

    def hear(number: int, frame: FrameType | None) -> None:
        stop.signal = number

    # Python runs `hear` only between two of its own instructions, and one step may be seconds long inside torch.
    # The interpreter writes every signal's number here at once, and a thread can read it there.
    reader, writer = socket.socketpair()
    writer.setblocking(False)
    watcher = threading.Thread(target=_watch, args=(reader, last_words), daemon=True)
    watcher.start()
    wakeup = signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    heard = [number for number in NUMBERS if signal.getsignal(number) is not signal.SIG_IGN]  # as SIGHUP under nohup
    before = {number: signal.signal(number, hear) for number in heard}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(wakeup)
        writer.close()
        watcher.join()
        reader.close()


def _watch(reader: socket.socket, last_words: str) -> None:
    """End the process at the second signal. What is being written stands aside until it is whole, so nothing breaks."""
    heard = 0
    while byte := reader.recv(1):
        heard += byte[0] in NUMBERS
        if heard == 2:
            with suppress(OSError):  # a closed or full standard error
                os.write(2, f"qkv: {last_words}\n".encode(errors="backslashreplace"))
            os._exit(128 + byte[0])

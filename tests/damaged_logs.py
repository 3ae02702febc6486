"""Lines that no run writes into its logs: damaged, or altered by hand."""

from __future__ import annotations

NO_LINES: dict[str, bytes] = {
    "text for a number": b'{"step": 4, "seconds": "long", "loss": "low", "validation_loss": "low"}\n',
    "no JSON": b"{bad}\n",
    "no step": b'{"seconds": 3.0, "loss": 3.0, "validation_loss": 2.0, "validation_criterion": 1.0}\n',
    "a step that is no number": b'{"step": "4", "seconds": 3.0, "loss": 3.0}\n',
    "a list": b'[{"step": 4}]\n',
    "numbers beyond all bounds": b'{"step": 4, "loss": 1e300, "validation_loss": 1e999, "seconds": NaN}\n',
    "parts that are no list": b'{"step": 4, "validation_loss": 3.0, "validation_parts": 5}\n',
    "a list for a number": b'{"step": 4, "loss": [1, 2], "seconds": [1]}\n',
    "a key twice": b'{"step": 4, "loss": 1.0, "loss": 2.0}\n',
    "no UTF-8": b'{"step": 4, "\xff\xfe": 3}\n',
    "zeros": bytes(40) + b"\n",
    "deep": b"[" * 100_000 + b"\n",
}

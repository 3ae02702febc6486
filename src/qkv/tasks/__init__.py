"""One folder for each task; `registry.py` is the only list, `protocol.py` what every task answers."""

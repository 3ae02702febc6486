"""Writing: sampling and decoding."""

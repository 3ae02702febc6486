"""Filters documents and removes copies, for `qkv data clean`."""

"""Filters of documents and removal of copies: what `qkv data clean` does."""

"""Tokenizers: characters, words, byte-level BPE and WordPiece, on the `tokenizers` library. Knows no torch."""

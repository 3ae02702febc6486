"""Tokenizers: characters, words, byte-level BPE and WordPiece, with the `tokenizers` library; torch is not imported."""

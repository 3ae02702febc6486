"""Tokenizers: text to ids and back. No torch."""

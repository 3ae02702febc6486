"""Readers of file formats: text, tables, CoNLL, images, and line-aligned files."""

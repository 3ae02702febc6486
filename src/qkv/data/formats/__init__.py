"""Readers of file formats: text, tables, tagged words, images, and files that are aligned line by line."""

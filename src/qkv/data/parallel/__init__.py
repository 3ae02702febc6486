"""Pairs of texts, each the translation of the other: files read in step, sides, ids, vocabulary."""

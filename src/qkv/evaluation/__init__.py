"""Scores of a model on text."""

"""Recipes: the configuration of a run, the rules that complete it, and the folders of trained models."""

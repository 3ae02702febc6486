"""Recipes: everything a run needs, the rules that fill the gaps, the run and the model that come of it."""

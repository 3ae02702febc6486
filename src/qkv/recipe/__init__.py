"""A recipe: everything a run needs, in five sections; the rules that fill its gaps; the run and the model it leads to."""

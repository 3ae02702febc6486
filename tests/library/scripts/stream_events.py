"""A training is watched step by step."""

import qkv

events = qkv.train(["the dog sat on the mat"] * 200, run="watched", steps=4, stream=True)
reveal_type(events)
names = [type(event).__name__ for event in events]
assert names.count("Step") == 4
assert "Evaluation" in names

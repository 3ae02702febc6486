"""Arrays of numpy with labels make a model of numbers."""

import numpy as np

import qkv

random = np.random.default_rng(0)
numbers = random.normal(size=(300, 4))
labels = np.where(numbers[:, 0] + numbers[:, 1] > 0, "up", "down")
model = qkv.train((numbers, labels), steps=50)
decisions = model.classify([[2.0, 2.0, 0.0, 0.0], [-2.0, -2.0, 0.0, 0.0]])
reveal_type(decisions)
assert [decision.label for decision in decisions] == ["up", "down"]

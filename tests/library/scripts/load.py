"""A trained model is loaded from its folder."""

import qkv

trained = qkv.train(["the dog sat on the mat"] * 200, run="book", steps=3)
model = qkv.load("book")
reveal_type(model)
reveal_type(model.parameters)
assert model.parameters == trained.parameters

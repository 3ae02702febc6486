"""A list of texts makes a language model."""

import qkv

model = qkv.train([f"the dog sat on mat {number}" for number in range(300)], steps=3)
reveal_type(model)
score = model.evaluate("the dog sat on the mat")
reveal_type(score)
reveal_type(score.loss)
assert score.loss > 0

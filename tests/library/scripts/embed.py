"""Texts become vectors."""

import qkv

model = qkv.train(["the dog sat on the mat and the cat saw it"] * 200, steps=3)
vectors = model.embed(["the dog", "the cat"])
reveal_type(vectors)
assert vectors.shape[0] == 2

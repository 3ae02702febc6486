"""Several prompts at once: each answer is the one that the prompt alone would get."""

import qkv

model = qkv.train(["the dog sat on the mat and the cat saw it"] * 200, steps=3)
texts = model.generate(["the dog", "the cat"], length=10)
reveal_type(texts)
assert texts == [model.generate("the dog", length=10), model.generate("the cat", length=10)]

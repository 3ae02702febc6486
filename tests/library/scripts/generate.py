"""A language model continues a text."""

import qkv

model = qkv.train(["the dog sat on the mat and the cat saw it"] * 200, steps=3)
text = model.generate("the dog", length=10, temperature=0.5, top_k=5)
reveal_type(text)
assert isinstance(text, str)

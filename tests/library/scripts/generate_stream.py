"""Text is shown as it is written."""

import qkv

model = qkv.train(["the dog sat on the mat and the cat saw it"] * 200, steps=3)
parts = model.generate("the dog", length=10, stream=True)
reveal_type(parts)
assert "".join(parts) == model.generate("the dog", length=10)

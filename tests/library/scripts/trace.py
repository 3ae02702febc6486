"""Every value on a text's way through the model."""

import qkv

model = qkv.train(["the dog sat on the mat and the cat saw it"] * 200, steps=3)
trace = model.trace("the dog sat")
reveal_type(trace)
print(trace)

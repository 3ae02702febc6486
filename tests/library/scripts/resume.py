"""A run that was stopped goes on, to the result it would have had."""

import qkv

texts = ["the dog sat on the mat and the cat saw it"] * 200
whole = qkv.train(texts, run="whole", steps=6, settings={"training.checkpoint_every": 2})
for event in qkv.train(texts, run="part", steps=6, settings={"training.checkpoint_every": 2}, stream=True):
    if type(event).__name__ == "Saved":
        break
model = qkv.resume("part")
reveal_type(model)
assert model.generate("the", length=20) == whole.generate("the", length=20)

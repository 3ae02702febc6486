"""One HTML page that shows the model at work."""

import qkv

model = qkv.train(["the dog sat on the mat and the cat saw it"] * 200, steps=3)
place = model.page("the dog sat", "dog.html")
reveal_type(place)
assert place.read_text(encoding="utf-8").startswith("<!doctype html>")

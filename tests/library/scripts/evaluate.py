"""A classifier is scored on other examples, which may be any object."""

import qkv

texts = [f"{'warm and bright' if number % 2 else 'cold and dull'} song {number}" for number in range(200)]
labels = ["good" if number % 2 else "bad" for number in range(200)]
model = qkv.train((texts, labels), steps=30, model="bag")
score = model.evaluate(
    [{"text": "a warm day", "label": "good"}, {"text": "a cold day", "label": "bad"}], text="text", label="label"
)
reveal_type(score)
reveal_type(score.loss)
values = score.values()
reveal_type(values)
assert values["count"] == 2

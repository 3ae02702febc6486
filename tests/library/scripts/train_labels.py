"""(texts, labels) makes a classifier."""

import qkv

texts = [f"{'warm and bright' if number % 2 else 'cold and dull'} song {number}" for number in range(200)]
labels = ["good" if number % 2 else "bad" for number in range(200)]
model = qkv.train((texts, labels), steps=30, model="bag")
decision = model.classify("a warm and bright day")[0]
reveal_type(decision)
reveal_type(decision.label)
assert decision.label in {"good", "bad"}

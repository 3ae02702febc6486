"""A language model becomes a classifier."""

import qkv

base = qkv.train(["the dog sat on the mat and the cat saw it"] * 200, run="base", steps=3)
texts = [f"the {'dog' if number % 2 else 'cat'} sat {number}" for number in range(120)]
labels = ["dog" if number % 2 else "cat" for number in range(120)]
model = qkv.finetune(base, (texts, labels), steps=3)
reveal_type(model)
print(model.classify("the dog sat")[0].label)

"""A list of (source, target) makes a translator."""

import qkv

words = {"dog": "Hund", "cat": "Katze", "tree": "Baum", "house": "Haus"}
pairs = [
    (f"the {a} and the {b} {n}", f"{words[a]} und {words[b]} {n}") for a in words for b in words for n in range(12)
]
model = qkv.train(pairs, steps=3, languages=("en", "de"))
best = model.translate("the dog and the cat")[0][0]
reveal_type(best)
reveal_type(best.text)
assert isinstance(best.text, str)

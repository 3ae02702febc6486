"""A search for hyperparameters."""

import qkv

texts = [f"{'warm and bright' if number % 2 else 'cold and dull'} song {number}" for number in range(200)]
labels = ["good" if number % 2 else "bad" for number in range(200)]
result = qkv.tune((texts, labels), model="bag", trials=1, each=0.05)
reveal_type(result)
reveal_type(result.recipe)
assert result.recipe is not None

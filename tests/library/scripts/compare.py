"""Architectures and baselines on the same examples."""

import qkv

texts = [f"{'warm and bright' if number % 2 else 'cold and dull'} song {number}" for number in range(200)]
labels = ["good" if number % 2 else "bad" for number in range(200)]
comparison = qkv.compare((texts, labels), models=["bag"], minutes=0.1)
reveal_type(comparison)
print(comparison)

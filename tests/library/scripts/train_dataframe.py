"""A DataFrame of pandas makes a classifier; the columns are found."""

import pandas as pd

import qkv

rows = range(200)
frame = pd.DataFrame(
    {
        "review": [f"{'warm' if number % 3 else 'cold'} song {number}" for number in rows],
        "stars": [5 if number % 3 else 1 for number in rows],
    }
)
model = qkv.train(frame, steps=10, model="bag", text="review", label="stars")
print(model.classify(["a warm song", "a cold song"]))

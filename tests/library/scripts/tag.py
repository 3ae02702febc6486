"""Sentences as words, with a tag for each word, make a tagger."""

import qkv

words = [["the", "dog", "sees", "Anna", str(number)] for number in range(150)]
tags = [["O", "O", "O", "B-PER", "O"] for _ in words]
model = qkv.train((words, tags), steps=5)
tagged = model.tag("the dog sees Anna 7")
reveal_type(tagged)
assert len(tagged[0]) == 5

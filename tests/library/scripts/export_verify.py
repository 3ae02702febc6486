"""A model for other programs, and proofs about it."""

import qkv

model = qkv.train(["the dog sat on the mat and the cat saw it"] * 200, model="gpt-nano", steps=3)
compared = model.export("for-others")
reveal_type(compared)
proofs = qkv.verify(model)
reveal_type(proofs)
assert all(proof.passed is not False for proof in proofs)

"""A tokenizer of one's own: pairs of letters."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import qkv


@dataclass(frozen=True)
class Pairs:
    kind: Literal["pairs"] = "pairs"
    tokens: tuple[str, ...] = ()

    def learn(self, texts: Iterable[str]) -> "Pairs":
        pairs = {text[at : at + 2] for text in texts for at in range(0, len(text), 2)}
        return replace(self, tokens=tuple(sorted(pairs)))

    def encode(self, text: str) -> list[int]:
        pairs = [text[at : at + 2] for at in range(0, len(text), 2)]
        return [self.tokens.index(pair) if pair in self.tokens else -1 for pair in pairs]

    def decode(self, ids: list[int]) -> str:
        return "".join(self.tokens[number] for number in ids)


model = qkv.train(["the dog sat on the mat"] * 200, steps=3, tokenizer=Pairs(), run="pairs")
reveal_type(model)
assert model.tokenizer.decode(model.tokenizer.encode("the dog ")) == "the dog "
assert isinstance(qkv.load("pairs").generate("the", length=5), str)

"""A metric and an early stop of one's own."""

import qkv


def dogs(model: qkv.Model) -> float:
    return float(model.generate("the", length=20, temperature=0.0).count("dog"))


events = list(
    qkv.train(
        ["the dog sat on the mat and the cat saw it"] * 200,
        run="counted",
        steps=20,
        settings={"training.evaluate_every": 2},
        metrics={"dogs": dogs},
        stop=lambda evaluation: evaluation.step >= 4,
        stream=True,
    )
)
last = events[-1]
assert type(last).__name__ == "Stopped", last

"""What the doctor says, in words: the verdict, what the loss is worth, which model to use, one thing to try next."""

from __future__ import annotations

import math

from qkv.evaluation.text_baselines import Baselines
from qkv.models.registry import defaults
from qkv.recipe.recipe import Recipe
from qkv.training.diagnosis import APART, Diagnosis

NEAR = 0.995  # of a baseline: a loss this close to it is not better
SHARED = 0.1  # of the validation text: from here on it is worth a word
NATS = "nats a token"


def verdict(found: Diagnosis, baselines: Baselines) -> str:
    """What the run did, in a sentence or two."""
    best, last, training = (f"{value:.2f}" for value in (found.validation, found.last, found.training))
    lowest = f"{found.lowest:.2f}"  # on the same tokens as `last`, which are fewer than those of `best`
    share, alone = shared(baselines), baselines.bits(baselines.unigram)
    was = f" ({lowest} at step {found.best:,})" if found.last > 1.01 * found.lowest else ""
    match found.kind:
        case "learning":
            fell = f"the second half of the run took {found.fell:.2f} {NATS} off the validation loss"
            if found.enough:
                return f"learned what it can: {fell}; seen more often, this text would be memorised."
            said = f"still learning: {fell}; a run twice as long would take off about {found.gain:.2f} more."
            return said + aside(found, baselines)
        case "plateau":
            fell = f"took only {found.fell:.3f} {NATS} off" if found.fell > 0 else "took nothing off"
            said = f"level: the second half of the run {fell} the validation loss; more time would bring little."
            return said + aside(found, baselines)
        case "unclear":
            return f"unclear: the validation text is too short to tell whether its loss still falls ({last} {NATS})."
        case "overfitting" if found.since is None:
            return f"overfitting: {training} {NATS} on the training text, but {last} on the validation text{was}."
        case "overfitting":
            rose = f"the validation loss rose from {lowest} to {last} {NATS}"
            return f"overfitting since step {found.since:,}: {rose} while the training loss fell to {training}."
        case "memorised":
            return f"memorised: {training} {NATS} on the training text, but {last} on the validation text{was}."
        case "unstable":
            rose = f"after step {found.since:,} the training loss jumped up"
            return f"unstable: {rose}, then came back to {training} {NATS}."
        case "diverged":
            end = f"the training loss ended at {training} {NATS}" if training != "nan" else "the loss is no number"
            return f"diverged: after step {found.since:,} it got worse and stayed so; {end}."
        case "underfit":
            return (
                f"underfit: {best} {NATS}, hardly better than the frequencies of single tokens "
                f"({baselines.unigram:.2f}); on the training text {training}."
            )
        case "leak":
            return f"the score says little: {share} of the validation text also stands in the training text."
        case "repetitive":
            return f"the text repeats itself: {share} of the validation text also stands in the training text."
        case "noise":
            pairs = f"{baselines.order}-grams {baselines.bits(baselines.ngram):.2f}"
            counted = f"single tokens {alone:.2f} bits per byte, {pairs}"
            return f"this text is like noise: what comes before a token does not help to predict it ({counted})."
        case "trivial":
            return f"the text hardly varies: to know its most frequent token is enough ({alone:.2f} bits per byte)."
        case "suspicious":
            counted = f"training loss {training}, {baselines.order}-grams {baselines.ngram:.2f}"
            return f"too good to be true: {best} {NATS} on validation text, far below all else ({counted})."
        case "unlike":
            return (
                f"the validation text is of another kind than the training text: {best} {NATS} on it, where training "
                f"text costs {training}."
            )


def aside(found: Diagnosis, baselines: Baselines) -> str:
    """What is worth knowing besides."""
    if baselines.shared >= SHARED:
        share = shared(baselines).capitalize()
        return f" {share} of the validation text also stands in the training text: new text costs more."
    if found.training < APART * found.validation:
        return f" Training text costs {found.training:.2f}: more text would help as well."
    return ""


def shared(baselines: Baselines) -> str:
    """The share of the validation text that stands in the training text; of a part of it, only the least is known."""
    all_of_it = baselines.searched is None or baselines.searched >= baselines.of
    return f"{'' if all_of_it else 'at least '}{baselines.shared:.0%}"


def comparison(bits: float, baselines: Baselines) -> str:
    """Whether a loss is normal for this text: between which of the models that only count.

    A count of a part of the training text tells how good counting is at least: with it a model can be worse than
    counting, never better.
    """
    ladder = {"guessing": baselines.uniform, "the frequencies of single tokens": baselines.unigram}
    counted = {f"a {order}-gram model": value for order, value in enumerate(baselines.ngrams, 2)}
    rungs = {name: baselines.bits(value) for name, value in (ladder | counted).items()}
    sound = [name for name in rungs if name in ladder or baselines.whole]
    beaten = {name: rungs[name] for name in sound if bits < NEAR * rungs[name]}
    said = f"{bits:.2f} bits per byte"
    if not beaten:
        return f"{said}: no better than guessing among all tokens ({rungs['guessing']:.2f})."
    lowest = min(beaten, key=lambda name: beaten[name])
    said += f": better than {lowest} ({beaten[lowest]:.2f})"
    ahead = {name: value for name, value in rungs.items() if bits >= NEAR * value and value < beaten[lowest]}
    better = []
    if baselines.xz is not None and bits < NEAR * baselines.xz:
        said += f" and than xz ({baselines.xz:.2f})" if baselines.packed_after_all else ""
    elif baselines.xz is not None:
        better.append(f"xz ({baselines.xz:.2f})")
    if ahead:
        nearest = max(ahead, key=lambda name: ahead[name])
        better.insert(0, f"{nearest} ({ahead[nearest]:.2f})")
    said += f", worse than {' and '.join(better)}." if better else "."
    return said + ("" if ahead else _open(baselines))


def _open(baselines: Baselines) -> str:
    """What a count of a part leaves open."""
    if baselines.whole:
        return ""
    best = f"{baselines.bits(baselines.ngram):.2f} with {baselines.order}-grams"
    tokens = f"{baselines.counted:,} of {baselines.of:,} training tokens"
    return f" Not known whether it is better than n-gram models: they counted only {tokens} ({best})."


def which(found: Diagnosis, evaluated: int) -> str:
    """Which checkpoint to use; `evaluated` is the step of the last evaluation."""
    if found.best >= evaluated:
        return f"use best/, the model of step {found.best:,}: the last evaluation was the best."
    later = "worse" if found.last > 1.01 * found.lowest else "no better"
    return f"use best/, the model of step {found.best:,}: later ones are {later} on the validation text."


def advice(found: Diagnosis, recipe: Recipe, steps: int, seconds: float) -> str:
    """The one thing to try next, as an option where there is one."""
    match found.kind:
        case "learning" if found.enough:
            return "more text, which helps most; more time brings little with this one"
        case "learning":
            return f"more time, {longer(steps, seconds, 2)}"
        case "plateau":
            if found.training < 0.9 * found.validation:
                return f"more text, or {regularized(recipe)}"
            return f"a larger model, {larger(recipe)}; if that is no better, this text has no more to teach"
        case "unclear":
            return "more text to check on, --valid OTHER.txt or --set corpus.valid_fraction=0.2"
        case "overfitting" | "memorised":
            return f"more text, which helps most; or {regularized(recipe)}"
        case "diverged" | "unstable":
            return f"a lower learning rate, {lower_rates(recipe)}"
        case "underfit":
            return more_effort(recipe, steps, seconds)
        case "leak" | "suspicious":
            return "text to check on that the training text does not hold, --valid OTHER.txt"
        case "repetitive":
            return "text to check on that is new, --valid OTHER.txt; and training text that repeats itself less"
        case "noise":
            return "another text: compressed, encrypted or shuffled ones look like this, and no setting helps"
        case "trivial":
            return "another text: there is nothing to learn in this one"
        case "unlike":
            return "text to check on of the kind you train on, --valid OTHER.txt"


def longer(steps: int, seconds: float, times: int) -> str:
    return f"--steps {times * steps}" if seconds < 30 else f"--minutes {math.ceil(times * seconds / 60)}"


def larger(recipe: Recipe) -> str:
    model = recipe.model
    layers = hasattr(model, "heads")  # a Transformer grows in depth, the others in width
    return f"--set model.layers={2 * model.layers}" if layers else f"--set model.width={2 * model.width}"


def regularized(recipe: Recipe) -> str:
    """Dropout first; where there is much already, a smaller model."""
    model = recipe.model
    if getattr(model, "dropout", 0.0) < 0.2:
        return "--set model.dropout=0.2"
    return f"--set model.layers={model.layers // 2}" if model.layers > 1 else f"--set model.width={model.width // 2}"


def more_effort(recipe: Recipe, steps: int, seconds: float) -> str:
    """Far from the usual rates: back to them. Else more steps, and only then a larger model."""
    if any(not 0.1 < share < 5 for share in _shares(recipe).values()):
        return f"the default learning rate, {_set(usual_rates(recipe))}"
    return f"more time, {longer(steps, seconds, 10)}" if steps < 500 else f"a larger model, {larger(recipe)}"


def lower_rates(recipe: Recipe) -> str:
    """The usual ones, or a third of what was too much."""
    if any(share > 2 for share in _shares(recipe).values()):
        return _set(usual_rates(recipe))
    return _set({name: getattr(recipe.training, name) / 3 for name in usual_rates(recipe)})


def usual_rates(recipe: Recipe) -> dict[str, float]:
    usual = defaults(recipe.model.kind).optimizers[recipe.training.optimizer].values()
    return {name: usual[name] for name in ("learning_rate", "matrix_learning_rate") if name in usual}


def _shares(recipe: Recipe) -> dict[str, float]:
    return {name: getattr(recipe.training, name) / usual for name, usual in usual_rates(recipe).items()}


def _set(rates: dict[str, float]) -> str:
    return " ".join(f"--set training.{name}={rate:.2g}" for name, rate in rates.items())

"""The doctor's messages: the verdict, what the loss is worth, which model to use, one thing to try next."""

from __future__ import annotations

import math

from qkv.evaluation.text_baselines import Baselines
from qkv.models.registry import defaults
from qkv.recipe.recipe import Recipe
from qkv.training.diagnosis import PARTLY_MEMORISED, Diagnosis, Kind

NEAR = 0.995  # of a baseline: a loss this close to it is not better
SHARED = 0.1  # of the validation text: from here on it is worth a word
NATS = "nats a token"
VERDICTS: dict[Kind, str] = {
    "unclear": "unclear: the validation text is too short to tell whether its loss still falls ({last} {nats}).",
    "overfitting": "overfitting: {training} {nats} on the training text, but {last} on the validation text{was}.",
    "memorised": "memorised: {training} {nats} on the training text, but {last} on the validation text{was}.",
    "unstable": "unstable: after step {since} the training loss jumped up, then came back to {training} {nats}.",
    "diverged": "diverged: after step {since} it got worse and stayed so; {end}.",
    "underfit": "underfit: {best} {nats}, hardly better than the frequencies of single tokens ({unigram}); on the "
    "training text {training}.",
    "leak": "the score says little: {share} of the validation text also stands in the training text.",
    "repetitive": "the text repeats itself: {share} of the validation text also stands in the training text.",
    "noise": "this text is like noise: what comes before a token does not help to predict it (single tokens "
    "{unigram_bits} bits per byte, {order}-grams {ngram_bits}).",
    "trivial": "the text hardly varies: to know its most frequent token is enough ({unigram_bits} bits per byte).",
    "suspicious": "too good to be true: {best} {nats} on validation text, far below all else (training loss "
    "{training}, {order}-grams {ngram}).",
    "unlike": "the validation text is of another kind than the training text: {best} {nats} on it, where training "
    "text costs {training}.",
}
ADVICE: dict[Kind, str] = {
    "unclear": "more text to check on, --valid OTHER.txt or --set corpus.valid_fraction=0.2",
    "leak": "text to check on that the training text does not hold, --valid OTHER.txt",
    "suspicious": "text to check on that the training text does not hold, --valid OTHER.txt",
    "repetitive": "text to check on that is new, --valid OTHER.txt; and training text that repeats itself less",
    "noise": "another text: compressed, encrypted or shuffled ones look like this, and no setting helps",
    "trivial": "another text: there is nothing to learn in this one",
    "unlike": "text to check on of the kind you train on, --valid OTHER.txt",
}


def verdict(diagnosis: Diagnosis, baselines: Baselines) -> str:
    """What the run did, in a sentence or two."""
    # `lowest` and `last` are of the same tokens, which are fewer than those of `validation`
    lowest, last, training = (f"{value:.2f}" for value in (diagnosis.lowest, diagnosis.last, diagnosis.training))
    match diagnosis.kind:
        case "learning":
            fell = f"the second half of the run took {diagnosis.fell:.2f} {NATS} off the validation loss"
            if diagnosis.enough:
                return f"learned what it can: {fell}; seen more often, this text would be memorised."
            more = f"a run twice as long would take off about {diagnosis.gain:.2f} more"
            return f"still learning: {fell}; {more}.{aside(diagnosis, baselines)}"
        case "plateau":
            fell = f"took only {diagnosis.fell:.3f} {NATS} off" if diagnosis.fell > 0 else "took nothing off"
            level = f"the second half of the run {fell} the validation loss; more time would bring little"
            return f"level: {level}.{aside(diagnosis, baselines)}"
        case "overfitting" if diagnosis.since is not None:
            rose = f"the validation loss rose from {lowest} to {last} {NATS}"
            return f"overfitting since step {diagnosis.since:,}: {rose} while the training loss fell to {training}."
    broken = math.isnan(diagnosis.training)
    nats = {"best": diagnosis.validation, "unigram": baselines.unigram, "ngram": baselines.ngram}
    nats |= {f"{name}_bits": baselines.bits(value) for name, value in nats.items()}
    return VERDICTS[diagnosis.kind].format(
        last=last,
        training=training,
        since=f"{diagnosis.since or 0:,}",
        was=f" ({lowest} at step {diagnosis.best:,})" if diagnosis.last > 1.01 * diagnosis.lowest else "",
        end="the loss is no number" if broken else f"the training loss ended at {training} {NATS}",
        share=shared(baselines),
        order=baselines.order,
        nats=NATS,
        **{name: f"{value:.2f}" for name, value in nats.items()},
    )


def aside(diagnosis: Diagnosis, baselines: Baselines) -> str:
    """What is worth knowing besides."""
    if baselines.shared >= SHARED:
        share = shared(baselines).capitalize()
        return f" {share} of the validation text also stands in the training text: new text costs more."
    if diagnosis.training < PARTLY_MEMORISED * diagnosis.validation:
        return f" Training text costs {diagnosis.training:.2f}: more text would help as well."
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
    sentence = f"{bits:.2f} bits per byte"
    if not beaten:
        return f"{sentence}: no better than guessing among all tokens ({rungs['guessing']:.2f})."
    lowest = min(beaten, key=lambda name: beaten[name])
    sentence += f": better than {lowest} ({beaten[lowest]:.2f})"
    ahead = {name: value for name, value in rungs.items() if bits >= NEAR * value and value < beaten[lowest]}
    better = []
    if baselines.xz is not None and bits < NEAR * baselines.xz:
        sentence += f" and than xz ({baselines.xz:.2f})" if baselines.packed_after_all else ""
    elif baselines.xz is not None:
        better.append(f"xz ({baselines.xz:.2f})")
    if ahead:
        nearest = max(ahead, key=lambda name: ahead[name])
        better.insert(0, f"{nearest} ({ahead[nearest]:.2f})")
    sentence += f", worse than {' and '.join(better)}." if better else "."
    return sentence + ("" if ahead else _open(baselines))


def _open(baselines: Baselines) -> str:
    """What a count of a part leaves open."""
    if baselines.whole:
        return ""
    best = f"{baselines.bits(baselines.ngram):.2f} with {baselines.order}-grams"
    tokens = f"{baselines.counted:,} of {baselines.of:,} training tokens"
    return f" Not known whether it is better than n-gram models: they counted only {tokens} ({best})."


def which(diagnosis: Diagnosis, evaluated: int) -> str:
    """Which checkpoint to use; `evaluated` is the step of the last evaluation."""
    if diagnosis.best >= evaluated:
        return f"use best/, the model of step {diagnosis.best:,}: the last evaluation was the best."
    later = "worse" if diagnosis.last > 1.01 * diagnosis.lowest else "no better"
    return f"use best/, the model of step {diagnosis.best:,}: later ones are {later} on the validation text."


def advice(diagnosis: Diagnosis, recipe: Recipe, steps: int, seconds: float) -> str:
    """The one thing to try next, as an option where there is one."""
    match diagnosis.kind:
        case "learning" if diagnosis.enough:
            return "more text, which helps most; more time brings little with this one"
        case "learning":
            return f"more time, {longer(steps, seconds, 2)}"
        case "plateau" if diagnosis.training < 0.9 * diagnosis.validation:
            return f"more text, or {regularized(recipe)}"
        case "plateau":
            return f"a larger model, {larger(recipe)}; if that is no better, this text has no more to teach"
        case "overfitting" | "memorised":
            return f"more text, which helps most; or {regularized(recipe)}"
        case "diverged" | "unstable":
            return f"a lower learning rate, {lower_rates(recipe)}"
        case "underfit":
            return more_effort(recipe, steps, seconds)
    return ADVICE[diagnosis.kind]


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
    """Far from the default rates: back to them. Else more steps, and only then a larger model."""
    if any(not 0.1 < share < 5 for share in _shares(recipe).values()):
        return f"the default learning rate, {_set(default_rates(recipe))}"
    return f"more time, {longer(steps, seconds, 10)}" if steps < 500 else f"a larger model, {larger(recipe)}"


def lower_rates(recipe: Recipe) -> str:
    """The default ones, or a third of what was too much."""
    if any(share > 2 for share in _shares(recipe).values()):
        return _set(default_rates(recipe))
    return _set({name: getattr(recipe.training, name) / 3 for name in default_rates(recipe)})


def default_rates(recipe: Recipe) -> dict[str, float]:
    chosen = defaults(recipe.model.kind).optimizers[recipe.training.optimizer].values()
    return {name: chosen[name] for name in ("learning_rate", "matrix_learning_rate") if name in chosen}


def _shares(recipe: Recipe) -> dict[str, float]:
    return {name: getattr(recipe.training, name) / default for name, default in default_rates(recipe).items()}


def _set(rates: dict[str, float]) -> str:
    return " ".join(f"--set training.{name}={rate:.2g}" for name, rate in rates.items())

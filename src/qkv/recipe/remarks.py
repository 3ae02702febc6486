"""What the doctor says, in words: the verdict, what the loss is worth, which model to use, one thing to try next."""

from __future__ import annotations

from qkv.evaluation.baselines import Baselines
from qkv.recipe import choices
from qkv.recipe.recipe import Recipe
from qkv.training.diagnosis import Diagnosis

NEAR = 0.995  # of a baseline: a loss this close to it is not better
NATS = "nats a token"


def verdict(found: Diagnosis, baselines: Baselines) -> str:
    """One sentence; losses are in nats a token."""
    best, last, training = (f"{value:.2f}" for value in (found.validation, found.last, found.training))
    share, alone = f"{baselines.shared:.0%}", baselines.bits(baselines.unigram)
    match found.kind:
        case "learning":
            fell = f"the second half of the run took {found.fell:.2f} {NATS} off the validation loss"
            return f"still learning: {fell}; a run twice as long would take off about {found.gain:.2f} more."
        case "plateau":
            fell = f"took only {found.fell:.3f} {NATS} off" if found.fell > 0 else "took nothing off"
            return f"level: the second half of the run {fell} the validation loss; more time would bring little."
        case "unclear":
            return f"unclear: the validation text is too short to tell whether its loss still falls ({last} {NATS})."
        case "overfitting" if found.since is None:
            return f"overfitting: {training} {NATS} on the training text, {best} on the validation text, which stays."
        case "overfitting":
            rose = f"the validation loss rose from {best} to {last} {NATS}"
            return f"overfitting since step {found.since:,}: {rose} while the training loss fell to {training}."
        case "memorised":
            was = f", up from {best} at step {found.since:,}" if found.since else ""
            return f"learned by heart: {training} {NATS} on the training text, but {last} on the validation text{was}."
        case "unstable":
            return f"unstable: the training loss jumped up near step {found.since:,} and came back."
        case "diverged":
            end = f"the training loss ended at {training} {NATS}" if training != "nan" else "the loss is no number"
            return f"diverged: after step {found.since:,} it got worse and stayed so; {end}."
        case "underfit":
            return (
                f"underfit: {best} {NATS}, hardly better than the frequencies of single pieces "
                f"({baselines.unigram:.2f}); on the training text {training}."
            )
        case "leak":
            return f"the score says little: {share} of the validation text also stands in the training text."
        case "repetitive":
            return f"the text repeats itself: {share} of the validation text also stands in the training text."
        case "noise":
            pairs = f"{baselines.order}-grams {baselines.bits(baselines.ngram):.2f}"
            counted = f"single pieces {alone:.2f} bits per byte, {pairs}"
            return f"this text is like noise: what comes before a piece does not help to predict it ({counted})."
        case "trivial":
            return f"the text hardly varies: to know its most frequent piece is enough ({alone:.2f} bits per byte)."
        case "suspicious":
            counted = f"training loss {training}, {baselines.order}-grams {baselines.ngram:.2f}"
            return f"too good to be true: {best} {NATS} on validation text, far below all else ({counted})."
        case "unlike":
            return (
                f"the validation text is of another kind than the training text: {best} {NATS} on it, where training "
                f"text costs {training}."
            )


def comparison(bits: float, baselines: Baselines) -> str:
    """Whether a loss is normal for this text: between which of the models that only count."""
    ladder = {"guessing": baselines.uniform, "the frequencies of single pieces": baselines.unigram}
    ladder |= {f"a {order}-gram model": value for order, value in enumerate(baselines.ngrams, 2)}
    rungs = {name: baselines.bits(value) for name, value in ladder.items()}
    beaten = {name: value for name, value in rungs.items() if bits < NEAR * value}
    said = f"{bits:.2f} bits per byte"
    if not beaten:
        return f"{said}: no better than guessing among all pieces ({rungs['guessing']:.2f})."
    lowest = min(beaten, key=lambda name: beaten[name])
    said += f": better than {lowest} ({beaten[lowest]:.2f})"
    ahead = {name: value for name, value in rungs.items() if name not in beaten and value < beaten[lowest]}
    better = []
    if baselines.xz is not None and bits < NEAR * baselines.xz:
        said += f" and than xz ({baselines.xz:.2f})"
    elif baselines.xz is not None:
        better.append(f"xz ({baselines.xz:.2f})")
    if ahead:
        nearest = max(ahead, key=lambda name: ahead[name])
        better.insert(0, f"{nearest} ({ahead[nearest]:.2f})")
    return said + (f", worse than {' and '.join(better)}." if better else ".")


def which(found: Diagnosis, evaluated: int) -> str:
    """Which checkpoint to use; `evaluated` is the step of the last evaluation."""
    if found.best >= evaluated:
        return f"use best/, the model of step {found.best:,}: the last evaluation was the best."
    later = "what came after it went wrong" if found.kind in ("diverged", "unstable") else "later ones are no better"
    return f"use best/, the model of step {found.best:,}: {later} on the validation text."


def advice(found: Diagnosis, recipe: Recipe, steps: int, seconds: float) -> str:
    """The one thing to try next, as an option where there is one."""
    match found.kind:
        case "learning":
            return f"more time: {longer(steps, seconds, 2)}"
        case "plateau":
            gap = (found.validation - found.training) / max(found.validation, 1e-9)
            if gap > 0.1:
                return f"more text, or {regularized(recipe)}"
            return f"a larger model: {larger(recipe)}; if that is no better, this text has no more to teach"
        case "unclear":
            return "more text to check on: --valid OTHER.txt, or --set corpus.valid_fraction=0.2"
        case "overfitting" | "memorised":
            return f"more text helps most; with this one, {regularized(recipe)}"
        case "diverged" | "unstable":
            return f"a lower rate: {rates(recipe, 1 / 3)}"
        case "underfit":
            return more_effort(recipe, steps, seconds)
        case "leak" | "suspicious":
            return "check on text that the training text does not hold: --valid OTHER.txt"
        case "repetitive":
            return "check on text that is new: --valid OTHER.txt; to learn more, give text that repeats itself less"
        case "noise":
            return "look at the text: what is compressed, encrypted or shuffled looks like this; no setting helps"
        case "trivial":
            return "look at the text: there is nothing in it to learn"
        case "unlike":
            return (
                "check on text of the kind you train on, or train on more of the kind you check on: --valid OTHER.txt"
            )


def longer(steps: int, seconds: float, times: int) -> str:
    if seconds < 30:
        return f"--steps {times * steps}"
    return f"--minutes {max(1, round(times * seconds / 60))}"


def larger(recipe: Recipe) -> str:
    model = recipe.model
    return (
        f"--set model.layers={2 * model.layers}" if hasattr(model, "heads") else f"--set model.width={2 * model.width}"
    )


def regularized(recipe: Recipe) -> str:
    """Dropout first; where there is much already, a smaller model."""
    model = recipe.model
    if model.dropout < 0.2:
        return "--set model.dropout=0.2"
    return f"--set model.layers={model.layers // 2}" if model.layers > 1 else f"--set model.width={model.width // 2}"


def rates(recipe: Recipe, times: float) -> str:
    training = recipe.training
    said = f"--set training.rate={times * training.rate:.2g}"
    return (
        f"{said} --set training.matrix_rate={times * training.matrix_rate:.2g}"
        if training.optimizer == "muon"
        else said
    )


def more_effort(recipe: Recipe, steps: int, seconds: float) -> str:
    """Far from the usual rates: back to them. Else more steps, and only then a larger model."""
    training = recipe.training
    usual = choices.RATES[recipe.model.kind][training.optimizer]
    names = [name for name in ("rate", "matrix_rate") if usual.get(name)]
    if any(not 0.1 < getattr(training, name) / usual[name] < 5 for name in names):
        return "the usual rate: " + " ".join(f"--set training.{name}={usual[name]:g}" for name in names)
    return f"more time: {longer(steps, seconds, 10)}" if steps < 500 else f"a larger model: {larger(recipe)}"

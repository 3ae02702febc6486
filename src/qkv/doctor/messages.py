"""The sentences of the doctor: the verdict on a run, the comparison with baselines, the checkpoint to use, advice."""

from __future__ import annotations

import math

from qkv.evaluation.text_baselines import Baselines
from qkv.models.registry import defaults
from qkv.recipe.recipe import Recipe
from qkv.training.clock import Clock
from qkv.training.diagnosis import PARTLY_MEMORISED, Diagnosis, Fall, Kind

EARLY_SHARE = 0.1  # of the time for training: a run with more of it left ended early
MENTIONED_SHARE = 0.1  # of the validation text: a smaller part that is also in the training text is not mentioned
NATS = "nats per token"
VERDICTS: dict[Kind, str] = {
    "unclear": "unclear: {fall}; this does not tell a flat curve from a falling one.",
    "learning": "still learning: {fall}.",
    "plateau": "plateau: {fall}.",
    "rising": "the validation loss rises: {fall}.",
    "overfitting": "overfitting: {training} {nats} on the training text, but {last} on the validation text{was}.",
    "memorised": "memorised: {training} {nats} on the training text, but {last} on the validation text{was}.",
    "unstable": "unstable: after step {since} the training loss jumped up, then came back to {training} {nats}.",
    "diverged": "diverged: after step {since} the loss rose and did not come back; {end}.",
    "underfit": "underfit: {best} {nats}, hardly better than the frequencies of single tokens ({unigram}); on the "
    "training text {training}.",
    "leak": "the score says little: {share} of the validation text is also in the training text.",
    "repetitive": "the text repeats itself: {share} of the validation text is also in the training text.",
    "noise": "this text is like noise: neither n-grams nor the model predict a token better from the tokens before it "
    "(bits per byte: single tokens {unigram_bits}, {order}-grams {ngram_bits}, the model {best_bits}).",
    "trivial": "the text hardly varies: the frequencies of its tokens alone are enough ({unigram_bits} bits per byte).",
    "suspicious": "too good to be true: {best} {nats} on the validation text, far below the training loss, "
    "{training}, and {order}-grams, {ngram}.",
    "unlike": "the validation text is unlike the training text: {best} {nats} on it, but {training} on the training "
    "text.",
}
ADVICE: dict[Kind, str] = {
    "unclear": "more validation text, --valid OTHER.txt or --set corpus.valid_fraction=0.2",
    "leak": "validation text that is not in the training text, --valid OTHER.txt",
    "suspicious": "validation text that is not in the training text, --valid OTHER.txt",
    "repetitive": "new validation text, --valid OTHER.txt; and training text that repeats itself less",
    "noise": "another text: compressed, encrypted or shuffled text looks like this",
    "trivial": "another text",
    "unlike": "validation text of the same kind as the training text, --valid OTHER.txt",
}


def verdict(diagnosis: Diagnosis, baselines: Baselines) -> str:
    """One or two sentences on what happened in the run."""
    # `lowest` and `last` are losses on the same tokens, which are fewer than those of `validation`
    lowest, last, training = (f"{value:.2f}" for value in (diagnosis.lowest, diagnosis.last, diagnosis.training))
    if diagnosis.kind == "overfitting" and diagnosis.since is not None:
        return overfitting_since(diagnosis, f" {NATS}")
    nats = {"best": diagnosis.validation, "unigram": baselines.unigram, "ngram": baselines.ngram}
    nats |= {f"{name}_bits": baselines.bits(value) for name, value in nats.items()}
    sentence = VERDICTS[diagnosis.kind].format(
        last=last,
        training=training,
        since=f"{diagnosis.since or 0:,}",
        was=f" ({lowest} at step {diagnosis.best:,})" if diagnosis.last > 1.01 * diagnosis.lowest else "",
        end="the loss is not a number"
        if math.isnan(diagnosis.training)
        else f"the training loss ended at {training} {NATS}",
        share=shared_share(baselines),
        order=baselines.order,
        nats=NATS,
        fall=fall_in_words(diagnosis.fall, f" {NATS}"),
        **{name: f"{value:.2f}" for name, value in nats.items()},
    )
    return sentence + (side_remark(diagnosis, baselines) if diagnosis.kind in ("learning", "plateau") else "")


def curve_verdict(diagnosis: Diagnosis) -> str:
    """A sentence on the losses of a run of any task."""
    if diagnosis.kind == "overfitting":
        return overfitting_since(diagnosis)
    if diagnosis.kind == "diverged":
        return f"diverged: after step {diagnosis.since:,} the training loss rose and did not come back."
    return VERDICTS[diagnosis.kind].format(fall=fall_in_words(diagnosis.fall))


def overfitting_since(diagnosis: Diagnosis, unit: str = "") -> str:
    """`lowest` and `last` are losses on the same rows."""
    losses = (diagnosis.lowest, diagnosis.last, diagnosis.training)
    lowest, last, training = (f"{value:.2f}" if value >= 0.1 else f"{value:.2g}" for value in losses)
    rose = f"the validation loss rose from {lowest} to {last}{unit}"
    return f"overfitting since step {diagnosis.since:,}: {rose} while the training loss fell to {training}."


def fall_in_words(fall: Fall, unit: str = "") -> str:
    """By how much a loss fell or rose in the second half of a run, with the 95 % interval."""
    if not fall.known:
        return "there are too few evaluations, or validation rows, to compare"
    sign = 1 if fall.mean >= 0 else -1
    low, high = sorted((sign * fall.low, sign * fall.high))
    change = f"{'fell' if sign > 0 else 'rose'} by {abs(fall.mean):.3g}{unit} (95 % interval {low:.2g} to {high:.2g})"
    return f"from step {fall.first:,} to step {fall.last:,} the {fall.of} loss {change}"


def side_remark(diagnosis: Diagnosis, baselines: Baselines) -> str:
    """A second sentence for runs that learn, or nothing."""
    if baselines.shared >= MENTIONED_SHARE:
        share = shared_share(baselines).capitalize()
        return f" {share} of the validation text is also in the training text: on new text the loss may be higher."
    if diagnosis.training < PARTLY_MEMORISED * diagnosis.validation:
        return f" The training loss is {diagnosis.training:.2f}, the validation loss {diagnosis.validation:.2f}."
    return ""


def shared_share(baselines: Baselines) -> str:
    """The share of the validation text that is also in the training text; a lower bound if only a part of the training
    text was searched."""
    searched_all = baselines.searched is None or baselines.searched >= baselines.training_tokens
    return f"{'' if searched_all else 'at least '}{baselines.shared:.0%}"


def checkpoint_to_use(diagnosis: Diagnosis, last_evaluation: int) -> str:
    """Which checkpoint to use; `last_evaluation` is the step of the last evaluation."""
    if diagnosis.best >= last_evaluation:
        return f"use best/, the model of step {diagnosis.best:,}: the last evaluation was the best."
    later = f"the last evaluation, after step {last_evaluation:,}, has {diagnosis.last:.3f}"
    return f"use best/, the model of step {diagnosis.best:,}: its validation loss was {diagnosis.lowest:.3f}; {later}."


def advice(diagnosis: Diagnosis, recipe: Recipe, steps: int, seconds: float) -> str:
    """The one thing to try next, with an option if there is one."""
    match diagnosis.kind:
        case "learning":
            return f"more time, {longer(steps, seconds, 2)}"
        case "unclear" if not diagnosis.fall.known:
            return f"more evaluations, --set training.evaluate_every={max(1, steps // 10)}"
        case "plateau" if diagnosis.training < 0.9 * diagnosis.validation:
            return f"more text, or {regularized(recipe)}"
        case "plateau":
            return f"a larger model, {larger(recipe)}"
        case "overfitting" | "memorised":
            return f"more text; or {regularized(recipe)}"
        case "diverged" | "unstable" | "rising":
            return f"a lower learning rate, {lower_rates(recipe)}"
        case "underfit":
            return more_effort(recipe, steps, seconds)
    return ADVICE[diagnosis.kind]


def longer(steps: int, seconds: float, times: int) -> str:
    """An option that makes a run of these steps and seconds `times` as long; steps for very short runs."""
    return f"--steps {times * steps}" if seconds < 30 else f"--minutes {math.ceil(times * seconds / 60)}"


def larger(recipe: Recipe) -> str:
    model = recipe.model
    is_transformer = hasattr(model, "heads")  # it gets deeper, other models get wider
    return f"--set model.layers={2 * model.layers}" if is_transformer else f"--set model.width={2 * model.width}"


def regularized(recipe: Recipe) -> str:
    """More dropout; if there is much already, a smaller model."""
    model = recipe.model
    if getattr(model, "dropout", 0.0) < 0.2:
        return "--set model.dropout=0.2"
    return f"--set model.layers={model.layers // 2}" if model.layers > 1 else f"--set model.width={model.width // 2}"


def more_effort(recipe: Recipe, steps: int, seconds: float) -> str:
    """The default learning rates if those of the run are far from them; else more time, or a larger model."""
    if any(not 0.1 < ratio < 5 for ratio in _ratios_to_default(recipe).values()):
        return f"the default learning rate, {_set_options(default_rates(recipe))}"
    return f"more time, {longer(steps, seconds, 10)}" if steps < 500 else f"a larger model, {larger(recipe)}"


def lower_rates(recipe: Recipe) -> str:
    """The default learning rates if those of the run are far above them; else a third of the latter."""
    if any(ratio > 2 for ratio in _ratios_to_default(recipe).values()):
        return _set_options(default_rates(recipe))
    return _set_options({name: getattr(recipe.training, name) / 3 for name in default_rates(recipe)})


def default_rates(recipe: Recipe) -> dict[str, float]:
    optimizer_defaults = defaults(recipe.model.kind).optimizers[recipe.training.optimizer].values()
    names = ("learning_rate", "matrix_learning_rate")
    return {name: optimizer_defaults[name] for name in names if name in optimizer_defaults}


def _ratios_to_default(recipe: Recipe) -> dict[str, float]:
    return {name: getattr(recipe.training, name) / default for name, default in default_rates(recipe).items()}


def _set_options(rates: dict[str, float]) -> str:
    return " ".join(f"--set training.{name}={rate:.2g}" for name, rate in rates.items())


def early_end(clock: Clock | None) -> str:
    """Why a run with a time budget ended with much of its time left; nothing for other runs."""
    left = clock.minutes_left() if clock else 0.0
    if clock is None or clock.flat is None or 60 * left < EARLY_SHARE * (clock.ends_at - clock.began):
        return ""
    at, best = clock.flat
    return (
        f"ended {left:.1f} minutes before its time: at step {at:,} the validation score had not improved since step "
        f"{best:,}"
    )

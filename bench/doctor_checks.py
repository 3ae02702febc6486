# ruff: noqa: E501
"""The checks of bench/doctor.py: what is claimed about a run, and the same numbers computed in another way."""

from __future__ import annotations

import json
import lzma
import math
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch

NUMBER = r"[+-]?\d[\d,]*(?:\.\d+)?(?:e[+-]?\d+)?"
INTERVAL = rf"(?P<low>{NUMBER}) to (?P<high>{NUMBER})"
SCORE = re.compile(
    rf"(?P<metric>[^()]+?) (?P<value>{NUMBER})(?: \({INTERVAL}\))? on (?P<rows>[\d,]+)[a-z ]*: (?P<rest>.*)"
)
COMPARED = re.compile(
    rf"(?P<verdict>better than|worse than|not distinguishable from|equal to) (?P<name>.+?), (?P<score>{NUMBER})"
    rf"(?:; the difference is (?P<difference>{NUMBER}) \({INTERVAL}\)(?P<partial>, and fitted on all of it .*)?|; no row differs)?\.?$"
)
FALL = re.compile(
    rf"from step (?P<first>[\d,]+) to step (?P<last>[\d,]+) the (?P<of>validation|training) loss (?P<way>fell|rose) by "
    rf"(?P<by>{NUMBER})(?: nats per token)? \(95 % interval (?P<low>{NUMBER}) to (?P<high>{NUMBER})\)"
)
WORDS = {
    "better than": "better",
    "worse than": "worse",
    "not distinguishable from": "not distinguishable",
    "equal to": "equal",
}
DRAWS = 4000


def value(text: str) -> float:
    return float(text.replace(",", ""))


def near(said: str, true: float, slack: float = 0.0) -> bool:
    """Whether a printed number is the true one, rounded to its digits."""
    digits = len(said.split("e")[0].partition(".")[2])
    unit = 10.0**-digits * (10 ** int(said.split("e")[1]) if "e" in said else 1)
    significant = abs(true) * 10.0 ** -(len(said.strip("+-0.").replace(".", "")) or 1)
    return abs(value(said) - true) <= max(0.51 * unit, 0.51 * significant if "e" in said else 0) + slack + 1e-9


@dataclass(frozen=True)
class Claim:
    text: str
    row: dict[str, Any] | None = None  # of the table in --json


@dataclass
class Facts:
    """What a run says of itself in files, and what was computed from its model and rows."""

    session: Any
    values: dict[str, Any]
    log: list[dict[str, Any]]
    score: Callable[[Any], Any] = lambda totals: totals  # of totals (B, K) -> (B,)
    own: Any = None  # statistics of each row, (N, K)
    others: dict[str, Any] = field(default_factory=dict)  # of the baselines, by the first word of their names
    alone: dict[str, float] = field(default_factory=dict)  # baselines with one number
    share_of_rows: bool = False
    lower: bool = False
    more: dict[str, float] = field(default_factory=dict)

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        return [line for line in self.log if line.get("validation_loss") is not None]

    @property
    def losses(self) -> list[float]:
        return [line["loss"] for line in self.log if line.get("loss") is not None]


def altered(claim: Claim) -> Claim | None:
    """The claim with its first number changed by a third; None without a number that is a measurement."""
    if claim.row is not None:
        score = claim.row["score"]
        return None if not score else Claim(claim.text, {**claim.row, "score": score * 4 / 3})
    found = None if claim.text.startswith("try:") else re.search(r"\d[\d,]*(?:\.\d+)?", claim.text)
    if found is None or not value(found[0]):
        return None
    digits = len(found[0].partition(".")[2])
    changed = f"{value(found[0]) * 4 / 3 + 10.0**-digits:.{digits}f}"
    return Claim(claim.text[: found.start()] + changed + claim.text[found.end() :])


def table_of(values: dict[str, Any]) -> Any:
    return values["baselines"] if "baselines" in values else values["doctor"]["table"]


def claims(lines: list[str], values: dict[str, Any]) -> Iterator[Claim]:
    for line in lines:
        yield from (
            Claim(part) for part in re.split(r"(?<=\.) (?=It is |The training loss is |\d+% of|At least)", line)
        )
    if (table := table_of(values)) is None:
        return
    for row in table["systems"]:
        yield Claim(
            f"table: {row['name']} {row['score']} ({row['score_low']} to {row['score_high']}), {row['the_model_is']}",
            row,
        )
    yield Claim(f"table: this model {table['model']} ({table['model_low']} to {table['model_high']})",
                {"name": "this model", "score": table["model"], "score_low": table["model_low"], "score_high": table["model_high"]})  # fmt: skip


def judge(claim: Claim, facts: Facts) -> str:
    """Empty if the claim is true, "borderline" if the numbers are and a verdict is too close to call, else why not."""
    if claim.row is not None:
        return table_row(claim.row, facts)
    text = claim.text
    if found := SCORE.fullmatch(text):
        return head(found, facts)
    if text.startswith("It is better than none"):
        verdicts = [
            row["the_model_is"] for row in (facts.values.get("baselines") or facts.values["doctor"]["table"])["systems"]
        ]
        return "" if "better" not in verdicts else f"verdicts are {verdicts}"
    if text.startswith("It is ") and (found := COMPARED.fullmatch(text.removeprefix("It is "))):
        return compared(found, facts)
    for pattern, check in SENTENCES:
        if found := re.fullmatch(pattern, text):
            return check(found, facts)
    return "no check understands this sentence"


def head(found: re.Match[str], facts: Facts) -> str:
    if facts.own is not None:
        if not near(found["value"], total(facts, facts.own), 1e-6):
            return f"the score is {total(facts, facts.own)}"
        if int(value(found["rows"])) != facts.more.get("rows", len(facts.own)):
            return f"{facts.more.get('rows', len(facts.own))} rows were scored"
        if found["low"] and (wrong := interval_is_wrong(value(found["low"]), value(found["high"]), facts, facts.own)):
            return wrong
    rest = COMPARED.fullmatch(found["rest"])
    return "the comparison is not understood" if rest is None else compared(rest, facts)


def total(facts: Facts, rows: Any) -> float:
    return float(facts.score(np.asarray(rows, float).sum(0)[None])[0])


def other(name: str, facts: Facts) -> Any:
    return next((rows for key, rows in facts.others.items() if name.startswith(key)), None)


def compared(found: re.Match[str], facts: Facts) -> str:
    name, verdict = found["name"], WORDS[found["verdict"]]
    rows = other(name, facts)
    if rows is None:
        alone = next((number for key, number in facts.alone.items() if name.startswith(key)), None)
        if alone is None:
            return f"{name} was not computed"
        return "" if near(found["score"], alone, 0.02 * abs(alone)) else f"{name} has {alone}"
    if not near(found["score"], total(facts, rows), facts.more.get("slack", 0.0)):
        return f"{name} has {total(facts, rows)}"
    apart = total(facts, facts.own) - total(facts, rows)
    if found["difference"] and not near(found["difference"], apart, facts.more.get("slack", 0.0)):
        return f"the difference is {apart}"
    drawn = differences(facts, facts.own, rows)
    if found["difference"]:
        low, high = value(found["low"]), value(found["high"])
        if not low <= value(found["difference"]) <= high:
            return "the difference lies outside its interval"
        true = np.percentile(drawn, [2.5, 97.5])
        width = max(high - low, true[1] - true[0])
        if low > true[0] + 0.2 * width or high < true[1] - 0.2 * width:
            return f"the interval of the difference is {true}"
    return verdict_is_wrong(verdict, facts, facts.own, rows, drawn)


def differences(facts: Facts, first: Any, second: Any) -> Any:
    drawn = np.random.default_rng(77)
    rows = np.hstack([np.asarray(first, float), np.asarray(second, float)])
    width = np.asarray(first).shape[1]
    found = []
    for _ in range(DRAWS // 200):
        counts = np.stack(
            [np.bincount(drawn.integers(0, len(rows), len(rows)), minlength=len(rows)) for _ in range(200)]
        )
        totals = counts @ rows
        with np.errstate(all="ignore"):
            found.append(facts.score(totals[:, :width]) - facts.score(totals[:, width:]))
    found = np.concatenate(found)
    return found[np.isfinite(found)]


def verdict_is_wrong(verdict: str, facts: Facts, own: Any, rows: Any, drawn: Any) -> str:
    own, rows = np.asarray(own, float), np.asarray(rows, float)
    unlike = int((own != rows).any(1).sum())
    sign = -1 if facts.lower else 1
    if not unlike:
        return "" if verdict == "equal" else "no row differs"
    if facts.share_of_rows:
        from scipy import stats

        won, lost = int((own > rows).sum()), int((own < rows).sum())
        p = stats.binomtest(won, won + lost).pvalue
        true = "not distinguishable" if p >= 0.05 else "better" if (won > lost) == (sign > 0) else "worse"
        close = 0.02 < p < 0.1
    else:
        low, high = np.percentile(drawn, [2.5, 97.5])
        true = (
            "not distinguishable"
            if low <= 0 <= high or unlike < 6
            else "better"
            if (low > 0) == (sign > 0)
            else "worse"
        )
        close = min(abs(low), abs(high)) < 0.1 * (high - low) or unlike < 8
    if verdict == true:
        return ""
    return "borderline" if close else f"it is {true}"


def interval_is_wrong(low: float, high: float, facts: Facts, rows: Any) -> str:
    """Whether an interval is narrower than another method's by more than a fifth, or degenerate."""
    if low >= high:
        return "the interval has no width"
    rows = np.asarray(rows, float)
    score = total(facts, rows)
    if not low - 5e-4 <= score <= high + 5e-4:
        return f"the interval does not hold the score {score}"
    if facts.share_of_rows and 0 < score < 1:
        count, z = len(rows), 1.959964
        middle, reach = (
            (score + z * z / 2 / count) / (1 + z * z / count),
            z / (1 + z * z / count) * math.sqrt(score * (1 - score) / count + z * z / 4 / count**2),
        )
        return (
            ""
            if abs(low - middle + reach) < 2e-4 and abs(high - middle - reach) < 2e-4
            else f"Wilson gives {middle - reach} to {middle + reach}"
        )
    drawn = differences(facts, rows, np.zeros_like(rows)) if facts.lower or score else None
    if drawn is None or not len(drawn):
        return ""
    true = np.percentile(drawn, [2.5, 97.5])
    return "" if high - low > 0.75 * (true[1] - true[0]) else f"another bootstrap gives {true}"


def table_row(row: dict[str, Any], facts: Facts) -> str:
    name = row["name"]
    rows = facts.own if name == "this model" else other(name, facts)
    if rows is None:
        alone = next((number for key, number in facts.alone.items() if name.startswith(key)), None)
        if alone is None:
            return f"{name} was not computed"
        return "" if abs(alone - row["score"]) <= 0.02 * abs(alone) + 1e-3 else f"it has {alone}"
    true = total(facts, rows)
    if abs(true - row["score"]) > 1e-5 + facts.more.get("slack", 0.0):
        return f"the score is {true}"
    if row["score_low"] is not None and (wrong := interval_is_wrong(row["score_low"], row["score_high"], facts, rows)):
        return wrong
    if "the_model_is" in row:
        return verdict_is_wrong(row["the_model_is"], facts, facts.own, rows, differences(facts, facts.own, rows))
    return ""


# sentences about the log


def fall_is_wrong(found: re.Match[str], facts: Facts, verdict: str = "") -> str:
    evaluations = facts.evaluations
    steps = len(facts.losses)
    first, last = int(value(found["first"])), int(value(found["last"]))
    sign = 1 if found["way"] == "fell" else -1
    if found["of"] == "training":
        losses = np.array(facts.losses)
        middle, end = losses[int(0.4 * steps) : math.ceil(0.6 * steps)].mean(), losses[int(0.85 * steps) :].mean()
        wrong = abs(sign * value(found["by"]) - (middle - end)) > 0.1 * abs(middle - end) + 0.02
        return f"the training loss fell by {middle - end}" if wrong else ""
    if len(evaluations) > 24:
        return "more evaluations than this check groups"
    middle = min(evaluations, key=lambda line: abs(line["step"] - steps / 2))
    if (first, last) != (middle["step"], evaluations[-1]["step"]):
        return f"the evaluations are of steps {middle['step']} and {evaluations[-1]['step']}"
    fell = middle["validation_loss"] - evaluations[-1]["validation_loss"]
    if not near(found["by"], sign * fell, 0.006 * abs(fell)):
        return f"it fell by {fell}"
    apart = np.array(middle["validation_parts"]) - np.array(evaluations[-1]["validation_parts"])
    error = (1 + 2 / (len(apart) - 1)) * apart.std(ddof=1) / math.sqrt(len(apart))
    error = math.hypot(error, math.sqrt(2) * scatter([line["validation_loss"] for line in evaluations]))
    ends = sorted((sign * (fell - 1.96 * error), sign * (fell + 1.96 * error)))
    slack = 0.06 * max(abs(ends[0]), abs(ends[1]), abs(fell)) + 1e-6
    if abs(value(found["low"]) - ends[0]) > slack or abs(value(found["high"]) - ends[1]) > slack:
        return f"the interval is {ends}"
    return ""


def scatter(curve: list[float]) -> float:
    """The standard deviation of evaluations around a smooth curve, by the distances to their neighbours' means."""
    places = [place for place in range(1 + len(curve) // 2, len(curve) - 1) if place != int(np.argmin(curve))]
    distances = np.array([curve[place] - (curve[place - 1] + curve[place + 1]) / 2 for place in places])
    if not len(distances):
        return 0.0
    return (1 + 3 / len(distances)) * math.sqrt(float((distances**2).sum()) / (1.5 * len(distances)))


def learning(found: re.Match[str], facts: Facts) -> str:
    if wrong := fall_is_wrong(found, facts):
        return wrong
    return "" if found["way"] == "fell" and value(found["low"]) > 0 else "the interval holds zero"


def plateau(found: re.Match[str], facts: Facts) -> str:
    if wrong := fall_is_wrong(found, facts):
        return wrong
    best = min(line["validation_loss"] for line in facts.evaluations)
    largest = max(abs(value(found["low"])), abs(value(found["high"])))
    return (
        "" if largest < 0.03 * max(best, facts.more.get("loss", 0.0)) else f"it may have changed by {largest} of {best}"
    )


def rising(found: re.Match[str], facts: Facts) -> str:
    return fall_is_wrong(found, facts) or ("" if found["way"] == "rose" and value(found["low"]) > 0 else "no rise")


def overfitting(found: re.Match[str], facts: Facts) -> str:
    evaluations = facts.evaluations
    best = min(evaluations, key=lambda line: line["validation_loss"])
    last = evaluations[-1]["validation_loss"]
    end = float(np.mean(facts.losses[int(0.85 * len(facts.losses)) :]))
    if int(value(found["since"])) != best["step"]:
        return f"the lowest loss is of step {best['step']}"
    if not (near(found["from"], best["validation_loss"]) and near(found["to"], last)):
        return f"it rose from {best['validation_loss']} to {last}"
    if abs(value(found["training"]) - end) > 0.1 * end + 0.02:
        return f"the training loss ended at {end}"
    parts = np.array(evaluations[-1]["validation_parts"]) - np.array(best["validation_parts"])
    error = parts.std(ddof=1) / math.sqrt(len(parts))
    return "" if last - best["validation_loss"] > 1.96 * error else "the rise may be chance"


def memorised(found: re.Match[str], facts: Facts) -> str:
    end = float(np.mean(facts.losses[int(0.85 * len(facts.losses)) :]))
    last = facts.evaluations[-1]["validation_loss"]
    if abs(value(found["training"]) - end) > 0.1 * end + 0.03 or not near(found["last"], last):
        return f"the losses are {end} and {last}"
    if found["lowest"]:
        best = min(facts.evaluations, key=lambda line: line["validation_loss"])
        return (
            ""
            if near(found["lowest"], best["validation_loss"]) and int(value(found["best"])) == best["step"]
            else f"lowest at {best}"
        )
    return ""


def kept_last(found: re.Match[str], facts: Facts) -> str:
    key = "validation_criterion" if "validation_criterion" in facts.evaluations[0] else "validation_loss"
    best = min(facts.evaluations, key=lambda line: line[key])["step"]
    last, count = facts.evaluations[-1]["step"], len(facts.evaluations)
    groups = found.groupdict()
    if int(value(groups["step"])) != best or (groups.get("count") and int(value(groups["count"])) != count):
        return f"the best is of step {best} of {count} evaluations"
    if groups.get("of") and int(value(groups["of"])) != last:
        return f"the last is of step {last}"
    if groups.get("lowest"):
        lowest, end = (
            line["validation_loss"]
            for line in (min(facts.evaluations, key=lambda line: line[key]), facts.evaluations[-1])
        )
        return "" if near(groups["lowest"], lowest) and near(groups["end"], end) else f"{lowest} and {end}"
    return "" if groups.get("of") or best == last else f"the last is of step {last}"


def shared(found: re.Match[str], facts: Facts) -> str:
    true = facts.more["shared"]
    return "" if abs(value(found["share"]) / 100 - true) < 0.006 else f"the share is {true:.3f}"


def numbers(*names: str) -> Callable[[re.Match[str], Facts], str]:
    """The groups of these names are facts of these names."""

    def check(found: re.Match[str], facts: Facts) -> str:
        wrong = [
            name
            for name in names
            if abs(value(found[name]) - facts.more[name]) > 0.012 + 0.06 * (name == "training") * facts.more[name]
        ]
        return ", ".join(f"{name} is {facts.more[name]}" for name in wrong)

    return check


def advice(found: re.Match[str], facts: Facts) -> str:
    """Options that are named exist, and more time is twice as long."""
    text, steps = found[0], len(facts.losses)
    for section, name in re.findall(r"--set (\w+)\.(\w+)=", text):
        recipe = facts.session.recipe
        if not hasattr(getattr(recipe, section), name):
            return f"the recipe has no {section}.{name}"
    if (more := re.search(r"more time, --steps (\d+)", text)) and int(more[1]) not in (2 * steps, 10 * steps):
        return f"the run had {steps} steps"
    return ""


def seen(found: re.Match[str], facts: Facts) -> str:
    return "" if near(found["times"], facts.session.epochs) else f"{facts.session.epochs} times"


def followed(found: re.Match[str], facts: Facts) -> str:
    true = facts.more["followed"]
    if not near(found["value"], true, 1e-4):
        return f"it is {true}"
    low, high = value(found["low"]), value(found["high"])
    chance = "not distinguishable from" if low <= 0.5 <= high else "better than" if low > 0.5 else "worse than"
    return "" if chance == found["verdict"] else f"it is {chance} chance"


def diverged(found: re.Match[str], facts: Facts) -> str:
    since, losses = int(value(found["since"])), facts.losses
    if any(line.get("loss", 0.0) is None for line in facts.log):
        return ""
    before, end = min(losses[: max(1, since)]), float(np.mean(losses[int(0.9 * len(losses)) :]))
    return "" if end > before else f"the loss went from {before} to {end}"


def unstable(found: re.Match[str], facts: Facts) -> str:
    since, losses = int(value(found["since"])), np.array(facts.losses)
    means = np.convolve(losses, np.ones(5) / 5, "valid")
    rise = means[max(0, since - 5) :].max() - means[: max(1, since)].min()
    return "" if rise > 0.09 * losses[0] and losses[-10:].mean() < means.max() else f"it rose by {rise}"


SENTENCES: list[tuple[str, Callable[[re.Match[str], Facts], str]]] = [
    (rf"still learning: {FALL.pattern}\.", learning),
    (rf"plateau: {FALL.pattern}\.", plateau),
    (rf"the validation loss rises: {FALL.pattern}\.", rising),
    (rf"unclear: {FALL.pattern}; this does not tell a flat curve from a falling one\.", fall_is_wrong),
    (r"unclear: there are too few evaluations.*", lambda found, facts: "" if len(facts.evaluations) < 2 or len(facts.evaluations[0]["validation_parts"]) < 3 or min(facts.evaluations, key=lambda line: abs(line["step"] - len(facts.losses) / 2)) is facts.evaluations[-1] else "there are enough"),
    (rf"overfitting since step (?P<since>[\d,]+): the validation loss rose from (?P<from>{NUMBER}) to (?P<to>{NUMBER})(?: nats per token)? while the training loss fell to (?P<training>{NUMBER})\.", overfitting),
    (rf"(?:overfitting|memorised): (?P<training>{NUMBER}) nats per token on the training text, but (?P<last>{NUMBER}) on the validation text(?: \((?P<lowest>{NUMBER}) at step (?P<best>[\d,]+)\))?\.", memorised),
    (r"the model is of the last step, (?P<step>[\d,]+), the best of (?P<count>[\d,]+) evaluations?", kept_last),
    (r"the model is of step (?P<step>[\d,]+) of (?P<of>[\d,]+); no later evaluation was better", kept_last),
    (r"use best/, the model of step (?P<step>[\d,]+): the last evaluation was the best\.", kept_last),
    (rf"use best/, the model of step (?P<step>[\d,]+): its validation loss was (?P<lowest>{NUMBER}); the last evaluation, after step (?P<of>[\d,]+), has (?P<end>{NUMBER})\.", kept_last),
    (rf"(?:the score says little|the text repeats itself): (?P<share>{NUMBER})% of the validation text is also in the training text\.", shared),
    (rf"(?P<share>{NUMBER})% of the validation text is also in the training text: on new text the loss may be higher\.", shared),
    (rf"The training loss is (?P<training>{NUMBER}), the validation loss (?P<loss>{NUMBER})\.", numbers("training", "loss")),
    (rf"underfit: (?P<loss>{NUMBER}) nats per token, hardly better than the frequencies of single tokens \((?P<unigram>{NUMBER})\); on the training text (?P<training>{NUMBER})\.", numbers("loss", "unigram", "training")),
    (rf"this text is like noise: neither .* \(bits per byte: single tokens (?P<unigram_bits>{NUMBER}), \d-grams (?P<ngram_bits>{NUMBER}), the model (?P<bits>{NUMBER})\)\.", numbers("unigram_bits", "ngram_bits", "bits")),
    (rf"too good to be true: (?P<loss>{NUMBER}) nats per token on the validation text, far below the training loss, (?P<training>{NUMBER}), and \d-grams, (?P<ngram>{NUMBER})\.", numbers("loss", "training", "ngram")),
    (rf"the validation text is unlike the training text: (?P<loss>{NUMBER}) nats per token on it, but (?P<training>{NUMBER}) on the training text\.", numbers("loss", "training")),
    (r"diverged: after step (?P<since>[\d,]+) the (?:training )?loss rose and did not come back.*", diverged),
    (r"unstable: after step (?P<since>[\d,]+) the training loss jumped up.*", unstable),
    (rf"next-sentence accuracy (?P<value>{NUMBER}) \({INTERVAL}\): (?P<verdict>.*) chance, 0\.5", followed),
    (rf"the pairs were seen (?P<times>{NUMBER}) times", seen),
    (r"try: .*", advice),
]  # fmt: skip


# facts


def facts_of(session: Any, values: dict[str, Any]) -> Facts:
    import qkv

    log = [json.loads(line) for line in (session.run.folder / "metrics.jsonl").read_text().splitlines()]
    facts = Facts(session, values, log)
    model = qkv.load(str(session.run.folder))
    match session.task.kind:
        case "language-modelling":
            language_model(facts, model)
        case "masked-language-modelling":
            masked(facts, model)
        case "translation":
            translator(facts, model)
        case _:
            labelled(facts, model)
    return facts


def ratio(totals: Any) -> Any:
    return totals[:, 0] / np.maximum(1e-12, totals[:, 1])


def language_model(facts: Facts, model: Any) -> None:
    session, prepared = facts.session, facts.session.task.prepared
    tokens, train = (np.asarray(side.tokens, dtype=np.int64) for side in (prepared.valid, prepared.train))
    window = min(session.recipe.model.context, len(tokens) - 1)
    starts = range(0, len(tokens) - 1, window)
    own, seen_before = [], []
    vocabulary = prepared.tokenizer.vocabulary
    with torch.inference_mode():
        for start in starts:
            piece = torch.from_numpy(tokens[start : start + window + 1])
            logits = model.module(piece[None, :-1])[0].double()
            losses = -logits.log_softmax(-1)[torch.arange(len(piece) - 1), piece[1:]]
            own.append((float(losses.sum()), len(piece) - 1))
            seen_before += range(1, len(piece))
    bits = (len(tokens) - 1) / prepared.valid.bytes / math.log(2)
    facts.own, facts.lower = np.array(own), True
    facts.score = lambda totals: bits * ratio(totals)
    facts.more["rows"] = len(tokens) - 1
    sizes = facts.own[:, 1].astype(int)
    edges = np.concatenate([[0], np.cumsum(sizes)])

    def by_window(nats: list[float]) -> Any:
        sums = [math.fsum(nats[begin:end]) for begin, end in pairwise(edges.tolist())]
        return np.stack([sums, sizes], axis=1)

    counts, new = Counter(train.tolist()), len(set(train.tolist()))
    unigram = [-math.log((counts[token] + new / vocabulary) / (len(train) + new)) for token in tokens[1:].tolist()]
    orders = KneserNey(train.tolist(), vocabulary).losses(tokens.tolist(), seen_before, unigram)
    facts.others = {
        "uniform": by_window([math.log(vocabulary)] * (len(tokens) - 1)),
        "single tokens": by_window(unigram),
    }
    facts.others |= {f"{order}-grams": by_window(nats) for order, nats in orders.items()}
    best = min(orders, key=lambda order: math.fsum(orders[order]))
    text, known = (b"".join(spelled(prepared.tokenizer, side.tolist())) for side in (tokens[1:], train))
    filters = [{"id": lzma.FILTER_LZMA2, "preset": 6, "dict_size": max(4096, len(text) + len(known))}]
    packed = [len(lzma.compress(part, lzma.FORMAT_RAW, filters=filters)) for part in (known + text, known)]
    facts.alone["xz"] = 8 * (packed[0] - packed[1]) / prepared.valid.bytes
    deflate = zlib.compressobj(9, zlib.DEFLATED, -15, 9, zlib.Z_DEFAULT_STRATEGY, known[-32768:])
    facts.alone["gzip"] = 8 * len(deflate.compress(text) + deflate.flush()) / prepared.valid.bytes
    mean = len(tokens) - 1
    losses = facts.losses
    facts.more |= {
        "loss": float(facts.own[:, 0].sum() / mean), "unigram": math.fsum(unigram) / mean, "ngram": math.fsum(orders[best]) / mean,
        "training": float(np.mean(losses[int(0.85 * len(losses)) :])) if losses else math.nan, "slack": 2e-3,
    }  # fmt: skip
    facts.more |= {f"{name}_bits": bits * facts.more[name] for name in ("unigram", "ngram")} | {
        "bits": bits * facts.more["loss"]
    }
    length = max(4, round(40 / (prepared.valid.bytes / len(tokens))))
    stretches = {tuple(train[index : index + length].tolist()) for index in range(len(train) - length + 1)}
    covered = np.zeros(len(tokens), bool)
    for index in range(len(tokens) - length + 1):
        if tuple(tokens[index : index + length].tolist()) in stretches:
            covered[index : index + length] = True
    facts.more["shared"] = float(covered.mean())


def spelled(tokenizer: Any, tokens: list[int]) -> list[bytes]:
    from qkv.text.tokenizer import token_bytes

    return [
        b"\0" if tokenizer.is_special(token) else token_bytes(tokenizer.token(token)) if tokenizer.kind == "bpe" else tokenizer.token(token).encode()
        for token in tokens
    ]  # fmt: skip


class KneserNey:
    """Modified Kneser-Ney by dictionaries and a recursion over contexts (Chen and Goodman 1999)."""

    def __init__(self, train: list[int], vocabulary: int, highest: int = 6) -> None:
        self.vocabulary, self.highest = vocabulary, highest
        self.plain = {
            n: Counter(zip(*(train[shift:] for shift in range(n)), strict=False)) for n in range(1, highest + 1)
        }
        self.preceded = {n: Counter(gram[1:] for gram in self.plain[n + 1]) for n in range(1, highest)}
        for n, counts in self.preceded.items():
            counts.update(dict.fromkeys(self.plain[n].keys() - counts.keys(), 0))
        tables = [("plain", n) for n in self.plain] + [("preceded", n) for n in self.preceded]
        self.sums = {key: self._sums(*key) for key in tables}

    def _sums(self, which: str, n: int) -> tuple[dict[tuple[int, ...], int], dict[tuple[int, ...], float], list[float]]:
        counts = getattr(self, which)[n]
        of = Counter(counts.values())
        discounts = [0.0, 0.5, 0.75, 0.75]
        if all(of[number] for number in (1, 2, 3, 4)):
            y = of[1] / (of[1] + 2 * of[2])
            raw = [number - (number + 1) * y * of[number + 1] / of[number] for number in (1, 2, 3)]
            discounts = [0.0, *(min(max(d, 0.05), number) for number, d in enumerate(raw, 1))]
        totals: dict[tuple[int, ...], int] = defaultdict(int)
        saved: dict[tuple[int, ...], float] = defaultdict(float)
        for gram, count in counts.items():
            totals[gram[:-1]] += count
            saved[gram[:-1]] += discounts[min(count, 3)]
        return totals, saved, discounts

    def probability(self, which: str, gram: tuple[int, ...]) -> float:
        n = len(gram)
        lower = self.probability("preceded", gram[1:]) if n > 1 else 1 / self.vocabulary
        totals, saved, discounts = self.sums[which, n]
        if not totals.get(gram[:-1]):
            return lower
        count = getattr(self, which)[n].get(gram, 0)
        return (count - discounts[min(count, 3)] + saved[gram[:-1]] * lower) / totals[gram[:-1]]

    def losses(self, tokens: list[int], reach: list[int], unigram: list[float]) -> dict[int, list[float]]:
        found, before = {}, unigram
        for order in range(2, self.highest + 1):
            before = [
                -math.log(self.probability("plain", tuple(tokens[place - order + 1 : place + 1])))
                if min(seen, place) >= order - 1
                else lower
                for place, seen, lower in zip(range(1, len(tokens)), reach, before, strict=True)
            ]
            found[order] = before
        return found


def masked(facts: Facts, model: Any) -> None:
    """What is masked is drawn by the objective; the model's answers to it are computed here."""
    from qkv.evaluation.masked_tokens import SEED
    from qkv.objectives.masked_language_modelling import MaskedLanguageModelling

    task = facts.session.task
    valid, train = task.prepared.valid.tokens, np.asarray(task.prepared.train.tokens)
    ordinary = task.vocabulary.ordinary
    counts = np.bincount(train, minlength=len(ordinary)) * ordinary
    drawn = MaskedLanguageModelling(facts.session.recipe.task, valid, task.vocabulary, model.module.context, SEED)
    own, usual, followed = [], [], []
    model.module.eval()
    with torch.inference_mode():
        for sample in range(drawn.samples):
            batch = drawn.batch(sample, 1)
            vectors = model.module.encoder(batch.tokens, batch.present, batch.segments)
            places = batch.predicted[0]
            answers, targets = model.module.head(vectors[0, places]).argmax(-1), batch.targets[0, places]
            own.append((int((answers == targets).sum()), int(places.sum())))
            usual.append((int((targets == int(counts.argmax())).sum()), int(places.sum())))
            if facts.session.recipe.task.next_sentence != "none":
                followed.append(float(model.module.followed(vectors).argmax(-1)[0] == batch.unrelated[0]))
    facts.own, facts.score = np.array(own), ratio
    facts.others = {"most frequent token": np.array(usual)}
    facts.more |= {"rows": int(facts.own[:, 1].sum()), "slack": 1e-3}
    if followed:
        facts.more["followed"] = float(np.mean(followed))


def translator(facts: Facts, model: Any) -> None:
    """BLEU by sacreBLEU itself; scores of phonemes have no table."""
    import sacrebleu

    outputs = facts.session.task.final_outputs["valid"]
    if facts.values.get("baselines") is None:
        return
    sources = list(outputs.sources)
    again = [best[0].text for best in model.translate(sources, beams=5, carry=False)]
    truth = [[references[0] for references in outputs.references]]
    facts.alone = {
        "this model": sacrebleu.corpus_bleu(again, truth).score, "copying the source": sacrebleu.corpus_bleu(sources, truth).score
    }  # fmt: skip


def labelled(facts: Facts, model: Any) -> None:
    from qkv.data.encode import sentences_of, texts_of
    from qkv.data.examples import ImageExamples, NumberExamples, TagExamples

    data, problem = facts.session.task.prepared.labelled, facts.session.task.problem
    train, valid, names = data.train, data.valid, data.labels.names
    parts = [row["fitted_on"] for row in facts.values["baselines"]["systems"] if row["fitted_on"]]
    everything = train.targets
    if parts:  # the strong baseline was fitted on so many rows, evenly spread
        from qkv.data.split import even_order

        train = train.select(np.sort(even_order(len(train), int(value(parts[0].split(" of ")[0])))))
    if isinstance(train, TagExamples):
        return tags(facts, model, train, valid, names, sentences_of)
    if isinstance(train, ImageExamples):
        inputs = (train.values, valid.values)
        features = tuple(values.reshape(len(values), -1) / 255 for values in inputs)
        answers = model.classify(list(valid.values))
    elif isinstance(train, NumberExamples):
        mean, deviation = np.nanmean(train.values, 0, dtype=float), np.nanstd(train.values.astype(float), 0)
        features = tuple(
            np.nan_to_num((side.values - mean) / np.where(deviation > 0, deviation, 1)) for side in (train, valid)
        )
        answers = model.classify(valid.values.tolist())
    else:
        features = tf_idf([list(texts_of(side)) for side in (train, valid)])
        answers = model.classify([text if second is None else (text, second) for text, second in texts_of(valid)])
    strong = linear(
        features, train.targets, problem, len(names), text=not isinstance(train, ImageExamples | NumberExamples)
    )
    if problem == "regression":
        y = valid.targets.astype(float)
        facts.own = (np.array([answer.label for answer in answers]) - y)[:, None] ** 2
        facts.others = {"mean": (everything.astype(float).mean() - y)[:, None] ** 2}
        facts.others |= dict.fromkeys(("TF-IDF", "ridge"), (strong - y)[:, None] ** 2)
        facts.score, facts.lower = lambda totals: totals[:, 0] / len(y), True
        facts.more["slack"] = 1e-3 * float(facts.own.mean())
        return None
    if problem == "multi":
        given = np.array([[name in answer.label for name in names] for answer in answers])
        frequent = np.argsort(-everything.sum(0), kind="stable")
        scores = []
        for count in range(1, len(names) + 1):
            constant = np.isin(np.arange(len(names)), frequent[:count])
            scores.append(2 * everything[:, constant].sum() / (count * len(everything) + everything.sum()))
        best = np.isin(np.arange(len(names)), frequent[: int(np.argmax(scores)) + 1])
        facts.own = label_counts(given, valid.targets)
        facts.others = {"majority": label_counts(np.tile(best, (len(given), 1)), valid.targets)}
        facts.others["TF-IDF"] = label_counts(strong > 0.5, valid.targets)
        facts.score = f1
        return None
    right = np.array([answer.label for answer in answers]) == np.array(names)[valid.targets]
    facts.own, facts.share_of_rows = right[:, None].astype(int), True
    facts.score = lambda totals: totals[:, 0] / len(right)
    facts.others = {"majority": (valid.targets == np.bincount(everything).argmax())[:, None].astype(int)}
    facts.others |= dict.fromkeys(("TF-IDF", "logistic"), (strong == valid.targets)[:, None].astype(int))
    facts.more["slack"] = 1.01 / len(right) if len(right) > 20 else 0.0  # a solver may stop a row away
    return None


def f1(totals: Any) -> Any:
    return 2 * totals[:, 0] / np.maximum(1e-12, totals[:, 1] + totals[:, 2])


def label_counts(given: Any, true: Any) -> Any:
    return np.stack([(given & true).sum(1), given.sum(1), true.sum(1)], axis=1)


def tf_idf(sides: Sequence[list[tuple[str, str | None]]]) -> tuple[Any, ...]:
    from sklearn.feature_extraction.text import TfidfVectorizer

    def grams(pair: tuple[str, str | None]) -> list[str]:
        found = []
        for number, text in enumerate(pair):
            words = re.findall(r"\w+|[^\w\s]", (text or "").lower())
            found += [f"{number}:{word}" for word in words] + [f"{number}:{one} {two}" for one, two in pairwise(words)]
        return found or ["nothing"]

    vectorizer = TfidfVectorizer(analyzer=grams, sublinear_tf=True)
    return vectorizer.fit_transform(sides[0]), vectorizer.transform(sides[1])


def linear(features: Any, targets: Any, problem: str, classes: int, text: bool) -> Any:
    import warnings

    from sklearn.linear_model import LogisticRegression, Ridge

    warnings.simplefilter("ignore")
    if problem == "regression":
        return Ridge(alpha=1.0).fit(features[0], targets).predict(features[1])
    solver = "liblinear" if text and (problem == "multi" or classes == 2) else "lbfgs"
    model = LogisticRegression(C=4.0, solver=solver, max_iter=300)
    if problem == "multi":
        return np.stack(
            [model.fit(features[0], column).predict_proba(features[1])[:, 1] for column in targets.T.astype(int)],
            axis=1,
        )
    return model.fit(features[0], targets).predict(features[1])


def tags(facts: Facts, model: Any, train: Any, valid: Any, names: tuple[str, ...], sentences_of: Any) -> None:
    words = [list(sentence) for sentence in sentences_of(valid)]
    edges = [0, *np.cumsum(valid.lengths).tolist()]
    true = [[names[tag] for tag in valid.targets[begin:end].tolist()] for begin, end in pairwise(edges)]
    answers = [[word.tag for word in sentence] for sentence in model.tag(words)]
    by_word, by_ending = defaultdict(Counter), defaultdict(Counter)
    known = [word for sentence in sentences_of(train) for word in sentence]
    for word, tag in zip(known, train.targets.tolist(), strict=True):
        by_word[word][tag] += 1
        by_ending[word[-3:].lower()][tag] += 1
    prior = Counter(train.targets.tolist())

    def usual(word: str) -> str:
        counts = by_word.get(word) or by_ending.get(word[-3:].lower()) or {}
        return names[min(range(len(names)), key=lambda tag: (-(counts.get(tag, 0) + prior[tag] / len(known)), tag))]

    constant = names[max(prior, key=lambda tag: (prior[tag], -tag))]
    systems = {
        "this model": answers,
        "majority": [[constant] * len(sentence) for sentence in words],
        "usual tag": [[usual(word) for word in sentence] for sentence in words],
    }
    spans = all(name == "O" or re.fullmatch(r"[BI]-.+", name) for name in names)
    rows = {name: span_counts(true, given) if spans else right_words(true, given) for name, given in systems.items()}
    facts.own, facts.score = rows.pop("this model"), f1 if spans else ratio
    facts.others = rows


def right_words(true: list[list[str]], given: list[list[str]]) -> Any:
    return np.array(
        [(sum(a == b for a, b in zip(one, two, strict=True)), len(one)) for one, two in zip(true, given, strict=True)]
    )


def span_counts(true: list[list[str]], given: list[list[str]]) -> Any:
    from seqeval.metrics.sequence_labeling import get_entities

    sets = [(set(get_entities(one)), set(get_entities(two))) for one, two in zip(true, given, strict=True)]
    return np.array([(len(one & two), len(two), len(one)) for one, two in sets])


# comparisons


def verify_comparison(planned: Any, data: Path, work: Path) -> Any:
    """The sentences of `qkv compare`: what was chosen on which rows, scores and differences of the networks' models."""
    from doctor import Verified
    from qkv.studies.comparison import compare
    from qkv.studies.study import ComparisonPlan

    folder = work / "runs" / planned.name.replace(", ", "-")
    corpus = planned.values(data, work / "data" / folder.name)["corpus"]
    found, where = compare(ComparisonPlan(corpus=corpus, folder=folder, minutes=planned.minutes))
    written = json.loads((where / "compare.json").read_text())
    outcome = Verified(planned.name)
    systems = {row["system"]: row for row in written["systems"]}
    sign = -1 if written["lower_is_better"] else 1
    metric = written["metric"]
    for sentence in written["sentences"]:
        outcome.sentences += 1
        if wrong := comparison_is_wrong(sentence, written, systems, sign, metric, where):
            outcome.false.append(f"{sentence}  ->  {wrong}")
    for row in written["systems"]:
        outcome.sentences += 1
        low, high = row[f"{metric}_low"], row[f"{metric}_high"]
        if low is None or not low < row[metric] + 1e-9 or not row[metric] < high + 1e-9 or low >= high:
            outcome.false.append(f"{row['system']}: {row[metric]} in {low} to {high}")
        if row["learned"]:
            run = Path(row["runs"][0]["run"])
            steps = max(json.loads(line)["step"] for line in (run / "metrics.jsonl").read_text().splitlines())
            if row["steps"] != steps:
                outcome.false.append(f"{row['system']}: {row['steps']} steps, the log has {steps}")
            if (true := score_again(run, found, row)) is not None and abs(true - row[metric]) > 1e-3:
                outcome.false.append(f"{row['system']}: {metric} {row[metric]}, again {true}")
    return outcome


def score_again(run: Path, found: Any, row: dict[str, Any]) -> float | None:
    """The accuracy of a network on the reported rows, by `classify`."""
    import qkv
    from qkv.config import parse
    from qkv.data.corpus import ExamplesConfig
    from qkv.data.encode import texts_of
    from qkv.data.examples import NumberExamples
    from qkv.data.read_examples import read_examples
    from qkv.recipe.recipe import read_sections

    if row.get("accuracy") is None:
        return None
    section = {
        key: value
        for key, value in read_sections(run / "recipe.toml")["corpus"].items()
        if key not in ("fingerprint", "max_tokens")
    }
    data = read_examples(parse(ExamplesConfig, section, "the run"))
    test, names = data.test, data.labels.names
    if test is None:
        return None
    inputs = test.values.tolist() if isinstance(test, NumberExamples) else [text for text, _ in texts_of(test)]
    answers = qkv.load(str(run)).classify(inputs)
    return float(
        np.mean([answer.label == names[target] for answer, target in zip(answers, test.targets.tolist(), strict=True)])
    )


def comparison_is_wrong(
    sentence: str, written: dict[str, Any], systems: dict[str, Any], sign: int, metric: str, where: Path
) -> str:
    if found := re.fullmatch(
        rf"Best on ([\d,]+) \w+ held out of the training set: (.+) \((.+) ({NUMBER})\); on the ([\d,]+) \w+ reported here: ({NUMBER})\.",
        sentence,
    ):
        scored = {name: row for name, row in systems.items() if row["held_out"] is not None}
        best = max(scored, key=lambda name: sign * scored[name]["held_out"])
        same = scored[best]["held_out"] == scored[found[2]]["held_out"] and near(found[4], scored[best]["held_out"])
        return "" if same and near(found[6], scored[found[2]][metric]) else f"best is {best}"
    if found := re.fullmatch(
        rf"(.+) compared with (.+): ({NUMBER}) .+ \(95 % interval ({NUMBER}) to ({NUMBER})\), (.+)\.", sentence
    ):
        first, second = systems[found[1]][metric], systems[found[2]][metric]
        if not near(found[3], first - second, 1e-4):
            return f"the difference is {first - second}"
        noise = value(found[4]) <= 0 <= value(found[5])
        return (
            ""
            if ("noise, other" in found[6] or "equal" in found[6]) == noise
            else "the verdict is not that of the interval"
        )
    if found := re.fullmatch(
        r"Still learning when the time was over, so this table does not judge them: (.+)\. Their loss on rows that were new to them fell .*",
        sentence,
    ):
        learning = []
        for name, row in systems.items():
            if row["learned"]:
                log = [
                    json.loads(line)
                    for line in (Path(row["runs"][0]["run"]) / "metrics.jsonl").read_text().splitlines()
                ]
                lines = [line for line in log if line.get("validation_loss") is not None]
                losses = np.array([line["loss"] for line in log if line.get("loss") is not None])
                middle = min(lines, key=lambda line: abs(line["step"] - len(losses) / 2))
                fell = middle["validation_loss"] - lines[-1]["validation_loss"]
                early, late = (
                    losses[int(0.4 * len(losses)) : math.ceil(0.6 * len(losses))],
                    losses[int(0.85 * len(losses)) :],
                )
                error = math.hypot(early.std() / math.sqrt(len(early)), late.std() / math.sqrt(len(late)))
                new = row["epochs"] <= 1 and early.mean() - late.mean() > 1.5 * error
                if fell > 0 or new:
                    learning.append(name)
        return "" if set(found[1].split(", ")) <= set(learning) else f"falling: {learning}"
    if found := re.fullmatch(r"Trained on a part of the data only, for less than one epoch: (.+)\.", sentence):
        short = {name for name, row in systems.items() if row["epochs"] is not None and row["epochs"] < 1}
        return "" if set(found[1].split(", ")) == short else f"{short}"
    return "no check understands this sentence"

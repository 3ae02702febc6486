"""`qkv translate`: texts in one language in, texts in another out."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from qkv import ranges
from qkv.cli.lines import bunches
from qkv.cli.options import Seed, TopK, TopP, named, within
from qkv.cli.output import Growing, Json, notes, print_answer, print_rows, print_text

TOGETHER = 256  # texts that are translated at once


def translate(
    model: str,
    *texts: Annotated[str, Parameter(allow_leading_hyphen=True)],
    file: str | None = None,
    to: str | None = None,
    beams: Annotated[int, within(ranges.BEAMS)] = 5,
    nbest: Annotated[int, within(ranges.BEAMS)] = 1,
    penalty: Annotated[float, within(ranges.PENALTY, allow_leading_hyphen=True)] = 1.0,
    temperature: Annotated[float | None, within(ranges.TEMPERATURE)] = None,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    seed: Seed = 0,
    carry: bool = True,
    alignments: Annotated[bool, Parameter(negative="", show_default=False)] = False,
    json: Json = False,
) -> None:
    """Translate texts. Long ones are cut into sentences and put back with their spacing; the order is kept.

    qkv translate runs/multi30k-transformer "Ein Hund läuft."
    cat news.de | qkv translate runs/multi30k-transformer -

    A line of a file or pipe gets one line. On a terminal, control characters are shown as escapes (\\x1b).

    Parameters
    ----------
    model
        A run folder or a model folder, of a translator.
    texts
        The texts, one each. - reads them from standard input, one a line.
    file
        A file with one text a line.
    to
        The language to translate into, where the model knows several. A text may also begin with the tag that
        Marian's models know, as in ">>fra<< A dog."
    beams
        How many translations are followed at once; 1 takes the likeliest piece each time.
    nbest
        How many translations are shown of each text, with their log-probabilities; --penalty decides their order.
    penalty
        Scores are divided by the length to this power: larger ones favour longer translations.
    temperature
        Draw the pieces instead of searching for the best: below 1 safer, above 1 wilder. --nbest says how many
        translations are drawn of each text.
    top_k
        With --temperature, choose among the k likeliest pieces only. 0 for all.
    top_p
        With --temperature, choose among the likeliest pieces that together reach this share.
    seed
        With --temperature, the same seed draws the same translations.
    carry
        Names, numbers of two digits or more and characters that the model does not know are carried over from the
        text when the translation lost them: each takes the place of what was written while the model looked at it.
        `qkv evaluate` scores the model's own words.
    alignments
        Below each translation, for each of its words the word of the text that was looked at most: numbers as
        0-0 1-2 (source-target, counted from 0), then the words.
        With --json also the weights, piece by piece. The words are those that the model itself wrote.
    """
    import qkv
    from qkv.errors import InputError
    from qkv.generation.sampling import Sampling

    sampling = None if temperature is None else Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    if sampling is None and (top_k, top_p) != (0, 1.0):
        raise InputError("--top-k and --top-p belong to drawing. Say --temperature 1 as well, or leave them out.")
    options: dict[str, Any] = {"to": to, "beams": beams, "nbest": nbest, "penalty": penalty}
    options |= {"sampling": sampling, "seed": seed, "carry": carry}
    early(list(texts), file)
    opened = qkv.load(model)
    grown = Growing({"model": model}, "texts")
    said: set[str] = set()
    first, typed = 0, file is None and texts != ("-",)
    for part in bunches(named(texts, "translate"), file, "translate", TOGETHER):
        found = opened.translate(part, first=first, **options)
        first += len(part)
        if json:
            said.update(opened.notes)
            grown.add(
                {"text": text, "translations": [values(opened, each, alignments) for each in best]}
                for text, best in zip(part, found, strict=True)
            )
            continue
        notes(opened.notes)
        for best in found:
            for each in best:
                if nbest > 1:
                    print_rows([[f"{each.logprob:.3f}", each.text]])
                else:
                    print_text(f"{each.text if typed else one_line(each.text)}\n")
                if alignments:
                    print_answer(*aligned(opened, each))
    if json:
        grown.end({"notes": sorted(said)})


def early(texts: list[str], file: str | None) -> None:
    """Refuse long texts before the model is opened where they cannot be cut into sentences; of a file, say so."""
    from qkv.errors import install_hint, installed, require_package
    from qkv.tasks.translation.predict import LONG, SPLITTING, long

    if file is None and texts != ["-"]:
        if any(map(long, texts)):
            require_package("sentencex", SPLITTING)
    elif not installed("sentencex"):
        hint = install_hint("sentencex")
        notes([f"sentencex is not installed: a line of {LONG} characters or more is refused; {hint}."])


def one_line(text: str) -> str:
    """The answer to a line is a line, so that those of a file stay in step with it."""
    return text.replace("\n", "\\n")


def aligned(opened: Any, said: Any) -> list[str]:
    """Numbers of the words, then the words."""
    from qkv.tasks.translation.predict import pharaoh

    pairs, sources, written = pharaoh(opened.align(said))
    words = " ".join(f"{sources[one]}-{written[other]}" for one, other in pairs)
    return [" ".join(f"{one}-{other}" for one, other in pairs), words]


def values(opened: Any, said: Any, alignments: bool) -> dict[str, Any]:
    """A translation for JSON."""
    from qkv.tasks.translation.predict import pharaoh

    found: dict[str, Any] = {"text": said.text, "logprob": said.logprob, "carried": list(said.carried)}
    if not alignments:
        return found
    sentences = opened.align(said)
    pairs, sources, written = pharaoh(sentences)
    return {
        **found,
        "source_words": sources,
        "words": written,
        "alignment": [list(pair) for pair in pairs],
        "sentences": [each.values() for each in sentences],
    }

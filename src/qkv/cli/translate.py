"""`qkv translate`: texts in one language in, texts in another out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import qkv
from qkv import ranges
from qkv.cli.lines import answer, batches
from qkv.cli.options import Flag, Seed, TextFile, Texts, TopK, TopP, within
from qkv.cli.output import Json, notes, print_answer, print_rows, print_text
from qkv.errors import InputError, installation_hint, is_installed, require_package

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qkv.api import Model
    from qkv.tasks.translation.predict import TranslatedText

TOGETHER = 256  # texts that are translated at once


def translate(
    model: str,
    *texts: Texts,
    file: TextFile = None,
    to: str | None = None,
    beams: Annotated[int, within(ranges.BEAMS)] = 5,
    nbest: Annotated[int, within(ranges.BEAMS)] = 1,
    penalty: Annotated[float, within(ranges.LENGTH_PENALTY, allow_leading_hyphen=True)] = 1.0,
    temperature: Annotated[float | None, within(ranges.TEMPERATURE)] = None,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    seed: Seed = 0,
    carry: bool = True,
    alignments: Flag = False,
    json: Json = False,
) -> None:
    """Translate texts. Long ones are cut into sentences and put back with their spacing; the order is kept.

    qkv translate runs/multi30k-transformer "Ein Hund läuft."
    cat news.de | qkv translate runs/multi30k-transformer -

    A line of a file or pipe gets one line. On a terminal, control characters are shown as escapes (\\x1b).

    Args:
        model: A run folder or a model folder, of a translator.
        to: The language to translate into, where the model knows several. A text may also begin with the tag that
            Marian's models know, as in ">>fra<< A dog."
        beams: How many translations are followed at once; 1 takes the likeliest token each time.
        nbest: How many translations are shown of each text, with their log-probabilities; --penalty decides their
            order.
        penalty: Scores are divided by the length to this power: larger ones favour longer translations.
        temperature: Sample the tokens instead of searching for the best: below 1 safer, above 1 wilder. --nbest says
            how many translations are sampled of each text. --top-k, --top-p and --seed apply to it.
        seed: With --temperature, the same seed gives the same translations.
        carry: Names, numbers of two digits or more and characters that the model does not know are carried over from
            the text when the translation lost them: each takes the place of what was written while the model attended
            to it. `qkv evaluate` scores the model's own words.
        alignments: Below each translation, for each of its words the word of the text with the most attention: numbers
            as 0-0 1-2 (source-target, counted from 0), then the words. With --json also the weights, token by token.
            The words are those that the model itself wrote.
    """
    from qkv.generation.sampling import Sampling

    sampling = None if temperature is None else Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    if sampling is None and (top_k, top_p, seed) != (0, 1.0, 0):
        raise InputError(
            "--top-k, --top-p and --seed belong to sampling. Give --temperature 1 as well, or leave them out."
        )
    options: dict[str, Any] = {"to": to, "beams": beams, "nbest": nbest, "penalty": penalty}
    options |= {"sampling": sampling, "seed": seed, "carry": carry}
    early(list(texts), file)
    opened = qkv.load(model)
    first, typed = 0, file is None and texts != ("-",)

    def respond(batch: list[str]) -> list[list[TranslatedText]]:
        nonlocal first
        translations = opened.translate(batch, first=first, **options)
        first += len(batch)
        return translations

    def show(batch: list[str], answers: Sequence[list[TranslatedText]]) -> None:
        for translation in (one for best in answers for one in best):
            if nbest > 1:
                print_rows([[f"{translation.logprob:.3f}", translation.text]])
            else:  # the answer to a line of a file is a line, so that both stay aligned
                print_text(f"{translation.text if typed else one_line(translation.text)}\n")
            if alignments:
                print_answer(*aligned(opened, translation))

    answer(
        opened,
        batches(texts, file, "translate", TOGETHER),
        respond,
        lambda text, best: {"text": text, "translations": [values(opened, one, alignments) for one in best]},
        show,
        {"model": model} if json else None,
    )


def early(texts: list[str], file: str | None) -> None:
    """Refuse long texts before the model is opened where they cannot be cut into sentences; of a file, warn."""
    from qkv.tasks.translation.predict import LONG_TEXT, SPLITTING, is_long

    if file is None and texts != ["-"]:
        if any(map(is_long, texts)):
            require_package("sentencex", SPLITTING)
    elif not is_installed("sentencex"):
        hint = installation_hint("sentencex")
        notes([f"sentencex is not installed: a line of {LONG_TEXT} characters or more is refused; {hint}."])


def one_line(text: str) -> str:
    return text.replace("\n", "\\n")


def aligned(opened: Model, translation: TranslatedText) -> list[str]:
    """Numbers of the words, then the words."""
    from qkv.tasks.translation.predict import join_alignments

    pairs, sources, written = join_alignments(opened.align(translation))
    words = " ".join(f"{sources[one]}-{written[other]}" for one, other in pairs)
    return [" ".join(f"{one}-{other}" for one, other in pairs), words]


def values(opened: Model, translation: TranslatedText, alignments: bool) -> dict[str, Any]:
    """A translation for JSON."""
    from qkv.tasks.translation.predict import join_alignments

    facts = {"text": translation.text, "logprob": translation.logprob, "carried": list(translation.carried)}
    if not alignments:
        return facts
    sentences = opened.align(translation)
    pairs, sources, written = join_alignments(sentences)
    return {
        **facts,
        "source_words": sources,
        "words": written,
        "alignment": [list(pair) for pair in pairs],
        "sentences": [sentence.values() for sentence in sentences],
    }

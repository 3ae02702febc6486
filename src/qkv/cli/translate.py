"""`qkv translate`: translate texts with a trained or imported translator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import qkv
from qkv import ranges
from qkv.cli.batches import answer_batches, column_batches
from qkv.cli.options import Flag, Seed, SourceColumn, TableFile, Texts, TopK, TopP, in_range
from qkv.cli.output import Json, print_answer, print_notes, print_rows, print_text
from qkv.data.findings import Findings
from qkv.errors import installation_hint, is_installed, require_package

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qkv.api import Model
    from qkv.tasks.translation.predict import TranslatedText

BATCH_TEXTS = 256


def translate(
    model: str,
    *texts: Texts,
    file: TableFile = None,
    source: SourceColumn = None,
    to: str | None = None,
    beams: Annotated[int, in_range(ranges.BEAMS)] = 5,
    nbest: Annotated[int, in_range(ranges.BEAMS)] = 1,
    penalty: Annotated[float, in_range(ranges.LENGTH_PENALTY, allow_leading_hyphen=True)] = 1.0,
    temperature: Annotated[float | None, in_range(ranges.TEMPERATURE)] = None,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    seed: Seed = 0,
    carry: bool = True,
    alignments: Flag = False,
    json: Json = False,
) -> None:
    """Translate texts, in their order. Long ones are split into sentences and joined again with their spacing.

    qkv translate runs/multi30k-transformer "Ein Hund läuft."
    cat news.de | qkv translate runs/multi30k-transformer -

    Each line of a file or pipe, and each row of a table, gives one line. On a terminal, control characters are shown as
    escapes (\\x1b).

    Args:
        model: The run folder or model folder of a translator.
        to: The language to translate into, if the model knows several. A text may also begin with a tag of Marian's
            multilingual models, as in ">>fra<< A dog."
        beams: The beam width: how many partial translations are kept. 1 takes the most likely token each time.
        nbest: How many translations of each text to show, with their log-probabilities; --penalty decides their order.
        penalty: Scores are divided by the length to this power: larger values favour longer translations.
        temperature: Sample the tokens instead of searching for the best translation: below 1 more predictable, above 1
            more varied. --nbest sets how many translations of each text to sample; --top-k, --top-p and --seed apply.
        seed: With --temperature, the same seed gives the same translations.
        carry: Copy names, numbers of two or more digits and unknown characters from the text if the translation lost
            them: each replaces the words that the model wrote while attending to it. `qkv evaluate` does not do this.
        alignments: Below each translation, show for each of its words the source word with the most attention: pairs of
            numbers such as 0-0 1-2 (source-target, counted from 0), then pairs of words. --json adds the weights of
            all tokens. Words are aligned before --carry changes them.
    """
    from qkv.generation.sampling import Sampling
    from qkv.tasks.translation.evaluate import source_columns

    sampling = None if temperature is None else Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    options: dict[str, Any] = {"to": to, "beams": beams, "nbest": nbest, "penalty": penalty}
    options |= {"sampling": sampling, "seed": seed, "carry": carry}
    require_sentence_splitter(list(texts), file)
    opened, findings = qkv.load(model), Findings()
    translated_texts = 0
    from_command = file is None and texts != ("-",)

    def translate_batch(batch: list[str]) -> list[list[TranslatedText]]:
        nonlocal translated_texts
        translations = opened.translate(batch, first=translated_texts, **options)
        translated_texts += len(batch)
        return translations

    def print_batch(batch: list[str], translations_of_texts: Sequence[list[TranslatedText]]) -> None:
        for translation in (translation for best in translations_of_texts for translation in best):
            if nbest > 1:
                print_rows([[f"{translation.logprob:.3f}", translation.text]])
            else:
                print_text(f"{translation.text if from_command else one_line(translation.text)}\n")
            if alignments:
                print_answer(*alignment_lines(opened, translation))

    answer_batches(
        opened,
        column_batches(
            texts, file, "translate", findings, {"source": source}, lambda: source_columns(opened.bundle), BATCH_TEXTS
        ),
        translate_batch,
        lambda text, best: {
            "text": text,
            "translations": [json_values(opened, translation, alignments) for translation in best],
        },
        print_batch,
        {"model": model} if json else None,
        findings,
    )


def require_sentence_splitter(texts: list[str], file: str | None) -> None:
    """Without the package that splits long texts into sentences, refuse long texts of the command and warn of those
    in a file."""
    from qkv.tasks.translation.predict import LONG_TEXT, SPLITTING, is_long

    if file is None and texts != ["-"]:
        if any(map(is_long, texts)):
            require_package("sentencex", SPLITTING)
    elif not is_installed("sentencex"):
        hint = installation_hint("sentencex")
        print_notes(f"sentencex is not installed: a line of {LONG_TEXT} characters or more is refused; {hint}.")


def one_line(text: str) -> str:
    """The text with its line ends escaped, so that the lines of a file and of its translation stay aligned."""
    return text.replace("\n", "\\n")


def alignment_lines(opened: Model, translation: TranslatedText) -> list[str]:
    """A line with pairs of word numbers, and a line with pairs of words."""
    from qkv.tasks.translation.predict import join_alignments

    pairs, source_words, target_words = join_alignments(opened.align(translation))
    words = " ".join(f"{source_words[source]}-{target_words[target]}" for source, target in pairs)
    return [" ".join(f"{source}-{target}" for source, target in pairs), words]


def json_values(opened: Model, translation: TranslatedText, alignments: bool) -> dict[str, Any]:
    from qkv.tasks.translation.predict import join_alignments

    facts = {"text": translation.text, "logprob": translation.logprob, "carried": list(translation.carried)}
    if not alignments:
        return facts
    sentences = opened.align(translation)
    pairs, source_words, target_words = join_alignments(sentences)
    return {
        **facts,
        "source_words": source_words,
        "words": target_words,
        "alignment": [list(pair) for pair in pairs],
        "sentences": [sentence.values() for sentence in sentences],
    }

"""The entry point: picks the verb, turns every failure into a message and an exit code.

`qkv --help` is written from the table below without importing anything heavy; a verb's module is imported when called.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

from qkv.cli import interrupts, streams

if TYPE_CHECKING:
    from cyclopts import App

VERBS = {
    "train": ("qkv.cli.train:train", "train and evaluate a model on a file, files or a folder"),
    "finetune": ("qkv.cli.train:finetune", "train on from a trained or imported model: full, frozen or LoRA"),
    "generate": ("qkv.cli.generate:generate", "write text with a language model"),
    "chat": ("qkv.cli.generate:chat", "talk with a model that has a chat format"),
    "evaluate": ("qkv.cli.evaluate:evaluate", "score a model on other data, with confidence intervals"),
    "compare": ("qkv.cli.compare:compare", "train every architecture that fits the data, for the same time"),
    "tune": ("qkv.cli.tune:tune", "search for the hyperparameters that suit the data; gives a recipe"),
    "embed": ("qkv.cli.embed:embed", "turn texts or tokens into vectors, from any layer; compare texts"),
    "classify": ("qkv.cli.classify:classify", "label texts, with probabilities"),
    "tag": ("qkv.cli.classify:tag", "tag every word of a text"),
    "translate": ("qkv.cli.translate:translate", "translate texts with a model trained on parallel text"),
    "fill": ("qkv.cli.classify:fill", "predict the tokens at [MASK] with a model such as BERT"),
    "inspect": ("qkv.cli.inspect:inspect", "look inside a model: parts, attention, heads, why an answer"),
    "import": ("qkv.cli.transfer:import_model", "convert a model of another project into a qkv folder"),
    "export": ("qkv.cli.transfer:export", "write a model as a Hugging Face folder, and compare the two"),
    "verify": ("qkv.cli.transfer:verify", "check: files unaltered, cache = full pass, export = original"),
    "tokenize": ("qkv.cli.tokenize:tokenize", "show tokens, ids and compression of a text; train a tokenizer"),
    "data": ("qkv.cli.data:app", "list and fetch data sets; describe, check and clean your files"),
}
"""Where each verb is, and what it does: as the README's list of commands begins."""

HELP = """\
qkv trains, inspects and exports Transformers, and the models they replaced,
on your own text and on the machine you have.

Usage: qkv VERB [ARGUMENTS]      qkv VERB --help explains one verb

{verbs}

Start with:  qkv train book.txt             a text file in, a language model out
             qkv generate runs/book-modern  write with it

Every verb takes --json (one JSON document on standard output) and --debug
(full tracebacks). qkv --install-completion lets your shell complete them.
"""


def help_text() -> str:
    width = max(len(name) for name in VERBS)
    return HELP.format(verbs="\n".join(f"  {name:<{width}}  {line}" for name, (_, line) in VERBS.items()))


def application() -> App:
    from cyclopts import App

    from qkv.cli.help import HelpFormatter

    app = App(
        name="qkv",
        help="qkv VERB --help explains one verb.",
        version_flags=[],
        help_format="plaintext",
        help_formatter=HelpFormatter(),
        result_action="return_value",
        suppress_keyboard_interrupt=False,
    )
    for name, (target, _) in VERBS.items():
        app.command(target, name=name)
    return app


def main(arguments: list[str] | None = None) -> NoReturn:
    interrupts.install()
    streams.install()
    words = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in words
    try:
        code = run([word for word in words if word != "--debug"], debug)
    finally:
        streams.finish()
    interrupts.over(code)
    sys.exit(code)


def run(words: list[str], debug: bool) -> int:
    """Run one command and return its exit code."""
    try:
        with interrupts.raising():
            code = perform(words)
            sys.stdout.flush()
        return code
    except streams.ReaderGone:  # as in `qkv generate ... | head`: it has seen enough
        return 0
    except KeyboardInterrupt as stop:
        from qkv.errors import signal_number_of

        return print_error(interrupts.message(signal_number_of(stop)), 128 + signal_number_of(stop))
    except Exception as error:
        return report_failure(error, words, debug)


def perform(words: list[str]) -> int:
    """Answer --help and --version here, everything else by its verb."""
    if not words or words[0] in ("--help", "-h", "help"):
        print(help_text(), end="")
        return 0
    if words[0] in ("--version", "-V"):
        from qkv.version import __version__

        print(f"qkv {__version__}")
        return 0
    if words[0] == "--install-completion":
        from qkv.cli.help import install

        return install(words[1:])
    if words[0] not in VERBS and not words[0].startswith("-"):
        return unknown_verb(words[0])
    require_unicode(words)
    words = with_own_model(words)
    application()(words, exit_on_error=False, print_error=False)
    report_compiler()
    return 0


def with_own_model(words: list[str]) -> list[str]:
    """Load the file of `--model FILE.py`; train and tune get its kind instead, other verbs do not get the option."""
    for place, word in enumerate(words):
        name, equals, file = word.partition("=")
        file = file if equals else (words[place + 1] if place + 1 < len(words) else "")
        if name == "--model" and file.endswith(".py"):
            from qkv.recipe.own_model import load_file

            kind = load_file(file).kind
            own = ["--model", kind] if words[0] in ("train", "tune") else []
            return [*words[:place], *own, *words[place + (1 if equals else 2) :]]
    return words


def report_compiler() -> None:
    """Verbs that do not show a model's notes may have met a C compiler that fails, too."""
    if compiler := sys.modules.get("qkv.generation.compiler"):
        from qkv.cli.output import notes

        notes(compiler.unreported())


def require_unicode(words: list[str]) -> None:
    """Refuse bytes that are no text, before a verb starts. A file that exists may be named by any bytes."""
    import os

    from qkv.errors import InputError

    for word in words:
        if "\0" in word:
            raise InputError(f"{word!r}: holds a zero byte, which no name or text here may. Leave it out.")
        text = word.rpartition("=")[2] if word.startswith("--") else word
        if any("\ud800" <= letter <= "\udfff" for letter in text) and not os.path.lexists(text):
            raise InputError(
                f"{text!r}: not valid UTF-8, or not readable in this locale. Give it as UTF-8 and, where LC_ALL or "
                "PYTHONUTF8 set another encoding, set PYTHONUTF8=1; or put the text into a file."
            )


def report_failure(error: Exception, words: list[str], debug: bool) -> int:
    """Print the message of a failure; gives its exit code."""
    from cyclopts.exceptions import CycloptsError

    from qkv.errors import QkvError, is_out_of_memory

    if isinstance(error, CycloptsError):
        return print_error(f"{plain_message(str(error), words)}. `qkv {words[0]} --help` lists the options.", 2)
    if debug:
        raise error
    if isinstance(error, QkvError):
        return print_error(str(error), error.exit_code)
    if is_out_of_memory(error):
        return print_error("not enough memory. Close other programs, or use a smaller text, model or batch.", 2)
    if isinstance(error, OSError) and impossible_name(error):
        return print_error(f"{error.filename}: {error.strerror}. Choose another name.", 2)
    return report_bug(error)


def impossible_name(error: OSError) -> bool:
    """Whether the system takes no file of this name, wherever it was first opened."""
    import errno

    return bool(error.filename) and error.errno in (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)


def plain_message(message: str, words: list[str]) -> str:
    """The message of the argument parser, reworded: the option, its value, what was expected."""
    import re

    message = " ".join(message.split()).rstrip(".?")
    if match := re.search(r"parameter --([\w-]+) requires (?:an argument|at least 1 element)", message):
        option = f"--{match[1]}"
        return f"{option} needs a value" if option in words else f"{match[1].upper()} is missing"
    if match := re.search(r"Invalid value \"(.*)\" for \"?(--[\w-]+)\"?\. (expected .*)", message):
        return f"{match[2]} {match[1]}: {match[3]}"
    if match := re.search(r"Invalid value for \"?([\w-]+)\"?: unable to convert (.+) into (\w+)", message):
        kinds = {"int": "a whole number", "float": "a number"}
        return f"{match[1]} {match[2]}: expected {kinds.get(match[3], match[3])}"
    return message[:1].lower() + message[1:]


def unknown_verb(word: str) -> int:
    import difflib

    near = difflib.get_close_matches(word, VERBS, 1)
    hint = f"Did you mean {near[0]!r}?" if near else f"Verbs: {', '.join(VERBS)}."
    return print_error(f"unknown verb {word!r}. {hint}", 2)


def print_error(message: str, code: int) -> int:
    """Print one line, whatever a file's name or a value is made of; gives the exit code."""
    from qkv.visible import visible

    print(f"qkv: {visible(message)}", file=sys.stderr)
    return code


def report_bug(error: Exception) -> int:
    """Report an exception that nobody expected, a bug in qkv: the traceback goes into a file, one line is shown."""
    import tempfile
    import traceback

    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="qkv-traceback-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            traceback.print_exception(error, file=file)
        where = f"The traceback is in {file.name}; please report it. --debug shows it here."
    except OSError:  # no place for it: shown here, for it may not come a second time
        traceback.print_exception(error)
        where = "The traceback is above; please report it."
    return print_error(f"this is a bug in qkv, not in your input: {type(error).__name__}: {error}. {where}", 1)

"""The entry point: finds the verb, and turns every failure into a message and an exit code.

`qkv --help` is written from VERBS without importing anything large; a verb's module is imported when it is called.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NoReturn

from qkv.cli import command_start, interrupts, streams
from qkv.cli.applicability import require_applicable

if TYPE_CHECKING:
    from cyclopts import App

VERBS = {
    "train": ("qkv.cli.train:train", "train and evaluate a model on a file, files or a folder"),
    "finetune": ("qkv.cli.train:finetune", "fine-tune a trained or imported model: fully, head only, or LoRA"),
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
    "inspect": ("qkv.cli.inspect:inspect", "look inside a model: parts, attention, heads, reasons for an answer"),
    "import": ("qkv.cli.transfer:import_model", "convert a model of another project into a qkv folder"),
    "export": ("qkv.cli.transfer:export", "write a model as a Hugging Face folder, and compare the two"),
    "verify": ("qkv.cli.transfer:verify", "check: files unaltered, cache = full pass, export = original"),
    "tokenize": ("qkv.cli.tokenize:tokenize", "show tokens, ids and compression of a text; train a tokenizer"),
    "data": ("qkv.cli.data:app", "list and fetch data sets; describe, check and clean your files"),
}
"""Where the function of each verb is, and what it does. The README describes the verbs with the same words."""

HELP = """\
qkv trains, inspects and exports Transformers, and the models they replaced,
on your own text and on the machine you have.

Usage: qkv VERB [ARGUMENTS]      qkv VERB --help explains one verb

{verbs}

Start with:  qkv train book.txt             train a language model on it
             qkv generate runs/book-modern  write text with it

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
    if arguments is not None:
        command_start.restart()
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in arguments
    try:
        exit_code = _run([argument for argument in arguments if argument != "--debug"], debug)
    finally:
        streams.finish()
    interrupts.command_finished(exit_code)
    sys.exit(exit_code)


def run(arguments: list[str], debug: bool) -> int:
    """Run a command without ending the process, and return its exit code."""
    command_start.restart()
    return _run(arguments, debug)


def _run(arguments: list[str], debug: bool) -> int:
    try:
        with interrupts.signals_raise():
            exit_code = dispatch(arguments)
            sys.stdout.flush()
        return exit_code
    except streams.ReaderGone:  # for example `head` in `qkv generate ... | head`
        return 0
    except KeyboardInterrupt as stop:
        from qkv.errors import signal_number_of

        return print_error(interrupts.message(signal_number_of(stop)), 128 + signal_number_of(stop))
    except Exception as error:
        return report_failure(error, arguments, debug)


def dispatch(arguments: list[str]) -> int:
    """Handle --help, --version and --install-completion here; call the verb for everything else."""
    if not arguments or arguments[0] in ("--help", "-h", "help"):
        print(help_text(), end="")
        return 0
    if arguments[0] in ("--version", "-V"):
        from qkv.version import __version__

        print(f"qkv {__version__}")
        return 0
    if arguments[0] == "--install-completion":
        from qkv.cli.help import install_completion

        return install_completion(arguments[1:])
    if arguments[0] not in VERBS and not arguments[0].startswith("-"):
        return report_unknown_verb(arguments[0])
    require_unicode(arguments)
    arguments = load_own_files(arguments)
    command, bound, _ = application().parse_args(arguments, exit_on_error=False, print_error=False)
    require_applicable(" ".join(arguments[:2]) if arguments[0] == "data" else arguments[0], bound)
    from qkv.tasks.python_words import ON_COMMAND_LINE

    before = ON_COMMAND_LINE.set(True)
    try:
        command(*bound.args, **bound.kwargs)
    finally:
        ON_COMMAND_LINE.reset(before)
    print_compiler_notes()
    return 0


OWN_FILE_OPTIONS = {"--model": ("train", "tune"), "--tokenizer": ("train", "compare", "tune", "tokenize")}
"""Options that may name a Python file of the user's own, with the verbs that have them. All verbs load the file."""


def load_own_files(arguments: list[str]) -> list[str]:
    """Load the files of `--model FILE.py` and `--tokenizer FILE.py`. Verbs that have the option keep it, except
    for a resumed run, which has its own tokenizer; for other verbs it is removed."""
    kept, rest = arguments[:1], arguments[1:]
    while rest:
        argument, *rest = rest
        option, equals_sign, file = argument.partition("=")
        if not equals_sign:
            file = rest[0] if rest else ""
        if option in (*OWN_FILE_OPTIONS, "--metric", "--reader") and file.endswith(".py"):
            from qkv import own_files

            own_files.NAMED[option] = file
        if option not in OWN_FILE_OPTIONS or not file.endswith(".py"):
            kept.append(argument)
            continue
        from qkv.recipe import own_model
        from qkv.text import own_tokenizer

        rest = rest if equals_sign else rest[1:]
        value = own_model.load_file(file).kind if option == "--model" else file
        if option == "--tokenizer":
            own_tokenizer.load_file(file)
        if arguments[0] in OWN_FILE_OPTIONS[option] and (option == "--model" or "--resume" not in arguments):
            kept += [option, value]
    return kept


def print_compiler_notes() -> None:
    """Print the notes about a failing C compiler that the verb itself has not printed."""
    if compiler := sys.modules.get("qkv.generation.compiler"):
        from qkv.cli.output import print_notes

        print_notes(*compiler.unreported())


def require_unicode(arguments: list[str]) -> None:
    """Refuse arguments that are not valid text before a verb starts, except names of existing files."""
    import os

    from qkv.errors import InputError

    for argument in arguments:
        if "\0" in argument:
            raise InputError(f"{argument!r}: contains a zero byte, which is not allowed in names and texts. Remove it.")
        text = argument.rpartition("=")[2] if argument.startswith("--") else argument
        if any("\ud800" <= letter <= "\udfff" for letter in text) and not os.path.lexists(text):
            raise InputError(
                f"{text!r}: not valid UTF-8, or not readable in this locale. Give it as UTF-8 and, where LC_ALL or "
                "PYTHONUTF8 set another encoding, set PYTHONUTF8=1; or put the text into a file."
            )


def report_failure(error: Exception, arguments: list[str], debug: bool) -> int:
    """Print the message of a failure and return its exit code. With `debug`, raise the error again, unless the
    arguments are wrong."""
    from cyclopts.exceptions import CycloptsError

    from qkv.errors import QkvError, is_out_of_memory

    if isinstance(error, CycloptsError):
        message = parser_message(str(error), arguments)
        return print_error(f"{message}. `qkv {arguments[0]} --help` lists the options.", 2)
    if debug:
        raise error
    if isinstance(error, QkvError):
        return print_error(str(error), error.exit_code)
    if is_out_of_memory(error):
        return print_error("not enough memory. Close other programs, or use a smaller text, model or batch.", 2)
    if isinstance(error, OSError) and is_unusable_name(error):
        return print_error(f"{error.filename}: {error.strerror}. Choose another name.", 2)
    return report_bug(error)


def is_unusable_name(error: OSError) -> bool:
    """Whether the operating system refused the name of a file, not its content."""
    import errno

    return bool(error.filename) and error.errno in (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.ELOOP)


def parser_message(message: str, arguments: list[str]) -> str:
    """Reword a message of the argument parser: first the option and its value, then what was expected."""
    import re

    message = " ".join(message.split()).rstrip(".?")
    if match := re.search(r"parameter --([\w-]+) requires (?:an argument|at least 1 element)", message):
        option = f"--{match[1]}"
        return f"{option} needs a value" if option in arguments else f"{match[1].upper()} is missing"
    if match := re.search(r"Invalid value \"(.*)\" for \"?(--[\w-]+)\"?\. (expected .*)", message):
        return f"{match[2]} {match[1]}: {match[3]}"
    if match := re.search(r"Invalid value for \"?([\w-]+)\"?: unable to convert (.+) into (\w+)", message):
        type_names = {"int": "a whole number", "float": "a number"}
        return f"{match[1]} {match[2]}: expected {type_names.get(match[3], match[3])}"
    return message[:1].lower() + message[1:]


def report_unknown_verb(verb: str) -> int:
    import difflib

    similar = difflib.get_close_matches(verb, VERBS, 1)
    hint = f"Did you mean {similar[0]!r}?" if similar else f"Verbs: {', '.join(VERBS)}."
    return print_error(f"unknown verb {verb!r}. {hint}", 2)


def print_error(message: str, exit_code: int) -> int:
    """Print the message as one line on standard error, with control characters as escapes; return the exit code."""
    from qkv.visible import visible

    print(f"qkv: {visible(message)}", file=sys.stderr)
    return exit_code


def report_bug(error: Exception) -> int:
    """Report an unexpected exception, which is a bug in qkv: write the traceback to a file and print one line."""
    import tempfile
    import traceback

    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="qkv-traceback-", suffix=".txt", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            traceback.print_exception(error, file=file)
        request = f"The traceback is in {file.name}; please report it. --debug shows it here."
    except OSError:  # no file can be written: print the traceback now, because the failure may not happen again
        traceback.print_exception(error)
        request = "The traceback is above; please report it."
    return print_error(f"this is a bug in qkv, not in your input: {type(error).__name__}: {error}. {request}", 1)

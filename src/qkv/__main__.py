"""The command `qkv`, and `python -m qkv`."""

from qkv.cli import interrupts


def main() -> None:
    interrupts.install()  # before anything else is imported: a signal may come at any time
    from qkv.cli import app

    app.main()


if __name__ == "__main__":
    main()

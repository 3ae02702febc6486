"""The command `qkv`, and `python -m qkv`."""

from qkv.cli import interrupts


def main() -> None:
    interrupts.install()  # before all other imports: a signal may arrive at any time

    from qkv.cli import app

    app.main()


if __name__ == "__main__":
    main()

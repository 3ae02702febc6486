"""`python -m qkv` is `qkv`."""

from qkv.cli.app import main

if __name__ == "__main__":
    main()

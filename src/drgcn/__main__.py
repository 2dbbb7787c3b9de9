"""``python -m drgcn``: the command line."""

from drgcn.cli import main

if __name__ == "__main__":
    main()

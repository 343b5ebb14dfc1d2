"""The command line: python -m lipscope = lipscope."""
from __future__ import annotations

import os
import sys

from .claims import program
from .errors import FileError


def main() -> None:
    """Becomes the program that comes with the package."""
    try:
        found = str(program())
    except FileError as missing:
        sys.exit(f"lipscope: {missing}")
    os.execv(found, ["lipscope", *sys.argv[1:]])


if __name__ == "__main__":
    main()

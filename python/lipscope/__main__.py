"""The command line: python -m lipscope = lipscope."""
from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Becomes the program that comes with the package."""
    program = Path(__file__).with_name("lipscope")
    if not program.exists():
        sys.exit(f"lipscope: the program is not in this installation: {program} is not there")
    os.execv(str(program), ["lipscope", *sys.argv[1:]])


if __name__ == "__main__":
    main()

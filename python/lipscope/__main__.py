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
    if not os.path.exists("/proc/self/exe"):  # by which the system tells a program where it lies
        os.environ.setdefault("LIPSCOPE_DATA", str(program.with_name("data")))
        libraries = str(program.parent.with_name("lipscope.libs"))
        os.environ["LD_LIBRARY_PATH"] = ":".join(filter(None, (libraries, os.environ.get("LD_LIBRARY_PATH"))))
    os.execv(str(program), ["lipscope", *sys.argv[1:]])


if __name__ == "__main__":
    main()

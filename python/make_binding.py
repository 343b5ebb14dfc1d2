#!/usr/bin/env python3
"""Writes the C source of the compiled module from the public headers themselves.

    make_binding.py COMPILER INCLUDE OUTPUT

The compiler's preprocessor expands include/lipscope.h, cffi parses what comes out, and the C compiler checks every struct
against the headers again when it compiles the output: nothing is copied by hand, so nothing can drift."""
import pathlib
import re
import subprocess
import sys
import tempfile

import cffi

# Python functions that C calls, one for each kind of callback that the headers have.
CALLBACKS = """
extern "Python" int lipsc_py_apply(void *ctx, int trans, size_t k, const double *x, double *y);
extern "Python" int lipsc_py_stop(void *ctx);
extern "Python" void lipsc_py_progress(void *ctx, long products, double sigma, double residual);
extern "Python" void lipsc_py_study_progress(void *ctx, const lipsc_study_progress *progress);
extern "Python" void lipsc_py_remark(void *ctx, const char *sentence);
extern "Python" void lipsc_py_attack_progress(void *ctx, const char *doing, long evaluations, double best);
extern "Python" void lipsc_py_attacks_progress(void *ctx, size_t n, const char *doing, long evaluations, double best);
extern "Python" void lipsc_py_trial(void *ctx, const lipsc_trial *trial);
"""

STANDARD = ["stddef.h", "stdint.h", "stdio.h", "stdbool.h", "limits.h"]  # cffi knows their types


def declarations(compiler: str, include: str) -> str:
    """The headers after preprocessing; standard headers are stood in for by empty ones."""
    with tempfile.TemporaryDirectory() as empty:
        for name in STANDARD:
            pathlib.Path(empty, name).touch()
        command = [compiler, "-E", "-P", "-std=c11", "-nostdinc", "-U__GNUC__", "-D__attribute__(x)=", "-I", empty, "-I",
                   include, str(pathlib.Path(include, "lipscope.h"))]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)


def main() -> None:
    compiler, include, output = sys.argv[1:]
    ffi = cffi.FFI()
    ffi.cdef(declarations(compiler, include))
    ffi.cdef(CALLBACKS)
    ffi.set_source("lipscope._binding", "#include <lipscope.h>\n")
    ffi.emit_c_code(output)


if __name__ == "__main__":
    main()

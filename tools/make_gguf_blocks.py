#!/usr/bin/env python3
"""Writes tests/data/gguf/blocks.gguf: for every block type of GGUF that we read a tensor TYPE of
random blocks and a tensor TYPE.values with what the reference package `gguf` makes of them.

    pip install gguf && tools/make_gguf_blocks.py tests/data/gguf/blocks.gguf"""
import sys

import numpy as np
import gguf
from gguf import GGMLQuantizationType as T

BLOCKS = 6
TYPES = [T.F32, T.F16, T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.Q2_K, T.Q3_K, T.Q4_K, T.Q5_K, T.Q6_K,
         T.IQ4_NL, T.IQ4_XS, T.MXFP4]


def random_blocks(rng, kind):
    """Random bytes whose values by the package are all finite: its NaNs have no defined bits."""
    values, size = gguf.GGML_QUANT_SIZES[kind]
    count = BLOCKS if values > 1 else 64
    rows = []
    while len(rows) < count:
        row = rng.integers(0, 256, size, dtype=np.uint8)
        with np.errstate(all="ignore"):
            if np.isfinite(gguf.dequantize(row.reshape(1, -1).copy(), kind)).all():
                rows.append(row)
    return np.concatenate(rows)


def main(path):
    rng = np.random.default_rng(20)
    out = gguf.GGUFWriter(path, "blocks")
    out.add_uint32("test.u32", 4000000000)
    out.add_int64("test.i64", -(1 << 40))
    out.add_float32("test.f32", 0.5)
    out.add_float32("test.epsilon", 1e-5)
    out.add_float64("test.f64", 0.1)
    out.add_bool("test.truth", True)
    out.add_string("test.text", "naïve")
    out.add_array("test.words", ["one", "", "drei"])
    out.add_array("test.numbers", [3, -1, 4])
    for kind in TYPES:
        data = random_blocks(rng, kind)
        values = gguf.dequantize(data.reshape(1, -1), kind).astype(np.float32).reshape(-1)
        out.add_tensor(kind.name, data.reshape(1, -1), raw_dtype=kind)
        out.add_tensor(kind.name + ".values", values)
    out.add_tensor("grid", np.arange(24, dtype=np.float32).reshape(2, 3, 4))
    out.write_header_to_file()
    out.write_kv_data_to_file()
    out.write_tensors_to_file()
    out.close()


if __name__ == "__main__":
    main(sys.argv[1])

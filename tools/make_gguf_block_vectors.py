#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/testdata/gguf_blocks/vectors.json: random blocks of GGUF's quantized types and what the
gguf package decodes them to. Run with the Python of .venv; the file is reproducible."""
import json, pathlib
import numpy as np
from gguf import GGMLQuantizationType as T, quants

BLOCKS = {"q5_0": (T.Q5_0, 22), "q5_1": (T.Q5_1, 24), "q2_k": (T.Q2_K, 84), "q3_k": (T.Q3_K, 110),
          "q4_k": (T.Q4_K, 144), "q5_k": (T.Q5_K, 176), "q6_k": (T.Q6_K, 210)}
HALVES = {"q5_0": [0], "q5_1": [0, 2], "q2_k": [80, 82], "q3_k": [108], "q4_k": [0, 2], "q5_k": [0, 2],
          "q6_k": [208]}

rng = np.random.default_rng(20261130)
out = {}
for name, (kind, size) in BLOCKS.items():
    count = 4 if size < 50 else 2
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in HALVES[name]:  # scales that are ordinary numbers
        scales = rng.uniform(-2, 2, count).astype(np.float16)
        blocks[:, at:at + 2] = scales.view(np.uint8).reshape(count, 2)
    values = quants.dequantize(blocks.reshape(1, -1), kind).astype(np.float32)
    out[name] = {"bytes": blocks.tobytes().hex(), "values": values.tobytes().hex()}
path = pathlib.Path(__file__).parent.parent / "tests/testdata/gguf_blocks/vectors.json"
path.write_text(json.dumps(out, indent=0) + "\n")

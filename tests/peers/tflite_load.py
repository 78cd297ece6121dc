#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Files that Hone writes, read and run by Google's programs.

Each golden model is written again by Hone with its constants embedded, behind the tables and outside
the FlatBuffer; ai-edge-litert (Interpreter and CompiledModel) must give the same bits as for the
source. Each golden bundle gets a header written by Hone; litert-lm-builder must read the same from it,
and unpack the same sections.

Usage: tflite_load.py [--tool BUILD/src/formats/rewrite_bundle]
"""
import argparse
import io
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.interpreter import Interpreter
from litert_lm_builder import litertlm_peek

from hone_cli import SHARED
from litert_model import sections, system_metadata

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIGNATURES = ("decode", "prefill_8", "decode_embedder")


def values(details):
    """A fixed input for each name."""
    rng = np.random.default_rng(1)
    out = {}
    for name in sorted(details):
        shape = tuple(details[name]["shape"])
        if name in ("input_pos", "token_ids"):
            out[name] = np.arange(7, 7 + int(np.prod(shape)), dtype=np.int32).reshape(shape)
        elif name == "mask":
            out[name] = np.zeros(shape, np.float32)
        else:
            out[name] = rng.standard_normal(shape).astype(np.float32)
    return out


def interpreter(path):
    model = Interpreter(model_path=str(path))
    out = {}
    for key in model.get_signature_list():
        if key in SIGNATURES:
            runner = model.get_signature_runner(key)
            out[key] = runner(**values(runner.get_input_details()))
    return out


def compiled(path):
    out = {}
    with CompiledModel.from_file(str(path)) as model:
        for key in model.get_signature_list():
            if key not in SIGNATURES:
                continue
            ins = {}
            for name, value in values(model.get_input_tensor_details(key)).items():
                ins[name] = model.create_input_buffer_by_name(key, name)
                ins[name].write(value)
            details = model.get_output_tensor_details(key)
            outs = {name: model.create_output_buffer_by_name(key, name) for name in details}
            model.run_by_name(key, ins, outs)
            out[key] = {name: outs[name].read(int(np.prod(details[name]["shape"])), np.float32)
                        for name in details}
    return out


def same(a, b):
    return bool(a) and a.keys() == b.keys() and all(
        np.array_equal(a[key][name], b[key][name]) for key in a for name in a[key])


def peek(path):
    out = io.StringIO()
    litertlm_peek.peek_litertlm_file(str(path), None, out)
    return out.getvalue()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    found = sorted(ROOT.glob("build/*/src/formats/rewrite_bundle"), key=lambda p: p.stat().st_mtime)
    parser.add_argument("--tool", default=found[-1] if found else None)
    tool = parser.parse_args().tool
    if not tool:
        sys.exit("build the target rewrite_bundle first")
    golden = pathlib.Path(SHARED) / "golden/bundles"
    passed = failed = 0

    def check(ok, what):
        nonlocal passed, failed
        passed, failed = passed + bool(ok), failed + (not ok)
        if not ok:
            print(f"FAILED: {what}")

    with tempfile.TemporaryDirectory() as folder:
        for source in sorted(golden.glob("*/*.tflite")):
            name = f"{source.parent.name}/{source.name}"
            want = interpreter(source), compiled(source)
            for mode in ("embedded", "inside", "outside"):
                out = pathlib.Path(folder) / "model.tflite"
                subprocess.run([tool, source, out, mode], check=True)
                check(same(want[0], interpreter(out)), f"{name} {mode}: Interpreter")
                check(same(want[1], compiled(out)), f"{name} {mode}: CompiledModel")
        for source in sorted(golden.glob("*/*.litertlm")):
            name = f"{source.parent.name}/{source.name}"
            out = pathlib.Path(folder) / "bundle.litertlm"
            subprocess.run([tool, source, out], check=True)
            check(sections(source) == sections(out), f"{name}: sections")
            check(system_metadata(source) == system_metadata(out), f"{name}: system metadata")
            check(peek(source).replace(str(source), "") == peek(out).replace(str(out), ""),
                  f"{name}: litertlm_peek")
    print(f"{passed} passed, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())

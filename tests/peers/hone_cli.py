# SPDX-License-Identifier: Apache-2.0
"""Calls the hone program for the peer tests and counts checks."""
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
HONE = os.environ.get("HONE_PROGRAM", str(ROOT / "build/release/hone"))
SHARED = pathlib.Path(os.environ.get("HONE_SHARED_DATA", str(ROOT.parent / "shared")))


def hone(*args, check=True, **kwargs):
    """Runs hone; returns the completed process. Prints what it said when it fails."""
    done = subprocess.run([HONE, *map(str, args)], capture_output=True, text=True, **kwargs)
    if check and done.returncode != 0:
        sys.exit(f"hone {' '.join(map(str, args))}: exit {done.returncode}\n{done.stderr}")
    return done


def hone_json(*args):
    return json.loads(hone(*args, "--json").stdout)


def logits(model, ids, out, *args):
    """Float32 [positions, vocabulary] of every position."""
    import numpy as np

    hone("logits", model, "--ids", ",".join(map(str, ids)), "--positions", "all", "-o", out, *args)
    return np.load(out)


class Checks:
    """Counts what held and what did not; finish() ends the program."""

    def __init__(self):
        self.passed = 0
        self.failed = 0

    def check(self, ok, what):
        print(("ok     " if ok else "FAILED ") + what, flush=True)
        self.passed += bool(ok)
        self.failed += not ok
        return ok

    def finish(self):
        print(f"{self.passed} passed, {self.failed} failed", flush=True)
        sys.stdout.flush()
        os._exit(1 if self.failed or not self.passed else 0)

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A generated checkpoint of MiniCPM5-2B shape: int4 conversion in bounded memory, then both runtimes decode it.

Usage: large.py MAKE_CHECKPOINT WORK_FOLDER [--shape minicpm5-2b]
"""
import argparse
import pathlib
import subprocess
import time

from hone_cli import HONE, Checks, hone_json


def run_measured(argv):
    """Peak of anonymous resident memory in bytes (mapped file pages left out) and seconds."""
    start = time.monotonic()
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    peak = 0
    status = pathlib.Path(f"/proc/{process.pid}/status")
    while process.poll() is None:
        try:
            for line in status.read_text().splitlines():
                if line.startswith("RssAnon:"):
                    peak = max(peak, int(line.split()[1]) * 1024)
        except OSError:
            pass
        time.sleep(0.02)
    return process.returncode, peak, time.monotonic() - start, process.stderr.read()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("make_checkpoint")
    parser.add_argument("folder")
    parser.add_argument("--shape", default="minicpm5-2b")
    args = parser.parse_args()
    checks = Checks()
    folder = pathlib.Path(args.folder)
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / args.shape
    if not (source / "config.json").exists():
        start = time.monotonic()
        subprocess.run([args.make_checkpoint, "--shape", args.shape, "-o", str(source)], check=True)
        print(f"  made the checkpoint in {time.monotonic() - start:.1f} s")
    bundle = folder / f"{args.shape}-int4.litertlm"
    code, peak, seconds, err = run_measured([HONE, "convert", str(source), "-o", str(bundle), "--quant", "int4", "--force"])
    checks.check(code == 0, f"convert --quant int4: exit {code} {err[-500:] if code else ''}")
    checks.check(peak < 1 << 30, f"peak memory beyond mapped files: {peak / 2**20:.0f} MiB, {seconds:.1f} s, "
                                 f"bundle {bundle.stat().st_size / 1e9:.2f} GB")
    ours = hone_json("run", bundle, "-p", "Hello there", "--raw", "--temperature", "0", "--max-tokens", "8", "--kv", "f32")
    checks.check(len(ours["token_ids"]) == 8 or ours["finish_reason"] == "stop",
                 f"Hone decodes: {ours['token_ids']} {ours['timings']}")
    import litert_lm

    litert_lm.set_min_log_severity(litert_lm.LogSeverity.ERROR)
    start = time.monotonic()
    engine = litert_lm.Engine(str(bundle), backend=litert_lm.Backend.CPU(), cache_dir=":nocache", max_num_tokens=256)
    session = engine.create_session(apply_prompt_template=False, max_output_tokens=8)
    session.run_prefill(["Hello there"])
    text = session.run_decode().texts[0]
    checks.check(bool(text), f"LiteRT-LM decodes in {time.monotonic() - start:.1f} s: {text!r}; Hone: {ours['text']!r}")
    checks.finish()


if __name__ == "__main__":
    main()

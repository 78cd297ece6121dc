#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How long `hone convert --quant int4` takes for a checkpoint of MiniCPM5-2B shape, beside what the disk allows.

Usage: bench/convert.py WORK_FOLDER [--source FOLDER] [--shape minicpm5-2b] [--runs N] [--threads N] [--warm] [--json FILE]

Makes the checkpoint (sharded bf16) in WORK_FOLDER if it is not there. Each run reads the source files, writes as many
bytes as the bundle has, and converts; all three start with the files out of the page cache, unless --warm. The limit is
reading plus writing, as if computing took no time. Needs about 7 GB of disk.
"""
import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
PART = 8 << 20


def weights(folder):
    return sorted(folder.glob("*.safetensors"))


def evict(paths):
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def read_seconds(paths):
    start = time.monotonic()
    room = bytearray(PART)
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            while file.readinto(room):
                pass
    return time.monotonic() - start


def write_seconds(path, count):
    part = os.urandom(PART)
    start = time.monotonic()
    with open(path, "wb", buffering=0) as file:
        for begin in range(0, count, PART):
            file.write(part[: min(PART, count - begin)])
        os.fsync(file.fileno())
    seconds = time.monotonic() - start
    path.unlink()
    return seconds


def convert(program, source, bundle, threads):
    """Wall and processor seconds, and the peak of resident memory without mapped files in bytes."""
    start = time.monotonic()
    process = subprocess.Popen([program, "convert", str(source), "-o", str(bundle), "--quant", "int4", "--force",
                                "--threads", str(threads)], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    status = pathlib.Path(f"/proc/{process.pid}/status")
    peak = 0
    while True:
        pid, code, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            break
        try:
            for line in status.read_text().splitlines():
                if line.startswith("RssAnon:"):
                    peak = max(peak, int(line.split()[1]) * 1024)
        except OSError:
            pass
        time.sleep(0.01)
    seconds = time.monotonic() - start
    if code:
        sys.exit(f"hone convert failed: {process.stderr.read()}")
    return seconds, usage.ru_utime + usage.ru_stime, peak


def machine():
    model = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
                 platform.processor())
    return f"{model}, {len(os.sched_getaffinity(0))} threads, load {os.getloadavg()[0]:.1f}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--source", type=pathlib.Path, help="a checkpoint that is there already")
    parser.add_argument("--shape", default="minicpm5-2b")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--warm", action="store_true", help="leave the files in the page cache")
    parser.add_argument("--json", type=pathlib.Path)
    args = parser.parse_args()
    program = os.environ.get("HONE_PROGRAM", str(ROOT / "build/release/hone"))
    args.folder.mkdir(parents=True, exist_ok=True)
    source = args.source or args.folder / args.shape
    if not (source / "config.json").exists():
        maker = os.environ.get("HONE_MAKE_CHECKPOINT", str(ROOT / "build/release/bench/make_checkpoint"))
        subprocess.run([maker, "--shape", args.shape, "-o", str(source)], check=True)
    bundle = args.folder / f"{args.shape}-bench.litertlm"
    files = weights(source)
    source_bytes = sum(path.stat().st_size for path in files)
    print(f"machine: {machine()}; {'warm' if args.warm else 'cold'} files")
    runs = []
    for i in range(args.runs):
        if not args.warm:
            evict(files)
        read = read_seconds(files)
        if not args.warm:
            evict(files)
        wall, cpu, peak = convert(program, source, bundle, args.threads)
        bundle_bytes = bundle.stat().st_size
        write = write_seconds(args.folder / "bench-write.tmp", bundle_bytes)
        runs.append({"convert_s": wall, "cpu_s": cpu, "peak_anonymous_bytes": peak, "read_s": read, "write_s": write,
                     "limit_s": read + write})
        print(f"run {i + 1}: convert {wall:.1f} s ({cpu:.1f} s of processor), peak {peak / 2**20:.0f} MiB, "
              f"read {read:.1f} s, write {write:.1f} s", flush=True)
    bundle.unlink()
    middle = {key: statistics.median(run[key] for run in runs) for key in runs[0]}
    ratio = middle["convert_s"] / middle["limit_s"]
    print(f"median of {len(runs)}: {source_bytes / 1e9:.2f} GB -> {bundle_bytes / 1e9:.2f} GB in {middle['convert_s']:.1f} s; "
          f"the disk alone needs {middle['limit_s']:.1f} s (read {middle['read_s']:.1f}, write {middle['write_s']:.1f}): "
          f"{ratio:.2f} times the limit; peak resident without mapped pages {middle['peak_anonymous_bytes'] / 2**20:.0f} MiB")
    if args.json:
        args.json.write_text(json.dumps({"machine": machine(), "warm": args.warm, "source_bytes": source_bytes,
                                         "bundle_bytes": bundle_bytes, "runs": runs, "median": middle}, indent=1) + "\n")


if __name__ == "__main__":
    main()

# SPDX-FileCopyrightText: The Hone authors
# SPDX-License-Identifier: Apache-2.0
"""The processes that bench/peers.py starts: an engine that answers, and a neighbour that is only busy."""
import json
import os
import pathlib
import select
import subprocess
import sys
import time

import peers_stats as stats

ANSWER_SECONDS = 1800


def reason(error):
    return str(error).replace("|", "/").replace("\n", " ")[:300]


class Worker:
    """The process of one engine. ask() gives its answer with what the machine did meanwhile."""

    def __init__(self, argv, log):
        self.log = log
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=open(log, "w"))
        try:
            self.ready = self._read()
        except RuntimeError:
            self.close()
            raise

    def _read(self):
        line = b""
        end = time.monotonic() + ANSWER_SECONDS
        while not line.endswith(b"\n"):
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                self.process.kill()
                raise RuntimeError(f"no answer in {ANSWER_SECONDS} s")
            part = os.read(self.process.stdout.fileno(), 1 << 20)
            if not part:
                code = self.process.wait()
                tail = pathlib.Path(self.log).read_text(errors="replace").strip().splitlines()[-1:]
                raise RuntimeError(f"ended with code {code} {tail[0][:300] if tail else ''}".strip())
            line += part
        answer = json.loads(line)
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return answer

    def ask(self, request, neighbour=None):
        pids = [self.process.pid, os.getpid()] + ([neighbour.pid] if neighbour else [])

        def own():
            return sum(stats.process_cpu(pid) for pid in pids)

        machine, cpu, start = stats.MachineClock(), own(), time.monotonic()
        self.process.stdin.write(json.dumps(request).encode() + b"\n")
        self.process.stdin.flush()
        answer = self._read()
        wall = time.monotonic() - start
        after, cpu = stats.MachineClock(), own() - cpu
        answer["wall_s"] = wall
        answer["others_cpu_s"] = max(0.0, after.busy - machine.busy - cpu)
        answer["steal_s"] = after.steal - machine.steal
        return answer

    def peak_bytes(self):
        return stats.peak_bytes(self.process.pid)

    def close(self):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


class Neighbour:
    """One other process that keeps a core busy."""

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        time.sleep(0.3)
        return self.process

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

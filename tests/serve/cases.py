#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The cases of tests/cases/README.md that a running hone serve shows.

Usage: cases.py [quick|all] [PART OF A NAME]
"""
import sys

import cases_chat
import cases_limits
import cases_server
from harness import ROOT, Models, Server, hone, run_cases


class World:
    """What cases share: models and servers, each started when it is first needed."""

    def __init__(self, quick):
        self.quick = quick
        self.root = ROOT
        self.models = Models()
        self.serve_help = hone("serve", "--help").stdout
        self._servers = {}

    @property
    def server(self):
        """MiniCPM5's template, eight requests at once."""
        return self._get("server", self.models.minicpm5, "--parallel", 8)

    def small(self):
        """A context of 256 tokens."""
        return self._get("small", self.models.minicpm5, "--context", 256)

    def single(self):
        """One request at a time."""
        return self._get("single", self.models.minicpm5, "--parallel", 1)

    def plain(self):
        return self._get("plain", self.models.plain)

    def silent(self):
        return self._get("silent", self.models.silent)

    def _get(self, name, model, *options):
        if name not in self._servers or not self._servers[name].alive():
            self._servers[name] = Server(model(), *options)
        return self._servers[name]

    def stop(self):
        """Ends all; whether each was still alive and ended well."""
        bad = []
        for name, server in self._servers.items():
            if not server.alive():
                bad.append(f"{name} was dead")
            code = server.stop()
            if code != 0:
                bad.append(f"{name} ended with {code}")
            faults = [line for line in server.log if "error" in line.lower() and "internal" in line.lower()]
            bad += [f"{name} said: {line}" for line in faults]
        return bad


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else "quick"
    only = sys.argv[2] if len(sys.argv) > 2 else None
    world = World(mode != "all")
    cases = [*cases_chat.CASES, *cases_server.CASES, *cases_limits.CASES, *(cases_limits.SLOW_CASES if mode == "all" else [])]
    passed, failed = run_cases(cases, world, only=only)
    for fault in world.stop():
        print(f"FAILED {fault}")
        failed += 1
    print(f"{passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()

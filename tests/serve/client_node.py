#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Starts hone serve for the clients of npm and runs their tests with node. Needs npm ci in tests/serve/node."""
import os
import subprocess
import sys

from harness import HERE, Models, Server


def main():
    models = Models()
    with Server(models.minicpm5(), "--parallel", 4) as server:
        done = subprocess.run(["node", "--test", "--test-concurrency=1", "--test-timeout=60000", "openai.test.mjs", "ai_sdk.test.mjs"],
                              cwd=HERE / "node", env={**os.environ, "HONE_URL": server.url, "AI_SDK_LOG_WARNINGS": "false"})
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()

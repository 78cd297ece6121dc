#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Hone and Python's huggingface_hub share one cache: each finds what the other one downloaded.

usage: hub_peer.py HONE
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HONE = sys.argv[1]
ROOT = pathlib.Path(tempfile.mkdtemp(prefix="hone-hub-peer-"))
server = subprocess.Popen([sys.executable, str(pathlib.Path(__file__).with_name("hub_server.py"))],
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
ENDPOINT = "http://127.0.0.1:" + server.stdout.readline().split()[0]
os.environ.update(HF_ENDPOINT=ENDPOINT, HF_HOME=str(ROOT / "home"), HF_HUB_DISABLE_TELEMETRY="1",
                  HF_HUB_DISABLE_XET="1", HF_HUB_DISABLE_PROGRESS_BARS="1")
for name in ("HF_TOKEN", "HF_HUB_CACHE", "HF_HUB_OFFLINE", "http_proxy", "HTTP_PROXY", "ALL_PROXY"):
    os.environ.pop(name, None)

import huggingface_hub  # noqa: E402  reads the environment when it is imported
from huggingface_hub.utils import WeakFileLock  # noqa: E402

checks = 0


def check(condition, what):
    global checks
    checks += 1
    if not condition:
        raise AssertionError(what)


def hone(*args, env=None, expect=0):
    run = subprocess.run([HONE, *args], capture_output=True, text=True, env={**os.environ, **(env or {})})
    check(run.returncode == expect, f"hone {args}: exit {run.returncode}, {run.stderr}")
    return run


def pull(*args, env=None):
    return json.loads(hone("pull", *args, "--json", env=env).stdout)


def python_finds_what_hone_loaded():
    report = pull("test/plain")
    check(report["loaded_bytes"] == report["bytes"], report)
    folder = huggingface_hub.snapshot_download("test/plain", local_files_only=True)
    check(os.path.samefile(folder, report["path"]), folder)
    check((pathlib.Path(folder) / "model.safetensors").stat().st_size == 1_000_003, folder)
    before = os.lstat(folder + "/model.safetensors").st_mtime_ns
    path = huggingface_hub.hf_hub_download("test/plain", "model.safetensors")
    check(os.path.samefile(path, folder + "/model.safetensors"), path)
    check(os.lstat(path).st_mtime_ns == before, "Python loaded the file again")
    scan = huggingface_hub.scan_cache_dir()
    check(not scan.warnings and [r.repo_id for r in scan.repos] == ["test/plain"], scan)


def hone_finds_what_python_loaded():
    folder = huggingface_hub.snapshot_download("test/second", revision="v1/beta")
    report = pull("test/second@v1/beta")
    check(report["loaded_bytes"] == 0, report)
    check(os.path.samefile(folder, report["path"]), report)
    # Without the hub: the checkpoint is found, and refused for its random bytes.
    run = hone("convert", "test/second@v1/beta", "-o", str(ROOT / "x.litertlm"), expect=5,
               env={"HF_HUB_OFFLINE": "1"})
    check(str(pathlib.Path(folder).relative_to(ROOT)) in run.stderr, run.stderr)


def one_revision_by_each():
    huggingface_hub.snapshot_download("test/third")
    report = pull("test/third@v1/beta")
    check(report["loaded_bytes"] == 0, "blobs are shared between revisions")
    path = huggingface_hub.hf_hub_download("test/third", "config.json", revision="v1/beta", local_files_only=True)
    check(os.path.samefile(path, report["path"] + "/config.json"), path)


def local_folders_are_shared():
    folder = ROOT / "local"
    pull("test/local", "--local-dir", str(folder))
    before = (folder / "model.safetensors").stat().st_mtime_ns
    huggingface_hub.snapshot_download("test/local", local_dir=folder)
    check((folder / "model.safetensors").stat().st_mtime_ns == before, "Python loaded the file again")
    other = ROOT / "other"
    huggingface_hub.snapshot_download("test/local", local_dir=other)
    check(pull("test/local", "--local-dir", str(other))["loaded_bytes"] == 0, "Hone loaded it again")


def hone_waits_for_pythons_lock():
    etag = "".join(f["sha256"] for f in pull("test/plain")["files"] if f["name"] == "model.safetensors")
    lock = ROOT / "home/hub/.locks/models--test--locked" / f"{etag}.lock"
    lock.parent.mkdir(parents=True)
    with WeakFileLock(lock):
        run = subprocess.Popen([HONE, "pull", "test/locked"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        line = run.stderr.readline()
        check("another program loads it" in line, line)
        time.sleep(0.5)
        check(run.poll() is None, "it did not wait")
    run.communicate(timeout=30)
    check(run.returncode == 0, run.returncode)


try:
    for test in (python_finds_what_hone_loaded, hone_finds_what_python_loaded, one_revision_by_each,
                 local_folders_are_shared, hone_waits_for_pythons_lock):
        test()
        print(f"{test.__name__}: ok")
    print(f"{checks} checks passed")
finally:
    server.stdin.close()
    server.wait()
    shutil.rmtree(ROOT, ignore_errors=True)

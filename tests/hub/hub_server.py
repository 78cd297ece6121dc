#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plays the hub, and the storage host that it redirects to, on two ports of this machine.

Prints both ports and serves until standard input ends. The name of a model chooses how it behaves;
/_log lists the requests of that model. After /_hold the model "big" is sent up to HELD bytes, and the
rest after /_go.
"""
import hashlib
import http.server
import json
import random
import sys
import threading
import time
import urllib.parse

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER_COMMIT = "89abcdef0123456789abcdef0123456789abcdef"
WEIGHTS = random.Random(1).randbytes(1_000_003)
CONFIG = b'{"architectures": ["LlamaForCausalLM"]}\n'
FILES = {
    "config.json": CONFIG,
    "tokenizer.json": b"{}\n",
    "model.safetensors": WEIGHTS,
    "pytorch_model.bin": b"pickle" * 3000,
    "onnx/model.onnx": b"onnx" * 3000,
    "README.md": b"# A model\n",
    "empty.json": b"",
}
# What the list of files says instead.
LISTS = {
    "dotdot": ["config.json", "model.safetensors", "../evil.json"],
    "absolute": ["config.json", "model.safetensors", "/tmp/evil.json"],
    "backslash": ["config.json", "model.safetensors", "..\\evil.json"],
    "gitdir": ["config.json", "model.safetensors", ".git/hooks/post-checkout"],
    "filefolder": ["config.json", "model.safetensors", "config.json/x"],
    "twice": ["config.json", "model.safetensors", "config.json"],
    "empty": [],
    "gguf": ["README.md", "tiny-Q4_0.gguf", "tiny-Q8_0.gguf"],
    "pickle": ["config.json", "pytorch_model.bin"],
}
FILES["tiny-Q4_0.gguf"] = b"GGUF" + b"4" * 100
FILES["tiny-Q8_0.gguf"] = b"GGUF" + b"8" * 200
BIG = random.Random(2).randbytes(6_000_000)
HELD = 2_500_000
HOLD_SECONDS = 120  # a test that died must not keep connections


def is_large(data):
    return len(data) > 10_000


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class State:
    lock = threading.Lock()
    log = []
    counts = {}
    sent = 0  # bytes of BIG since /_hold
    go = threading.Event()  # cleared: no more than HELD
    go.set()

    @classmethod
    def send_big(cls, count):
        """Counts bytes before they are sent, and waits where they are too many."""
        with cls.lock:
            cls.sent += count
            waits = cls.sent > HELD
        if waits:
            cls.go.wait(HOLD_SECONDS)

    @classmethod
    def hold(cls):
        with cls.lock:
            cls.sent = 0
            cls.go.clear()

    @classmethod
    def count(cls, key):
        with cls.lock:
            cls.counts[key] = cls.counts.get(key, 0) + 1
            return cls.counts[key]


def files_of(kind):
    if kind in LISTS:
        return {name: FILES.get(name, b"evil") for name in LISTS[kind]}
    names = ["config.json", "tokenizer.json", "model.safetensors", "pytorch_model.bin", "onnx/model.onnx",
             "README.md", "empty.json"]
    files = {name: FILES[name] for name in names}
    if kind == "twins":
        files["model-2.safetensors"] = WEIGHTS
    if kind == "big":
        files["model.safetensors"] = BIG
    return files


def entry(name, data, kind):
    if kind == "noblobs":
        return {"rfilename": name}
    listed = data
    if kind == "wronghash" and is_large(data):
        listed = data[:-1] + b"?"
    if kind == "wrongsize" and is_large(data):
        listed = data + b"?"
    if kind == "wronggit" and name == "config.json":
        listed = data.replace(b"Llama", b"Qwen2")
    item = {"rfilename": name, "size": len(listed), "blobId": git_sha1(listed)}
    if is_large(data):
        item["lfs"] = {"sha256": sha256(listed), "size": len(listed), "pointerSize": 134}
    return item


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body=b"", headers=None):
        self.send_response(status)
        for key, value in (headers or {}).items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def note(self, kind, host):
        with State.lock:
            State.log.append({"host": host, "kind": kind, "method": self.command,
                              "path": self.path, "range": self.headers.get("Range", ""),
                              "token": self.headers.get("Authorization", "")})

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        try:
            self.serve()
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def cut(self):
        self.wfile.flush()
        self.connection.shutdown(2)
        self.close_connection = True

    # Sends the bytes as the request and the kind of the model want them.
    def send_file(self, kind, data, headers):
        total = len(data)
        begin, end, status = 0, total, 200
        asked = self.headers.get("Range")
        if asked and kind not in ("noranges", "cutnoranges"):
            first, last = asked.removeprefix("bytes=").split("-")
            begin, end, status = int(first), int(last or total - 1) + 1, 206
            shown = begin + 1 if kind == "otherrange" else begin
            headers = dict(headers, **{"Content-Range": f"bytes {shown}-{end - 1}/{total}"})
        body = data[begin:end]
        self.send_response(status)
        for key, value in headers.items():
            self.send_header(key, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if kind in ("cut", "cutnoranges") and len(body) > 70_000:
            self.wfile.write(body[:70_000])
            self.cut()
        elif kind == "stall" and State.count(("stall", self.path)) < 3 and len(body) > 1000:
            self.wfile.write(body[:1000])
            time.sleep(3)
            self.cut()
        elif kind == "big":
            for at in range(0, len(body), 65536):
                piece = body[at:at + 65536]
                if is_large(data):
                    State.send_big(len(piece))
                self.wfile.write(piece)
                time.sleep(0.004)
        else:
            self.wfile.write(body)


class Storage(Handler):
    def serve(self):
        kind, name = urllib.parse.unquote(self.path.split("?")[0]).lstrip("/").split("/", 1)
        self.note(kind, "storage")
        count = State.count(("storage", kind))
        if kind == "busy" and count <= 2:
            return self.answer(503, b"", {"Retry-After": "0"})
        if kind == "expired" and count <= 2:
            return self.answer(403, b"<Error>the signature is too old</Error>")
        self.send_file(kind, files_of(kind)[name], {})


class Hub(Handler):
    def serve(self):
        path = urllib.parse.urlsplit(self.path).path
        if path == "/_log":
            with State.lock:
                return self.answer(200, json.dumps(State.log).encode())
        if path in ("/_hold", "/_go"):
            State.hold() if path == "/_hold" else State.go.set()
            return self.answer(200, b"{}")
        parts = [urllib.parse.unquote(p) for p in path.lstrip("/").split("/")]
        if parts[:2] == ["api", "models"]:
            return self.api(parts[3], parts[4] if len(parts) > 4 else "revision",
                            parts[5] if len(parts) > 5 else "main")
        kind, revision, name = parts[1], parts[3], "/".join(parts[4:])
        self.resolve(kind, revision, name)

    # True if an error was sent that does not depend on what is asked for.
    def refuse(self, kind, is_list):
        token = self.headers.get("Authorization", "").removeprefix("Bearer ")
        if (kind == "gated" or kind == "gatedfiles" and not is_list) and token != "good":
            status = 403 if token else 401
            message = "Access to model test/gated is restricted."
            self.answer(status, b"{}", {"X-Error-Code": "GatedRepo", "X-Error-Message": message})
        elif kind == "private" and token != "good":
            self.answer(401, b"{}", {"X-Error-Message": "Invalid username or password."})
        elif kind == "missing":
            self.answer(404, b"{}", {"X-Error-Code": "RepoNotFound"})
        elif kind == "down":
            self.answer(503, b"<html>down</html>")
        elif kind == "resting":
            self.answer(429, b"", {"Retry-After": "100000"})
        elif kind == "busy" and State.count(("api", kind)) <= 2:
            self.answer(429, b"", {"Retry-After": "0"})
        else:
            return False
        return True

    def api(self, kind, what, revision):
        self.note(kind, "hub")
        if self.refuse(kind, True):
            return None
        if kind == "hugejson":
            return self.endless()
        if kind == "nojson":
            return self.answer(200, b"<html>Please log in to this network</html>")
        if revision not in ("main", "v1/beta", COMMIT, OTHER_COMMIT):
            return self.answer(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        files = files_of(kind)
        if what == "tree":
            tree = []
            for name, data in files.items():
                item = {"type": "file", "path": name, "size": len(data), "oid": git_sha1(data)}
                if is_large(data):
                    item["lfs"] = {"oid": sha256(data), "size": len(data), "pointerSize": 134}
                tree.append(item)
            return self.answer(200, json.dumps(tree).encode(), {"Content-Type": "application/json"})
        commit = OTHER_COMMIT if revision == "v1/beta" else COMMIT
        body = {"id": f"test/{kind}", "sha": commit, "private": False, "gated": False, "tags": [],
                "siblings": [entry(name, files[name], kind) for name in LISTS.get(kind, files)]}
        return self.answer(200, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def endless(self):
        self.send_response(200)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(b'{"siblings": [')
        for _ in range(4096):
            self.wfile.write(b'{"rfilename": "a"},' * 4096)
        self.close_connection = True

    def resolve(self, kind, revision, name):
        self.note(kind, "hub")
        if self.refuse(kind, False):
            return None
        files = files_of(kind)
        if name not in files or kind == "vanished":
            return self.answer(404, b"", {"X-Error-Code": "EntryNotFound"})
        data = files[name]
        headers = {"X-Repo-Commit": OTHER_COMMIT if revision in ("v1/beta", OTHER_COMMIT) else COMMIT}
        if not is_large(data):
            return self.send_file(kind, data, dict(headers, ETag=f'"{git_sha1(data)}"'))
        headers["X-Linked-Etag"] = f'"{sha256(data)}"'
        headers["X-Linked-Size"] = str(len(data))
        headers["Location"] = f"http://localhost:{Storage.port}/{kind}/{name}?signature=x"
        if kind == "loop":
            headers["Location"] = self.path
        if kind == "filescheme":
            headers["Location"] = "file:///etc/hostname"
        return self.answer(302, b"Found", headers)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request, client_address):
        pass


def start(handler):
    server = Server(("127.0.0.1", 0), handler)
    handler.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main():
    start(Hub)
    start(Storage)
    print(f"{Hub.port} {Storage.port}", flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Starts hone serve, talks HTTP to it with the standard library alone, and counts cases."""
import contextlib
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "peers"))
from hone_cli import HONE, ROOT, SHARED, hone  # noqa: E402

HERE = pathlib.Path(__file__).resolve().parent
SAMPLE_MODEL = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
MINICPM5_TEMPLATE = SHARED / "data/minicpm5/chat_template.jinja"
TINY = SHARED / "golden/families/llama-gqa8/hf"
START_SECONDS = 60


def make_tiny(folder, template=None, context=4096):
    """A copy of a tiny checkpoint with random weights, with room for long prompts and any template."""
    folder = pathlib.Path(folder)
    shutil.copytree(TINY, folder)
    for path in folder.iterdir():
        path.chmod(0o644)
    for name, key in (("config.json", "max_position_embeddings"), ("tokenizer_config.json", "model_max_length")):
        data = json.loads((folder / name).read_text())
        data[key] = context
        (folder / name).write_text(json.dumps(data))
    if template is not None:
        (folder / "chat_template.jinja").write_text(pathlib.Path(template).read_text())
    return folder


class Models:
    """The models of the tests, made on first use in a folder that goes away."""

    def __init__(self):
        self._folder = tempfile.TemporaryDirectory(prefix="hone-serve-")
        self.path = pathlib.Path(self._folder.name)
        self._made = {}

    def minicpm5(self):
        """Random weights behind MiniCPM5's real template: tools, thinking."""
        return self._get("minicpm5-tiny", lambda p: make_tiny(p, MINICPM5_TEMPLATE))

    def plain(self):
        """Random weights behind a template that knows thinking but no tools."""
        return self._get("plain-tiny", make_tiny)

    def silent(self):
        """Random weights behind a template without tools and without thinking."""

        def make(path):
            make_tiny(path)
            (path / "chat_template.jinja").write_text(
                "{{- bos_token }}{%- for m in messages %}{{- '<|im_start|>' + m.role + '\\n' + m.content + "
                "'<|im_end|>\\n' }}{%- endfor %}{%- if add_generation_prompt %}"
                "{{- '<|im_start|>assistant\\n' }}{%- endif %}")
            return path

        return self._get("silent-tiny", make)

    def smollm2(self):
        """A bundle of real weights that answers sensibly."""

        def make(path):
            hone("convert", SAMPLE_MODEL, "-o", path, "--quant", "int4")
            return path

        return self._get("smollm2.litertlm", make)

    def _get(self, name, make):
        if name not in self._made:
            self._made[name] = make(self.path / name)
        return self._made[name]


class Server:
    """A running hone serve. Ends with the block: with Server(model) as server."""

    def __init__(self, model, *options, env=None):
        self.command = [HONE, "serve", str(model), "--port", "0", *map(str, options)]
        self.log = []
        self.url = None
        self._process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                         stderr=subprocess.PIPE, text=True, errors="replace",
                                         env={**os.environ, **(env or {})})
        self.pid = self._process.pid
        self._silent = False  # closed stderr
        self._known = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        try:
            self._wait_until_ready()
        except BaseException:
            self._process.kill()
            raise
        self.host, self.port = urllib.parse.urlsplit(self.url).netloc.rsplit(":", 1)
        self.port = int(self.port)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()

    def _read(self):
        for line in self._process.stderr:
            self.log.append(line.rstrip("\n"))
            found = re.search(r"https?://[\w.\[\]:-]+:\d+", line)
            if found and self.url is None:
                self.url = found.group(0)
                self._known.set()
        self._silent = True
        self._known.set()

    def _wait_until_ready(self):
        end = time.monotonic() + START_SECONDS
        self._known.wait(START_SECONDS)
        while self.url is not None and time.monotonic() < end:
            if self._process.poll() is not None:
                break
            host, port = urllib.parse.urlsplit(self.url).netloc.rsplit(":", 1)
            try:
                answer = exchange(host, int(port), "GET", "/health", timeout=5)
                if answer.status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.02)
        if self._silent:  # it has closed its end of the pipe, and ends a moment later
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(60)
        raise SystemExit(f"{' '.join(self.command)}: not ready, exit {self._process.poll()}\n" + "\n".join(self.log))

    def alive(self):
        return self._process.poll() is None

    def stop(self):
        """Asks it to end, as a service manager does; returns the exit code."""
        if self.alive():
            self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            raise AssertionError("hone serve did not end within 60 s of SIGTERM") from None
        self._reader.join(5)
        return code

    # Requests.
    def get(self, path, headers=None):
        return exchange(self.host, self.port, "GET", path, headers=headers)

    def post(self, path, body, headers=None, timeout=120):
        return exchange(self.host, self.port, "POST", path, body, headers, timeout)

    def chat(self, content="Say hi", **fields):
        """A chat completion; content is the user's text or the whole list of messages."""
        return self.post("/v1/chat/completions", chat_body(content, **fields))

    def stream(self, path, body, headers=None):
        return Stream(self.host, self.port, path, {**body, "stream": True}, headers)

    def chat_stream(self, content="Say hi", **fields):
        return self.stream("/v1/chat/completions", chat_body(content, **fields))

    def idle(self):
        """Whether no request runs or waits."""
        return all(model["requests"] == 0 for model in self.get("/props").ok()["models"])

    def cancelled(self):
        """How many requests have ended before their answers did, since the start."""
        text = self.get("/metrics").body.decode()
        return sum(int(n) for n in re.findall(r'^hone_answers_failed_total{[^}]*code="cancelled"[^}]*} (\d+)$', text, re.MULTILINE))

    # What the process holds.
    def rss_bytes(self):
        for line in pathlib.Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise AssertionError("no VmRSS")

    def threads(self):
        return len(os.listdir(f"/proc/{self.pid}/task"))

    def sockets(self):
        count = 0
        for fd in os.listdir(f"/proc/{self.pid}/fd"):
            try:
                count += os.readlink(f"/proc/{self.pid}/fd/{fd}").startswith("socket:")
            except OSError:
                pass
        return count


def chat_body(content, **fields):
    messages = content if isinstance(content, list) else [{"role": "user", "content": content}]
    body = {"messages": messages, "temperature": 0, "max_tokens": 16}
    body.update(fields)
    return {key: value for key, value in body.items() if value is not ABSENT}


ABSENT = object()


class Answer:
    """Status, header fields and body of a response."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        def refuse(word):
            raise AssertionError(f"{word} in JSON: {self.body[:300]!r}")

        return json.loads(self.body.decode("utf-8"), parse_constant=refuse)

    def ok(self):
        assert self.status == 200, f"status {self.status}: {self.body[:500]!r}"
        return self.json

    def message(self):
        return self.ok()["choices"][0]["message"]

    def error(self, status, param=..., code=None):
        """The error object; checks its shape and what is given."""
        assert self.status == status, f"status {self.status}, not {status}: {self.body[:500]!r}"
        kind = self.headers.get("content-type", "")
        assert kind.startswith("application/json"), kind
        error = self.json["error"]
        assert {"message", "type", "param", "code"} <= set(error), error
        assert error["message"] and isinstance(error["message"], str), error
        assert param is ... or error["param"] == param, error
        assert code is None or error["code"] == code, error
        return error


def exchange(host, port, method, path, body=None, headers=None, timeout=120):
    connection = http.client.HTTPConnection(host, port, timeout=timeout)
    try:
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        fields = {} if data is None else {"Content-Type": "application/json"}
        connection.request(method, path, data, {**fields, **(headers or {})})
        response = connection.getresponse()
        return Answer(response.status, {k.lower(): v for k, v in response.getheaders()}, response.read())
    finally:
        connection.close()


class Stream:
    """Server-sent events as they come. Iterating gives the JSON objects; done says whether [DONE] came."""

    def __init__(self, host, port, path, body, headers=None, timeout=120):
        self._connection = http.client.HTTPConnection(host, port, timeout=timeout)
        self._connection.request("POST", path, json.dumps(body).encode(),
                                 {"Content-Type": "application/json", **(headers or {})})
        self._response = self._connection.getresponse()
        self.status = self._response.status
        self.content_type = self._response.getheader("Content-Type", "")
        self.done = False
        self.comments = []

    def answer(self):
        """The whole response, for those that are no stream."""
        headers = {k.lower(): v for k, v in self._response.getheaders()}
        try:
            return Answer(self.status, headers, self._response.read())
        finally:
            self.close()

    def __iter__(self):
        assert self.status == 200, self.answer().body
        assert self.content_type.startswith("text/event-stream"), self.content_type
        try:
            while line := self._response.readline():
                line = line.decode("utf-8").rstrip("\r\n")
                if line.startswith(":"):
                    self.comments.append(line)
                elif line.startswith("data: "):
                    assert not self.done, f"after [DONE]: {line}"
                    if line == "data: [DONE]":
                        self.done = True
                    else:
                        yield json.loads(line[len("data: "):])
                else:
                    assert line == "" or line.startswith("event: "), line
        finally:
            self.close()

    def close(self):
        """Goes away at once, as a closed window does."""
        if self._connection.sock is not None:
            try:
                self._connection.sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        self._response.close()
        self._connection.close()


class Summed:
    """A chat stream added up, with the rules that every one must keep. chunks: where somebody has read some of it."""

    def __init__(self, stream, chunks=None):
        self.content = self.reasoning = ""
        self.finish = self.usage = None
        self.calls, self.logprobs, self.chunks = [], [], list(stream if chunks is None else chunks)
        assert stream.done, "no [DONE]"
        roles = 0
        for chunk in self.chunks:
            assert "error" not in chunk, chunk
            self.usage = chunk.get("usage") or self.usage
            for choice in chunk["choices"]:
                assert self.finish is None, f"after finish_reason: {chunk}"
                roles += "role" in choice["delta"]
                assert roles == 1, f"the role comes first and once: {chunk}"
                self._add(choice)
        assert self.finish is not None, "no finish_reason"

    def _add(self, choice):
        delta = choice["delta"]
        self.content += delta.get("content") or ""
        self.reasoning += delta.get("reasoning_content") or ""
        for call in delta.get("tool_calls") or []:
            self._add_call(call)
        if choice.get("logprobs"):
            self.logprobs += choice["logprobs"]["content"] or []
        self.finish = choice["finish_reason"]

    def _add_call(self, call):
        if call["index"] == len(self.calls):
            assert call["id"] and call["type"] == "function" and call["function"]["name"], call
            assert call["function"]["arguments"] == "", call
            self.calls.append({"id": call["id"], "name": call["function"]["name"], "arguments": ""})
        else:
            assert call["index"] == len(self.calls) - 1, call
            assert set(call) == {"index", "function"} and set(call["function"]) == {"arguments"}, call
            self.calls[-1]["arguments"] += call["function"]["arguments"]


class RawSocket:
    """Bytes to and from a port, for what an HTTP library would not send."""

    def __init__(self, server, timeout=20):
        self._socket = socket.create_connection((server.host, server.port), timeout)

    def send(self, data):
        self._socket.sendall(data if isinstance(data, bytes) else data.encode())

    def status(self):
        """Status of the answer to what was sent, and all that came."""
        data = b""
        while b"\r\n\r\n" not in data:
            part = self._socket.recv(65536)
            if not part:
                break
            data += part
        return int(data.split(b" ", 2)[1]), data

    def close(self):
        self._socket.close()


def raw_request(server, text):
    """Sends text, with \\n as the end of a line; returns the status and the head of the answer."""
    raw = RawSocket(server)
    try:
        raw.send(text.replace("\n", "\r\n"))
        return raw.status()
    finally:
        raw.close()


def wait_until(condition, seconds, what):
    """Returns the seconds that it took."""
    begin = time.monotonic()
    while not condition():
        assert time.monotonic() - begin < seconds, f"not within {seconds} s: {what}"
        time.sleep(0.005)
    return time.monotonic() - begin


def run_cases(cases, *args, only=None):
    """Calls each case with args and counts; returns (passed, failed). The first line of a case's docstring says what holds."""
    passed = failed = 0
    for each in cases:
        if only and only not in each.__name__:
            continue
        begin = time.monotonic()
        try:
            each(*args)
            passed += 1
            word, detail = "ok     ", ""
        except (Exception, SystemExit) as error:  # noqa: BLE001: any failure of a case is a failed case
            failed += 1
            frame = traceback.extract_tb(error.__traceback__)[-1]
            lines = "".join(traceback.format_exception(error)[-1:]).rstrip()
            word, detail = "FAILED ", f"\n       {frame.name}:{frame.lineno} {frame.line}\n       {lines[:1500]}"
        what = (each.__doc__ or "").strip().split("\n")[0]
        print(f"{word}{each.__name__} ({time.monotonic() - begin:.1f} s): {what}{detail}", flush=True)
    return passed, failed


def eq(got, want, what=""):
    assert got == want, f"{what}\n       got  {got!r}\n       want {want!r}"

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Eight clients at once: mixed lengths, shared beginnings, cancels and disconnects at random.

Every answer that ends must be the greedy answer of the request alone. Memory must stay flat, and no thread or
socket may be left. Only loopback is used; the number of requests and the time are bounded.

Usage: load.py quick|all
"""
import concurrent.futures
import json
import random
import sys
import time

from cases_chat import OFF
from harness import SAMPLE_MODEL, Models, RawSocket, Server, Summed, wait_until

CLIENTS = 8
SHARED_BEGINNING = ("You are a careful assistant of a small library. You answer in short sentences, you never invent a title, "
                    "and you say so when you do not know. The library opens at nine and closes at six. ")
TOPICS = ("the sea", "a clock", "winter", "bread", "a long train journey through the mountains", "two cats", "rain on a tin roof",
          "counting to ten", "the moon", "how a bicycle works", "a letter to a friend", "colours")


def make_requests(count, longest, draw):
    """Chats of different lengths; half of them share their beginning."""
    requests = []
    for i in range(count):
        messages = []
        if i % 2:
            messages.append({"role": "system", "content": SHARED_BEGINNING})
        filler = " ".join(draw.choice(TOPICS) for _ in range(draw.choice((0, 0, 4, 40))))
        messages.append({"role": "user", "content": f"Tell me about {TOPICS[i % len(TOPICS)]}. {filler}".strip()})
        requests.append({"messages": messages, "temperature": 0, "max_tokens": draw.choice((1, 4, 16, longest))})
    return requests


def text_of(server, request):
    """The whole answer: its text and why it ended."""
    choice = server.post("/v1/chat/completions", request).ok()["choices"][0]
    return choice["message"]["content"], choice["finish_reason"]


class Client:
    """Sends requests until count or time is used up; remembers what was wrong."""

    def __init__(self, server, requests, alone, seed):
        self.server, self.requests, self.alone = server, requests, alone
        self.draw = random.Random(seed)
        self.finished = self.left = 0
        self.wrong = []

    def run(self, count, until):
        for _ in range(count):
            if time.monotonic() > until:
                break
            index = self.draw.randrange(len(self.requests))
            way = self.draw.choice(("whole", "whole", "stream", "stream", "leave stream", "leave", "slow"))
            try:
                self._one(index, way)
            except Exception as error:  # noqa: BLE001: whatever goes wrong is a result of the test
                self.wrong.append(f"request {index}, {way}: {type(error).__name__}: {str(error)[:300]}")
        return self

    def _one(self, index, way):
        request = self.requests[index]
        if way == "leave stream":
            stream = self.server.stream("/v1/chat/completions", request)
            chunks = iter(stream)
            for _ in range(self.draw.randrange(4)):
                next(chunks, None)
            stream.close()
            self.left += 1
            return
        if way == "leave":
            body = json.dumps(request)
            raw = RawSocket(self.server)
            raw.send(f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{self.server.port}\r\n"
                     f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}")
            time.sleep(self.draw.random() * 0.2)
            raw.close()
            self.left += 1
            return
        if way == "whole":
            got = text_of(self.server, request)
        else:
            stream = self.server.stream("/v1/chat/completions", request)
            if way == "slow":
                time.sleep(self.draw.random() * 0.1)
            summed = Summed(stream)
            got = (summed.content, summed.finish)
        self.finished += 1
        if got != self.alone[index]:
            self.wrong.append(f"request {index}, {way}: got {got!r}, alone {self.alone[index]!r}")


def eventually(condition, seconds):
    """Waits for it, but not longer."""
    until = time.monotonic() + seconds
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)


def churn(server, requests, alone, count, seconds, seed):
    """Runs the clients; returns them."""
    until = time.monotonic() + seconds
    clients = [Client(server, requests, alone, seed * 100 + i) for i in range(CLIENTS)]
    with concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        list(pool.map(lambda c: c.run(count, until), clients))
    wait_until(server.idle, 60, "idle after the clients are gone")
    return clients


class Load:
    """One server under load, and the checks of it."""

    def __init__(self, name, model, requests, options=()):
        self.name, self.requests = name, requests
        self.server = Server(model, "--parallel", CLIENTS, *options)
        self.passed = self.failed = 0
        self.alone = [text_of(self.server, r) for r in requests]

    def check(self, ok, what):
        print(("ok     " if ok else "FAILED ") + f"{self.name}: {what}", flush=True)
        self.passed += bool(ok)
        self.failed += not ok

    def run(self, count, seconds, seed):
        began = time.monotonic()
        clients = churn(self.server, self.requests, self.alone, count, seconds, seed)
        wrong = [fault for c in clients for fault in c.wrong]
        finished = sum(c.finished for c in clients)
        left = sum(c.left for c in clients)
        self.check(not wrong and finished > 0, f"{finished} answers equal to those alone, {left} clients left early, "
                                               f"{time.monotonic() - began:.0f} s" + "".join(f"\n       {f}" for f in wrong[:5]))

    def settle(self):
        """Connections of clients that left are closed within seconds."""
        wait_until(self.server.idle, 60, "idle")
        time.sleep(1)
        return self.server.rss_bytes(), self.server.threads(), self.server.sockets()

    def check_flat(self, before, limit, again):
        """Memory may reach its peak late, so what has grown must not grow again: again() makes more load."""
        eventually(lambda: self.server.threads() <= before[1] and self.server.sockets() <= before[2], 10)
        seen = [before, self.settle()]
        room = before[0] * (limit - 1)
        if seen[-1][0] > seen[-2][0] + room:
            again()
            seen.append(self.settle())
        grown = " -> ".join(f"{rss / 1e6:.1f} MB" for rss, _, _ in seen)
        self.check(seen[-1][0] <= seen[-2][0] + room, f"memory {grown} (room {room / 1e6:.1f} MB)")
        threads, sockets = seen[-1][1:]
        self.check(threads <= before[1], f"threads {before[1]} -> {threads}")
        self.check(sockets <= before[2], f"sockets {before[2]} -> {sockets}")

    def stop(self):
        self.check(self.server.alive(), "alive at the end")
        self.check(self.server.stop() == 0, "ends well when asked to")


def quick(models):
    """A tiny model: 8 x 80 requests, about 10 seconds."""
    requests = [{**r, **OFF} for r in make_requests(12, 120, random.Random(1))]
    load = Load("tiny model", models.minicpm5(), requests)
    load.run(20, 120, seed=1)
    before = load.settle()
    load.run(60, 120, seed=2)
    load.check_flat(before, 1.10, lambda: load.run(60, 120, seed=5))
    load.stop()
    return load


def full(models):
    """SmolLM2: 8 x 20 requests, then three minutes of churn."""
    load = Load("SmolLM2", models.smollm2(), make_requests(24, 64, random.Random(2)))
    load.run(20, 240, seed=3)
    before = load.settle()
    load.run(100000, 180, seed=4)
    load.check_flat(before, 1.05, lambda: load.run(100000, 180, seed=6))
    load.stop()
    return load


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else "quick"
    models = Models()
    loads = [quick(models)]
    if mode == "all":
        if not SAMPLE_MODEL.exists():
            sys.exit(f"{SAMPLE_MODEL}: missing; run hone pull smollm2-135m in models/")
        loads.append(full(models))
    passed, failed = sum(x.passed for x in loads), sum(x.failed for x in loads)
    print(f"{passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()

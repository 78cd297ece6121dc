# SPDX-License-Identifier: Apache-2.0
"""Cases S8 to S10 and S15 to S17 of the user reports: limits, clients that leave, many clients, names, pages of other sites."""
import concurrent.futures
import itertools
import json
import subprocess
import threading
import time

from cases_chat import NO_END, OFF
from harness import ABSENT, HONE, RawSocket, Server, Summed, eq, raw_request, wait_until

CASES = []


def case(function):
    CASES.append(function)
    return function


@case
def s8_prompts_around_the_context(w):
    """n_ctx - 1 tokens work; n_ctx + 1 and 10 n_ctx are a 400 with both numbers, before any event; then a short one works."""
    small, n_ctx = w.small(), 256
    for stream in (False, True):
        for length in (n_ctx + 1, 10 * n_ctx):
            body = {"prompt": [50] * length, "max_tokens": 4, "temperature": 0, "stream": stream}
            error = small.post("/v1/completions", body).error(400, code="context_length_exceeded")
            eq((error["n_prompt_tokens"], error["n_ctx"]), (length, n_ctx))
            eq(error["type"], "invalid_request_error")
    inside = small.post("/v1/completions", {"prompt": [50] * (n_ctx - 1), "max_tokens": 1, "temperature": 0, "logit_bias": NO_END}).ok()
    eq((inside["usage"]["prompt_tokens"], inside["usage"]["completion_tokens"]), (n_ctx - 1, 1))
    exact = small.post("/v1/completions", {"prompt": [50] * n_ctx, "max_tokens": 1, "temperature": 0, "logit_bias": NO_END})
    if exact.status != 200:
        error = exact.error(400, code="context_length_exceeded")
        eq((error["n_prompt_tokens"], error["n_ctx"]), (n_ctx, n_ctx))
    small.chat("Hi", max_tokens=2, **OFF).ok()


@case
def s8_chats_that_are_too_long(w):
    """A long chat is a 400 with the numbers of its own prompt, streamed too; a shorter one works at once."""
    small = w.small()
    text = "word " * 500
    rendered = small.post("/apply-template", {"messages": [{"role": "user", "content": text}], **OFF}).ok()["prompt"]
    count = small.post("/tokenize", {"content": rendered}).ok()["count"]
    error = small.chat(text, **OFF).error(400, code="context_length_exceeded")
    eq((error["n_prompt_tokens"], error["n_ctx"]), (count, 256))
    small.chat_stream(text, **OFF).answer().error(400, code="context_length_exceeded")
    small.chat("Hi", **OFF).ok()


@case
def s8_bodies_of_32_megabytes(w):
    """413, and the server goes on."""
    body = json.dumps({"messages": [{"role": "user", "content": "a" * 33554432}]}).encode()
    try:
        w.server.post("/v1/chat/completions", body).error(413, code="body_too_large")
    except (BrokenPipeError, ConnectionResetError):
        # It may end the connection before all has been sent; then the head of an announced body tells.
        status, _ = raw_request(w.server, "POST /v1/chat/completions HTTP/1.1\nHost: 127.0.0.1\nContent-Type: application/json\n"
                                          "Content-Length: 33554432\n\n")
        eq(status, 413)
    w.server.chat(**OFF).ok()


def long_stream(server, tokens=2000, **fields):
    return server.chat_stream("Count", max_tokens=tokens, logit_bias=NO_END, **{**OFF, **fields})


def take(stream, chunks):
    iterator = iter(stream)
    for _ in range(chunks):
        next(iterator)
    return iterator


@case
def s9_a_client_that_leaves_frees_its_place(w):
    """A streams and is killed: B, which waited behind it, starts, and nothing of A runs on."""
    server = w.single()
    a = long_stream(server)
    rest = take(a, 4)
    first = {}

    def b():
        begin = time.monotonic()
        stream = long_stream(server, 4)
        take(stream, 2)
        first["seconds"] = time.monotonic() - begin
        stream.close()

    thread = threading.Thread(target=b)
    thread.start()
    time.sleep(0.1)
    killed = time.monotonic()
    a.close()
    thread.join(60)
    del rest  # not before: the stream is closed with it
    assert first, "B never started"
    assert time.monotonic() - killed < 20, f"B started {time.monotonic() - killed:.2f} s after A was killed"
    wait_until(server.idle, 30, "idle")


@case
def s9_killing_one_leaves_the_others_alone(w):
    """One of three streams is killed; the two others say what they say alone."""
    def text_of(prompt):
        return Summed(w.server.chat_stream(prompt, max_tokens=300, logit_bias=NO_END, **OFF)).content

    alone = [text_of("left"), text_of("right")]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        victim = long_stream(w.server)
        others = [pool.submit(text_of, p) for p in ("left", "right")]
        take(victim, 5)
        victim.close()
        eq([o.result(60) for o in others], alone)
    wait_until(w.server.idle, 30, "idle")


@case
def s9_killed_in_the_queue(w):
    """C waits behind A and is killed: A ends untouched, C never runs."""
    server = w.single()
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        stream = long_stream(server, 1500)
        chunks = iter(stream)
        first = next(chunks)
        a = pool.submit(lambda: Summed(stream, itertools.chain([first], chunks)))
        raw = RawSocket(server)
        body = json.dumps({"messages": [{"role": "user", "content": "C"}], "max_tokens": 1000, "logit_bias": NO_END})
        raw.send(f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nContent-Type: application/json\r\n"
                 f"Content-Length: {len(body)}\r\n\r\n{body}")
        time.sleep(0.05)
        raw.close()
        done = a.result(60)
    eq(done.finish, "length")
    eq(len([c for c in done.chunks if c["choices"]]) > 2, True)
    wait_until(server.idle, 30, "idle")


@case
def s9_killed_while_the_prompt_is_read(w):
    """A prompt of 4,000 tokens whose client leaves is given up, also without a stream."""
    for stream in (True, False):
        body = json.dumps({"prompt": [50 + i % 40 for i in range(4000)], "max_tokens": 2000, "temperature": 0, "stream": stream,
                           "logit_bias": NO_END})
        raw = RawSocket(w.server)
        raw.send(f"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:{w.server.port}\r\nContent-Type: application/json\r\n"
                 f"Content-Length: {len(body)}\r\n\r\n{body}")
        time.sleep(0.05)
        raw.close()
        wait_until(w.server.idle, 30, "idle after the client left")
    w.server.chat(**OFF).ok()


@case
def s9_half_a_body(w):
    """A client that sends half a body and waits stops nobody."""
    raw = RawSocket(w.server)
    raw.send(f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1:{w.server.port}\r\nContent-Type: application/json\r\n"
             "Content-Length: 1000\r\n\r\n{\"messages\": [")
    w.server.chat(**OFF).ok()
    raw.close()
    w.server.chat(**OFF).ok()


@case
def s10_eight_clients_one_text(w):
    """Eight clients with the same greedy prompt get the text that one gets alone."""
    def text_of(_):
        return Summed(w.server.chat_stream("Tell me", max_tokens=60, **OFF)).content

    alone = text_of(0)
    assert alone
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        eq(list(pool.map(text_of, range(8))), [alone] * 8)


@case
def s10_two_conversations(w):
    """Two interleaved conversations say what each says alone, and the cache knows each one's own words."""
    def turn(history, text):
        history.append({"role": "user", "content": text})
        answer = w.server.chat(history, max_tokens=12, **OFF).ok()
        history.append(answer["choices"][0]["message"])
        return answer["choices"][0]["message"]["content"]

    def talk(word):
        history = []
        return [turn(history, f"The word is {word}"), turn(history, "Which word?"), turn(history, "Again?")]

    alone = [talk("apple"), talk("stone")]
    left, right, mixed = [], [], [[], []]
    for text in ("The word is {}", "Which word?", "Again?"):
        mixed[0].append(turn(left, text.format("apple")))
        mixed[1].append(turn(right, text.format("stone")))
    eq(mixed, alone)
    assert alone[0] != alone[1], "the two conversations differ"


@case
def s10_n_choices(w):
    """n choices keep their indexes, whole and streamed; greedy ones are equal."""
    choices = w.server.chat(n=3, max_tokens=6, **OFF).ok()["choices"]
    eq([c["index"] for c in choices], [0, 1, 2])
    eq(len({c["message"]["content"] for c in choices}), 1)
    seeded = [w.server.chat(n=2, max_tokens=12, temperature=1.5, seed=5, **OFF).ok()["choices"] for _ in range(2)]
    eq([c["message"]["content"] for c in seeded[0]], [c["message"]["content"] for c in seeded[1]], "the same seed")
    assert seeded[0][0]["message"]["content"] != seeded[0][1]["message"]["content"], "choices have seeds of their own"
    assert {c["index"] for chunk in w.server.chat_stream(n=3, max_tokens=6, **OFF) for c in chunk["choices"]} == {0, 1, 2}


@case
def s15_models(w):
    """The list has the shape of OpenAI; no model name is fine, an unknown one is a 404 that lists the names."""
    listing = w.server.get("/v1/models").ok()
    eq((listing["object"], listing["data"][0]["object"]), ("list", "model"))
    name = listing["data"][0]["id"]
    for model in (ABSENT, None, name):
        eq(w.server.chat(model=model, **OFF).ok()["model"], name)
    eq(w.server.get(f"/v1/models/{name}").ok()["id"], name)
    error = w.server.chat(model="gpt-9").error(404, "model", "model_not_found")
    assert name in error["message"], error
    w.server.get("/v1/nothing").error(404, code="unknown_url")
    w.server.get("/v1/chat/completions").error(405)


@case
def s15_unknown_fields(w):
    """Unknown fields are named; a lenient server lists what it left out."""
    w.server.chat(nonsense=1).error(400, "nonsense", "unknown_parameter")
    w.server.chat(modalities=["audio"]).error(400, "modalities")
    with Server(w.models.minicpm5(), "--lenient") as lenient:
        eq(lenient.chat(nonsense=1, **OFF).ok()["ignored_fields"], ["nonsense"])
        eq(next(iter(lenient.chat_stream(nonsense=1, **OFF)))["ignored_fields"], ["nonsense"])
        lenient.chat(temperature="hot").error(400, "temperature")


BODY = json.dumps({"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 1})


def post_from(server, *fields, kind="application/json", host=None):
    """Status and head of a chat request with more header fields."""
    lines = ["POST /v1/chat/completions HTTP/1.1", f"Host: {host or f'127.0.0.1:{server.port}'}", f"Content-Type: {kind}",
             f"Content-Length: {len(BODY)}", *fields]
    return raw_request(server, "\n".join(lines) + "\n\n" + BODY)


@case
def s16_pages_of_other_sites_stay_out(w):
    """A foreign Host or Origin is refused, without CORS fields; the own page and programs come in."""
    eq(post_from(w.server)[0], 200)
    for host in (f"localhost:{w.server.port}", f"127.0.0.1:{w.server.port}"):
        eq(post_from(w.server, f"Origin: http://{host}", host=host)[0], 200, host)
    for host in ("evil.example", f"evil.example:{w.server.port}", "127.0.0.1.evil.example"):
        eq(post_from(w.server, host=host)[0], 403, host)
    for kind in ("application/json", "text/plain"):
        status, head = post_from(w.server, "Origin: https://evil.example", kind=kind)
        assert status in (403, 415), (kind, status)
        assert b"access-control-allow-origin" not in head.lower(), head
    status, head = raw_request(w.server, f"OPTIONS /v1/chat/completions HTTP/1.1\nHost: 127.0.0.1:{w.server.port}\n"
                                         "Origin: https://evil.example\nAccess-Control-Request-Method: POST\n\n")
    assert b"access-control-allow-origin" not in head.lower(), head
    eq(raw_request(w.server, "GET /v1/models HTTP/1.1\nHost: evil.example\n\n")[0], 403)


@case
def s16_keys(w):
    """With --api-key nothing of the model is told without it."""
    with Server(w.models.silent(), "--api-key", "sesame") as server:
        server.chat().error(401, code="missing_api_key")
        server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1},
                    {"Authorization": "Bearer sesame2"}).error(401, code="invalid_api_key")
        server.post("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1},
                    {"Authorization": "Bearer sesame"}).ok()
        server.get("/v1/models").error(401)
        assert not any("sesame" in line for line in server.log), server.log


@case
def s16_open_to_the_network(w):
    """--host 0.0.0.0 without a key does not start in silence."""
    done = subprocess.Popen([HONE, "serve", str(w.models.silent()), "--port", "0", "--host", "0.0.0.0"], stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        _, said = done.communicate(timeout=60)
        assert done.returncode not in (0, None) and done.returncode > 0, done.returncode
        assert "key" in said, said
    except subprocess.TimeoutExpired:
        raise AssertionError("it listens to the network without a key") from None
    finally:
        done.kill()


@case
def s17_the_page(w):
    """The page comes with a policy that lets no foreign or inline script run; ?q= is not the server's business."""
    page = w.server.get("/")
    if page.status == 404:
        raise AssertionError("no page: this hone was built without it (HONE_WEB)")
    eq(page.status, 200)
    assert page.headers["content-type"].startswith("text/html"), page.headers
    policy = page.headers["content-security-policy"]
    scripts = policy.split("script-src" if "script-src" in policy else "default-src")[1].split(";")[0]
    assert "unsafe" not in scripts and "http" not in scripts, policy
    eq(w.server.get("/?q=hello").body, page.body)


@case
def s17_files_of_the_page(w):
    """HEAD has no body; a file that is not there is a JSON error."""
    status, head = raw_request(w.server, f"HEAD / HTTP/1.1\nHost: 127.0.0.1:{w.server.port}\n\n")
    eq(status, 200)
    assert head.endswith(b"\r\n\r\n"), head
    w.server.get("/nothing.js").error(404)

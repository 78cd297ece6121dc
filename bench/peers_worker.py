# SPDX-FileCopyrightText: The Hone authors
# SPDX-License-Identifier: Apache-2.0
"""One engine in a process of its own, for bench/peers.py: a line of JSON asks for a measurement, a line answers.

Usage: peers_worker.py litert|llamacpp|openvino MODEL --threads N --context C --decode N

Every engine gets the same token ids, decodes greedily and does not stop early. "prefill" ends when the first token is
known, "decode" is the steps after it.
"""
import argparse
import contextlib
import ctypes
import json
import os
import resource
import sys
import time


def cpu_seconds():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


class Clock:
    def __init__(self):
        self.wall, self.cpu = time.monotonic(), cpu_seconds()

    def since(self, other):
        return self.wall - other.wall, self.cpu - other.cpu


def answer(prefill_tokens, prefill, decode_tokens, decode, **more):
    return {"prefill_tokens": prefill_tokens, "prefill_s": prefill[0], "prefill_cpu_s": prefill[1],
            "decode_tokens": decode_tokens, "decode_s": decode[0], "decode_cpu_s": decode[1], **more}


class LlamaCpp:
    """llama_decode by hand, as llama-bench does; the best token by numpy. The cache is cleared for each prompt."""

    def __init__(self, args):
        import llama_cpp
        import numpy

        self.lib, self.numpy = llama_cpp, numpy
        silent = llama_cpp.llama_log_callback(lambda level, text, data: None)
        self.keep = silent
        llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self.model = llama_cpp.llama_model_load_from_file(args.model.encode(), llama_cpp.llama_model_default_params())
        if not self.model:
            raise RuntimeError("llama_model_load_from_file failed")
        self.params = llama_cpp.llama_context_default_params()
        self.params.n_ctx = args.context * args.batch
        self.params.n_seq_max = args.batch
        self.params.n_batch = max(2048, args.batch)
        self.params.n_threads = self.params.n_threads_batch = args.threads
        self.context = llama_cpp.llama_init_from_model(self.model, self.params)
        if not self.context:
            raise RuntimeError("llama_init_from_model failed")
        self.vocab = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(self.model))
        self.batch = llama_cpp.llama_batch_init(self.params.n_batch, 0, 1)

    def version(self):
        return f"llama-cpp-python {self.lib.__version__}"

    def facts(self):
        info = self.lib.llama_print_system_info()
        return {"system": info.decode()}

    def run(self, rows):
        """rows: [(id, position, sequence, logits wanted)], in batches of n_batch."""
        for begin in range(0, len(rows), self.params.n_batch):
            part = rows[begin:begin + self.params.n_batch]
            batch = self.batch
            batch.n_tokens = len(part)
            for i, (token, position, sequence, wanted) in enumerate(part):
                batch.token[i], batch.pos[i] = token, position
                batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
                batch.logits[i] = wanted
            code = self.lib.llama_decode(self.context, batch)
            if code:
                raise RuntimeError(f"llama_decode: {code}")

    def best(self, row):
        logits = self.lib.llama_get_logits_ith(self.context, row)
        return int(self.numpy.argmax(self.numpy.ctypeslib.as_array(logits, shape=(self.vocab,))))

    def measure(self, depth_ids, prompts, decode):
        self.lib.llama_memory_clear(self.lib.llama_get_memory(self.context), True)
        for s in range(len(prompts)):
            if depth_ids:
                self.run([(t, i, s, i + 1 == len(depth_ids)) for i, t in enumerate(depth_ids)])
        self.lib.llama_synchronize(self.context)
        start, depth, answers = Clock(), len(depth_ids), []
        for s, ids in enumerate(prompts):
            self.run([(t, depth + i, s, i + 1 == len(ids)) for i, t in enumerate(ids)])
            answers.append([self.best(-1)])
        first, position = Clock(), depth + len(prompts[0])
        for i in range(decode):
            self.run([(a[-1], position + i, s, True) for s, a in enumerate(answers)])
            for s, a in enumerate(answers):
                a.append(self.best(s))
        end = Clock()
        return answer(sum(map(len, prompts)), first.since(start), decode * len(prompts), end.since(first),
                      answers=answers)


class LiteRt:
    """A session for each prompt. Ids become text, and only text that comes back as the same ids is run."""

    def __init__(self, args):
        import litert_lm
        from litert_lm import _ffi

        self.litert_lm = litert_lm
        litert_lm.set_min_log_severity(litert_lm.LogSeverity.ERROR)
        lib = _ffi._get_lib()
        create = lib.litert_lm_engine_create

        def create_with_decode_count(settings):
            # With a count set, a benchmark session decodes so many tokens and does not stop at an end token.
            lib.litert_lm_engine_settings_set_num_decode_tokens(settings, args.decode)
            return create(settings)

        lib.litert_lm_engine_create = create_with_decode_count
        try:
            self.engine = litert_lm.Engine(args.model, backend=litert_lm.Backend.CPU(thread_count=args.threads),
                                           cache_dir=args.cache or ":nocache", max_num_tokens=args.context,
                                           enable_benchmark=True)
        finally:
            lib.litert_lm_engine_create = create

    def version(self):
        from importlib.metadata import version

        return f"litert-lm-api {version('litert-lm-api')}"

    def facts(self):
        return {}

    def text(self, ids):
        text = self.engine.detokenize(ids)
        back = self.engine.tokenize(text)
        if back != ids and back[1:] != ids:
            raise RuntimeError(f"its tokenizer gives {len(back)} other ids for the text of {len(ids)} ids")
        return text

    def measure(self, depth_ids, prompts, decode):
        session = self.engine.create_session(
            apply_prompt_template=False, max_output_tokens=decode,
            sampler_config=self.litert_lm.SamplerConfig(top_k=1, top_p=1.0, temperature=1.0, seed=1))
        if depth_ids:
            session.run_prefill([self.text(depth_ids)])
        text = self.text(prompts[0])
        start = Clock()
        session.run_prefill([text])
        first = Clock()
        texts = session.run_decode().texts
        end = Clock()
        info = session.get_benchmark_info()
        prefill, steps = first.since(start), end.since(first)
        tokens, made = len(prompts[0]), info.last_decode_token_count
        # Its own clock leaves out tokenizing and printing, as the other engines here do.
        if info.last_prefill_tokens_per_second > 0:
            prefill = (info.last_prefill_token_count / info.last_prefill_tokens_per_second, prefill[1])
        if info.last_decode_tokens_per_second > 0:
            steps = (made / info.last_decode_tokens_per_second, steps[1])
        return answer(info.last_prefill_token_count or tokens, prefill, made or decode, steps, text=texts[0])


class OpenVino:
    """LLMPipeline on ids, prefix cache off. Depth is part of the prompt, so prefill at depth is not measured apart."""

    def __init__(self, args):
        import openvino
        import openvino_genai

        self.openvino, self.genai = openvino, openvino_genai
        scheduler = openvino_genai.SchedulerConfig()
        scheduler.enable_prefix_caching = False
        scheduler.max_num_batched_tokens = max(args.context, 256)
        self.pipeline = openvino_genai.LLMPipeline(args.model, "CPU", scheduler_config=scheduler,
                                                   INFERENCE_NUM_THREADS=args.threads)

    def version(self):
        return f"openvino-genai {self.genai.__version__}"

    def facts(self):
        return {}

    def measure(self, depth_ids, prompts, decode):
        import numpy

        ids = numpy.array([depth_ids + prompts[0]], dtype=numpy.int64)
        config = self.genai.GenerationConfig(max_new_tokens=decode + 1, ignore_eos=True, do_sample=False)
        marks, running = [], self.genai.StreamingStatus.RUNNING

        class Streamer(self.genai.StreamerBase):
            def write(self, token):
                marks.append(Clock())
                return running

            def end(self):
                pass

        start = Clock()
        result = self.pipeline.generate(self.openvino.Tensor(ids), config, Streamer())
        end = Clock()
        prefill = (result.perf_metrics.get_ttft().mean / 1e3, marks[0].since(start)[1])
        steps = (result.perf_metrics.get_tpot().mean * decode / 1e3, end.since(marks[0])[1])
        return answer(ids.shape[1], prefill, decode, steps, answers=[list(map(int, result.tokens[0]))])


ENGINES = {"litert": LiteRt, "llamacpp": LlamaCpp, "openvino": OpenVino}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("engine", choices=ENGINES)
    parser.add_argument("model")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--context", type=int, default=1024)
    parser.add_argument("--decode", type=int, default=64)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--cache", help="folder for what LiteRT-LM keeps between loads")
    args = parser.parse_args()
    # What the libraries print must not mix with the answers.
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)

    def say(message):
        out.write(json.dumps(message) + "\n")
        out.flush()

    start = Clock()
    try:
        engine = ENGINES[args.engine](args)
    except Exception as error:  # peers.py prints it and goes on with the other engines
        say({"error": f"{type(error).__name__}: {error}"})
        return 1
    load = Clock().since(start)
    say({"ready": True, "load_s": load[0], "load_cpu_s": load[1], "version": engine.version(), **engine.facts()})
    for line in sys.stdin:
        request = json.loads(line)
        try:
            say(engine.measure(request.get("depth_ids", []), request["prompts"], request["decode"]))
        except Exception as error:
            say({"error": f"{type(error).__name__}: {error}"})
    with contextlib.suppress(Exception):
        out.flush()
    os._exit(0)  # some of the libraries crash while they unload


if __name__ == "__main__":
    sys.exit(main())

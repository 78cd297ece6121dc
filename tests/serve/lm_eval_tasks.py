#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""lm-eval, unchanged, against hone serve: GSM8K as chats, and a multiple-choice task by log-likelihoods.

Data come from disk; nothing is fetched. The log-likelihoods are compared with those of hone logits.

Usage: lm_eval_tasks.py [quick|all]
"""
import json
import os
import pathlib
import subprocess
import sys

import numpy as np

from harness import ROOT, SAMPLE_MODEL, SHARED, TINY, Models, Server, eq, hone, run_cases

sys.path.insert(0, str(ROOT / "tests/peers"))
from smollm2 import bundle_tokenizer  # noqa: E402

CASES = []
OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false",
           "OPENAI_API_KEY": "none"}
QUESTIONS = (
    ("The capital of France is", ("Paris", "Berlin", "Madrid", "Rome"), 0),
    ("The opposite of hot is", ("blue", "cold", "fast", "seven"), 1),
    ("Two plus two equals", ("nine", "eleven", "four", "zero"), 2),
    ("The sun rises in the", ("kitchen", "spoon", "north", "east"), 3),
    ("Water freezes and becomes", ("ice", "sand", "wood", "music"), 0),
    ("A baby dog is called a", ("calf", "puppy", "chick", "stone"), 1),
    ("The first month of the year is", ("August", "Friday", "January", "Spring"), 2),
    ("Fish live in the", ("sky", "paper", "fire", "water"), 3),
)
GSM8K = """task: hone_gsm8k
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
output_type: generate_until
test_split: test
doc_to_text: "{{{{question}}}}\\nEnd with the number alone."
doc_to_target: "{{{{answer.split('####')[-1].strip()}}}}"
generation_kwargs: {{until: ["\\n\\nQuestion:"], do_sample: false, max_gen_toks: {tokens}}}
metric_list:
  - {{metric: exact_match, aggregation: mean, higher_is_better: true}}
filter_list:
  - name: last-number
    filter:
      - {{function: regex, regex_pattern: "(-?[0-9][0-9,]*)", group_select: -1}}
      - {{function: take_first}}
metadata: {{version: 1.0}}
"""
CHOICES = """task: hone_choices
dataset_path: json
dataset_kwargs: {{data_files: {{test: {data}}}}}
output_type: multiple_choice
test_split: test
doc_to_text: "{{{{question}}}}"
doc_to_choice: choices
doc_to_target: answer
metric_list:
  - {{metric: acc, aggregation: mean, higher_is_better: true}}
metadata: {{version: 1.0}}
"""


def case(function):
    CASES.append(function)
    return function


class World:
    def __init__(self, server, model, tokenizer, folder, quick):
        self.server, self.model, self.tokenizer, self.folder, self.quick = server, model, tokenizer, folder, quick
        self.name = server.get("/v1/models").ok()["data"][0]["id"]
        self.tasks = folder / "tasks"
        self.tasks.mkdir()

    def evaluate(self, task, kind, path, arguments, *options):
        """Runs lm_eval; returns its results and the samples."""
        out = self.folder / f"out-{task}"
        model_args = f"model={self.name},base_url={self.server.url}{path},num_concurrent=4,max_retries=1,{arguments}"
        done = subprocess.run([sys.executable, "-m", "lm_eval", "--model", kind, "--model_args", model_args, "--tasks", task,
                               "--include_path", str(self.tasks), "--output_path", str(out), "--log_samples", *options],
                              capture_output=True, text=True, env={**os.environ, **OFFLINE}, timeout=600)
        assert done.returncode == 0, f"lm_eval: exit {done.returncode}\n{done.stderr[-3000:]}"
        results = json.loads(next(out.rglob("results*.json")).read_text())["results"][task]
        samples = [json.loads(line) for line in next(out.rglob("samples*.jsonl")).read_text().splitlines()]
        return results, samples


@case
def chat_gsm8k(w):
    """local-chat-completions: GSM8K, greedy; the answers are those of the same chats sent by hand."""
    count = 3 if w.quick else 10
    data = w.folder / "gsm8k.jsonl"
    with open(SHARED / "data/gsm8k/test.jsonl", encoding="utf-8") as lines:
        data.write_text("".join(line for _, line in zip(range(count), lines)))
    (w.tasks / "gsm8k.yaml").write_text(GSM8K.format(data=data, tokens=32 if w.quick else 160))
    results, samples = w.evaluate("hone_gsm8k", "local-chat-completions", "/v1/chat/completions", "tokenized_requests=False",
                                  "--apply_chat_template")
    eq(len(samples), count)
    assert any(key.startswith("exact_match") for key in results), results
    for sample in samples[:3]:
        text = sample["resps"][0][0]
        request = {"messages": [{"role": "user", "content": sample["doc"]["question"] + "\nEnd with the number alone."}], "temperature": 0,
                   "max_tokens": 32 if w.quick else 160, "stop": ["\n\nQuestion:"]}
        eq(text, w.server.post("/v1/chat/completions", request).message()["content"], "the same chat by hand")
    print("       GSM8K:", {k: v for k, v in results.items() if k.startswith("exact_match")})


def log_likelihood(w, context, continuation):
    """Sum of log-probabilities of the continuation's tokens, and whether each is the likeliest; from hone logits."""
    out = w.folder / "logits.npy"
    ids = [*context, *continuation]
    hone("logits", w.model, "--ids", ",".join(map(str, ids)), "--positions", "all", "--kv", "f16", "-o", out)
    rows = np.load(out).astype(np.float64)[len(context) - 1:-1]
    rows = rows - rows.max(axis=1, keepdims=True)
    rows = rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))
    return sum(row[i] for row, i in zip(rows, continuation)), all(row.argmax() == i for row, i in zip(rows, continuation))


@case
def completions_multiple_choice(w):
    """local-completions: token ids, echo and integer logprobs; each log-likelihood is that of hone logits."""
    data = w.folder / "choices.jsonl"
    data.write_text("".join(json.dumps({"question": q, "choices": list(c), "answer": a}) + "\n" for q, c, a in QUESTIONS))
    (w.tasks / "choices.yaml").write_text(CHOICES.format(data=data))
    results, samples = w.evaluate("hone_choices", "local-completions", "/v1/completions",
                                  f"tokenizer={w.tokenizer},tokenized_requests=True,tokenizer_backend=huggingface")
    eq(len(samples), len(QUESTIONS))
    for sample in sorted(samples, key=lambda s: s["doc_id"])[:2 if w.quick else 8]:
        for choice, response in zip(sample["doc"]["choices"], sample["resps"]):
            # lm-eval tokenizes context and continuation together, without a BOS token of its own.
            whole = w.server.post("/tokenize", {"content": f"{sample['doc']['question']} {choice}"}).ok()["tokens"]
            context = w.server.post("/tokenize", {"content": sample["doc"]["question"]}).ok()["tokens"]
            want, greedy = log_likelihood(w, context, whole[len(context):])
            got, is_greedy = (json.loads(x.lower()) if isinstance(x, str) else x for x in response[0])
            assert abs(got - want) < 2e-3 + 1e-3 * abs(want), (sample["doc"]["question"], choice, got, want)
            eq(bool(is_greedy), bool(greedy), f"{sample['doc']['question']} {choice}")
    print("       choices:", results)
    assert w.model == TINY or results["acc,none"] >= 0.6, results


def tokenizer_folder(models, text):
    """What transformers wants beside a tokenizer.json."""
    folder = models.path / "tokenizer"
    folder.mkdir()
    (folder / "tokenizer.json").write_text(text)
    (folder / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|im_start|>", "eos_token": "<|im_end|>",
        "pad_token": "<|im_end|>", "add_bos_token": False, "model_max_length": 2048}))
    return folder


def main():
    from importlib.metadata import version

    quick = len(sys.argv) > 1 and sys.argv[1] == "quick"
    print(f"lm-eval {version('lm-eval')}")
    models = Models()
    if not SAMPLE_MODEL.exists():
        sys.exit(f"{SAMPLE_MODEL}: missing; run hone pull smollm2-135m in models/")
    model = models.smollm2()
    tokenizer = tokenizer_folder(models, bundle_tokenizer(model))
    folder = pathlib.Path(models.path)
    with Server(model, "--parallel", 4) as server:
        passed, failed = run_cases(CASES, World(server, model, tokenizer, folder, quick))
    print(f"{passed} passed, {failed} failed", flush=True)
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()

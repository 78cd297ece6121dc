#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""SmolLM2-135M-Instruct, real weights: float32 against transformers' greedy text, int4 against LiteRT-LM.

Usage: smollm2.py GGUF [--prompts N]
"""
import argparse
import json
import pathlib
import tempfile

import numpy as np

from hone_cli import SHARED, Checks, hone, hone_json, logits

SMALL_GAP_F32 = 5e-3
SMALL_GAP_INT4 = 0.05
STEPS = 48


def gaps_of(model, ids, num_prompt, tmp, *args):
    """Top-1 minus top-2 logit of each generated step."""
    rows = logits(model, ids, tmp / "gaps.npy", *args)[num_prompt - 1:]
    top = np.sort(np.partition(rows, -2, axis=1)[:, -2:], axis=1)
    return top[:, 1] - top[:, 0]


def check_float32(gguf, prompts, checks):
    for p in prompts:
        got = hone_json("run", gguf, "-p", p["rendered"], "--raw", "--temperature", "0", "--max-tokens", "64")
        want = [t for t in p["new_ids"] if t != 2]
        ids = got["token_ids"]
        step = next((i for i, (a, b) in enumerate(zip(ids, want)) if a != b), None)
        if step is None and len(ids) != len(want):
            step = min(len(ids), len(want))
        near = step is not None and min(p["gaps"][: step + 1]) < SMALL_GAP_F32
        note = "" if step is None else f" (differs at step {step}, gap {p['gaps'][step]})"
        checks.check(got["prompt_ids"] == p["prompt_ids"], f"prompt ids: {p['prompt'][:50]}")
        checks.check(step is None or near, f"float32 greedy: {p['prompt'][:50]}{note}")


def first_difference(model, hone_ids, other_text):
    """Index of the first Hone token whose text is not a prefix of the other text, or None."""
    pieces = ""
    for i in range(len(hone_ids)):
        pieces = hone_text(model, hone_ids[: i + 1])
        if not other_text.startswith(pieces.rstrip("\ufffd")):
            return i
    return None if len(pieces) >= len(other_text) else len(hone_ids)


def hone_text(model, ids, _cache={}):
    tokenizer = _cache.get(model)
    if tokenizer is None:
        import tokenizers

        tokenizer = tokenizers.Tokenizer.from_str(bundle_tokenizer(model))
        _cache[model] = tokenizer
    return tokenizer.decode(ids, skip_special_tokens=True)


def bundle_tokenizer(path):
    import struct
    import zlib

    data = pathlib.Path(path).read_bytes()
    for section in hone_json("peek", path)["sections"]:
        if section["type"] == "HF_Tokenizer_Zlib":
            raw = data[section["begin"]:section["end"]]
            text = zlib.decompress(raw[8:])
            assert len(text) == struct.unpack("<Q", raw[:8])[0]
            return text.decode()
    raise SystemExit(f"{path}: no tokenizer section")


def check_int4(bundle, prompts, checks, tmp):
    import litert_lm

    litert_lm.set_min_log_severity(litert_lm.LogSeverity.ERROR)
    engine = litert_lm.Engine(str(bundle), backend=litert_lm.Backend.CPU(), cache_dir=":nocache")
    agree = 0
    for p in prompts:
        ours = hone_json("run", bundle, "-p", p["rendered"], "--raw", "--temperature", "0", "--max-tokens", STEPS,
                         "--kv", "f32")
        session = engine.create_session(apply_prompt_template=False, max_output_tokens=STEPS)
        session.run_prefill([p["rendered"]])
        theirs = session.run_decode().texts[0]
        del session
        step = first_difference(bundle, ours["token_ids"], theirs)
        if step is None:
            agree += 1
            print(f"  equal over {len(ours['token_ids'])} tokens: {p['prompt'][:50]}")
            continue
        gaps = gaps_of(bundle, ours["prompt_ids"] + ours["token_ids"], len(ours["prompt_ids"]), tmp, "--kv", "f32")
        small = next((i for i, g in enumerate(gaps) if g < SMALL_GAP_INT4), len(gaps))
        agree += small <= step
        print(f"  {'near tie' if small <= step else 'DIFFERS'} at token {step} (first gap under {SMALL_GAP_INT4} at {small},"
              f" gap there {gaps[min(step, len(gaps) - 1)]:.4f}): {p['prompt'][:50]}")
        if small > step:
            print(f"    hone:  {ours['text']!r}\n    other: {theirs!r}")
    need = (len(prompts) * 10 + 11) // 12
    checks.check(agree >= need, f"int4: both runtimes agree on {agree} of {len(prompts)} prompts")
    france = next(p for p in prompts if "capital of France" in p["prompt"])
    ours = hone_json("run", bundle, "-p", france["prompt"], "--temperature", "0", "--max-tokens", STEPS)
    checks.check("Paris" in ours["text"], f"int4 in Hone: {ours['text']!r}")
    session = engine.create_session(apply_prompt_template=False, max_output_tokens=STEPS)
    session.run_prefill([france["rendered"]])
    theirs = session.run_decode().texts[0]
    checks.check("Paris" in theirs, f"int4 in LiteRT-LM, session: {theirs!r}")
    del session, engine


def check_conversation(bundle, checks):
    import litert_lm

    engine = litert_lm.Engine(str(bundle), backend=litert_lm.Backend.CPU(), cache_dir=":nocache")
    conversation = engine.create_conversation()
    reply = conversation.send_message("What is the capital of France? Answer in one sentence.")
    checks.check("Paris" in json.dumps(reply), f"int4 in LiteRT-LM, conversation: {json.dumps(reply)[:200]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("gguf")
    parser.add_argument("--prompts", type=int, default=12)
    args = parser.parse_args()
    prompts = json.loads((SHARED / "golden/smollm2/greedy.json").read_text())["prompts"][: args.prompts]
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="hone-smollm2-") as folder:
        tmp = pathlib.Path(folder)
        check_float32(args.gguf, prompts, checks)
        bundle = tmp / "int4.litertlm"
        hone("convert", args.gguf, "-o", bundle, "--quant", "int4")
        check_int4(bundle, prompts, checks, tmp)
        compat = tmp / "compat.litertlm"
        hone("convert", args.gguf, "-o", compat, "--quant", "int4", "--template-compat")
        check_conversation(compat, checks)
        checks.finish()


if __name__ == "__main__":
    main()

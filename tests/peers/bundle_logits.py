#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bundles of the six Llama families in Google's runtimes: they load, give Hone's logits and Hone's tokens.

Usage: bundle_logits.py [--quick] [--family NAME] [--keep FOLDER]

For each family and each of none, int8, int4:
- ai-edge-litert: logits of every position, by decode alone and behind the prefill ladder. `none`
  also against the recorded float32 logits.
- litert-lm-api: greedy text of a session, where the prompt survives as text; conversations of --template-compat bundles.
"""
import argparse
import contextlib
import json
import pathlib
import shutil
import tempfile

import numpy as np
from tokenizers import Tokenizer

from hone_cli import SHARED, Checks, hone, logits
from litert_model import LitertModel

FAMILIES = ["llama-gqa8", "llama-tied", "llama-sharded", "llama-bias", "llama3-rope", "llama-yarn"]
PRESETS = ["none", "int8", "int4"]
# Of the largest |logit|. An activation that rounds the other way in one of the two runtimes moves
# a quantized model more: at most one position in twenty may.
LIMIT = {"none": 1e-4, "int8": 1e-3, "int4": 1e-3}
SHARE = {"none": 1.0, "int8": 0.95, "int4": 0.95}
SMALL_GAP = 0.05
STEPS = 24


def first_difference(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))


def check_logits(name, preset, bundle, model, prompts, checks, tmp):
    """Every position of every prompt, counted as it stands; positions that differ are listed.

    One activation that rounds the other way stays in the caches and moves every later position of that prompt. With
    the AVX-512 VNNI kernels both runtimes do the same arithmetic, so none should (docs/perf/parity.md). Other
    processors round apart now and then: there the share counts positions up to the first such rounding.
    """
    literal = "avx512_vnni" in pathlib.Path("/proc/cpuinfo").read_text()
    positions, apart = 0, 0
    for p in prompts:
        ours = logits(bundle, p["ids"], tmp / "ours.npy", "--kv", "f32")
        theirs = model.logits(p["ids"])
        worst = np.abs(ours - theirs).max(axis=1) / np.abs(theirs).max()
        over = np.flatnonzero(worst > LIMIT[preset])
        positions += len(worst) if literal or not len(over) else int(over[0]) + 1
        apart += len(over) if literal else int(len(over) > 0)
        if len(over):
            listed = " ".join(f"{i}:{worst[i]:.0e}" for i in over)
            print(f"       {name}: {p['name']} differs at position:share of the largest logit {listed}")
        half = len(p["ids"]) // 2
        behind = model.logits(p["ids"], prefill=half)
        error = np.abs(behind - theirs[half:]).max() / np.abs(theirs).max()
        checks.check(error <= LIMIT[preset], f"{name}: prefill ladder equals decode, {p['name']} ({error:.1e})")
    share = 1 - apart / positions
    checks.check(share >= SHARE[preset], f"{name}: Hone's logits at {share:.1%} of {positions} positions")


def check_golden(name, model, folder, prompts, checks):
    """The float graph against the recorded float32 logits and greedy tokens."""
    rows = np.load(folder / "logits.npy")
    for p in prompts:
        got = model.logits(p["ids"])
        want = rows[[p["row_last"], p["row_pos3"]]]
        error = np.abs(got[[-1, 3]] - want).max()
        checks.check(error <= 1e-4 * np.abs(want).max(), f"{name}: recorded logits, {p['name']} ({error:.1e})")
        tokens, _ = model.greedy(p["ids"], STEPS)
        step = first_difference(tokens, p["greedy_24"])
        near = step < STEPS and p["greedy_gap"][step] < 2e-3
        checks.check(step == STEPS or near, f"{name}: recorded greedy tokens, {p['name']} ({step} equal)")


def hone_greedy(bundle, ids, tmp, suppress):
    """Hone's greedy tokens behind ids and the gap of each step, from its logits."""
    tokens, gaps, ids = [], [], list(ids)
    for _ in range(STEPS):
        hone("logits", bundle, "--ids", ",".join(map(str, ids)), "--positions", "last", "--kv", "f32", "-o",
             tmp / "step.npy")
        row = np.load(tmp / "step.npy").reshape(-1)
        row[list(suppress)] = -np.inf
        second, first = np.partition(row, -2)[-2:]
        tokens.append(int(np.argmax(row)))
        gaps.append(float(first - second))
        ids.append(tokens[-1])
    return tokens, gaps


def check_tokens(name, bundle, model, prompts, tokenizer, checks, tmp):
    """Tokens of the TFLite signatures, and the text of a LiteRT-LM session, against Hone's tokens."""
    suppress = range(tokenizer.get_vocab_size(), model.runners["decode"].get_output_details()["logits"]["shape"][-1])
    for p in prompts:
        ours, gaps = hone_greedy(bundle, p["ids"], tmp, suppress)
        sure = next((i for i, gap in enumerate(gaps) if gap < SMALL_GAP), STEPS)
        theirs, _ = model.greedy(p["ids"], STEPS, suppress)
        step = first_difference(ours, theirs)
        checks.check(step >= sure, f"{name}: Hone's tokens in ai-edge-litert, {p['name']} ({step} equal, {sure} sure)")
        p["ours"], p["sure"] = ours, sure


def check_session(name, bundle, prompts, tokenizer, checks):
    import litert_lm

    litert_lm.set_min_log_severity(litert_lm.LogSeverity.ERROR)
    engine = litert_lm.Engine(str(bundle), backend=litert_lm.Backend.CPU(), cache_dir=":nocache")
    stops = {i for ids in engine.eos_token_ids for i in ids}
    checks.check(engine.bos_token_id == 0 and {1, 3, 642, 643, 644} <= stops, f"{name}: LiteRT-LM's BOS and stop ids")
    for p in prompts:
        # The session prepends <s> itself.
        text = tokenizer.decode(p["ids"][1:], skip_special_tokens=False)
        if engine.tokenize(text) != p["ids"][1:]:
            print(f"       {name}: {p['name']} does not survive as text; signatures only")
            continue
        config = litert_lm.SamplerConfig(top_k=1, top_p=1.0, temperature=1.0)
        with contextlib.closing(engine.create_session(apply_prompt_template=False, max_output_tokens=STEPS,
                                                      sampler_config=config)) as session:
            session.run_prefill([text])
            got = session.run_decode().texts[0]
        stop = next((i for i, t in enumerate(p["ours"]) if t in stops), STEPS)
        want = tokenizer.decode(p["ours"][: min(p["sure"], stop)], skip_special_tokens=False)
        # The API's text ends at a NUL, and half a character at the end of either text is written in its own way.
        want = want.split("\0")[0].rstrip("\ufffd")
        checks.check(got.startswith(want), f"{name}: Hone's text in a LiteRT-LM session, {p['name']} ({len(want)} characters sure)")
    engine.close()


def check_conversation(name, source, checks, tmp):
    """A --template-compat bundle renders in LiteRT-LM what jinja2 renders with the original template."""
    import jinja2.ext
    import jinja2.sandbox
    import litert_lm

    bundle = tmp / "compat.litertlm"
    hone("convert", source, "-o", bundle, "--quant", "int4", "--context", "64", "--template-compat", "--force")
    environment = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[jinja2.ext.loopcontrols])
    environment.filters["tojson"] = lambda value, ensure_ascii=False: json.dumps(value, ensure_ascii=ensure_ascii)
    template = environment.from_string((source / "chat_template.jinja").read_text())
    history = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi."},
               {"role": "assistant", "content": "<think>\nhm\n</think>\n\nHello."}]
    want = template.render(messages=[*history, {"role": "user", "content": "2 + 3?"}], add_generation_prompt=True,
                           bos_token="")
    engine = litert_lm.Engine(str(bundle), backend=litert_lm.Backend.CPU(), cache_dir=":nocache")
    with contextlib.closing(engine.create_conversation(messages=history)) as conversation:
        got = conversation.render_message_to_string("2 + 3?")
    engine.close()
    checks.check(got == want, f"{name}: a LiteRT-LM conversation renders as jinja2")


def check_conversations(checks, tmp):
    source = SHARED / "golden/families/llama-gqa8/hf"
    check_conversation("llama-gqa8 template-compat", source, checks, tmp)
    folder = tmp / "minicpm5"
    shutil.copytree(source, folder)
    folder.chmod(0o755)
    template = folder / "chat_template.jinja"
    template.unlink()
    template.write_bytes((SHARED / "data/minicpm5/chat_template.jinja").read_bytes())
    check_conversation("MiniCPM5 template-compat", folder, checks, tmp)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="two families, the two shorter prompts")
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument("--keep", help="write the bundles here and leave them")
    args = parser.parse_args()
    families = [args.family] if args.family else FAMILIES[:2] if args.quick else FAMILIES
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        tmp = pathlib.Path(folder)
        keep = pathlib.Path(args.keep) if args.keep else tmp
        keep.mkdir(parents=True, exist_ok=True)
        for family in families:
            source = SHARED / "golden/families" / family
            golden = json.loads((source / "golden.json").read_text())
            prompts = golden["prompts"][: 2 if args.quick else 3]
            tokenizer = Tokenizer.from_file(str(source / "hf/tokenizer.json"))
            for preset in PRESETS:
                name = f"{family} {preset}"
                bundle = keep / f"{family}-{preset}.litertlm"
                report = json.loads(hone("convert", source / "hf", "-o", bundle, "--quant", preset, "--force",
                                         "--json").stdout)
                checks.check(report["bytes"] == bundle.stat().st_size, f"{name}: converts")
                model = LitertModel(bundle)
                if preset == "none":
                    check_golden(name, model, source, prompts, checks)
                check_logits(name, preset, bundle, model, prompts, checks, tmp)
                check_tokens(name, bundle, model, prompts, tokenizer, checks, tmp)
                check_session(name, bundle, prompts, tokenizer, checks)
        check_conversations(checks, tmp)
    checks.finish()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bundles of every supported architecture in Google's runtimes: they load, give Hone's logits and Hone's tokens.

Usage: bundle_logits.py [--quick] [--family NAME]... [--no-hone] [--keep FOLDER]

For each family and each of none, int8, int4:
- ai-edge-litert: logits of every position, by decode alone and behind the prefill ladder. `none`
  also against the recorded float32 logits, and once more with float16 caches.
- litert-lm-api: greedy text of a session, where the prompt survives as text; conversations of --template-compat bundles.

Families are those of golden/families in the shared data, and of tests/testdata/families.
"""
import argparse
import contextlib
import json
import pathlib
import shutil
import tempfile

import numpy as np
from tokenizers import Tokenizer

from hone_cli import ROOT, SHARED, Checks, hone, logits
from litert_model import LitertModel

TINY = ROOT / "tests/testdata/families"
GOLDEN = ["llama-gqa8", "llama-tied", "llama-sharded", "llama-bias", "llama3-rope", "llama-yarn", "mistral-sliding",
          "qwen2", "qwen3", "smollm3", "minicpm4-short", "minicpm4-long"]
FAMILIES = GOLDEN + sorted(p.name for p in TINY.glob("*") if p.is_dir())
QUICK = ["llama-gqa8", "mistral-sliding", "gemma2"]
# Their rope depends on the length, which a bundle fixes: recorded logits are compared at a context of that length.
BY_LENGTH = ["llama-ntk", "phi3-longrope"]
PRESETS = ["none", "int8", "int4"]
# Of the largest |logit|. An activation that rounds the other way in one of the two runtimes moves
# a quantized model more: at most one position in twenty may.
LIMIT = {"none": 1e-4, "int8": 1e-3, "int4": 1e-3}
SHARE = {"none": 1.0, "int8": 0.95, "int4": 0.95}
SMALL_GAP = 0.05
LETTERS = "thequickbrownfoxjumps"
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


def check_golden(name, model, prompts, checks, limit=1e-4):
    """The float graph against recorded float32 logits and greedy tokens."""
    for p in prompts:
        if "rows" not in p:
            continue
        got = model.logits(p["ids"])
        error = np.abs(got[p["positions"]] - p["rows"]).max() / np.abs(p["rows"]).max()
        checks.check(error <= limit, f"{name}: recorded logits, {p['name']} ({error:.1e})")
        if "greedy_24" not in p:
            best = got.argmax(axis=1)
            near = np.partition(got, -2, axis=1)
            apart = (best != p["argmax"]) & (near[:, -1] - near[:, -2] > 2e-3)
            checks.check(not apart.any(), f"{name}: recorded best tokens, {p['name']} ({len(best)} positions)")
            continue
        tokens, _ = model.greedy(p["ids"], STEPS)
        step = first_difference(tokens, p["greedy_24"])
        near = step < STEPS and p["greedy_gap"][step] < 2e-3
        checks.check(step == STEPS or near, f"{name}: recorded greedy tokens, {p['name']} ({step} equal)")


def check_half_cache(name, source, prompts, checks, tmp):
    """The same with float16 caches, which round keys and values to 11 bits."""
    bundle = tmp / "half.litertlm"
    hone("convert", source, "-o", bundle, "--quant", "none", "--kv", "f16", "--force")
    check_golden(f"{name} --kv f16", LitertModel(bundle), prompts[:2], checks, limit=2e-2)


def check_lengths(name, source, prompts, checks, tmp):
    """A rope that depends on the length, fixed for the length of each prompt."""
    bundle = tmp / "length.litertlm"
    for p in prompts:
        if "rows" not in p:
            continue
        hone("convert", source, "-o", bundle, "--quant", "none", "--context", len(p["ids"]), "--force")
        check_golden(f"{name} none", LitertModel(bundle), [p], checks)


def read_family(family):
    """Folder of the checkpoint and prompts: name, ids, recorded positions and their rows, argmax or greedy_24."""
    if family in GOLDEN:
        folder = SHARED / "golden/families" / family
        source = folder / "hf"
    else:
        folder = source = TINY / family
    golden = json.loads((folder / "golden.json").read_text())
    rows = np.load(folder / "logits.npy")
    prompts, row = [], 0
    if family not in GOLDEN:  # a prompt that survives as text, for sessions
        tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
        prompts.append({"name": "letters", "ids": tokenizer.encode(LETTERS, add_special_tokens=False).ids})
    for p in golden["prompts"]:
        p.setdefault("name", f"p{len(p['ids'])}")
        if "row_last" in p:
            p["positions"], p["rows"] = [-1, 3], rows[[p["row_last"], p["row_pos3"]]]
        else:
            p["rows"] = rows[row : row + len(p["positions"])]
            row += len(p["positions"])
        prompts.append(p)
    return source, prompts


def hone_greedy(bundle, ids, steps, tmp, suppress):
    """Hone's greedy tokens behind ids and the gap of each step, from its logits."""
    tokens, gaps, ids = [], [], list(ids)
    for _ in range(steps):
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
        steps = min(STEPS, model.context - len(p["ids"]))
        ours, gaps = hone_greedy(bundle, p["ids"], steps, tmp, suppress)
        sure = next((i for i, gap in enumerate(gaps) if gap < SMALL_GAP), steps)
        theirs, _ = model.greedy(p["ids"], steps, suppress)
        step = first_difference(ours, theirs)
        checks.check(step >= sure, f"{name}: Hone's tokens in ai-edge-litert, {p['name']} ({step} equal, {sure} sure)")
        p["ours"], p["sure"] = ours, sure


def check_session(name, bundle, prompts, tokenizer, checks, golden):
    import litert_lm

    litert_lm.set_min_log_severity(litert_lm.LogSeverity.ERROR)
    engine = litert_lm.Engine(str(bundle), backend=litert_lm.Backend.CPU(), cache_dir=":nocache")
    stops = {i for ids in engine.eos_token_ids for i in ids}
    if golden:
        checks.check(engine.bos_token_id == 0 and {1, 3, 642, 643, 644} <= stops, f"{name}: LiteRT-LM's BOS and stop ids")
    for p in prompts:
        # The session prepends <s> itself, if the bundle asks for it.
        skip = int(engine.bos_token_id == p["ids"][0])
        text = tokenizer.decode(p["ids"][skip:], skip_special_tokens=False) if golden else LETTERS
        if engine.tokenize(text) != p["ids"][skip:]:
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
        if not golden:  # their tokenizer has no decoder, which says nothing about spaces
            got, want = got.replace(" ", ""), want.replace(" ", "")
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


def with_stop_token(source, tmp):
    """The folder itself, or a copy that names a stop token where the small checkpoint does not."""
    config = json.loads((source / "config.json").read_text())
    if (source / "generation_config.json").exists() or config.get("eos_token_id") is not None:
        return source
    folder = tmp / f"{source.name}-eos"
    shutil.copytree(source, folder, dirs_exist_ok=True)
    (folder / "generation_config.json").write_text('{"eos_token_id": 1}')
    return folder


def check_family(family, args, keep, tmp, checks):
    source, prompts = read_family(family)
    source = with_stop_token(source, tmp)
    prompts = prompts[: 2 if args.quick else None]
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    if family in BY_LENGTH:
        check_lengths(family, source, prompts, checks, tmp)
    for preset in PRESETS:
        name = f"{family} {preset}"
        bundle = keep / f"{family}-{preset}.litertlm"
        extra = ["--context", "64"] if family in BY_LENGTH else []
        report = json.loads(hone("convert", source, "-o", bundle, "--quant", preset, "--force", "--json", *extra).stdout)
        checks.check(report["bytes"] == bundle.stat().st_size, f"{name}: converts")
        model = LitertModel(bundle)
        if preset == "none" and family not in BY_LENGTH:
            check_golden(name, model, prompts, checks)
            check_half_cache(name, source, prompts, checks, tmp)
        if args.no_hone:
            continue
        check_logits(name, preset, bundle, model, prompts, checks, tmp)
        check_tokens(name, bundle, model, prompts, tokenizer, checks, tmp)
        check_session(name, bundle, prompts, tokenizer, checks, family in GOLDEN)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true", help="three families, the two shorter prompts")
    parser.add_argument("--family", choices=FAMILIES, action="append")
    parser.add_argument("--no-hone", action="store_true", help="recorded logits only, nothing that Hone runs")
    parser.add_argument("--keep", help="write the bundles here and leave them")
    args = parser.parse_args()
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        tmp = pathlib.Path(folder)
        keep = pathlib.Path(args.keep) if args.keep else tmp
        keep.mkdir(parents=True, exist_ok=True)
        for family in args.family or (QUICK if args.quick else FAMILIES):
            check_family(family, args, keep, tmp, checks)
        if not args.family:
            check_conversations(checks, tmp)
    checks.finish()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""hone unpack, pack, edit and quantize against litert-lm-builder 0.18 and LiteRT-LM 0.18.

- Both tools unpack a bundle to the same folder, and each packs what the other unpacked.
- A bundle edited in place loads in LiteRT-LM with the same tokens, also when the edit stopped between two writes; a new
  stop id and a new template show in its answers.
- Bundles that hone quantize wrote load in ai-edge-litert and LiteRT-LM and give Hone's logits.
"""
import filecmp
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import numpy as np

from hone_cli import SHARED, Checks, hone, hone_json, logits
from litert_model import LitertModel, sections

BUNDLES = SHARED / "golden/bundles"
BUILDER = pathlib.Path(sys.executable).with_name("litert-lm-builder")
PROMPT = "the quick brown fox jumps over"
STEPS = 12
IDS = [5, 40, 301, 17, 250, 99, 8, 120]
# Of the largest |logit|.
LIMIT = {"int8": 2e-3, "int4": 2e-3}


def builder(*args):
    done = subprocess.run([BUILDER, *map(str, args)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"litert-lm-builder {' '.join(map(str, args))}: exit {done.returncode}\n{done.stderr}")


def plain(path):
    return [(kind, items, data) for kind, items, data in sections(path)]


def check_pack(bundle, tmp, checks):
    name = bundle.parent.name
    ours, theirs = tmp / "ours", tmp / "theirs"
    hone("unpack", bundle, "-o", ours)
    builder("unpack", "--input", bundle, "--output", theirs)
    names = sorted(os.listdir(ours))
    checks.check(names == sorted(os.listdir(theirs)), f"{name}: the same files")
    _, different, missing = filecmp.cmpfiles(ours, theirs, names, shallow=False)
    checks.check(not different and not missing, f"{name}: every file is equal {different} {missing}")
    hone("pack", theirs, "-o", tmp / "hone.litertlm", "--force")
    builder("toml", "--path", ours / "model.toml", "output", "--path", tmp / "builder.litertlm")
    checks.check(plain(tmp / "hone.litertlm") == plain(bundle), f"{name}: hone packs what the builder unpacked")
    checks.check(plain(tmp / "builder.litertlm") == plain(bundle), f"{name}: the builder packs what hone unpacked")
    for folder in (ours, theirs):
        shutil.rmtree(folder)


def engine(path):
    import litert_lm

    litert_lm.set_min_log_severity(litert_lm.LogSeverity.ERROR)
    return litert_lm.Engine(str(path), backend=litert_lm.Backend.CPU(), cache_dir=":nocache")


def session_text(path, prompt=PROMPT):
    e = engine(path)
    session = e.create_session(apply_prompt_template=False, max_output_tokens=STEPS)
    session.run_prefill([prompt])
    text = session.run_decode().texts[0]
    del session, e
    return text


def peeked(path):
    """What litert-lm-builder reads: (keys and values of the system metadata, number of sections)."""
    import io

    from litert_lm_builder import litertlm_peek

    out = io.StringIO()
    litertlm_peek.peek_litertlm_file(str(path), None, out)
    return out.getvalue()


def check_edit(bundle, tmp, checks):
    name = bundle.parent.name
    path = tmp / "edit.litertlm"
    shutil.copy(bundle, path)
    path.chmod(0o644)
    before, before_text = path.read_bytes(), session_text(path)
    dry = hone_json("edit", path, "--max-tokens", "64", "--author", "peer", "--dry-run")
    checks.check(path.read_bytes() == before and len(dry["changes"]) == 2, f"{name}: a dry run writes nothing")
    hone("edit", path, "--max-tokens", "64", "--author", "peer")
    after = path.read_bytes()
    checks.check("peer" in peeked(path), f"{name}: the builder reads the edited header")
    checks.check(session_text(path) == before_text, f"{name}: LiteRT-LM gives the same tokens after an edit")
    # The states between the writes: new sections behind the end; new tables below the first section, not yet switched.
    stopped = tmp / "stopped.litertlm"
    first = before + after[len(before):]
    second = first[:40] + after[40:16384] + first[16384:]
    for step, data in (("sections", first), ("tables", second), ("switch", after)):
        stopped.write_bytes(data)
        new = step == "switch"
        checks.check(("peer" in peeked(stopped)) == new, f"{name}: after the {step} the builder reads the {'new' if new else 'old'} header")
        checks.check(session_text(stopped) == before_text, f"{name}: after the {step} LiteRT-LM loads it")
    kept = {(k, i.get("model_type")): d for k, i, d in sections(bundle) if k != 5}
    checks.check(all(kept[k, i.get("model_type")] == d for k, i, d in sections(path) if k != 5),
                 f"{name}: sections that were not edited are equal")


def check_stop(bundle, tmp, checks):
    name = bundle.parent.name
    path = tmp / "stop.litertlm"
    shutil.copy(bundle, path)
    path.chmod(0o644)
    ids = hone_json("run", path, "--raw", "-p", PROMPT, "--temperature", "0", "--max-tokens", STEPS, "--kv", "f32")["token_ids"]
    text = session_text(path)
    at = next(i for i in range(2, len(ids)) if ids[i] not in ids[:i])
    hone("edit", path, "--add-stop-id", ids[at])
    short = session_text(path)
    ours = hone_json("run", path, "--raw", "-p", PROMPT, "--temperature", "0", "--max-tokens", STEPS, "--kv", "f32")
    checks.check(text.startswith(short) and len(short) < len(text), f"{name}: LiteRT-LM stops at the new id: {short!r} of {text!r}")
    checks.check(ours["token_ids"] in (ids[:at], ids[: at + 1]), f"{name}: Hone stops at the new id")


def check_template(bundle, tmp, checks):
    name = bundle.parent.name
    path = tmp / "template.litertlm"
    shutil.copy(bundle, path)
    path.chmod(0o644)
    template = tmp / "new.jinja"
    template.write_text("{% for m in messages %}{{ m['content'] if m['content'] is string else m['content'][0]['text'] }}"
                        "{% endfor %}{% if enable_thinking %} jumps over{% endif %}")
    hone("edit", path, "--chat-template", template, "--sampler", "temperature=1,top_k=1")

    def conversation(**kwargs):
        e = engine(path)
        reply = e.create_conversation(max_output_tokens=STEPS, **kwargs).send_message("the quick brown fox")
        text = reply["content"][0]["text"]
        del e
        return text

    plain_text = session_text(path, "the quick brown fox")
    thinking_text = session_text(path, "the quick brown fox jumps over")
    checks.check(conversation() == plain_text, f"{name}: LiteRT-LM uses the new template: {plain_text!r}")
    hone("edit", path, "--thinking", "on")
    checks.check(conversation() == thinking_text, f"{name}: LiteRT-LM honours the thinking default: {thinking_text!r}")
    off = conversation(extra_context={"enable_thinking": False})
    checks.check(off == plain_text, f"{name}: and what the caller passes wins")
    checks.check(plain_text != thinking_text, f"{name}: the two prompts differ")


def check_quantize(tmp, checks):
    source = BUNDLES / "tiny-llama-fp32/model-fixed-template-nobos.litertlm"
    for preset in LIMIT:
        out = tmp / f"{preset}.litertlm"
        hone("quantize", source, "-o", out, "--quant", preset)
        theirs = LitertModel(out).logits(IDS)
        ours = logits(out, IDS, tmp / "ours.npy", "--kv", "f32")
        error = np.abs(ours - theirs).max() / np.abs(theirs).max()
        checks.check(error <= LIMIT[preset], f"quantize {preset}: ai-edge-litert gives Hone's logits ({error:.1e})")
        text = session_text(out)
        checks.check(len(text) > 0, f"quantize {preset}: LiteRT-LM answers {text!r}")
        old = [(k, d) for k, _, d in sections(source) if k != 3]
        checks.check(old == [(k, d) for k, _, d in sections(out) if k != 3], f"quantize {preset}: other sections are equal")


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="hone-pack-") as folder:
        tmp = pathlib.Path(folder)
        for name in ("tiny-llama-fp32", "tiny-llama-wi8", "tiny-llama-wi4b32", "tiny-llama-untied-wi8"):
            check_pack(BUNDLES / name / "model.litertlm", tmp, checks)
        hone("convert", BUNDLES / "tiny-llama-hf", "-o", tmp / "m.litertlm",
             "--quant", "int8", "--context", "64", "--prefill", "16,4,1")
        check_pack(tmp / "m.litertlm", tmp, checks)
        for name in ("tiny-llama-wi8", "tiny-llama-wi4b32"):
            bundle = BUNDLES / name / "model-fixed-template-nobos.litertlm"
            check_edit(bundle, tmp, checks)
            check_stop(bundle, tmp, checks)
        check_template(BUNDLES / "tiny-llama-wi8/model-fixed-template-nobos.litertlm", tmp, checks)
        check_quantize(tmp, checks)
        checks.finish()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Hone authors
# SPDX-License-Identifier: Apache-2.0
"""What hone check says and what hone repair does, against Google's programs.

- A bundle with 1,664 zero block scales, like the int4 bundle that was published with them: ai-edge-litert
  and LiteRT-LM refuse it, hone check says scale-zero, and after hone repair both run it. The logits are
  those of the same weights with whole scales, bit for bit; nothing but the scales changed.
- Masks rewritten by hone repair --npu-mask: ai-edge-litert gives the same bits, LiteRT-LM the same text.
- Samplers, stop tokens and templates that hone check calls errors for LiteRT-LM do fail there.

Usage: check.py
"""
import pathlib
import struct
import subprocess
import sys
import tempfile

import numpy as np
from ai_edge_litert import schema_py_generated as tflite

from hone_cli import SHARED, Checks, hone, hone_json
from litert_model import LitertModel, sections

GOLDEN = pathlib.Path(SHARED) / "golden/bundles"
CLEAN = "model-fixed-template-nobos.litertlm"
ZEROS = 1664

# Runs in a process of its own, because LiteRT-LM may end it.
CHAT = """
import sys, litert_lm
litert_lm.set_min_log_severity(litert_lm.LogSeverity.ERROR)
engine = litert_lm.Engine(sys.argv[1], backend=litert_lm.Backend.CPU(), cache_dir=":nocache")
with engine.create_conversation(max_output_tokens=8) as chat:
    print(repr(chat.send_message("Hello there, how are you?")))
"""


def chat(path):
    """(works, answer) of LiteRT-LM's first message."""
    done = subprocess.run([sys.executable, "-c", CHAT, str(path)], capture_output=True, text=True,
                          timeout=300)
    return done.returncode == 0, done.stdout


def decoder_begin(path):
    """File offset of the decoder's section."""
    data = pathlib.Path(path).read_bytes()
    for kind, items, content in sections(path):
        if kind == 3 and items.get("model_type") == "tf_lite_prefill_decode":
            return data, data.index(content), content
    raise ValueError(path)


def vector(model, buffer):
    """(offset, bytes) of a buffer's data in the model."""
    table = model.Buffers(buffer)._tab
    field = table.Offset(4)
    return (table.Vector(field), table.VectorLen(field)) if field else (0, 0)


def blockwise(model):
    """{weight buffer: scales buffer} of the model, in order."""
    out = {}
    for g in range(model.SubgraphsLength()):
        graph = model.Subgraphs(g)
        for t in range(graph.TensorsLength()):
            q = graph.Tensors(t).Quantization()
            if q is None or q.DetailsType() != tflite.QuantizationDetails.BlockwiseQuantization:
                continue
            details = tflite.BlockwiseQuantization()
            details.Init(q.Details().Bytes, q.Details().Pos)
            out.setdefault(graph.Tensors(t).Buffer(), graph.Tensors(details.Scales()).Buffer())
    return out


def zero_blocks(source, out_zero, out_whole):
    """Two bundles whose first ZEROS blocks hold zeros: with scales of zero, and with their scales."""
    data, begin, content = decoder_begin(source)
    model = tflite.Model.GetRootAs(content, 0)
    zero, whole, left = bytearray(data), bytearray(data), ZEROS
    for weight, scales in blockwise(model).items():
        codes_at, _ = vector(model, weight)
        scales_at, scale_bytes = vector(model, scales)
        for block in range(scale_bytes // 2 - 1):  # one block of each tensor stays
            if left == 0:
                break
            for image in (zero, whole):
                at = begin + codes_at + 16 * block
                image[at:at + 16] = bytes(16)
            at = begin + scales_at + 2 * block
            zero[at:at + 2] = bytes(2)
            left -= 1
    assert left == 0
    pathlib.Path(out_zero).write_bytes(zero)
    pathlib.Path(out_whole).write_bytes(whole)


def runs(path):
    """The logits of ai-edge-litert, or what it raises."""
    try:
        return LitertModel(path).logits(list(range(3, 15)), prefill=9), ""
    except (RuntimeError, ValueError) as error:
        return None, str(error)


def check_scales(checks, folder):
    source = GOLDEN / "tiny-llama-wi4b32" / CLEAN
    zero, whole, repaired = (folder / f"{n}.litertlm" for n in ("zero", "whole", "repaired"))
    zero_blocks(source, zero, whole)
    logits, error = runs(zero)
    checks.check(logits is None, f"ai-edge-litert refuses zero scales ({error.strip()[-80:]!r})")
    checks.check(not chat(zero)[0], "LiteRT-LM refuses zero scales")
    found = hone("check", zero, "--json", check=False)
    checks.check(found.returncode == 1 and "scale-zero" in found.stdout and f"{ZEROS} zero scales" in
                 found.stdout, "hone check counts them")
    report = hone_json("repair", zero, "-o", repaired)
    before, after = zero.read_bytes(), repaired.read_bytes()
    changed = [i for i in range(len(before)) if before[i] != after[i]]
    checks.check(report["scales_changed"] == ZEROS and len(before) == len(after)
                 and len(changed) == report["bytes_changed"] <= 2 * ZEROS,
                 f"{report['scales_changed']} scales, {report['bytes_changed']} bytes changed")
    data, begin, content = decoder_begin(zero)
    model = tflite.Model.GetRootAs(content, 0)
    places = [vector(model, scales) for scales in blockwise(model).values()]
    inside = all(any(begin + at <= i < begin + at + size for at, size in places) for i in changed)
    checks.check(inside, "only bytes of scales changed")
    got, error = runs(repaired)
    want, _ = runs(whole)
    checks.check(got is not None and np.array_equal(got, want),
                 f"ai-edge-litert runs the repaired bundle, bit for bit as with whole scales {error}")
    checks.check(chat(repaired)[0], "LiteRT-LM runs the repaired bundle")
    checks.check(hone("check", repaired, check=False).returncode == 0, "hone check is content")


def check_masks(checks, folder):
    for name in ("tiny-llama-fp32", "tiny-llama-wi8", "tiny-llama-wi4b32"):
        source, out = GOLDEN / name / CLEAN, folder / f"{name}.litertlm"
        report = hone_json("repair", source, "-o", out, "--npu-mask")
        checks.check(report["masks_changed"] > 0 and report["proofs"],
                     f"{name}: {report['masks_changed']} masks rewritten")
        got, error = runs(out)
        checks.check(got is not None and np.array_equal(got, runs(source)[0]),
                     f"{name}: ai-edge-litert gives the same bits {error}")
        ok, answer = chat(out)
        checks.check(ok and answer == chat(source)[1], f"{name}: LiteRT-LM gives the same text")


def check_errors(checks, folder):
    """What hone check calls an error, fails in LiteRT-LM: written with its own protos."""
    from litert_lm_builder.runtime.proto import llm_metadata_pb2 as pb

    source = GOLDEN / "tiny-llama-fp32" / CLEAN

    def sampler(m, kind, k):
        m.sampler_params.type, m.sampler_params.k = kind, k
        m.sampler_params.p = m.sampler_params.temperature = 1

    cases = {
        "sampler-type": lambda m: sampler(m, 3, 1),
        "sampler-k": lambda m: sampler(m, 2, 0),
        "stop-missing": lambda m: m.ClearField("stop_tokens"),
        "template-syntax": lambda m: setattr(m, "jinja_prompt_template", "{% for m in %}"),
        "template-litert-lm": lambda m: setattr(
            m, "jinja_prompt_template",
            (GOLDEN / "tiny-llama-hf/chat_template.jinja").read_text()),
    }
    data = source.read_bytes()
    metadata = next(content for kind, _, content in sections(source) if kind == 5)
    begin = data.index(metadata)
    for name, change in cases.items():
        message = pb.LlmMetadata.FromString(metadata)
        change(message)
        content = message.SerializeToString()
        # The section may grow up to the next one: its end is in the header, which hone writes.
        out = folder / f"{name}.litertlm"
        assert begin + len(content) <= 32768
        image = bytearray(data)
        image[begin:32768] = content + bytes(32768 - begin - len(content))
        end = struct.pack("<Q", begin + len(metadata))
        header_end = struct.unpack_from("<Q", image, 24)[0]
        at = bytes(image[:header_end]).index(end)
        image[at:at + 8] = struct.pack("<Q", begin + len(content))
        out.write_bytes(image)
        found = hone("check", out, "--json", check=False).stdout
        checks.check(f'"{name}"' in found, f"hone check finds {name}")
        checks.check(not chat(out)[0], f"LiteRT-LM fails with {name}")
    checks.check(chat(source)[0], "LiteRT-LM runs the source of these")


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory() as folder:
        check_scales(checks, pathlib.Path(folder))
        check_masks(checks, pathlib.Path(folder))
        check_errors(checks, pathlib.Path(folder))
    checks.finish()


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Hone authors
# SPDX-License-Identifier: Apache-2.0
"""What bench/peers.py can get wrong without an engine: the GGUF files, the ratios, the tables, the workers."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types

import gguf
import numpy as np

from hone_cli import HONE, ROOT, Checks, logits

sys.path.insert(0, str(ROOT / "bench"))
import peers
import peers_files as files
import peers_stats as stats

MAKER = os.environ.get("HONE_MAKE_CHECKPOINT", str(pathlib.Path(HONE).parent / "bench/make_checkpoint"))
IDS = [3, 17, 99, 41, 200, 7, 31, 64, 12, 150, 33, 5, 77, 21, 18, 90]
SHARPEN = 8  # q and k of a random model are too small for positions to matter; with more, softmax blows errors up


def make_checkpoint(folder):
    subprocess.run([MAKER, "--shape", "tiny", "-o", str(folder)], check=True, stdout=subprocess.DEVNULL)
    for path in folder.glob("*.safetensors"):
        for name, (_, _, values) in files.safetensors_entries(path).items():
            if "q_proj" in name or "k_proj" in name:
                writable = np.memmap(path, dtype=np.uint16, mode="r+", offset=values.offset, shape=values.shape)
                scaled = files.bf16_to_float(np.asarray(writable)) * SHARPEN
                writable[:] = (scaled.view(np.uint32) >> 16).astype(np.uint16)
                writable.flush()


def source_values(folder):
    out = {}
    for path in folder.glob("*.safetensors"):
        for name, (dtype, _, values) in files.safetensors_entries(path).items():
            out[name] = files.to_float(np.asarray(values), dtype)
    return out


def rope_order_by_hand(rows, heads):
    """Row of the source for each row of the GGUF: pairs (i, i + half) of a head become neighbours."""
    size = rows // heads
    return [h * size + i // 2 + (i % 2) * (size // 2) for h in range(heads) for i in range(size)]


def largest_error(read, want, kind):
    """Over all blocks: error divided by what the format allows there (half a step; Q4_0 clamps one side: a step)."""
    blocks = want.reshape(-1, 32)
    top = np.abs(blocks).max(axis=1, keepdims=True)
    step = top / (127 if kind == "q8_0" else 8) * (1 + 2**-10)
    allowed = step * (0.5 if kind == "q8_0" else 1.0) + top * 2**-10 + 1e-12
    return float((np.abs(read.reshape(-1, 32) - blocks) / allowed).max())


def check_gguf(checks, folder, kind, out):
    files.convert_checkpoint(folder, out, kind)
    config = json.loads((folder / "config.json").read_text())
    source = {files.gguf_name(name): (name, values) for name, values in source_values(folder).items()}
    reader = gguf.GGUFReader(out)
    checks.check({t.name for t in reader.tensors} == set(source), f"{kind}: the GGUF has every tensor once")
    worst, norms, kinds = 0.0, True, True
    for tensor in reader.tensors:
        name, want = source[tensor.name]
        if "q_proj" in name:
            want = want[rope_order_by_hand(want.shape[0], config["num_attention_heads"])]
        if "k_proj" in name:
            want = want[rope_order_by_hand(want.shape[0], config["num_key_value_heads"])]
        read = gguf.dequantize(tensor.data, tensor.tensor_type)
        if want.ndim == 1:
            norms &= np.array_equal(read, want)
        else:
            kinds &= tensor.tensor_type == files.TYPES[kind][0]
            worst = max(worst, largest_error(read, want, kind))
    checks.check(norms and kinds, f"{kind}: norms are exact float32, every matrix is {kind}")
    checks.check(0 < worst <= 1, f"{kind}: the largest error is {worst:.3f} of what the format allows")
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    checks.check(len(tokens) == len(set(tokens)) == config["vocab_size"], f"{kind}: a piece for each id, all different")
    by_tensor = sum(int(t.n_bytes) for t in reader.tensors if len(t.shape) == 2 and t.name != "token_embd.weight")
    checks.check(files.bytes_per_token(out) == by_tensor, f"{kind}: bytes per token leave the embedding out")
    checks.check(sorted(files.matrix_sizes(out)) == sorted(files.checkpoint_sizes(folder)),
                 f"{kind}: the same matrices as in the checkpoint")
    if kind == "q4_0":
        checks.check(files.hone_bytes_per_token(files.matrix_sizes(out), "int4") == by_tensor,
                     "int4 with fp16 scales reads as many bytes as Q4_0")


def relative_difference(a, b):
    return float(np.linalg.norm(a - b) / np.linalg.norm(b))


def check_hone_runs_it(checks, folder, tmp):
    want = logits(folder, IDS, tmp / "want.npy", "--compute", "f32")
    got = logits(tmp / "q8_0.gguf", IDS, tmp / "got.npy", "--compute", "f32")
    order = files.rope_rows
    files.rope_rows = lambda rows, heads: np.arange(rows)
    try:
        files.convert_checkpoint(folder, tmp / "wrong.gguf", "q8_0")
    finally:
        files.rope_rows = order
    wrong = logits(tmp / "wrong.gguf", IDS, tmp / "wrong.npy", "--compute", "f32")
    right, bad = relative_difference(got, want), relative_difference(wrong, want)
    checks.check(right < 0.05, f"Hone's logits of the Q8_0 GGUF and the checkpoint differ by {right:.4f}")
    checks.check(bad > 4 * right, f"with q and k in the wrong order they would differ by {bad:.4f}")


def check_requantize(checks, tmp):
    files.requantize(tmp / "q8_0.gguf", tmp / "again.gguf", "q4_0")
    before, after = gguf.GGUFReader(tmp / "q8_0.gguf"), gguf.GGUFReader(tmp / "again.gguf")

    def metadata(reader):
        return {name: field.contents() for name, field in reader.fields.items()
                if not name.startswith("GGUF.") and name != "general.file_type"}

    checks.check(metadata(before) == metadata(after), "requantizing keeps the metadata")
    worst = 0.0
    for a, b in zip(before.tensors, after.tensors):
        if len(a.shape) == 2:
            worst = max(worst, largest_error(gguf.dequantize(b.data, b.tensor_type),
                                             gguf.dequantize(a.data, a.tensor_type), "q4_0"))
    checks.check(0 < worst <= 1, f"requantizing to q4_0: the largest error is {worst:.3f} of what the format allows")


def measurement(prefill, decode, others=0.0):
    """256 prompt tokens and 64 steps at these speeds."""
    return {"prefill_tokens": 256, "prefill_s": 256 / prefill, "prefill_cpu_s": 512 / prefill, "decode_tokens": 64,
            "decode_s": 64 / decode, "decode_cpu_s": 128 / decode, "wall_s": 1.0, "others_cpu_s": others,
            "steal_s": 0.0}


def check_ratios(checks):
    rounds = [{"a": measurement(1000, 100), "b": measurement(500, 50)},
              {"a": measurement(900, 90), "b": measurement(300, 30)},
              {"a": measurement(800, 10, others=0.5), "b": measurement(400, 40)},
              {"a": measurement(700, 80)}]
    found = stats.ratios(rounds, "a", "b")
    checks.check(found["quiet"] and found["rounds"] == 2, "ratios use the rounds in which both were undisturbed")
    close = np.allclose([found["decode"][k] for k in ("median", "min", "max")], [2.5, 2, 3])
    checks.check(close, f"ratios are taken within a round: {found['decode']}")
    checks.check(np.isclose(found["prefill_cpu"]["max"], 3), "the ratio of processor time is theirs by ours")
    noisy = [{"a": measurement(1000, 100, others=0.2), "b": measurement(500, 50)}]
    checks.check(not stats.ratios(noisy, "a", "b")["quiet"], "without an undisturbed round the ratio says so")
    checks.check(not stats.is_busy(measurement(1, 1, others=0.09)) and stats.is_busy(measurement(1, 1, others=0.11)),
                 "a measurement is disturbed over a tenth of a core")
    own = stats.summarize(rounds, "a")
    checks.check(own["rounds"] == 3 and own["all_rounds"] == 4 and own["decode"]["median"] == 90,
                 "an entry's spread leaves its disturbed round out")
    clock = stats.MachineClock("cpu  100 10 20 900 5 1 2 7 0 0\ncpu0 1\n")
    unit = os.sysconf("SC_CLK_TCK")
    checks.check(np.isclose(clock.busy, 133 / unit) and np.isclose(clock.steal, 7 / unit), "/proc/stat is read right")


def check_depths(checks):
    args = types.SimpleNamespace(depth=[0, 512], prompt=256)
    session = types.SimpleNamespace(rounds={0: [{"a": measurement(1, 100)}, {"a": measurement(1, 50)}, {}],
                                            512: [{"a": measurement(1, 90)}, {"a": measurement(1, 40)}, {}]})
    entry = types.SimpleNamespace(name="a", label="A")
    checks.check(peers.depth_extras(args, session, 0, [entry]) == [], "the first depth is compared with nothing")
    found = peers.make_extra(peers.depth_extras(args, session, 512, [entry])[0])
    checks.check(np.allclose([found["ratio"]["min"], found["ratio"]["max"]], [0.8, 0.9]) and found["ratio"]["n"] == 2,
                 f"a depth is compared with the first one round by round: {found['what']}")


def report():
    entry = {"label": "Hone int4", "weights": "w", "bytes_per_token": 10**8, "load_s": 1.0, "peak_bytes": 2**30,
             "summary": stats.summarize([{"a": measurement(1000, 100)}], "a")}
    missing = {"label": "OpenVINO GenAI int4", "weights": "w", "why_not": "it says no"}
    pair = {"ours": "Hone int4", "theirs": "llama.cpp int4", "our_quant": "int4", "engine": "llamacpp", "quant": "int4",
            **stats.ratios([{"a": measurement(1000, 100), "b": measurement(500, 50)}], "a", "b")}
    return {"model": "smollm2", "depth": 0, "prompt": 256, "decode": 64, "threads": 2, "rounds_done": 1,
            "entries": [entry, missing], "ratios": [pair], "extras": [], "read_gb_s": 20.0, "date": "2026-12-01",
            "machine": "m", "versions": ["v 1"], "command": "bench/peers.py"}


def check_markdown(checks, tmp):
    text = stats.markdown(report())
    checks.check("| 10.0 | 50 % |" in text, "the table gives decode as bytes per second and share of the read speed")
    checks.check("not measured: it says no" in text, "an engine that could not run is in the table with its reason")
    checks.check("2.0: met" in text and "2.5: missed" in text, "targets are met or missed")
    noisy = report()
    noisy["ratios"][0]["quiet"] = False
    checks.check("met" not in stats.markdown(noisy) and "2.0: not judged" in stats.markdown(noisy),
                 "a disturbed ratio meets no target")
    path = tmp / "peers.md"
    path.write_text("# Title\n\nBefore.\n\n<!-- peers:begin a -->\nold\n<!-- peers:end a -->\n\nBehind.\n")
    stats.update_markdown(path, "a", "new")
    stats.update_markdown(path, "a", "newer")
    want = "# Title\n\nBefore.\n\n<!-- peers:begin a -->\nnewer\n<!-- peers:end a -->\n\nBehind.\n"
    checks.check(path.read_text() == want, "a table replaces the one between its markers and nothing else")
    stats.update_markdown(path, "b", "other")
    checks.check(path.read_text() == want + "\n## b\n\n<!-- peers:begin b -->\nother\n<!-- peers:end b -->\n",
                 "a table without markers comes at the end")
    path.write_text("<!-- peers:begin a -->\n")
    try:
        stats.update_markdown(path, "a", "x")
        checks.check(False, "a lost end marker is refused")
    except SystemExit as error:
        checks.check("add the line" in str(error), "a lost end marker is refused")


def worker(tmp, code):
    return peers.Worker([sys.executable, "-c", code], tmp / "worker.log")


def error_of(work):
    try:
        work()
    except RuntimeError as error:
        return str(error)
    return "no error"


def check_workers(checks, tmp):
    good = worker(tmp, "import sys, time\nprint('{\"ready\": true}', flush=True)\nfor line in sys.stdin:\n"
                       "  end = time.process_time() + 0.2\n  while time.process_time() < end: pass\n"
                       "  print('{\"prefill_s\": 1}', flush=True)\n")
    answer = good.ask({})
    own = stats.process_cpu(good.process.pid)
    checks.check(answer["prefill_s"] == 1 and answer["wall_s"] >= 0.2 and own >= 0.2 and answer["others_cpu_s"] >= 0,
                 "a worker answers, and its own processor time is known")
    checks.check(stats.peak_bytes(good.process.pid) > 1 << 20, "a worker's peak memory is known")
    good.close()
    checks.check(good.process.returncode == 0, "a worker ends with its input")
    said = error_of(lambda: worker(tmp, "print('{\"error\": \"no such file\"}')"))
    checks.check(said == "no such file", f"a worker's own error is passed on: {said}")
    said = error_of(lambda: worker(tmp, "import sys; sys.exit('broken pipe dream')"))
    checks.check("code 1" in said and "broken pipe dream" in said, f"a worker that dies is reported: {said}")


def main():
    checks = Checks()
    with tempfile.TemporaryDirectory(prefix="hone-peers-bench-") as folder:
        tmp = pathlib.Path(folder)
        checkpoint = tmp / "checkpoint"
        make_checkpoint(checkpoint)
        for kind in files.TYPES:
            check_gguf(checks, checkpoint, kind, tmp / f"{kind}.gguf")
        check_hone_runs_it(checks, checkpoint, tmp)
        check_requantize(checks, tmp)
        check_ratios(checks)
        check_depths(checks)
        check_markdown(checks, tmp)
        check_workers(checks, tmp)
        checks.finish()


if __name__ == "__main__":
    main()

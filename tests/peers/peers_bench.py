#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Hone authors
# SPDX-License-Identifier: Apache-2.0
"""What bench/peers.py can get wrong without an engine: the GGUF files, the ratios, the tables, the workers."""
import json
import os
import pathlib
import statistics
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
READER = MAKER.replace("make_checkpoint", "read_bandwidth")
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
    for depth, number in ((0, 0), (512, 1)):  # one side of a pair is enough
        session.rounds[depth][number]["a"]["others_cpu_s"] = 0.5
        found = peers.make_extra(peers.depth_extras(args, session, 512, [entry])[0])
        left = found["all_rounds"] - found["rounds"]
        checks.check(left == 1 and found["quiet"] if depth == 0 else left == 0 and not found["quiet"],
                     f"a pair with a disturbed side at depth {depth} is left out, or all are marked")


def check_own_ratios(checks):
    """What --busy and --batch give: the neighbour's own time is no disturbance, others' is."""
    session = peers.Session.__new__(peers.Session)
    session.extras, session.where = {}, "round"
    entry = types.SimpleNamespace(name="a", label="A")
    pairs = [(measurement(1, 50), measurement(1, 100)), (measurement(1, 60), measurement(1, 100)),
             (measurement(1, 10, others=0.5), measurement(1, 100)),
             (measurement(1, 99), measurement(1, 9, others=0.5))]
    for result, alone in pairs:
        session.add_extra(0, entry, "beside", result, alone)
    found = peers.make_extra(session.extras[0, "a", "beside"])
    checks.check(np.allclose([found["ratio"]["min"], found["ratio"]["max"]], [0.5, 0.6]) and found["quiet"],
                 f"a ratio to its own speed leaves a pair out if either side was disturbed: {found['ratio']}")
    checks.check(np.isclose(found["speed"]["median"], 55), "the speed beside it is of the same rounds")
    text = "\n".join(stats.extra_table({"extras": [found]}))
    checks.check("| 2, 2 left out |" in text and "*" not in text, "the row says how many rounds it is from")
    found = peers.make_extra({"label": "A", "what": "beside", "pairs": pairs[2:], "notes": []})
    text = "\n".join(stats.extra_table({"extras": [found]}))
    checks.check(text.count(" * |") == 2 and "| 2 |" in text, "without an undisturbed pair all are used and marked")
    checks.check(stats.disturbed({"entries": [], "ratios": [], "extras": [found]}), "and a line explains the mark")
    none = peers.make_extra({"label": "A", "what": "beside", "pairs": [], "notes": ["not measured: no"]})
    checks.check("| - | - | 0 | not measured: no |" in "\n".join(stats.extra_table({"extras": [none]})),
                 "what could not be measured has its reason and no number")


def check_verdicts(checks):
    cases = [([2.1, 2.5, 2.2], True, "met"), ([1.9, 2.5, 2.2], True, "met (minimum below)"),
             ([1.9, 1.8, 2.2], True, "missed"), ([2.5, 2.5], True, "not judged, under 3 rounds"),
             ([2.1, 2.5, 2.2], False, "not judged"), ([2.0, 2.0, 2.0], True, "met")]
    for values, quiet, want in cases:
        said = stats.verdict(stats.spread(values), quiet, 2.0)
        checks.check(said == want, f"a target of 2.0 with {values}, undisturbed {quiet}: {said}")


def read(gb_s, others=0.0):
    return stats.read_result({"gb_s": [gb_s]}, 1.0, others, 0.0)


def check_read_shares(checks):
    rounds = [{"a": measurement(1, 100)}, {"a": measurement(1, 50)}, {}, {"a": measurement(1, 30, others=0.5)},
              {"a": measurement(1, 80)}, {"a": measurement(1, 90)}]
    reads = [read(20), read(8), read(1), read(10), read(2, others=0.5), read(10)]
    found = stats.read_shares(rounds, reads, "a", 10**8)
    want = [62.5, 50, 90]  # 10 of 20, 5 of 8 and 9 of 10 GB/s
    checks.check(np.allclose([found["percent"][k] for k in ("median", "min", "max")], want) and found["quiet"],
                 f"decode is divided by the read speed of its own round: {found['percent']}")
    checks.check(stats.share_cell(found) == "62 % (50..90; rounds: 3, 2 left out)",
                 f"rounds in which decode or reading was disturbed are left out: {stats.share_cell(found)}")
    found = stats.read_shares(rounds[3:5], reads[3:5], "a", 10**8)
    checks.check(not found["quiet"] and stats.share_cell(found).endswith(" *"),
                 "if none is undisturbed they are marked")
    checks.check(stats.share_cell(None) == "-", "a report without read speeds has no share")
    result = stats.read_result({"gb_s": [3.0, 26.0, 4.0, 5.0]}, 1.0, 0.0, 0.0)
    checks.check(result["gb_s"] == 4.5, "a round's read speed is the median of its passes")
    found = stats.read_summary(reads)
    checks.check(found["gb_s"]["max"] == 20 and found["gb_s"]["min"] == 1 and found["rounds"] == 5,
                 "the spread of the read speeds leaves the disturbed round out")


def check_read_bandwidth(checks, tmp):
    """On one processor the passes cannot take less time than the processor time that its threads used in them."""
    out = subprocess.run([READER, "--threads", "4", "--mib", "64", "--passes", "61"], check=True, stdout=subprocess.PIPE,
                         preexec_fn=lambda: os.sched_setaffinity(0, [min(os.sched_getaffinity(0))])).stdout
    result = json.loads(out)
    printed = result["gb_s"]
    checks.check(len(printed) == 61, "read_bandwidth prints the rate of every pass")
    checks.check(abs(result["median_gb_s"] - statistics.median(printed)) < 0.002, "and their median")
    seconds = sum(result["bytes"] / 1e9 / rate for rate in printed)
    checks.check(seconds > 0.95 * result["cpu_s"] > 0,
                 f"threads that run one after the other do not overstate the rate: the passes took {seconds:.3f} s by "
                 f"their rates, {result['cpu_s']:.3f} s of processor time")
    fake = tmp / "build/bench/read_bandwidth"
    fake.parent.mkdir(parents=True)
    fake.write_text("#!/bin/sh\nfor i in $(seq 200000); do :; done\necho '{\"gb_s\": [9, 1, 2]}'\n")
    fake.chmod(0o755)
    found = peers.read_bandwidth(types.SimpleNamespace(build=tmp / "build", threads=2))
    checks.check(found["gb_s"] == 2 and found["others_cpu_s"] >= 0 and found["wall_s"] > 0 and not found["steal_s"] < 0,
                 "a round's read speed comes with what others took meanwhile")


def report():
    rounds = [{"a": measurement(1000, 100), "b": measurement(500, 50)} for _ in range(3)]
    rounds.append({"a": measurement(1, 1, others=0.5), "b": measurement(500, 50)})
    reads = [read(20), read(20), read(40), read(40)]
    entry = {"label": "Hone int4", "weights": "w", "bytes_per_token": 10**8, "load_s": 1.0, "peak_bytes": 2**30,
             "summary": stats.summarize(rounds, "a"), "read_share": stats.read_shares(rounds, reads, "a", 10**8)}
    missing = {"label": "OpenVINO GenAI int4", "weights": "w", "why_not": "it says no"}
    pair = {"ours": "Hone int4", "theirs": "llama.cpp int4", "our_quant": "int4", "engine": "llamacpp", "quant": "int4",
            **stats.ratios(rounds, "a", "b")}
    return {"model": "smollm2", "depth": 0, "prompt": 256, "decode": 64, "threads": 2, "rounds_done": 4,
            "entries": [entry, missing], "ratios": [pair], "extras": [], "read": stats.read_summary(reads),
            "date": "2026-12-01", "machine": "m", "versions": ["v 1"], "command": "bench/peers.py"}


def check_markdown(checks, tmp):
    text = stats.markdown(report())
    checks.check("| 10.0 | 50 % (25..50; rounds: 3, 1 left out) |" in text,
                 "the table gives decode as bytes per second and share of the read speed, with its rounds")
    checks.check("| Hone int4 | w | 3, 1 left out | 1000 (" in text, "an engine's row says from how many rounds it is")
    checks.check("| 3, 1 left out | 2.0: met |" in text, "a ratio's row says from how many rounds it is")
    checks.check("plain loop 30.0 (20.0..40.0) GB/s (2 threads, 2 MB pages, rounds: 4)" in text and "trial" not in text,
                 "the read speed is below the tables")
    checks.check("not measured: it says no" in text, "an engine that could not run is in the table with its reason")
    checks.check("2.0: met" in text and "2.5: missed" in text, "targets are met or missed")
    noisy = report()
    noisy["ratios"][0]["quiet"] = False
    checks.check("a trial, no result" in stats.markdown(noisy), "a line explains the mark of a disturbed ratio")
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
        check_own_ratios(checks)
        check_verdicts(checks)
        check_read_shares(checks)
        check_read_bandwidth(checks, tmp)
        check_markdown(checks, tmp)
        check_workers(checks, tmp)
        checks.finish()


if __name__ == "__main__":
    main()

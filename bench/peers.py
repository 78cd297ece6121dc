#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Hone authors
# SPDX-License-Identifier: Apache-2.0
"""Hone, LiteRT-LM, llama.cpp and OpenVINO GenAI on the same weights, side by side.

Usage: .venv/bin/python bench/peers.py [--models smollm2,minicpm5-2b] [--engines hone,llamacpp] [--quick]
                                       [--markdown docs/perf/peers.md]

In every round each engine gets the same new prompt (token ids), one engine at a time, in a shuffled order. Ratios are
taken within a round. The engines are in processes of their own and stay loaded. docs/perf/peers.md says more.
"""
import argparse
import dataclasses
import datetime
import importlib.util
import json
import os
import pathlib
import platform
import random
import re
import resource
import shlex
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path.insert(0, str(HERE))

import peers_stats as stats
from peers_process import Neighbour, Worker, reason

ENGINES = ("hone", "llamacpp", "litert", "openvino")
LABELS = {"hone": "Hone", "llamacpp": "llama.cpp", "litert": "LiteRT-LM", "openvino": "OpenVINO GenAI"}
MODULES = {"llamacpp": "llama_cpp", "litert": "litert_lm", "openvino": "openvino_genai"}
MODELS = ("smollm2", "minicpm5-2b", "minicpm5-1b", "tiny")
PRESETS = {"int4": "boctav4", "int8": "int8"}
GGUF_TYPES = {"int4": "q4_0", "int8": "q8_0"}
GATE_TEXT = ("The capital of Italy is Rome. The capital of Spain is Madrid. The capital of Germany is Berlin. "
             "The capital of France is")
GATE_WORD = "Paris"
BUSY = "one busy process beside it"


def fail(text):
    print(f"peers: {text}", file=sys.stderr)
    sys.exit(2)


@dataclasses.dataclass
class Entry:
    """An engine with the weights that it runs."""
    engine: str
    quant: str
    path: pathlib.Path
    bytes_per_token: int = 0
    why_not: str = ""
    facts: dict = dataclasses.field(default_factory=dict)
    worker: object = None

    @property
    def name(self):
        return f"{self.engine}-{self.quant}"

    @property
    def label(self):
        return f"{LABELS[self.engine]} {self.quant}"

    @property
    def weights(self):
        preset = f"{PRESETS[self.quant]} bundle" if self.engine in ("hone", "litert") else \
            f"{GGUF_TYPES[self.quant].upper()} GGUF, pure"
        return f"{preset}, {self.path.stat().st_size / 1e6:.0f} MB" if self.path.exists() else preset


# Files


class Files:
    """Makes and finds the files of one model in the work folder."""

    def __init__(self, args, model):
        self.args, self.model = args, model
        self.folder = args.work / model
        self.cache = self.folder / "litert-cache"  # what LiteRT-LM keeps between loads: packed weights
        self.cache.mkdir(parents=True, exist_ok=True)

    def source(self):
        if self.model == "smollm2":
            path = ROOT / "models/SmolLM2-135M-Instruct.Q4_1.gguf"
            if not path.exists():
                fail(f"{path} is missing; get it with: cd models && ../build/release/hone pull smollm2-135m")
            return path
        folder = self.args.checkpoint or self.folder / "checkpoint"
        if not (folder / "config.json").exists():
            print(f"  making {folder}", flush=True)
            self.run([self.args.build / "bench/make_checkpoint", "--shape", self.model, "-o", folder])
        return folder

    def run(self, argv):
        done = subprocess.run(list(map(str, argv)), capture_output=True, text=True)
        if done.returncode:
            fail(f"{shlex.join(map(str, argv))}: exit {done.returncode}: {done.stderr.strip()[-500:]}")
        return done.stdout

    def bundle(self, quant, context, rung):
        path = self.folder / f"{PRESETS[quant]}-{context}-{rung}.litertlm"
        if not path.exists():
            print(f"  making {path}", flush=True)
            self.run([self.args.build / "hone", "convert", self.source(), "-o", path, "--quant", PRESETS[quant],
                      "--context", context, "--prefill", rung])
        return path

    def gguf(self, quant):
        import peers_files

        path = self.folder / f"{GGUF_TYPES[quant]}-pure.gguf"
        if not path.exists():
            print(f"  making {path}", flush=True)
            write = peers_files.requantize if self.model == "smollm2" else peers_files.convert_checkpoint
            write(self.source(), path, GGUF_TYPES[quant])
        return path

    def entry(self, engine, quant, context, rung):
        import peers_files

        uses_bundle = engine in ("hone", "litert")
        path = self.bundle(quant, context, rung) if uses_bundle else self.gguf(quant)
        if uses_bundle:
            count = peers_files.hone_bytes_per_token(self.sizes(), quant)
        else:
            count = peers_files.bytes_per_token(path)
        return Entry(engine, quant, path, count)

    def sizes(self):
        import peers_files

        if self.model == "smollm2":
            return peers_files.matrix_sizes(self.source())
        return peers_files.checkpoint_sizes(self.source())


class Prompts:
    """Token ids whose text comes back as the same ids, so that engines that take text get the same prompt."""

    def __init__(self, files, bundle):
        import tokenizers

        self.real = files.model == "smollm2"
        self.tokenizer = tokenizers.Tokenizer.from_str(bundle_tokenizer(files, bundle))
        vocab = self.tokenizer.get_vocab()
        pattern = r"\u0120[a-z]{3,}" if self.real else r"[a-z]"
        self.pool = sorted(i for piece, i in vocab.items() if re.fullmatch(pattern, piece) and self._comes_back([i, i]))

    def _comes_back(self, ids):
        return self.tokenizer.encode(self.tokenizer.decode(ids), add_special_tokens=False).ids == ids

    def draw(self, rng, count):
        for _ in range(20):
            ids = [rng.choice(self.pool) for _ in range(count)]
            if not count or self._comes_back(ids):
                return ids
        fail("the tokenizer gives other ids for the text of random ids")

    def gate(self):
        return self.tokenizer.encode(GATE_TEXT, add_special_tokens=False).ids

    def text(self, ids):
        return self.tokenizer.decode(ids)


def bundle_tokenizer(files, path):
    import zlib

    for section in json.loads(files.run([files.args.build / "hone", "peek", path, "--json"]))["sections"]:
        if section["type"] == "HF_Tokenizer_Zlib":
            with open(path, "rb") as file:
                file.seek(section["begin"] + 8)
                return zlib.decompress(file.read(section["bytes"] - 8)).decode()
    fail(f"{path}: no tokenizer section")


# Measuring


class Session:
    """The entries of one model that are loaded together, and their rounds."""

    def __init__(self, args, files, entries, prompts, context):
        self.args, self.model, self.prompts, self.context = args, files.model, prompts, context
        self.entries, self.cache = entries, files.cache
        self.rng = random.Random(args.seed)
        self.rounds, self.extras, self.reads = {}, {}, []  # by depth; by depth, entry and what; by round
        self.where = ""

    def argv(self, entry):
        args = self.args
        if entry.engine == "hone":
            extra = ["--kv", args.kv] if args.kv else []
            return [str(args.build / "bench/peers_hone"), str(entry.path), "--threads", str(args.threads), *extra]
        return [sys.executable, str(HERE / "peers_worker.py"), entry.engine, str(entry.path), "--threads",
                str(args.threads), "--context", str(self.context), "--decode", str(args.decode), "--batch",
                str(max(args.batch, 1)), "--cache", str(self.cache)]

    def start(self, entry):
        entry.worker = Worker(self.argv(entry), self.args.work / f"{self.model}-{entry.name}.log")
        entry.facts = entry.worker.ready

    def guarded(self, entry, work):
        """Runs work(); an engine that fails is left out from here on, with its reason."""
        try:
            return work()
        except (RuntimeError, OSError, ValueError, KeyError) as error:
            entry.why_not = reason(error)
            if entry.worker:
                entry.worker.close()
                entry.worker = None
            print(f"  {entry.label}: NOT MEASURED: {entry.why_not}", flush=True)
            return None

    def open_all(self):
        for entry in self.entries:
            self.guarded(entry, lambda entry=entry: self.start(entry))
            if entry.worker and self.prompts.real:
                self.guarded(entry, lambda entry=entry: self.gate(entry))
            if entry.worker:  # the first prompt of a length may compile code
                self.guarded(entry, lambda entry=entry: entry.worker.ask(self.request(self.args.depth[0])))
            if entry.worker:
                print(f"  {entry.label}: loaded in {entry.facts['load_s']:.1f} s", flush=True)

    def gate(self, entry):
        """A real answer must come out, or there is no number."""
        answer = entry.worker.ask({"prompts": [self.prompts.gate()], "decode": self.args.decode})
        text = answer["text"] if "text" in answer else self.prompts.text(answer["answers"][0])
        if GATE_WORD not in text:
            raise ValueError(f"wrong answer: \"{GATE_TEXT[-24:]}\" goes on with {text[:40]!r}, expected {GATE_WORD}")

    def request(self, depth, count=1):
        return {"depth_ids": self.prompts.draw(self.rng, depth), "decode": self.args.decode,
                "prompts": [self.prompts.draw(self.rng, self.args.prompt) for _ in range(count)]}

    def run(self, depths):
        for depth in depths[1:]:  # the first prompt of a length may compile code
            for entry in self.alive():
                self.guarded(entry, lambda entry=entry: entry.worker.ask(self.request(depth)))
        for number in range(self.args.rounds):
            self.reads.append(read_bandwidth(self.args))
            for depth in depths:
                self.run_round(number, depth)

    def run_round(self, number, depth):
        order, request, done = self.alive(), self.request(depth), {}
        self.rng.shuffle(order)
        self.where = f"round {number + 1}" + (f", depth {depth}" if depth else "")
        for entry in order:
            result = self.guarded(entry, lambda entry=entry: entry.worker.ask(request))
            if result:
                done[entry.name] = result
                self.print_result(entry, result)
        self.rounds.setdefault(depth, []).append(done)
        if self.args.busy:
            self.run_busy(order, depth, request, done)
        if self.args.batch > 1:
            self.run_batch(order, depth, request, done)

    def alive(self):
        return [e for e in self.entries if e.worker]

    def print_result(self, entry, result, what=""):
        speeds = [f"{m} {stats.speed(result, m):.1f}" for m in stats.MEASURES if stats.speed(result, m)]
        mark = f"  [others {result['others_cpu_s'] / result['wall_s']:.2f} of a core]" if stats.is_busy(result) else ""
        print(f"  {self.where}: {entry.label:20s} {what}{', '.join(speeds)} tok/s{mark}", flush=True)

    def ask_extra(self, depth, entry, what, request, neighbour=None):
        """A measurement beside the main ones; its failure is noted and the engine stays."""
        try:
            return entry.worker.ask(request, neighbour)
        except (RuntimeError, OSError) as error:
            self.extra(depth, entry, what)["notes"].append(f"not measured: {reason(error)}")
            print(f"  {entry.label}: {what}: NOT MEASURED: {reason(error)}", flush=True)
            if entry.worker.process.poll() is not None:
                entry.worker = None
            return None

    def extra(self, depth, entry, what):
        return self.extras.setdefault((depth, entry.name, what), {"label": entry.label, "what": what, "pairs": [],
                                                           "notes": []})

    def add_extra(self, depth, entry, what, result, alone, note=""):
        extra = self.extra(depth, entry, what)
        extra["pairs"].append((result, alone))
        extra["notes"].append(note)
        self.print_result(entry, result, f"{what}: ")

    def run_busy(self, order, depth, request, done):
        for entry in order:
            if not entry.worker or entry.name not in done:
                continue
            with Neighbour() as neighbour:
                result = self.ask_extra(depth, entry, BUSY, request, neighbour)
            if result:
                self.add_extra(depth, entry, BUSY, result, done[entry.name])

    def run_batch(self, order, depth, request, done):
        """Several sequences in one step; the first has the round's prompt, so its tokens must be the same again."""
        batch = self.request(depth, self.args.batch)
        batch["prompts"][0], batch["depth_ids"] = request["prompts"][0], request["depth_ids"]
        for entry in order:
            if not entry.worker or entry.name not in done or entry.engine not in ("hone", "llamacpp"):
                continue
            what = f"{self.args.batch} sequences"
            result = self.ask_extra(depth, entry, what, batch)
            if result:
                same = result["answers"][0] == done[entry.name]["answers"][0]
                self.add_extra(depth, entry, what, result, done[entry.name],
                               "same tokens as alone" if same else "OTHER tokens than alone")

    def close(self):
        for entry in self.alive():
            entry.facts["peak_bytes"] = entry.worker.peak_bytes()
            entry.worker.close()
            entry.worker = None


def read_bandwidth(args):
    """The read speed now, with what others took meanwhile, as a measurement has it."""
    argv = [str(args.build / "bench/read_bandwidth"), "--threads", str(args.threads), "--passes", "6"]

    def own():
        return sum(u.ru_utime + u.ru_stime for u in map(resource.getrusage, (resource.RUSAGE_SELF,
                                                                            resource.RUSAGE_CHILDREN)))

    machine, cpu, start = stats.MachineClock(), own(), time.monotonic()
    out = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    wall, after = time.monotonic() - start, stats.MachineClock()
    others = max(0.0, after.busy - machine.busy - (own() - cpu))
    return stats.read_result(json.loads(out), wall, others, after.steal - machine.steal)


# The report


def machine():
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")),
               platform.processor() or platform.machine())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    governor = pathlib.Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    text = f"{cpu}, {len(os.sched_getaffinity(0))} processors, {memory:.0f} GiB, Linux {platform.release()}"
    return text + (f", governor {governor.read_text().strip()}" if governor.exists() else "")


def hone_version(args):
    done = subprocess.run([str(args.build / "hone"), "--version"], capture_output=True, text=True)
    commit = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True)
    return f"Hone {done.stdout.strip().removeprefix('hone ')} ({commit.stdout.strip() or 'no git'})"


def make_extra(extra):
    notes = sorted(set(extra["notes"]))
    return {"label": extra["label"], "what": extra["what"], **stats.own_ratios(extra["pairs"]),
            "pairs": extra["pairs"], "note": ", ".join(n for n in notes if n) or "-"}


def depth_extras(args, session, depth, measured):
    """How much of its decode speed at the first depth an engine keeps at this one, round by round."""
    first = args.depth[0]
    if depth == first:
        return []
    out = []
    for entry in measured:
        pairs = [(there[entry.name], here[entry.name])
                 for there, here in zip(session.rounds[depth], session.rounds[first])
                 if entry.name in there and entry.name in here]
        what = f"decode at {depth + args.prompt} / at {first + args.prompt} positions"
        out.append({"label": entry.label, "what": what, "pairs": pairs, "notes": []})
    return out


def make_report(args, session, depth, command):
    rounds, entries, measured = session.rounds[depth], [], []
    for entry in session.entries:
        out = {"name": entry.name, "label": entry.label, "weights": entry.weights, "engine": entry.engine,
               "quant": entry.quant, "bytes_per_token": entry.bytes_per_token}
        if entry.why_not:
            out["why_not"] = entry.why_not
        else:
            peak = entry.worker.peak_bytes() if entry.worker else entry.facts.get("peak_bytes", 0)
            out |= {"summary": stats.summarize(rounds, entry.name), "load_s": entry.facts["load_s"],
                    "read_share": stats.read_shares(rounds, session.reads, entry.name, entry.bytes_per_token),
                    "peak_bytes": peak, "version": entry.facts.get("version", "")}
            measured.append(entry)
        entries.append(out)
    pairs = []
    for ours in (e for e in measured if e.engine == "hone"):
        for theirs in (e for e in measured if e.engine != "hone"):
            key = (session.model, ours.quant, theirs.engine, theirs.quant)
            wanted = ours.quant == theirs.quant or any(target[:4] == key for target in stats.TARGETS)
            if wanted:
                pairs.append({"ours": ours.label, "theirs": theirs.label, "our_quant": ours.quant,
                              "engine": theirs.engine, "quant": theirs.quant,
                              **stats.ratios(rounds, ours.name, theirs.name)})
    versions = [hone_version(args)] + sorted({e["version"] for e in entries if e.get("version")})
    extras = [e for (where, _, _), e in session.extras.items() if where == depth]
    extras += depth_extras(args, session, depth, measured)
    return {"model": session.model, "depth": depth, "prompt": args.prompt, "decode": args.decode,
            "threads": args.threads, "rounds_done": len(rounds), "seed": args.seed,
            "date": datetime.datetime.now().astimezone().strftime("%Y-%m-%d %H:%M %z"), "machine": machine(),
            "load": os.getloadavg()[0], "versions": versions, "command": command,
            "read": stats.read_summary(session.reads), "reads": session.reads, "entries": entries, "ratios": pairs,
            "extras": [make_extra(e) for e in extras], "rounds": rounds}


def run_model(args, model, command):
    print(f"{model}:", flush=True)
    files, prompts = Files(args, model), None
    need = max(args.depth) + args.prompt + args.decode + 2
    context = max(1024, -(-need // 256) * 256)
    groups = plan_groups(args, model)
    for quants in groups:
        group = [files.entry(engine, quant, context, args.prompt) for quant in quants for engine in args.engines]
        if args.files_only:
            continue
        prompts = prompts or Prompts(files, files.bundle(quants[0], context, args.prompt))
        session = Session(args, files, group, prompts, context)
        session.open_all()
        try:
            session.run(args.depth)
            for depth in args.depth:
                if any(session.rounds[depth]):
                    write_report(args, make_report(args, session, depth, command), len(groups) > 1)
        finally:
            session.close()
            if args.tidy:
                for path in [e.path for e in group] + list(files.cache.iterdir()):
                    path.unlink(missing_ok=True)


def plan_groups(args, model):
    """Kinds of weights that are loaded together: small models all at once, large ones one kind after the other."""
    return [args.quants] if model in ("smollm2", "tiny") else [[quant] for quant in args.quants]


def write_report(args, report, is_part):
    name = report["model"] + (f" at depth {report['depth']}" if report["depth"] else "")
    if is_part:
        name += " " + report["entries"][0]["quant"]
    text = stats.markdown(report)
    print(f"\n{text}\n", flush=True)
    if args.json:
        old = json.loads(args.json.read_text()) if args.json.exists() else []
        args.json.write_text(json.dumps(old + [report], indent=1) + "\n")
    if args.markdown:
        stats.update_markdown(args.markdown, name, text)


def words(allowed):
    def parse(text):
        out = text.split(",")
        for word in out:
            if word not in allowed:
                raise argparse.ArgumentTypeError(f"found {word!r}, expected some of {','.join(allowed)}")
        return out
    return parse


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=words(MODELS), default=["smollm2"])
    parser.add_argument("--engines", type=words(ENGINES), default=list(ENGINES))
    parser.add_argument("--quants", type=words(PRESETS), default=["int4", "int8"])
    parser.add_argument("--prompt", type=int, default=256, help="prompt tokens")
    parser.add_argument("--decode", type=int, help="decode steps (256; 48 for the generated shapes)")
    parser.add_argument("--depth", type=lambda t: [int(v) for v in t.split(",")], default=[0],
                        help="tokens in front of the prompt, such as 0,2048")
    parser.add_argument("--rounds", type=int, help="7")
    parser.add_argument("--quick", action="store_true", help="2 rounds of 32 steps")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--kv", choices=["f32", "f16", "int8"], help="type of Hone's cache")
    parser.add_argument("--busy", action="store_true", help="also with one busy process beside it")
    parser.add_argument("--batch", type=int, default=1, help="also so many sequences at once (Hone, llama.cpp)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--work", type=pathlib.Path, default=pathlib.Path("/tmp/peers"), help="folder for the files")
    parser.add_argument("--checkpoint", type=pathlib.Path, help="a folder that make_checkpoint made already")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release", help="where Hone was built")
    parser.add_argument("--tidy", action="store_true", help="remove bundles and GGUF files after use")
    parser.add_argument("--files-only", action="store_true", help="make the files and stop")
    parser.add_argument("--json", type=pathlib.Path, help="append everything measured to this file")
    parser.add_argument("--markdown", type=pathlib.Path, help="put the tables between the markers of this file")
    return parser.parse_args()


def check_tools(args):
    needed = ["hone", "bench/peers_hone", "bench/read_bandwidth"]
    if any(m != "smollm2" for m in args.models) and not args.checkpoint:
        needed.append("bench/make_checkpoint")
    if args.checkpoint and sum(m != "smollm2" for m in args.models) != 1:
        fail("--checkpoint: give one generated model in --models")
    missing = [n for n in needed if not (args.build / n).exists()]
    if missing:
        fail(f"{args.build}: {', '.join(missing)} missing; build with: cmake --preset release -B {args.build} "
             f"-DHONE_BENCH=ON && cmake --build {args.build} --target hone peers_hone read_bandwidth make_checkpoint")
    absent = [e for e in args.engines if e in MODULES and importlib.util.find_spec(MODULES[e]) is None]
    absent += [m for m in ("gguf", "numpy", "tokenizers") if importlib.util.find_spec(m) is None]
    if absent:
        fail(f"not installed for {sys.executable}: {', '.join(absent)}; install with: tools/setup_venv --bench, then "
             f"run .venv/bin/python bench/peers.py (or leave engines out with --engines)")


def main():
    args = parse_arguments()
    command = shlex.join(["bench/peers.py", *sys.argv[1:]])
    check_tools(args)
    args.work.mkdir(parents=True, exist_ok=True)
    args.rounds = args.rounds or (2 if args.quick else 7)
    steps = args.decode
    for model in args.models:
        args.decode = steps or (32 if args.quick else 256 if model == "smollm2" else 48)
        run_model(args, model, command)


if __name__ == "__main__":
    main()

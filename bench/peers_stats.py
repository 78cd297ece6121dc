# SPDX-FileCopyrightText: The Hone authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers and tables of bench/peers.py: spreads, ratios within a round, what other processes took, markdown."""
import os
import pathlib
import statistics

BUSY_SHARE = 0.10  # of a core: more by others marks a measurement
BUSY_FLOOR = 0.05  # seconds: the kernel's counters have steps of 0.01
MEASURES = ("prefill", "decode")
JUDGED_ROUNDS = 3  # undisturbed ones that a target's verdict needs

# At least so many times the peer's speed: (model, Hone's weights, peer, its weights, measure).
TARGETS = {
    ("smollm2", "int4", "llamacpp", "int4", "decode"): 2.0,
    ("smollm2", "int4", "llamacpp", "int4", "prefill"): 2.5,
    ("smollm2", "int4", "litert", "int8", "decode"): 3.0,
    ("smollm2", "int4", "litert", "int8", "prefill"): 1.5,
    ("smollm2", "int4", "openvino", "int4", "prefill"): 1.2,
    ("smollm2", "int8", "llamacpp", "int8", "decode"): 1.5,
    ("smollm2", "int8", "litert", "int8", "decode"): 1.5,
    ("smollm2", "int8", "openvino", "int8", "decode"): 1.5,
}
for _model in ("minicpm5-2b", "minicpm5-1b"):
    TARGETS[_model, "int4", "llamacpp", "int4", "decode"] = 2.0
    TARGETS[_model, "int4", "llamacpp", "int4", "prefill"] = 3.5
    TARGETS[_model, "int8", "llamacpp", "int8", "decode"] = 1.7
    TARGETS[_model, "int8", "llamacpp", "int8", "prefill"] = 3.5


def spread(values):
    """{median, min, max, n} of a list, or None of an empty one."""
    if not values:
        return None
    return {"median": statistics.median(values), "min": min(values), "max": max(values), "n": len(values)}


def used(chosen, quiet, have):
    """What a summary says about its rounds: how many it comes from, of how many measured ones, whether undisturbed."""
    return {"quiet": quiet, "rounds": len(chosen), "all_rounds": len(have)}


def speed(result, measure):
    """Tokens per second of one measurement, or None."""
    seconds = result.get(f"{measure}_s")
    return result[f"{measure}_tokens"] / seconds if seconds else None


def cpu_ms(result, measure):
    """Milliseconds of processor time per token."""
    tokens = result[f"{measure}_tokens"]
    return result[f"{measure}_cpu_s"] * 1e3 / tokens if tokens and result.get(f"{measure}_s") else None


def is_busy(result):
    wall = result["wall_s"]
    return max(result["others_cpu_s"], result["steal_s"]) > max(BUSY_SHARE * wall, BUSY_FLOOR)


def choose(groups):
    """The groups of measurements with every member undisturbed, and True; all of them and False if there is none."""
    quiet = [group for group in groups if not any(is_busy(result) for result in group)]
    return quiet or groups, bool(quiet)


def summarize(rounds, name):
    """Spread of speed and processor time of one entry: {prefill: {...}, prefill_cpu_ms: {...}, ..., quiet}."""
    have = [(r[name],) for r in rounds if name in r]
    chosen, quiet = choose(have)
    out = used(chosen, quiet, have)
    for measure in MEASURES:
        speeds = [speed(result, measure) for result, in chosen]
        times = [cpu_ms(result, measure) for result, in chosen]
        out[measure] = spread([v for v in speeds if v])
        out[f"{measure}_cpu_ms"] = spread([v for v in times if v is not None])
    return out


def ratios(rounds, ours, theirs):
    """Our speed divided by theirs, round by round: {prefill: spread, decode: spread, quiet}. Never across rounds."""
    have = [(r[ours], r[theirs]) for r in rounds if ours in r and theirs in r]
    chosen, quiet = choose(have)
    out = used(chosen, quiet, have)
    for measure in MEASURES:
        pairs = [(speed(a, measure), speed(b, measure)) for a, b in chosen]
        out[measure] = spread([a / b for a, b in pairs if a and b])
        costs = [(cpu_ms(a, measure), cpu_ms(b, measure)) for a, b in chosen]
        out[f"{measure}_cpu"] = spread([b / a for a, b in costs if a and b])
    return out


def own_ratios(pairs):
    """Of (measurement, the same engine's measurement that it is compared with) of one round each: the decode speeds of
    the first and their ratios to the second: {speed: spread, ratio: spread, quiet}."""
    have = [pair for pair in pairs if all(speed(result, "decode") for result in pair)]
    chosen, quiet = choose(have)
    return {**used(chosen, quiet, have), "speed": spread([speed(a, "decode") for a, _ in chosen]),
            "ratio": spread([speed(a, "decode") / speed(b, "decode") for a, b in chosen])}


def read_shares(rounds, reads, name, bytes_per_token):
    """Decode of one entry in percent of the read speed of the same round: {percent: spread, quiet}."""
    have = [(r[name], read) for r, read in zip(rounds, reads) if name in r and speed(r[name], "decode")]
    chosen, quiet = choose(have)
    return {**used(chosen, quiet, have),
            "percent": spread([speed(result, "decode") * bytes_per_token / 1e7 / read["gb_s"]
                               for result, read in chosen])}


def read_summary(reads):
    """Spread of the rounds' read speeds: {gb_s: spread, quiet}."""
    have = [(read,) for read in reads]
    chosen, quiet = choose(have)
    return {**used(chosen, quiet, have), "gb_s": spread([read["gb_s"] for read, in chosen])}


def read_result(printed, wall, others, steal):
    """The read speed of a round, from what bench/read_bandwidth prints: the median of its passes."""
    return {"gb_s": statistics.median(printed["gb_s"]), "passes_gb_s": printed["gb_s"], "wall_s": wall,
            "others_cpu_s": others, "steal_s": steal}


def verdict(values, quiet, target):
    """Whether a spread of ratios reaches its target."""
    if not quiet:
        return "not judged"
    if values["n"] < JUDGED_ROUNDS:
        return f"not judged, under {JUDGED_ROUNDS} rounds"
    if values["median"] < target:
        return "missed"
    return "met" if values["min"] >= target else "met (minimum below)"


class MachineClock:
    """Processor seconds of the whole machine, from /proc/stat."""

    def __init__(self, stat=None):
        fields = (stat or pathlib.Path("/proc/stat").read_text()).split("\n", 1)[0].split()[1:]
        ticks = [int(f) for f in fields] + [0] * 8
        user, nice, system, _idle, _wait, irq, soft, steal = ticks[:8]
        per_second = os.sysconf("SC_CLK_TCK")
        self.busy = (user + nice + system + irq + soft) / per_second
        self.steal = steal / per_second


def process_cpu(pid):
    """Processor seconds of all threads of a process, dead ones too."""
    text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    fields = text[text.rindex(")") + 2:].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_bytes(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def number(value):
    """Three or four digits."""
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"


def cell(values, mark=""):
    if values is None:
        return "-"
    return f"{number(values['median'])} ({number(values['min'])}..{number(values['max'])}){mark}"


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in rows]


def mark_of(summary):
    return "" if summary["quiet"] else " *"


def rounds_cell(summary):
    """How many rounds the numbers come from, and how many disturbed ones were left out."""
    left = summary["all_rounds"] - summary["rounds"]
    return f"{summary['rounds']}, {left} left out" if left else str(summary["rounds"])


def share_cell(share):
    """The median of the rounds' percentages; it has rounds of its own, as a round's read speed may be disturbed."""
    values = share and share["percent"]
    if not values:
        return "-"
    return (f"{values['median']:.0f} % ({values['min']:.0f}..{values['max']:.0f}; "
            f"rounds: {rounds_cell(share)}){mark_of(share)}")


def speed_table(report):
    rows = []
    for entry in report["entries"]:
        if "why_not" in entry:
            rows.append([entry["label"], entry["weights"], f"not measured: {entry['why_not']}"] + ["-"] * 8)
            continue
        s = entry["summary"]
        mark = mark_of(s)
        gb = s["decode"]["median"] * entry["bytes_per_token"] / 1e9 if s["decode"] else None
        rows.append([entry["label"], entry["weights"], rounds_cell(s), cell(s["prefill"], mark),
                     cell(s["decode"], mark),
                     number(s["prefill_cpu_ms"]["median"]) if s["prefill_cpu_ms"] else "-",
                     number(s["decode_cpu_ms"]["median"]) if s["decode_cpu_ms"] else "-",
                     number(gb) if gb else "-", share_cell(entry.get("read_share")),
                     number(entry["load_s"]), f"{entry['peak_bytes'] / 2**20:.0f}"])
    return table(["engine", "weights", "rounds", "prefill tok/s", "decode tok/s", "CPU ms per token: prefill", "decode",
                  "decode GB/s", "of the read speed", "load s", "peak MiB"], rows)


def ratio_table(report):
    rows = []
    for pair in report["ratios"]:
        for measure in MEASURES:
            values = pair[measure]
            if values is None:
                continue
            target = TARGETS.get((report["model"], pair["our_quant"], pair["engine"], pair["quant"], measure))
            judged = target is not None and not report["depth"]
            rows.append([f"{pair['ours']} / {pair['theirs']}", measure, cell(values, mark_of(pair)),
                         cell(pair[f"{measure}_cpu"]), rounds_cell(pair),
                         f"{target}: {verdict(values, pair['quiet'], target)}" if judged else "-"])
    return table(["pair", "what", "speed ratio", "CPU time ratio", "rounds", "target"], rows)


def extra_table(report):
    """Beside a busy process, several sequences at once, and behind more tokens."""
    rows = []
    for extra in report["extras"]:
        mark = mark_of(extra)
        rows.append([extra["label"], extra["what"], cell(extra["speed"], mark), cell(extra["ratio"], mark),
                     rounds_cell(extra), extra.get("note", "-")])
    return table(["engine", "what", "decode tok/s (total)", "ratio to its own speed", "rounds", "note"], rows)


def disturbed(report):
    """Whether a number of the report comes from disturbed rounds, because there were no others."""
    parts = [e[k] for e in report["entries"] for k in ("summary", "read_share") if e.get(k)]
    parts += report["ratios"] + report["extras"] + ([report["read"]] if report.get("read") else [])
    return any(p["all_rounds"] and not p["quiet"] for p in parts)


def read_text(report):
    """The read speed in the line below the tables."""
    read = report.get("read")
    if not read:
        return "read speed not measured"
    return (f"read speed of a plain loop {cell(read['gb_s'], mark_of(read))} GB/s ({report['threads']} threads, 2 MB "
            f"pages, rounds: {rounds_cell(read)})")


def markdown(report):
    lines = [f"{report['prompt']} prompt tokens and {report['decode']} decode steps behind {report['depth']} tokens, "
             f"{report['threads']} threads, {report['rounds_done']} rounds; median (min..max) of the rounds.", ""]
    lines += speed_table(report) + [""]
    if report["ratios"]:
        lines += ratio_table(report) + [""]
    if report["extras"]:
        lines += extra_table(report) + [""]
    if disturbed(report):
        lines += ["\\* In every round another process took more than 10 % of a core: a trial, no result.", ""]
    lines.append(f"{report['date']}; {report['machine']}; {read_text(report)}; {', '.join(report['versions'])}. "
                 f"`{report['command']}`")
    return "\n".join(lines)


def update_markdown(path, name, text):
    """Replaces what is between the markers of name; adds them at the end of the file if they are not there."""
    path = pathlib.Path(path)
    begin, end = f"<!-- peers:begin {name} -->", f"<!-- peers:end {name} -->"
    old = path.read_text() if path.exists() else "# Hone beside its peers\n"
    block = f"{begin}\n{text}\n{end}"
    if begin in old:
        head, rest = old.split(begin, 1)
        if end not in rest:
            raise SystemExit(f"{path}: found \"{begin}\" without \"{end}\" behind it; add the line")
        new = head + block + rest.split(end, 1)[1]
    else:
        new = old.rstrip("\n") + f"\n\n## {name}\n\n{block}\n"
    part = path.with_name(path.name + ".part")
    part.write_text(new)
    os.replace(part, path)

# SPDX-FileCopyrightText: The Hone authors
# SPDX-License-Identifier: Apache-2.0
"""Numbers and tables of bench/peers.py: spreads, ratios within a round, what other processes took, markdown."""
import os
import pathlib
import statistics

BUSY_SHARE = 0.10  # of a core: more by others marks a measurement
BUSY_FLOOR = 0.05  # seconds: the kernel's counters have steps of 0.01
MEASURES = ("prefill", "decode")

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


def choose_rounds(rounds, names):
    """The rounds in which all the named entries were measured undisturbed; every round if there is none."""
    have = [r for r in rounds if all(name in r for name in names)]
    quiet = [r for r in have if not any(is_busy(r[name]) for name in names)]
    return quiet or have, bool(quiet)


def summarize(rounds, name):
    """Spread of speed and processor time of one entry: {prefill: {...}, prefill_cpu_ms: {...}, ..., quiet}."""
    chosen, quiet = choose_rounds(rounds, [name])
    out = {"quiet": quiet, "rounds": len(chosen), "all_rounds": sum(name in r for r in rounds)}
    for measure in MEASURES:
        speeds = [speed(r[name], measure) for r in chosen]
        times = [cpu_ms(r[name], measure) for r in chosen]
        out[measure] = spread([v for v in speeds if v])
        out[f"{measure}_cpu_ms"] = spread([v for v in times if v is not None])
    return out


def ratios(rounds, ours, theirs):
    """Our speed divided by theirs, round by round: {prefill: spread, decode: spread, quiet}. Never across rounds."""
    chosen, quiet = choose_rounds(rounds, [ours, theirs])
    out = {"quiet": quiet, "rounds": len(chosen)}
    for measure in MEASURES:
        pairs = [(speed(r[ours], measure), speed(r[theirs], measure)) for r in chosen]
        out[measure] = spread([a / b for a, b in pairs if a and b])
        costs = [(cpu_ms(r[ours], measure), cpu_ms(r[theirs], measure)) for r in chosen]
        out[f"{measure}_cpu"] = spread([b / a for a, b in costs if a and b])
    return out


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


def speed_table(report):
    rows = []
    for entry in report["entries"]:
        if "why_not" in entry:
            rows.append([entry["label"], entry["weights"], f"not measured: {entry['why_not']}"] + ["-"] * 7)
            continue
        s = entry["summary"]
        mark = "" if s["quiet"] else " *"
        gb = s["decode"]["median"] * entry["bytes_per_token"] / 1e9 if s["decode"] else None
        rows.append([entry["label"], entry["weights"], cell(s["prefill"], mark), cell(s["decode"], mark),
                     number(s["prefill_cpu_ms"]["median"]) if s["prefill_cpu_ms"] else "-",
                     number(s["decode_cpu_ms"]["median"]) if s["decode_cpu_ms"] else "-",
                     number(gb) if gb else "-", f"{100 * gb / report['read_gb_s']:.0f} %" if gb else "-",
                     number(entry["load_s"]), f"{entry['peak_bytes'] / 2**20:.0f}"])
    return table(["engine", "weights", "prefill tok/s", "decode tok/s", "CPU ms per token: prefill", "decode",
                  "decode GB/s", "of the read speed", "load s", "peak MiB"], rows)


def ratio_table(report):
    rows = []
    for pair in report["ratios"]:
        mark = "" if pair["quiet"] else " *"
        for measure in MEASURES:
            values = pair[measure]
            if values is None:
                continue
            target = TARGETS.get((report["model"], pair["our_quant"], pair["engine"], pair["quant"], measure))
            verdict = "not judged" if not pair["quiet"] else "met" if values["median"] >= (target or 0) else "missed"
            wish = "-" if target is None or report["depth"] else f"{target}: {verdict}"
            rows.append([f"{pair['ours']} / {pair['theirs']}", measure, cell(values, mark),
                         cell(pair[f"{measure}_cpu"]), values["n"], wish])
    return table(["pair", "what", "speed ratio", "CPU time ratio", "rounds", "target"], rows)


def extra_table(report):
    """Beside a busy process, several sequences at once, and behind more tokens."""
    rows = []
    for extra in report["extras"]:
        rows.append([extra["label"], extra["what"], cell(extra["speed"]), cell(extra["ratio"]), extra.get("note", "-")])
    return table(["engine", "what", "decode tok/s (total)", "ratio to its own speed above", "note"], rows)


def markdown(report):
    lines = [f"{report['prompt']} prompt tokens and {report['decode']} decode steps behind {report['depth']} tokens, "
             f"{report['threads']} threads, {report['rounds_done']} rounds; median (min..max) of the rounds.", ""]
    lines += speed_table(report) + [""]
    if report["ratios"]:
        lines += ratio_table(report) + [""]
    if report["extras"]:
        lines += extra_table(report) + [""]
    if any(not e.get("summary", {"quiet": True})["quiet"] for e in report["entries"]) or \
            any(not p["quiet"] for p in report["ratios"]):
        lines += ["\\* In every round another process took more than 10 % of a core: a trial, no result.", ""]
    lines.append(f"{report['date']}; {report['machine']}; read speed of a plain loop {number(report['read_gb_s'])} "
                 f"GB/s ({report['threads']} threads, 2 MB pages); {', '.join(report['versions'])}. "
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

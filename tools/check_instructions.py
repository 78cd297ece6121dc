#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Counts the instructions of the hot kernels and compares them with tools/kernel_instructions.json.

callgrind: the program kernel_instructions runs each hot kernel on a fixed size, once with the AVX2
kernels and once with the portable ones; the count of a case is all that it executes.
loops: Valgrind 3.19 knows neither AVX-512 nor AVX-VNNI and the machine no NEON, so for those the
disassembly counts: in each function of a kernel's object the innermost loops that multiply and
accumulate; the instructions for each product. Loops with as many products of the same kind (dot
products of integers, fused multiply-adds) share a line, which keeps the worst of them.

More than 10 % above the table fails, so does what the table lists and the build lacks, and an object
of the table or of a matrix or attention kernel in which no loop is found (with --update, too). More
than 10 % below, or new: asks for --update, which rewrites the parts that were counted. The numbers
belong to a compiler; with another version nothing is compared, and that is said.

Usage: check_instructions.py [--build BUILD] [--update]   an x86-64 build, build/release if not given
       check_instructions.py --arm64 BUILD [--update]     the loops of a cross build
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = ROOT / "tools/kernel_instructions.json"
LIMIT = 0.10
DOTS = {"vpdpbusd", "vpdpbusds", "vpdpwssd", "vpdpwssds", "sdot", "udot", "usdot", "smmla", "ummla", "usmmla"}
FMAS = re.compile(r"^(vfn?m(add|sub)(132|213|231)[ps]s|fml[as])$")
X86_KERNEL = re.compile(r"^(.+_avx(?:512vnni|vnni))\.cc\.o$")
# Objects that multiply in loops.
MULTIPLIES = re.compile(r"^(gemm|attention)_")
ARM_KERNEL = re.compile(r"^(.+_neon_(?:dot|i8mm))\.cc\.o$")

MEMBER = re.compile(r"^(\S+?):\s+file format (\S+)$")
SYMBOL = re.compile(r"^[0-9a-f]+ <(.+)>:$")
# objdump writes the encoding before an instruction that has two, as "{vex} vpdpbusd".
LINE = re.compile(r"^\s*([0-9a-f]+):\s+(?:\{e?vex\d?\}\s+)?(\S+)\s*(.*)$")
TARGET = re.compile(r"(?:^|,\s*)([0-9a-f]+) <")
# What x86 and arm64 call a jump that may go back. Calls are none.
JUMP = re.compile(r"^(j[a-z]+|b|b\.[a-z]+|cbn?z|tbn?z)$")


def run(*command, **more):
    return subprocess.run(command, check=True, capture_output=True, text=True, **more).stdout


def parse_objdump(text):
    """{(member, function): [(address, mnemonic, operands)]} of 'objdump -d --no-show-raw-insn'."""
    functions, member, current = {}, "", None
    for line in text.splitlines():
        if match := MEMBER.match(line):
            member, current = pathlib.PurePosixPath(match.group(1)).name, None
        elif match := SYMBOL.match(line):
            current = functions.setdefault((member, match.group(1)), [])
        elif current is not None and (match := LINE.match(line)):
            current.append((int(match.group(1), 16), match.group(2), match.group(3)))
    return functions


def innermost_loops(instructions):
    """[(first, last)] indices of the loops that hold no other loop."""
    index = {address: i for i, (address, _, _) in enumerate(instructions)}
    edges = set()
    for i, (address, mnemonic, operands) in enumerate(instructions):
        target = TARGET.search(operands) if JUMP.match(mnemonic) else None
        if target and int(target.group(1), 16) <= address and int(target.group(1), 16) in index:
            edges.add((index[int(target.group(1), 16)], i))
    return sorted(a for a in edges
                  if not any(b != a and a[0] <= b[0] and b[1] <= a[1] for b in edges))


def product_loops(instructions, fmas):
    """{(dot products, fused multiply-adds): instructions} of the innermost loops that have any; of
    several the longest."""
    loops = {}
    for first, last in innermost_loops(instructions):
        names = [m for _, m, _ in instructions[first:last + 1]]
        kind = sum(m in DOTS for m in names), sum(bool(fmas and FMAS.match(m)) for m in names)
        if any(kind):
            loops[kind] = max(loops.get(kind, 0), len(names))
    return loops


def plain_name(symbol):
    """Without parameters, anonymous namespaces and the suffixes of copies that the compiler makes."""
    symbol = re.sub(r" \[clone [^\]]*\]", "", symbol).replace("(anonymous namespace)::", "")
    symbol = symbol.replace("hone::kernels::", "")
    symbol = re.sub(r"^void ", "", symbol)
    depth = 0
    for i, c in enumerate(symbol):
        depth += (c == "<") - (c == ">")
        if c == "(" and depth == 0:
            return symbol[:i]
    return symbol


def count_loops(text, wanted):
    """{"object: function, n dot": [instructions, n]} of the members whose name `wanted` matches."""
    counts = {}
    for (member, symbol), instructions in parse_objdump(text).items():
        match = wanted.match(member)
        if not match:
            continue
        fmas = not match.group(1).startswith(("gemm_int", "quantize"))
        for (dots, adds), length in product_loops(instructions, fmas).items():
            products = " + ".join(f"{n} {what}" for n, what in ((dots, "dot"), (adds, "fma")) if n)
            key = f"{match.group(1)}: {plain_name(symbol)}, {products}"
            # Copies of a function count as the worst of them.
            counts[key] = [max(length, counts.get(key, [0])[0]), dots + adds]
    return counts


def objects_without_loops(text, wanted, counts, table):
    """The objects of the build that the table names, or that multiply, and that have no loop."""
    found = {key.split(":")[0] for key in counts}
    known = {key.split(":")[0] for key in table}
    members = {match.group(1) for member, _ in parse_objdump(text) if (match := wanted.match(member))}
    return sorted({o for o in members if o in known or MULTIPLIES.match(o)} - found)


def parse_callgrind(text):
    """{case: instructions} of 'callgrind_annotate --inclusive=yes'."""
    counts = {}
    for line in text.splitlines():
        if match := re.match(r"^\s*([\d,]+)\s.*\bhone_case_(\w+)", line):
            counts.setdefault(match.group(2), int(match.group(1).replace(",", "")))
    return counts


def count_executed(program, cpu):
    with tempfile.TemporaryDirectory() as folder:
        out = os.path.join(folder, "callgrind.out")
        run("valgrind", "--tool=callgrind", f"--callgrind-out-file={out}", str(program),
            env={**os.environ, "HONE_CPU": cpu})
        text = run("callgrind_annotate", "--inclusive=yes", "--threshold=100", "--auto=no", out)
    return {f"{cpu} {case}": count for case, count in parse_callgrind(text).items()}


def compare(part, counts, table, cost):
    """Prints what differs; returns (failures, hints)."""
    failures = hints = 0
    for key in sorted(counts.keys() | table.keys()):
        if key not in counts:
            failures += 1
            print(f"{part}: {key}: in the table, not in the build")
        elif key not in table:
            hints += 1
            print(f"{part}: {key}: new")
        else:
            ratio = cost(counts[key]) / cost(table[key])
            if ratio > 1 + LIMIT:
                failures += 1
            elif ratio < 1 - LIMIT:
                hints += 1
            else:
                continue
            print(f"{part}: {key}: {counts[key]}, expected {table[key]} ({100 * (ratio - 1):+.1f} %)")
    return failures, hints


def compiler_of(build):
    """The C++ compiler that a build folder was configured with, as CMake identified it."""
    for path in build.glob("CMakeFiles/*/CMakeCXXCompiler.cmake"):
        text = path.read_text()
        found = [re.search(rf'set\({name} "([^"]*)"\)', text)
                 for name in ("CMAKE_CXX_COMPILER_ID", "CMAKE_CXX_COMPILER_VERSION")]
        if all(found):
            return " ".join(match.group(1) for match in found)
    sys.exit(f"{build}: no configured build")


def loops_part(build, objdump, wanted, table):
    archive = build / "src/kernels/libhone_kernels.a"
    if not archive.exists() or not shutil.which(objdump):
        sys.exit(f"there is no {archive} or no {objdump}: build first (cmake --build {build}), install binutils")
    text = run(objdump, "-d", "-C", "--no-show-raw-insn", str(archive))
    counts = count_loops(text, wanted)
    if silent := objects_without_loops(text, wanted, counts, table):
        sys.exit(f"no loop with products in {', '.join(silent)} of {archive}: is an instruction of them unknown here?")
    return counts


def executed_part(build):
    program = build / "src/kernels/kernel_instructions"
    if not program.exists() or not shutil.which("valgrind"):
        sys.exit(f"there is no {program} or no valgrind: build first (cmake --build {build}), install valgrind")
    return {**count_executed(program, "avx2"), **count_executed(program, "portable")}


def main():
    parser = argparse.ArgumentParser(usage=__doc__.replace("%", "%%"))
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/release")
    parser.add_argument("--arm64", type=pathlib.Path)
    parser.add_argument("--update", action="store_true")
    options = parser.parse_args()
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    failures = hints = compared = 0
    build = options.arm64 or options.build
    compiler = compiler_of(build)
    loop_cost = lambda loop: loop[0] / loop[1]
    known_counts = lambda part: table.get(part, {}).get("counts", {})
    if options.arm64:
        loops = loops_part(build, "aarch64-linux-gnu-objdump", ARM_KERNEL, known_counts("loops arm64"))
        parts = {"loops arm64": (loops, loop_cost)}
    else:
        loops = loops_part(build, "objdump", X86_KERNEL, known_counts("loops x86-64"))
        parts = {"loops x86-64": (loops, loop_cost),
                 "callgrind": (executed_part(build), float)}
    for part, (counts, cost) in parts.items():
        if not counts:
            sys.exit(f"{part}: nothing to count in {build}")
        known = table.get(part, {"compiler": compiler, "counts": {}})
        if options.update:
            table[part] = {"compiler": compiler, "counts": dict(sorted(counts.items()))}
        elif known["compiler"] != compiler:
            print(f"{part}: not compared, the table is for {known['compiler']}, this is {compiler}")
        else:
            compared += len(counts)
            found = compare(part, counts, known["counts"], cost)
            failures += found[0]
            hints += found[1]
    if options.update:
        # One line a count.
        text = json.dumps(table, indent=1, sort_keys=True)
        TABLE.write_text(re.sub(r"\[\s+(\d+),\s+(\d+)\s+\]", r"[\1, \2]", text) + "\n")
        return 0
    print(f"{compared} counts, {failures} failed, {hints} to update")
    if hints:
        print("tools/check_instructions.py --update writes the new counts; look at the difference")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

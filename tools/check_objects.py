#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a weak symbol holds instructions above the x86-64 baseline.

The linker keeps one copy of a weak symbol (an inline function, a template instance) and gives it to
everybody. If the copy that it keeps was compiled for AVX, the program dies on a machine without AVX
in code that never asked for it. Kernels are therefore compiled in target regions
(src/kernels/target.h) in which everything has internal linkage or an own name.

Usage: check_objects.py BUILD_DIR_OR_FILE...   (objects and static libraries, folders are searched)
"""
import pathlib
import re
import subprocess
import sys

# First opcode byte of VEX and EVEX instructions in 64-bit code.
VEX_BYTES = {"c4", "c5", "62"}
SYMBOL = re.compile(r"^[0-9a-f]+ <(.+)>:$")
CODE = re.compile(r"^\s*[0-9a-f]+:\t([0-9a-f]{2})\b[0-9a-f ]*\t(\S.*)$")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def weak_symbols(path):
    """{member: set of weak function names} of an object or archive."""
    weak, member = {}, path.name
    for line in run("nm", str(path)).splitlines():
        if line.endswith(".o:"):
            member = line[:-1]
        parts = line.split()
        if len(parts) == 3 and parts[1] in "WVu":
            weak.setdefault(member, set()).add(parts[2])
    return weak


def check(path):
    """Counts weak symbols and returns [(member, symbol, instruction)] for the bad ones."""
    weak = weak_symbols(path)
    bad, member, current = [], path.name, None
    for line in run("objdump", "-d", str(path)).splitlines():
        if "file format" in line:
            member, form = line.split(":")[0], line.split()[-1]
            if form != "elf64-x86-64":
                return None, []
            member = pathlib.Path(member).name
            continue
        if match := SYMBOL.match(line):
            name = match.group(1)
            current = name if name in weak.get(member, ()) else None
        elif current and (match := CODE.match(line)) and match.group(1) in VEX_BYTES:
            bad.append((member, current, match.group(2)))
            current = None  # one line a symbol is enough
    return sum(len(names) for names in weak.values()), bad


def find_files(arguments):
    for argument in map(pathlib.Path, arguments):
        if argument.is_dir():
            yield from sorted(p for p in argument.rglob("*") if p.suffix in {".o", ".a"})
        else:
            yield argument


def main(arguments):
    if not arguments:
        sys.exit(__doc__)
    files = checked = 0
    failures = []
    for path in find_files(arguments):
        count, bad = check(path)
        if count is None:
            print(f"{path}: not x86-64, not checked")
            continue
        files += 1
        checked += count
        failures += [(path, *entry) for entry in bad]
    for path, member, symbol, instruction in failures:
        name = subprocess.run(["c++filt", symbol], capture_output=True, text=True).stdout.strip()
        print(f"{path}({member}): weak symbol {name} holds '{instruction}'")
    if files == 0:
        print("no object files found")
        return 1
    print(f"{files} files, {checked} weak symbols, {len(failures)} above the baseline")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

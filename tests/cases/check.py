#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when README.md names a test that does not exist, or lacks a case."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
COUNTS = {"T": 12, "K": 7, "S": 17, "R": 10}


def has_test(path, text, name):
    if path.suffix == ".cc":
        suite, _, test = name.partition(".")
        return re.search(rf"\bTEST(_F|_P)?\(\s*{re.escape(suite)},\s*{re.escape(test)}\)", text) is not None
    if path.suffix == ".py":
        return re.search(rf"^def {re.escape(name)}\(", text, re.M) is not None
    return f"test('{name}" in text or f'test("{name}' in text


def split_names(path, text):
    """Titles of .mjs tests may have commas: cut only where another title begins."""
    if path.suffix != ".mjs":
        return [name.strip() for name in text.split(",")]
    names = []
    for part in text.split(","):
        joined = f"{names[-1]},{part}" if names else None
        if joined and re.search(rf"test\(.{re.escape(joined.strip())}", path.read_text()):
            names[-1] = joined
        else:
            names.append(part)
    return [name.strip() for name in names]


def check_row(cells):
    """(references, faults) of a row."""
    faults, count = [], 0
    for reference in cells[2].split("; "):
        found = re.fullmatch(r"`([^`]+)`(?:: (.+))?", reference.strip())
        if not found:
            faults.append(f"{cells[0]}: not a reference: {reference}")
            continue
        path = ROOT / found.group(1)
        if not path.is_file():
            faults.append(f"{cells[0]}: no such file: {found.group(1)}")
            continue
        count += 1
        for name in split_names(path, found.group(2)) if found.group(2) else []:
            count += 1
            if not has_test(path, path.read_text(), name):
                faults.append(f"{cells[0]}: {found.group(1)} has no test {name}")
    return count, faults


def main():
    rows = [[cell.strip() for cell in line.strip("|\n").split("|")]
            for line in (ROOT / "tests/cases/README.md").read_text().splitlines() if re.match(r"\| [TKSR]\d+ \|", line)]
    names = [row[0] for row in rows]
    faults = [f"{letter}{i}: no row" for letter, n in COUNTS.items() for i in range(1, n + 1) if f"{letter}{i}" not in names]
    passed = 0
    for row in rows:
        count, wrong = check_row(row)
        passed += count - len(wrong)
        faults += wrong
    for fault in faults:
        print(f"FAILED {fault}")
    print(f"{passed} passed, {len(faults)} failed")
    sys.exit(1 if faults or not passed else 0)


if __name__ == "__main__":
    main()

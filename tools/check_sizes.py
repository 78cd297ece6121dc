#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Names files over 600 lines and functions over 80; fails at 1,000 and 150."""
import csv
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
SUFFIXES = {".h", ".cc", ".c", ".rs", ".py", ".inc", ".cmake"}


RAW_STRING = re.compile(r'R"([^\s()\\"]{0,16})\((.*?)\)\1"', re.DOTALL)


def without_raw_strings(text):
    """The same lines with raw strings emptied: lizard counts the braces in them."""
    return RAW_STRING.sub(lambda m: '""' + "\n" * m.group(2).count("\n"), text)


def count_functions(paths):
    """Rows of lizard, with names relative to the root."""
    lizard = ROOT / ".venv/bin/lizard"
    with tempfile.TemporaryDirectory() as folder:
        copies = []
        for path in paths:
            copy = pathlib.Path(folder) / path.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_text(without_raw_strings(path.read_text(errors="replace")))
            copies.append(str(copy))
        out = subprocess.run([str(lizard), "--csv", *copies], capture_output=True, text=True, check=True).stdout
        for row in csv.reader(out.splitlines()):
            yield int(row[4]), pathlib.Path(row[6]).relative_to(folder), row[7]


def main():
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = [ROOT / n for n in names.stdout.splitlines() if pathlib.Path(n).suffix in SUFFIXES]
    bad = 0
    for path in files:
        lines = path.read_text(errors="replace").count("\n")
        if lines > 600:
            print(f"{path.relative_to(ROOT)}: {lines} lines" + (" (over the limit of 1000)" if lines > 1000 else ""))
        bad += lines > 1000
    # lizard misreads Rust's character literals, so its functions are not counted.
    for length, where, name in count_functions([p for p in files if p.suffix in {".h", ".cc", ".c"}]):
        if length > 80:
            print(f"{where}: {name}: {length} lines" + (" (over the limit of 150)" if length > 150 else ""))
        bad += length > 150
    print(f"{len(files)} files checked, {bad} over the limit")
    return bad != 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Hone authors
# SPDX-License-Identifier: Apache-2.0
"""Compares the ids of "hone tokenize" with Python's tokenizers on random Unicode texts.

  tests/peers/tokenizer_parity.py --hone build/release/hone --model DIR [--count 300] [--seed 1]

DIR holds tokenizer.json, or is a model that "hone tokenize" opens with --tokenizer naming the
tokenizer.json of the reference. Exits with 1 at any difference.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys

import tokenizers

# Scripts, marks, spaces, digits and symbols where pre-tokenizers differ.
RANGES = [
    (0x20, 0x7E), (0x20, 0x7E), (0x20, 0x7E), (0xA0, 0xFF), (0x100, 0x17F), (0x300, 0x36F),
    (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x600, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F),
    (0x1100, 0x11FF), (0x2000, 0x206F), (0x2070, 0x209F), (0x2150, 0x218F), (0x3000, 0x30FF),
    (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xFE00, 0xFE0F), (0xFF00, 0xFFEF), (0x1F300, 0x1F64F),
]
SNIPPETS = ["'s", "'LL", " 's", "\n", "\r\n", "\n\n", "  ", "\t", "123", "4567890", "don't", "e\u0301",
            "\U0001F44D\U0001F3FD", "\u200d", "<s>", "</s>", "<|im_start|>", "<|im_end|>", " x\u3000y"]


def random_text(rng):
    parts = []
    for _ in range(rng.randint(0, 24)):
        if rng.random() < 0.3:
            parts.append(rng.choice(SNIPPETS))
        else:
            low, high = rng.choice(RANGES)
            parts.append("".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 6))))
    # A program argument cannot hold NUL, and must not look like an option.
    return "".join(parts).lstrip("-")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hone", required=True, help="the hone program")
    parser.add_argument("--model", required=True, help="what hone tokenize opens")
    parser.add_argument("--tokenizer", help="tokenizer.json (default: MODEL/tokenizer.json)")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    path = args.tokenizer or str(pathlib.Path(args.model, "tokenizer.json"))
    reference = tokenizers.Tokenizer.from_file(path)
    reference.no_padding()
    reference.no_truncation()
    rng = random.Random(args.seed)
    wrong = 0
    for number in range(args.count):
        text = random_text(rng)
        expected = reference.encode(text, add_special_tokens=False).ids
        run = subprocess.run(
            [args.hone, "tokenize", args.model, text, "--json"], capture_output=True, check=False
        )
        found = json.loads(run.stdout)["ids"] if run.returncode == 0 else run.stderr.decode()
        if found != expected:
            wrong += 1
            print(f"text {number} {text!r}:\n  hone       {found}\n  tokenizers {expected}")
    print(f"{args.count} texts, {wrong} differences")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()

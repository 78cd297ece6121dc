#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fails when a file under src/ includes a module that its own module may not use.

The rule is the table below and nothing else: module -> modules it may include.
The table is checked for cycles first, so an edit cannot make one by accident.
"""
import pathlib, re, sys

MAY_USE = {
    "base": [],
    "codec": ["base"],
    "formats": ["base", "codec"],
    "bridge": ["base"],
    "kernels": ["base", "codec"],
    "gpu": ["base", "codec"],
    "hub": ["base", "bridge"],
    "executor": ["base", "codec", "formats"],
    "model": ["base", "codec", "formats"],
    "quant": ["base", "codec", "bridge", "model", "kernels"],
    "graph": ["base", "codec", "model", "quant"],
    "exporter": ["base", "codec", "formats", "bridge", "model", "quant", "graph"],
    "runtime": ["base", "codec", "formats", "bridge", "model", "kernels", "gpu", "executor"],
    "calib": ["base", "codec", "model", "quant", "runtime"],
    "bundle": ["base", "codec", "formats", "bridge", "model", "quant", "graph", "exporter", "executor"],
    "eval": ["base", "codec", "formats", "bridge", "model", "runtime"],
    "chat": ["base", "bridge", "runtime"],
    "web": ["base", "bridge"],
    "serve": ["base", "formats", "bridge", "runtime", "chat", "web"],
    "cli": ["*"],
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([a-z0-9_]+)/', re.M)

def assert_acyclic(graph):
    done, path = set(), []
    def visit(node):
        if node in path:
            sys.exit("cycle in MAY_USE: " + " -> ".join(path[path.index(node):] + [node]))
        if node in done:
            return
        path.append(node)
        for child in graph.get(node, []):
            visit(child)
        path.pop()
        done.add(node)
    for node in graph:
        visit(node)

def main(root):
    assert_acyclic({m: d for m, d in MAY_USE.items() if d != ["*"]})
    bad = checked = 0
    for path in sorted(pathlib.Path(root).rglob("*")):
        if path.suffix not in {".h", ".cc", ".inc"}:
            continue
        module = path.relative_to(root).parts[0]
        allowed = set(MAY_USE[module]) | {module}
        for target in INCLUDE.findall(path.read_text()):
            checked += 1
            if target in MAY_USE and "*" not in allowed and target not in allowed:
                print(f"{path}: {module} may not include {target}")
                bad += 1
    print(f"{checked - bad} passed, {bad} failed")
    return bad != 0

if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if len(sys.argv) > 1 else "src"))

#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Hone authors
# SPDX-License-Identifier: Apache-2.0
"""Checks the golden renders of chat templates against jinja2, set up as Transformers sets it up.

  tools/check_templates.py            renders every golden case again and compares
  tools/check_templates.py --update   writes what jinja2 renders into the golden files
  tools/check_templates.py --program build/dev/hone
                                      also renders the cases with "hone render" and compares

The golden files are tests/testdata/templates/*.json. The C++ tests read them, so those need no
Python. Needs jinja2 (tools/requirements-dev.txt).
"""
import argparse
import datetime
import json
import pathlib
import subprocess
import sys
import tempfile

import jinja2
import jinja2.ext
import jinja2.sandbox

ROOT = pathlib.Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "testdata" / "templates"
SHARED = ROOT.parent / "shared"
NOW = datetime.datetime(2026, 11, 30, 9, 5)


class Generation(jinja2.ext.Extension):
    """{% generation %}: marks what an assistant wrote; the text itself stays."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        call = self.call_method("_body")
        return jinja2.nodes.CallBlock(call, [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(
        x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True,
        lstrip_blocks=True,
        extensions=[Generation, jinja2.ext.loopcontrols],
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda form: NOW.strftime(form)
    return env


def render(template, context):
    """("expect", text); ("error", words) from raise_exception; ("error", "*") for the rest."""
    try:
        return "expect", environment().from_string(template).render(**context)
    except Exception as e:  # also what a filter or a method of Python raises
        own = type(e) is jinja2.exceptions.TemplateError  # pylint: disable=unidiomatic-typecheck
        return "error", str(e) if own else "*"


def template_of(golden, case):
    if "template" in case:
        return case["template"]
    return (SHARED / golden["template_file"]).read_text(encoding="utf-8")


def context_of(golden, case):
    context = dict(golden.get("contexts", {}).get(case.get("uses"), {}))
    context.update(case.get("context", {}))
    return context


def render_with(program, template, context):
    with tempfile.TemporaryDirectory() as folder:
        template_path = pathlib.Path(folder, "template.jinja")
        context_path = pathlib.Path(folder, "context.json")
        template_path.write_bytes(template.encode())
        context_path.write_bytes(json.dumps(context, ensure_ascii=False).encode())
        run = subprocess.run(
            [program, "render", "--template", template_path, "--context", context_path],
            capture_output=True,
        )
    return ("expect", run.stdout.decode()) if run.returncode == 0 else ("error", run.stderr)


def dump(golden):
    """JSON with one case a line, so that a change shows as a change of that line."""
    line = lambda value: json.dumps(value, ensure_ascii=False)
    parts = []
    for key, value in golden.items():
        if isinstance(value, list):
            rows = ",\n".join("  " + line(v) for v in value)
            parts.append(f' "{key}": [\n{rows}\n ]')
        elif isinstance(value, dict):
            rows = ",\n".join(f"  {line(k)}: {line(v)}" for k, v in value.items())
            parts.append(f' "{key}": {{\n{rows}\n }}')
        else:
            parts.append(f' "{key}": {line(value)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


def check(path, args):
    golden = json.loads(path.read_text(encoding="utf-8"))
    wrong = 0
    for number, case in enumerate(golden["cases"]):
        template, context = template_of(golden, case), context_of(golden, case)
        kind, text = render(template, context)
        label = f"{path.name} case {number} ({case.get('name', template[:60])!r})"
        if args.update:
            case.pop("expect", None)
            case.pop("error", None)
            case[kind] = text
        elif case.get(kind) != text:
            wrong += 1
            print(f"{label}:\n  golden {case.get('expect', case.get('error'))!r}\n  jinja2 {text!r}")
        if args.program and "strftime_now" not in template:
            ours = render_with(args.program, template, context)
            if ours[0] != kind or (kind == "expect" and ours[1] != text):
                wrong += 1
                print(f"{label}:\n  hone   {ours!r}\n  jinja2 {kind, text!r}")
    if args.update:
        path.write_text(dump(golden), encoding="utf-8")
    print(f"{path.name}: {len(golden['cases'])} cases, {wrong} differences")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--update", action="store_true", help="write the golden files")
    parser.add_argument("--program", help="a hone program to compare with as well")
    args = parser.parse_args()
    paths = sorted(GOLDEN.glob("*.json"))
    if not paths:
        sys.exit(f"no golden files in {GOLDEN}")
    sys.exit(1 if sum([check(path, args) for path in paths]) else 0)


if __name__ == "__main__":
    main()

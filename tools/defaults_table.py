#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/defaults.md: the defaults of C++, C, Python and the tool if a caller gives only sizes.

    tools/defaults_table.py --printer build/ci/tests/sluice_defaults --library build/ci/libsluice_c.so
    tools/defaults_table.py --check ...     compares instead; exits with 1 if the page is another, or a row differs

Values of C++, C and the tool come from tests/defaults/defaults.cc, which asks their own code. Those of Python
come from the package's structs, and from the signatures of its functions. An interface that lacks a field, or
has no default for it, has no value and is not compared. Called by ctest.
"""
import argparse
import ast
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "defaults.md"
INTERFACES = {"cpp": "C++", "c": "C", "python": "Python", "tool": "tool"}
TITLES = {"product": "Products: `Problem`, `sluice_problem`, `sluice.Problem`, the tool's flags",
          "packed": "Packed weights: `Problem`, `WeightFormat`", "convolution": "Convolutions: `Conv`",
          "scalars": "Factors, where C takes part", "chain": "Chains: `ChainOptions`, `sluice chain`",
          "options": "Options of a process: `Options`, `sluice_options` (-1), the environment; `race()`",
          "calls": "Calls: functions of `sluice` and `sluice.torch`, as all of them have it"}
HEAD = """# Defaults

What an interface takes where a caller says nothing but sizes: one value everywhere. A script,
`tools/defaults_table.py`, makes this page from the interfaces themselves, and CI compares. A dash: the
interface has no such field. *said*: it has no default, and 0 is a value of its own. The last axis is w.

Where something is said, the rest follows: D has the type of A (bf16 for fp8 inputs, fp32 where it is added
to), bias and C have the type of D. In C++ each `Matrix` says its own type, and `Conv::padding_after` does
not follow `padding`. Folders are not in the table: in C++ an empty `Options::cache_dir` keeps nothing, and
elsewhere the environment names them (`options_from_environment()`).
"""
# Parameters of Python functions whose default is that of a field in the table.
CALLS = {"use_fast_accum": ("product", "accumulate", {"False": "promoted", "True": "fast"}),
         "activation": ("product", "epilogue.activation", {"None": "none", "'none'": "none"}),
         "gated": ("product", "epilogue.gated", {"False": "no"}),
         "update": ("product", "epilogue.update", {"'set'": "set"}),
         "deterministic": ("product", "deterministic", {"True": "yes"}),
         "candidates": ("options", "candidates of a race", {"3": "3"}),
         "alpha": ("scalars", "alpha", {"1.0": "1"}),
         "beta": ("scalars", "beta", {"None": "1"}),  # _follows() tests what None stands for
         "epsilon": ("scalars", "norm epsilon", {"1e-05": "1e-05"}),
         "stride": ("convolution", "stride.w", {"1": "1"}), "padding": ("convolution", "padding.w", {"0": "0"}),
         "dilation": ("convolution", "dilation.w", {"1": "1"})}


# Functions that are more than a product: the gate of a layer of experts is SwiGLU unless the caller says so.
OTHERS = {("torch/moe.py", "experts")}


def structs() -> dict:
    """Returns Python's values, by topic and field, with the printer's names."""
    import sluice
    from sluice import convolutions, formats, problems

    def no(value: object) -> str:
        return "yes" if value else "no"

    def fields_of(problem: sluice.Problem) -> dict:
        s = problem.struct()
        fields = {"batch": str(s.batch), "accumulate": problems.SUMS[s.accumulate], "deterministic": no(not s.any_order),
                  "scale_a_ld": str(s.scale_a_ld)}
        for name in "abd":
            fields[f"{name}.type"] = problems.DTYPES[getattr(s, name).type]
            fields[f"{name}.unaligned"] = no(getattr(s, name).unaligned)
        for name in "abcd":
            fields[f"{name}.ld"] = str(getattr(s, name).ld)
            fields[f"{name}.batch_stride"] = str(getattr(s, name).batch_stride)
        fields.update({"a.major": problems.MAJORS[s.a.major], "b.major": problems.MAJORS[s.b.major]})
        e = {"scale_a": problems.SCALES[s.scale_a], "scale_b": problems.SCALES[s.scale_b], "scale_d": problems.SCALES[s.scale_d],
             "bias": "column" if s.bias else "none", "activation": problems.ACTIVATIONS[s.activation],
             "residual": no(s.residual), "update": problems.UPDATES[s.update], "gated": no(s.gated)}
        return fields | {f"epilogue.{name}": value for name, value in e.items()}
    product = fields_of(sluice.Problem(1, 1, 1))
    with_packed = sluice.Problem(1, 1, 1, packed=sluice.WeightFormat())
    packed = {name: value for name, value in fields_of(with_packed).items()
              if name in ("a.type", "d.type") or name.endswith(".ld") and name != "b.ld"
              or name.startswith("epilogue.") and name not in ("epilogue.scale_b", "epilogue.update")}
    w = with_packed.struct().packed
    packed.update({"norm_a": no(with_packed.norm_a), "b.packed.type": formats.WEIGHT_TYPES[w.type - 1],
                   "b.packed.group": str(w.group), "b.packed.scale": problems.DTYPES[w.scale],
                   "b.packed.zero": "per_group" if w.zeros else "none", "b.packed.order": formats.ORDERS[w.order]})
    v = convolutions.Convolution("fprop", (1, 64, 8, 8), (64, 3, 3)).struct().conv
    convolution = {f"{name}.{axis}": str(getattr(v, name)[1 - i]) for name in ("stride", "padding", "padding_after", "dilation")
                   for i, axis in enumerate("wh")}
    convolution.update(x_pitch=str(v.x_pitch), y_pitch=str(v.y_pitch))
    return {"product": product, "packed": packed, "convolution": convolution}


def signatures(sources: dict) -> dict:
    """Returns the defaults of the parameters in CALLS: {parameter: {"file.function": default}}."""
    found: dict = {name: {} for name in CALLS}
    for file, source in sources.items():
        if pathlib.PurePosixPath(file).name.startswith("_"):
            continue
        for function in ast.walk(ast.parse(source)):
            if not isinstance(function, ast.FunctionDef) or function.name.startswith("_") and function.name != "__init__":
                continue
            a = function.args
            given = [*zip((a.posonlyargs + a.args)[-len(a.defaults):] if a.defaults else [], a.defaults),
                     *((arg, value) for arg, value in zip(a.kwonlyargs, a.kw_defaults) if value is not None)]
            for argument, value in given:
                if argument.arg in found and (file, function.name) not in OTHERS:
                    found[argument.arg][f"{file}:{function.name}"] = repr(ast.literal_eval(value))
    return found


def with_calls(table: dict, found: dict) -> list[str]:
    """Adds Python's functions to the table. Returns a line for each function whose default differs."""
    faults = []
    for parameter, (topic, field, meaning) in CALLS.items():
        values = {where: meaning.get(value, value) for where, value in found[parameter].items()}
        if not values:
            faults.append(f"{parameter}: no function of the package has it; take it out of CALLS")
            continue
        table.setdefault("calls", {})[parameter] = {"python": sorted(set(values.values()))[0],
                                                    "cpp": table[topic][field].get("cpp", "")}
        faults += [f"{where}({parameter}): {value}, and {field} is {table[topic][field]['cpp']}"
                   for where, value in values.items() if value != table[topic][field]["cpp"]]
    return faults


def faults_of(table: dict) -> list[str]:
    """Returns a line for each row whose values differ."""
    return [f"{topic}, {field}: " + ", ".join(f"{INTERFACES[name]} {value}" for name, value in row.items() if value)
            for topic, rows in table.items() for field, row in rows.items() if len({v for v in row.values() if v}) > 1]


def page_of(table: dict) -> str:
    text = HEAD
    for topic, rows in table.items():
        names = [name for name in INTERFACES if any(name in row for row in rows.values())]
        text += f"\n## {TITLES[topic]}\n| | " + " | ".join(INTERFACES[name] for name in names) + " |\n" + "|---" * (len(names) + 1) + "|\n"
        for field, row in rows.items():
            name, _, axis = field.rpartition(".")
            shown = f"`{name}` of {axis}" if axis in ("w", "h", "d") and name else f"`{field}`"
            text += f"| {shown} | " + " | ".join(row.get(name) or ("*said*" if name in row else "-") for name in names) + " |\n"
    return text


def sources() -> dict:
    folder = ROOT / "python" / "sluice"
    return {str(path.relative_to(folder)): path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.py"))}


def _follows() -> None:
    """Checks that Python's beta=None stands for 1 if there is a C."""
    assert "beta = 0.0 if c is None else 1.0" in sources()["torch/functional.py"], "mm() gives beta another meaning"


def run(arguments: argparse.Namespace) -> int:
    os.environ["SLUICE_LIBRARY"] = str(arguments.library)
    sys.path.insert(0, str(ROOT / "python"))
    table = json.loads(subprocess.run([str(arguments.printer)], check=True, capture_output=True, text=True).stdout)
    for topic, fields in structs().items():
        for field, value in fields.items():
            table[topic].setdefault(field, {})["python"] = value
    _follows()
    faults = with_calls(table, signatures(sources())) + faults_of(table)
    page = page_of(table)
    if not arguments.check:
        PAGE.write_text(page, encoding="utf-8")
    elif not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page:
        faults.append(f"{PAGE.relative_to(ROOT)} is another: run tools/defaults_table.py without --check")
    print("\n".join(faults), end="\n" if faults else "")
    return 1 if faults else 0


def self_test() -> int:
    """Plants a row that differs, one in which an interface has no value, and a function with another default.
    """
    table = {"product": {"accumulate": {"cpp": "fast", "c": "promoted"}, "batch": {"cpp": "1", "c": "", "tool": "1"}}}
    assert faults_of(table) == ["product, accumulate: C++ fast, C promoted"]
    assert "| `batch` | 1 | *said* | 1 |" in page_of(table)
    found = signatures({"a.py": "def mm(a, use_fast_accum=True, *, b=1): pass\ndef _own(use_fast_accum=False): pass\n"})
    assert found["use_fast_accum"] == {"a.py:mm": "True"}
    table = {topic: {field: {"cpp": next(iter(meaning.values()))}} for topic, field, meaning in CALLS.values()}
    for topic, field, meaning in CALLS.values():
        table[topic][field] = {"cpp": next(iter(meaning.values()))}
    assert "a.py:mm(use_fast_accum): fast, and accumulate is promoted" in with_calls(table, found)
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--printer", type=pathlib.Path, help="the program sluice_defaults of a build")
    parser.add_argument("--library", type=pathlib.Path, help="libsluice_c.so of that build")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--self-test", action="store_true")
    given = parser.parse_args()
    if not given.self_test and not (given.printer and given.library):
        parser.error("give --printer and --library")
    sys.exit(self_test() if given.self_test else run(given))

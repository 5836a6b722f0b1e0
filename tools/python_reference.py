#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes docs/python-reference.md from the docstrings of python/sluice; `--check` compares instead.

Reads the sources, imports nothing. Run it after a docstring changed; tests/python/test_reference.py checks
it.
"""
import ast
import pathlib
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/python-reference.md"
# Module as imported, the file whose ``__all__`` lists its names, and the files that define them.
MODULES = [
    ("sluice", "__init__.py", ["problems.py", "formats.py", "convolutions.py", "plans.py", "workspaces.py", "packed.py",
                             "packed_experts.py", "errors.py"]),
    ("sluice.weights", "weights/__init__.py", ["weights/canonical.py", "weights/checkpoints.py", "weights/mxfp4.py", "weights/quantizer.py"]),
    ("sluice.torch", "torch/__init__.py", ["torch/functional.py", "torch/grouped.py", "torch/norm.py", "torch/conv.py", "torch/conv_transpose.py",
                                           "torch/packed.py", "torch/quantize.py", "torch/chain.py", "torch/override.py"]),
    ("sluice.torch.decode", "torch/decode/__init__.py", ["torch/decode/engine.py", "torch/decode/random_source.py",
                                                         "torch/decode/__init__.py", "torch/decode/architecture.py", "torch/decode/reader.py"]),
    ("sluice.torch.attention", "torch/attention.py", ["torch/attention.py"]),
    ("sluice.transformers", "transformers.py", ["transformers.py"]),
    ("sluice.torch.moe", "torch/moe.py", ["torch/moe.py"]),
    ("sluice.torch.grad", "torch/grad.py", ["torch/grad.py"]),
    ("sluice.torch.nn", "torch/nn.py", ["torch/linear_layer.py", "torch/feed_forward.py", "torch/nn.py", "torch/_fp8_recipes.py", "torch/_conversion.py",
                                           "torch/nn_conv.py", "torch/_conv_layout.py", "torch/packed_linear.py"]),
    ("sluice.torch.deep_gemm", "torch/deep_gemm.py", ["torch/deep_gemm.py"]),
]


def public_names(path: pathlib.Path) -> set[str]:
    """Returns the names in a module's ``__all__``; without one, those of its public functions."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for node in body:
        if isinstance(node, ast.Assign) and any(getattr(target, "id", "") == "__all__" for target in node.targets):
            return set(ast.literal_eval(node.value))
    return {node.name for node in body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")}


def signature(node: ast.FunctionDef, prefix: str, is_method: bool) -> str:
    arguments = ast.unparse(node.args)
    if is_method:
        arguments = arguments.partition(",")[2].strip()  # without self or cls
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{prefix}{node.name}({arguments}){result}"


def text_of(node) -> str:
    doc = ast.get_docstring(node)
    return doc.replace("``", "`") if doc else ""


def section(code: str, text: str) -> list[str]:
    wrapped = textwrap.wrap(code, 100, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
    return ["```python", *wrapped, "```", text, ""]


def entries(module: str, public: set[str], path: pathlib.Path) -> list[str]:
    lines = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        name = getattr(node, "name", "_")
        if name not in public or not ast.get_docstring(node):
            continue
        if isinstance(node, ast.FunctionDef):
            lines += section(signature(node, f"{module}.", False), text_of(node))
        elif isinstance(node, ast.ClassDef):
            bases = ", ".join(ast.unparse(base) for base in node.bases)
            lines += section(f"class {module}.{name}({bases})" if bases else f"class {module}.{name}", text_of(node))
            for member in node.body:
                if isinstance(member, ast.FunctionDef) and not member.name.startswith("_") and ast.get_docstring(member):
                    lines += section(signature(member, f"{name}.", True), text_of(member))
    return lines


def page() -> str:
    lines = ["# Python reference", "",
             "Made from the docstrings by tools/python_reference.py; [python.md](python.md) is the place to start.", ""]
    for module, names, files in MODULES:
        lines += [f"## {module}", ""]
        public = public_names(ROOT / "python/sluice" / names)
        for file in files:
            lines += entries(module, public, ROOT / "python/sluice" / file)
    return "\n".join(lines).rstrip() + "\n"


def main() -> int:
    if "--check" in sys.argv[1:]:
        if PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page():
            print("python reference: ok")
            return 0
        print(f"{PAGE.relative_to(ROOT)} is not what the docstrings say: run tools/python_reference.py", file=sys.stderr)
        return 1
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

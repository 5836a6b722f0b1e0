#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks whether a version of vLLM is as sluice's plugin expects (docs/vllm.md), by reading source. Imports neither vLLM nor sluice.

    pip download --no-deps vllm==0.20.2 -d DIR
    tools/vllm_contract.py DIR/vllm-0.20.2-*.whl     or a folder that holds the package vllm
    tools/vllm_contract.py --self-test

The names are those of ``CONTRACT`` in python/sluice/vllm.py. Each is followed through the imports of vLLM's files to its definition.
Prints a line for each difference, and the selection order of kernels for CUDA. Exit: 0 nothing differs, 1 something does, 2 no vLLM.
"""
import ast
import pathlib
import sys
import zipfile
from typing import Optional

PLUGIN = pathlib.Path(__file__).resolve().parent.parent / "python/sluice/vllm.py"
LISTS = ("_POSSIBLE_FP8_KERNELS", "_POSSIBLE_KERNELS")


def contract_of(text: str) -> dict:
    """Returns the literal that a file assigns to ``CONTRACT``."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id == "CONTRACT":
            return ast.literal_eval(node.value)
    raise ValueError("the file assigns no CONTRACT")


class Source:
    """The Python files of vLLM, by path: of a wheel, a folder, or a dictionary."""

    def __init__(self, texts: dict):
        self.texts, self.trees = texts, {}

    @classmethod
    def of(cls, path: pathlib.Path) -> "Source":
        if path.is_dir():
            return cls({str(file.relative_to(path)): file.read_text(encoding="utf-8") for file in path.glob("vllm/**/*.py")})
        with zipfile.ZipFile(path) as wheel:
            return cls({name: wheel.read(name).decode("utf-8") for name in wheel.namelist() if name.endswith(".py")})

    def module(self, name: str) -> Optional[ast.Module]:
        for path in (name.replace(".", "/") + ".py", name.replace(".", "/") + "/__init__.py"):
            if path in self.texts:
                if name not in self.trees:
                    self.trees[name] = ast.parse(self.texts[path])
                return self.trees[name]
        return None

    def is_package(self, name: str) -> bool:
        return name.replace(".", "/") + "/__init__.py" in self.texts

    def find(self, module: str, name: str, depth: int = 0):
        """Returns (module, node) of a definition, through imports; None if there is none."""
        tree = self.module(module)
        if tree is None or depth > 12:
            return None
        for node in walk_top(tree.body):
            if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and node.name == name:
                return module, node
            targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                return module, node
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    if (alias.asname or alias.name) == name:
                        return self.find(self.absolute(module, node), alias.name, depth + 1)
        return None

    def absolute(self, module: str, node: ast.ImportFrom) -> str:
        if node.level == 0:
            return node.module or ""
        parts = module.split(".")
        parts = parts[:len(parts) - node.level + (1 if self.is_package(module) else 0)]
        return ".".join([*parts, *([node.module] if node.module else [])])

    def chain(self, module: str, node: ast.ClassDef) -> list:
        """Returns (module, class) of a class and of its bases, nearest first; bases outside of vLLM are left out."""
        found = [(module, node)]
        for base in node.bases:
            base = base.value if isinstance(base, ast.Subscript) else base
            if isinstance(base, ast.Name):
                parent = self.find(module, base.id)
                if parent is not None and isinstance(parent[1], ast.ClassDef):
                    found += self.chain(*parent)
        return found


def walk_top(body: list):
    """Yields the statements of a module, and those inside of if and try there."""
    for node in body:
        yield node
        if isinstance(node, ast.If):
            yield from walk_top(node.body + node.orelse)
        elif isinstance(node, ast.Try):
            yield from walk_top(node.body + [one for handler in node.handlers for one in handler.body] + node.orelse)


def parameters_of(function: ast.FunctionDef) -> list:
    a = function.args
    every = [*a.posonlyargs, *a.args, *([a.vararg] if a.vararg else []), *a.kwonlyargs, *([a.kwarg] if a.kwarg else [])]
    return [argument.arg for argument in every if argument.arg not in ("self", "cls")]


def members_of(classes: list) -> dict:
    """Returns name -> node of what a class and its bases define; the nearest definition counts."""
    found: dict = {}
    for _, node in classes:
        for item in node.body:
            if isinstance(item, (ast.FunctionDef, ast.ClassDef)):
                found.setdefault(item.name, item)
            elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                found.setdefault(item.target.id, item)
            elif isinstance(item, ast.Assign):
                for target in item.targets:
                    if isinstance(target, ast.Name):
                        found.setdefault(target.id, item)
    return found


def is_abstract(node) -> bool:
    return isinstance(node, ast.FunctionDef) and any(ast.unparse(one).endswith("abstractmethod") for one in node.decorator_list)


def faults_of(source: Source, module: str, name: str, wanted: dict) -> list:
    """Returns the differences of one name from what is wanted of it."""
    found = source.find(module, name)
    if found is None:
        return [f"{module}.{name} is not there"]
    node = found[1]
    if isinstance(node, ast.FunctionDef):
        given = parameters_of(node)
        return [] if given == wanted.get("parameters", given) else [f"{name} takes {given}, expected {wanted['parameters']}"]
    if not isinstance(node, ast.ClassDef):
        return []
    members, faults = members_of(source.chain(*found)), []
    abstract = sorted(item for item, defined in members.items() if is_abstract(defined))
    if abstract != wanted.get("abstract", abstract):
        faults.append(f"{name} has the abstract methods {abstract}, expected {wanted['abstract']}")
    for method, names in wanted.get("parameters", {}).items():
        given = parameters_of(members[method]) if isinstance(members.get(method), ast.FunctionDef) else None
        if given != names and not (given is None and method == "__init__" and names == []):
            faults.append(f"{name}.{method} takes {given}, expected {names}")
    faults += [f"{name} has no {field}" for field in [*wanted.get("fields", ()), *wanted.get("members", ())] if field not in members]
    return faults


def order_of(source: Source, name: str) -> list:
    """Returns the names of the kernels that a list has for CUDA, in order."""
    found = source.find("vllm.model_executor.kernels.linear", name)
    value = getattr(found[1], "value", None) if found else None
    for key, kernels in zip(getattr(value, "keys", ()), getattr(value, "values", ())):
        if ast.unparse(key).endswith(".CUDA"):
            return [ast.unparse(kernel) for kernel in kernels.elts]
    return []


def check(source: Source, contract: dict) -> dict:
    """Returns part -> differences."""
    return {part: [fault for module, name, wanted in names for fault in faults_of(source, module, name, wanted)]
            for part, names in contract.items()}


def self_test() -> int:
    files = {"vllm/__init__.py": "",
             "vllm/a/__init__.py": "from .b import Kernel\nfrom vllm.c import f as g\nLIST = {P.CUDA: [Kernel]}\n",
             "vllm/a/b.py": "from vllm.c import Base\nclass Kernel(Base[int], ABC):\n  x: int\n  def run(self, a): pass\n  "
                            "@abstractmethod\n  def go(self, *, A, B): pass\n",
             "vllm/c.py": "class Base(ABC):\n  CUDA = 1\n  @classmethod\n  @abc.abstractmethod\n  def run(cls, a): pass\n"
                          "  @abstractmethod\n  def stop(self, b=1): pass\ndef f(k, kind='mp', **more): pass\n"}
    good = {"part": [("vllm.a", "g", {"parameters": ["k", "kind", "more"]}), ("vllm.a", "LIST", {}),
                     ("vllm.a", "Kernel", {"abstract": ["go", "stop"], "parameters": {"run": ["a"], "go": ["A", "B"], "stop": ["b"]},
                                           "fields": ["x"], "members": ["CUDA"]})]}
    assert check(Source(files), good) == {"part": []}, check(Source(files), good)
    for old, new, words in (("def go(self, *, A, B)", "def go(self, *, A)", "Kernel.go takes ['A']"),
                            ("from vllm.c import f as g", "", "vllm.a.g"), ("kind='mp', ", "of, ", "g takes"), ("  x: int\n", "", "no x"),
                            ("CUDA = 1", "ROCM = 1", "no CUDA"), ("LIST = ", "OTHER = ", "vllm.a.LIST"),
                            ("  def run(self, a): pass\n", "", "abstract methods ['go', 'run', 'stop']"),
                            ("class Kernel(Base[int], ABC)", "class Kernel(ABC)", "Kernel.stop takes None")):
        changed = {path: text.replace(old, new) for path, text in files.items()}
        faults = check(Source(changed), good)["part"]
        assert changed != files and any(words in fault for fault in faults), (old, faults)
    contract = contract_of(PLUGIN.read_text(encoding="utf-8"))
    assert set(contract) == {"fp8", "mp", "quantization"}
    assert all(faults for faults in check(Source(files), contract).values())
    print("self-test passed")
    return 0


def main() -> int:
    if sys.argv[1:] == ["--self-test"]:
        return self_test()
    if len(sys.argv) != 2 or not pathlib.Path(sys.argv[1]).exists():
        print(__doc__)
        return 2
    source = Source.of(pathlib.Path(sys.argv[1]))
    if source.module("vllm") is None:
        print(f"{sys.argv[1]} holds no package vllm: give a wheel, or a folder in which vllm/ is")
        return 2
    found = check(source, contract_of(PLUGIN.read_text(encoding="utf-8")))
    for part, faults in found.items():
        print(f"{part}: {'as expected' if not faults else 'the plugin would not register it'}")
        for fault in faults:
            print(f"  {fault}")
    for name in LISTS:
        print(f"{name}, CUDA: {', '.join(order_of(source, name))}")
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())

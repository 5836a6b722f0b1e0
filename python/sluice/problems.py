# SPDX-License-Identifier: Apache-2.0
"""Describes products: their sizes, types, layouts and epilogues. Needs neither a GPU nor torch."""
from __future__ import annotations

import ctypes
import dataclasses
from typing import Any, Optional

from . import errors
from ._arguments import check_array, did_you_mean, entry, shown, size_of, switch_of
from ._library import ProblemStruct, lib

DTYPES = ("bf16", "fp16", "fp32", "e4m3", "e5m2")
MAJORS = ("k", "mn")
SCALES = ("none", "tensor", "vector", "block")
ACTIVATIONS = ("none", "relu", "gelu", "silu")
SUMS = ("promoted", "fast")
UPDATES = ("set", "add")
UNALIGNED = ("a_unaligned", "b_unaligned", "d_unaligned")

GRANULARITIES = ("tensor", "row", "1x128", "128x128")

# Maps other libraries' names of the types to the names used here.
ALIASES = {
    "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32",
    "float64": "fp64", "double": "fp64",
    "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
}


def number_of(what: str, value: object, names: tuple[str, ...]) -> int:
    """Returns the index of a name in ``names``. Raises ``InvalidArgument``, which lists the names, if it is not
    there."""
    text = str(value).rsplit(".", maxsplit=1)[-1] if value is not None else "none"  # torch.bfloat16, numpy's too
    if text not in names:  # an alias applies only if the text is not a name: "half" is fp16's alias and the name of an order
        text = ALIASES.get(text, text)
    if text not in names:
        meant = "e4m3" if text in ("fp8", "float8") and "e4m3" in names else text
        raise errors.InvalidArgument(f"{what} = {shown(value)} must be one of {', '.join(names)}{did_you_mean(meant, names)}")
    return names.index(text)


def epilogue_fields(problem: Any) -> dict[str, int]:
    """Returns the epilogue fields of a ``ProblemStruct``, from the attributes that ``Problem`` and ``Convolution`` have in common.
    Raises ``InvalidArgument`` for an unknown name."""
    return {
        "scale_d": number_of("scale_d", problem.scale_d, SCALES),
        "bias": int(problem.bias is not None),
        "bias_type": number_of("bias", problem.bias, DTYPES) if problem.bias is not None else 0,
        "activation": number_of("activation", problem.activation, ACTIVATIONS),
        "residual": int(problem.c is not None),
        "c_type": number_of("c", problem.c, DTYPES) if problem.c is not None else 0,
        "accumulate": number_of("accumulate", problem.accumulate, SUMS),
        "update": number_of("update", problem.update, UPDATES),
        "any_order": 1 - switch_of("deterministic", problem.deterministic),
    }


def epilogue_of(s: ProblemStruct) -> dict[str, Any]:
    """Returns the arguments of ``Problem`` and ``Convolution`` that ``epilogue_fields`` would turn into these fields."""
    return {"bias": DTYPES[s.bias_type] if s.bias else None, "activation": ACTIVATIONS[s.activation],
            "c": DTYPES[s.c_type] if s.residual else None, "accumulate": SUMS[s.accumulate], "update": UPDATES[s.update],
            "deterministic": not s.any_order, "scale_d": SCALES[s.scale_d]}


def output_type(inputs: int, given: Optional[str], name: str = "d") -> int:
    """Returns the number of a result's type: the given type, else that of the inputs, or bf16 for fp8 inputs."""
    default = "bf16" if DTYPES[inputs] in ("e4m3", "e5m2") else DTYPES[inputs]
    return number_of(name, given if given is not None else default, DTYPES)


def call_pairs(f: Any, activation: object, use_fast_accum: object, update: object, deterministic: object) -> tuple:
    """Returns the (field, value) pairs of a call's options for the binding ``f`` (``_binding``)."""
    return (f.ACTIVATION, number_of("activation", activation, ACTIVATIONS), f.USE_FAST_ACCUM,
            switch_of("use_fast_accum", use_fast_accum), f.ADD, number_of("update", update, UPDATES), f.ANY_ORDER,
            1 - switch_of("deterministic", deterministic))


@entry
@dataclasses.dataclass(frozen=True)
class Problem:
    """A product, or a batch of them: ``D = act(alpha * scale_a * scale_b * A B + beta * C + bias)``.

    A is m x k, B is k x n, D is m x n. The fields and their defaults:

    - ``m``, ``n``, ``k``: sizes. ``batch`` = 1: the number of products, all of one shape.
    - ``a`` = "bf16": the type of A, a name ("bf16", "e4m3", "torch.bfloat16" ...). ``b`` = None: B has A's type.
      ``d`` = None: D has A's type, or bf16 for fp8 inputs.
    - ``a_major`` = "k", ``b_major`` = "k": the index that is contiguous in memory. "k" is a row-major A, and a B stored n x k
      like a weight. "mn" is the other layout (16-bit types).
    - ``a_ld`` = 0, ``b_ld`` = 0, ``c_ld`` = 0, ``d_ld`` = 0: elements from one row in memory to the next. 0: no gaps.
    - ``a_batch_stride`` = 0, ``b_batch_stride`` = 0, ``c_batch_stride`` = 0, ``d_batch_stride`` = 0: elements from one
      matrix to the next. 0: no gaps.
    - ``a_unaligned`` = False, ``b_unaligned`` = False, ``d_unaligned`` = False: True if the address may be no multiple
      of 16 bytes (16-bit A and B). Calls with arrays find that out from the addresses.
    - ``scale_a`` = "none", ``scale_b`` = "none": fp32 scales. "tensor": one value. "vector": one per row of A
      (column of B). "block" (fp8, both operands): one per 1 x 128 of A, 128 x 128 of B.
    - ``scale_d`` = "none": "tensor" divides the result by one fp32 before it is rounded to an e4m3 D.
    - ``bias`` = None: the type of a bias with one value per column of A B.
    - ``activation`` = "none", "relu", "gelu" (the exact one) or "silu".
    - ``gated`` = False: True makes D m x n / 2, the activation of the first half of the columns times the second half.
    - ``c`` = None: the type of a residual C, which is added.
    - ``accumulate`` = "promoted": the tensor core's sums of fp8 products are added to fp32 registers every 128 of k. "fast"
      leaves them in the tensor core, which keeps 13 fraction bits. That is faster, and off by 7 % at k = 4096 if all products are
      positive (docs/numerics.md). 16-bit inputs are accumulated in fp32 either way.
    - ``update`` = "set". "add" is ``D += alpha * scale_a * scale_b * A B``, into an fp32 D, without bias, activation
      and C.
    - ``deterministic`` = True: every run gives the same bits. False lets split-K slices be added to D in any order.
    """

    m: int
    n: int
    k: int
    batch: int = 1
    a: str = "bf16"
    b: Optional[str] = None
    d: Optional[str] = None
    a_major: str = "k"
    b_major: str = "k"
    a_ld: int = 0
    b_ld: int = 0
    c_ld: int = 0
    d_ld: int = 0
    a_batch_stride: int = 0
    b_batch_stride: int = 0
    c_batch_stride: int = 0
    d_batch_stride: int = 0
    scale_a: str = "none"
    scale_b: str = "none"
    bias: Optional[str] = None
    activation: str = "none"
    c: Optional[str] = None
    accumulate: str = "promoted"
    update: str = "set"
    deterministic: bool = True
    gated: bool = False
    scale_d: str = "none"
    a_unaligned: bool = False
    b_unaligned: bool = False
    d_unaligned: bool = False

    def struct(self) -> ProblemStruct:
        """Returns the struct of the C interface. Raises ``InvalidArgument`` for an unknown name."""
        a = number_of("a", self.a, DTYPES)
        sizes = {name: size_of(name, getattr(self, name)) for name, kind in ProblemStruct._fields_
                 if kind is ctypes.c_int64}
        return ProblemStruct(
            **sizes,
            a=a,
            b=number_of("b", self.b if self.b is not None else DTYPES[a], DTYPES),
            d=output_type(a, self.d),
            a_major=number_of("a_major", self.a_major, MAJORS),
            b_major=number_of("b_major", self.b_major, MAJORS),
            scale_a=number_of("scale_a", self.scale_a, SCALES),
            scale_b=number_of("scale_b", self.scale_b, SCALES),
            gated=switch_of("gated", self.gated),
            **{name: switch_of(name, getattr(self, name)) for name in UNALIGNED},
            **epilogue_fields(self),
        )

    def flags(self) -> str:
        """Returns the problem as flags of the ``sluice`` program: ``sluice tune``, ``plan`` and ``compile`` with them, or a
        line of a ``--shapes`` file, treat exactly this problem. Raises ``InvalidArgument`` for an unknown name."""
        from ._flags import flags_of

        return flags_of(self.struct())

    def check(self) -> None:
        """Raises the error that a product of this problem would raise for its sizes, types and strides. Plans nothing
        and needs no GPU."""
        lib.sluice_problem_check(ctypes.byref(self.struct()))

    @classmethod
    def from_struct(cls, s: ProblemStruct) -> "Problem":
        sizes = {name: getattr(s, name) for name, kind in ProblemStruct._fields_ if kind is ctypes.c_int64}
        return cls(
            **sizes, a=DTYPES[s.a], b=DTYPES[s.b], d=DTYPES[s.d], a_major=MAJORS[s.a_major], b_major=MAJORS[s.b_major],
            scale_a=SCALES[s.scale_a], scale_b=SCALES[s.scale_b], gated=bool(s.gated), **{name: bool(getattr(s, name)) for name in UNALIGNED}, **epilogue_of(s))


@entry
def problem_of(a: Any, b: Any, out: Any, *, c: Any = None, bias: Any = None, scale_a: Any = None, scale_b: Any = None,
               scale_d: Any = None, activation: str = "none", gated: bool = False, use_fast_accum: bool = False, update: str = "set",
               deterministic: bool = True) -> Problem:
    """Returns the problem of a product of arrays (torch tensors, or anything that speaks DLPack, also in host memory).

    Reads shapes, strides and types, never data. Raises the errors that the product itself would raise for them.
    """
    from . import _binding as f  # imports tvm_ffi, which imports torch where there is one

    arrays = {"a": a, "b": b, "out": out, "c": c, "bias": bias, "scale_a": scale_a, "scale_b": scale_b, "scale_d": scale_d}
    for name, array in arrays.items():
        check_array(name, array)
    struct = ProblemStruct()
    f.problem_of(f.A, a, f.B, b, f.OUT, out, f.C, c, f.BIAS, bias, f.SCALE_A, scale_a, f.SCALE_B, scale_b, f.SCALE_D, scale_d,
                 f.GATED, switch_of("gated", gated), *call_pairs(f, activation, use_fast_accum, update, deterministic), f.PROBLEM,
                 ctypes.addressof(struct))
    return Problem.from_struct(struct)

# SPDX-License-Identifier: Apache-2.0
"""Describes products: their sizes, types, layouts and epilogues. Needs neither a GPU nor torch."""
from __future__ import annotations

import ctypes
import dataclasses
from typing import Any, Optional

from . import errors
from ._arguments import check_array, entry, shown, size_of, switch_of
from ._library import MatrixStruct, ProblemStruct, lib, new_call
from ._names import ACTIVATIONS, DTYPES, GROUPS, MAJORS, SCALES, SUMS, UPDATES, number_of
from .formats import WeightFormat

_SIZES = ("m", "n", "k", "batch")
# The fields of a matrix in the C struct, and the matrices of which ``Problem`` has them: ``a_ld`` is ``a.ld`` there.
_STRIDES = {"ld": "abcd", "batch_stride": "abcd"}
_MAJORS, _UNALIGNED = "ab", "abd"
_SCALED = {"scale_a": SCALES, "scale_b": SCALES}
_EPILOGUE = {"scale_d": SCALES, "activation": ACTIVATIONS, "accumulate": SUMS, "update": UPDATES}
# The fields that a product of packed weights has no use for.
_NOT_PACKED = ("b", "a_major", "b_major", "b_ld", "a_batch_stride", "b_batch_stride", "c_batch_stride", "d_batch_stride",
               "scale_b", "update", "a_unaligned", "b_unaligned", "d_unaligned", "row_factors", "scale_a_ld")


def _numbers(problem: Any, names: dict[str, tuple[str, ...]]) -> dict[str, int]:
    return {field: number_of(field, getattr(problem, field), known) for field, known in names.items()}


def _names(s: ProblemStruct, names: dict[str, tuple[str, ...]]) -> dict[str, str]:
    return {field: known[getattr(s, field)] for field, known in names.items()}


def epilogue_fields(problem: Any) -> dict[str, int]:
    """Returns the epilogue fields of a ``ProblemStruct``, from the attributes that ``Problem`` and ``Convolution`` have in common.
    Raises ``InvalidArgument`` for an unknown name."""
    bias, c = problem.bias, problem.c
    return {"bias": int(bias is not None), "bias_type": 0 if bias is None else number_of("bias", bias, DTYPES),
            "residual": int(c is not None), "c": MatrixStruct(type=0 if c is None else number_of("c", c, DTYPES)),
            "any_order": 1 - switch_of("deterministic", problem.deterministic), **_numbers(problem, _EPILOGUE)}


def epilogue_of(s: ProblemStruct) -> dict[str, Any]:
    """Returns the arguments of ``Problem`` and ``Convolution`` that ``epilogue_fields`` would turn into these fields."""
    return {"bias": DTYPES[s.bias_type] if s.bias else None, "c": DTYPES[s.c.type] if s.residual else None,
            "deterministic": not s.any_order, **_names(s, _EPILOGUE)}


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
      (column of B). "block" (fp8, both operands): one per 1 x 128 of A, 128 x 128 of B. "vector128" (of B, beside "block" of A by
      columns): one per column and 128 of k, as ceil(k/128) x n.
    - ``scale_a_ld`` = 0: block scales of A are stored by rows. Else by columns, as DeepGEMM's quantisers store them, so many elements
      apart. That is at least m. With ``groups`` = "counts" each group has a matrix of scales, and it is at least the rows of a group.
    - ``scale_d`` = "none": "tensor" divides the result by one fp32 before it is rounded to an e4m3 D. With "block" the kernel computes
      a scale for each 128 columns of a row of an e4m3 D, and writes it beside D (docs/groups.md).
    - ``row_factors`` = False: True multiplies each row of the result by an fp32.
    - ``bias`` = None: the type of a bias with one value per column of A B.
    - ``activation`` = "none", "relu", "gelu" (the exact one) or "silu". With ``gated`` also "clamped_swiglu", that of gpt-oss:
      g * sigmoid(1.702 g) * (u + 1), of a gate g of at most 7 and an up u in -7..7.
    - ``gated`` = False: True makes D m x n / 2, the activation of the first half of the columns times the second half.
    - ``c`` = None: the type of a residual C, which is added.
    - ``accumulate`` = "promoted": the tensor core's sums of fp8 products are added to fp32 registers every 128 of k. "fast"
      leaves them in the tensor core, which keeps 13 fraction bits. That is faster, and off by 7 % at k = 4096 if all products are
      positive (docs/numerics.md). 16-bit inputs are accumulated in fp32 either way.
    - ``update`` = "set". "add" is ``D += alpha * scale_a * scale_b * A B``, into an fp32 D, without bias, activation
      and C.
    - ``deterministic`` = True: every run gives the same bits. False lets split-K slices be added to D in any order.
    - ``groups`` = "none". With "ends" or "counts", rows of A, C and D belong to ``batch`` groups, ``m`` rows in all. Each group has
      its own matrix of B, scales of B and bias (docs/groups.md). A table on the GPU says which rows a group has: "ends" has one
      past the last row of each group, "counts" the rows of each. "along_k" is as "ends", of the k that A and B are summed over:
      D has ``batch`` matrices then, and A and B, both "mn"-major, are one matrix each. "slots" has the group of each row of D.
    - ``group_pitch`` = 1: a group begins at a multiple of so many rows ("ends"), or group g at row g * ``group_pitch`` ("counts").
      With "slots" row r of D reads row r // ``group_pitch`` of A.
    - ``packed`` = None: B is a matrix. With a ``WeightFormat``, B is n x k weights W that are packed in that format
      (docs/packed.md), and ``D = act(scale_a * A W^T + bias) + C``. A is fp16, bf16, or e4m3, which alone has scales. C has D's
      type, and is for a 16-bit A of at most 64 rows without a gate. If ``gated``, n is a multiple of 16, and W is packed with
      ``gated=True``. ``b`` is left out, as are ``scale_b``, ``update``, ``batch`` without ``groups``, layouts, strides of B and of
      batches, and ``unaligned``. ``accumulate`` has no effect. With ``groups`` each of ``batch`` groups has packed weights of its own.
    - ``norm_a`` = False: True applies RMSNorm to the rows of A first, with a gamma of k values (packed weights, at most 8 rows
      of bf16).
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
    packed: Optional[WeightFormat] = None
    norm_a: bool = False
    groups: str = "none"
    group_pitch: int = 1
    row_factors: bool = False
    scale_a_ld: int = 0

    def struct(self) -> ProblemStruct:
        """Returns the struct of the C interface. Raises ``InvalidArgument`` for an unknown name, and for a field that has no use
        beside ``packed`` or without it."""
        a = number_of("a", self.a, DTYPES)
        s = ProblemStruct(**{name: size_of(name, getattr(self, name)) for name in _SIZES}, gated=switch_of("gated", self.gated),
                          groups=number_of("groups", self.groups, GROUPS), group_pitch=size_of("group_pitch", self.group_pitch),
                          row_factors=switch_of("row_factors", self.row_factors), scale_a_ld=size_of("scale_a_ld", self.scale_a_ld),
                          **_numbers(self, _SCALED), **epilogue_fields(self), **self._weights())
        s.a.type, s.b.type, s.d.type = a, number_of("b", DTYPES[a] if self.b is None else self.b, DTYPES), output_type(a, self.d)
        for field, matrices in _STRIDES.items():
            for name in matrices:
                setattr(getattr(s, name), field, size_of(f"{name}_{field}", getattr(self, f"{name}_{field}")))
        for name in _MAJORS:
            getattr(s, name).major = number_of(f"{name}_major", getattr(self, f"{name}_major"), MAJORS)
        for name in _UNALIGNED:
            getattr(s, name).unaligned = switch_of(f"{name}_unaligned", getattr(self, f"{name}_unaligned"))
        return s

    def _weights(self) -> dict[str, Any]:
        """Returns the struct's fields of packed weights."""
        norm = switch_of("norm_a", self.norm_a)
        if self.packed is None:
            if norm:
                raise errors.InvalidArgument("norm_a = True and packed = None: only products of packed weights norm A; call "
                                             "sluice.torch.rms_norm before")
            return {}
        if not isinstance(self.packed, WeightFormat):
            raise errors.InvalidArgument(f"packed = {shown(self.packed)} must be a sluice.WeightFormat: pass the format of PackedWeights")
        for name in _NOT_PACKED if self.groups != "none" else ("batch", *_NOT_PACKED):
            if getattr(self, name) != getattr(Problem, name):
                raise errors.InvalidArgument(f"{name} = {shown(getattr(self, name))} and packed is given: a product of packed weights takes "
                                             "no such field: leave it out")
        return {"packed": self.packed.struct(), "norm_a": norm}

    def flags(self) -> str:
        """Returns the problem as flags of the ``sluice`` program: ``sluice tune``, ``plan`` and ``compile`` with them, or a
        line of a ``--shapes`` file, treat exactly this problem. Raises ``InvalidArgument`` for an unknown name."""
        from ._flags import flags_of

        return flags_of(self.struct())

    def check(self) -> None:
        """Raises the error that a product of this problem would raise for its sizes, types and strides. Plans nothing
        and needs no GPU."""
        lib.sluice_check(ctypes.byref(new_call(self.struct())))

    @classmethod
    def from_struct(cls, s: ProblemStruct) -> "Problem":
        made: dict[str, Any] = {name: getattr(s, name) for name in _SIZES}
        made.update({name: DTYPES[getattr(s, name).type] for name in "abd"}, gated=bool(s.gated), **_names(s, _SCALED), **epilogue_of(s))
        made.update({f"{name}_{field}": getattr(getattr(s, name), field) for field, matrices in _STRIDES.items() for name in matrices})
        made.update({f"{name}_major": MAJORS[getattr(s, name).major] for name in _MAJORS})
        made.update({f"{name}_unaligned": bool(getattr(s, name).unaligned) for name in _UNALIGNED})
        made.update(groups=GROUPS[s.groups], group_pitch=s.group_pitch or 1, row_factors=bool(s.row_factors),
                    scale_a_ld=s.scale_a_ld)
        if s.packed.type:
            made.update({name: getattr(cls, name) for name in _NOT_PACKED})
            made.update(packed=WeightFormat.from_struct(s.packed), norm_a=bool(s.norm_a))
        return cls(**made)


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

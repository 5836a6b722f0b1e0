# SPDX-License-Identifier: Apache-2.0
"""Writes a problem as flags of the ``sluice`` program. cli/problem_flags.cc reads them.

A flag whose value equals the program's default is left out.
"""
from __future__ import annotations

from typing import Sequence

from ._library import ProblemStruct
from ._names import ACTIVATIONS, DTYPES, GROUPS, MAJORS, SCALES, SUMS, UPDATES
from .convolutions import CONV_OPS
from .formats import WEIGHT_TYPES, default_format

_FP8 = ("e4m3", "e5m2")


def flags_of(s: ProblemStruct) -> str:
    """Returns the flags with which the program handles exactly this problem: it finds the same tuning records and kernels."""
    words = _convolution(s) if s.conv.op else ["--shape", f"{s.m}x{s.n}x{s.k}", *(_weights(s) if s.packed.type else [])]
    return " ".join([*words, *_option("--batch", s.batch, 1), *_groups(s), *_types(s), *_strides(s), *_epilogue(s)])


def _option(flag: str, value: object, default: object = 0) -> list[str]:
    return [] if value == default else [flag, str(value)]


def _vector_type(output: str) -> str:
    """Returns the program's default type of a bias and of C."""
    return "bf16" if output in _FP8 else output


def _groups(s: ProblemStruct) -> list[str]:
    return _option("--groups", GROUPS[s.groups], "none") + (_option("--group-pitch", s.group_pitch, 1) if s.groups else [])


def _types(s: ProblemStruct) -> list[str]:
    a, d = DTYPES[s.a.type], DTYPES[s.d.type]
    words = _option("--dtype", a, "bf16")
    if s.b.type != s.a.type:
        words = ["--a", a, "--b", DTYPES[s.b.type]]
    usual = "fp32" if UPDATES[s.update] == "add" else "bf16" if a in _FP8 else a
    return words + _option("--d", d, usual)


def _strides(s: ProblemStruct) -> list[str]:
    words = _option("--a-layout", MAJORS[s.a.major], "k") + _option("--b-layout", MAJORS[s.b.major], "k")
    for name in "abcd":
        words += _option(f"--ld-{name}", getattr(s, name).ld)
    for name in "abcd":
        words += _option(f"--batch-stride-{name}", getattr(s, name).batch_stride)
    return words + _option("--unaligned", "".join(name for name in "abd" if getattr(s, name).unaligned), "")


def _epilogue(s: ProblemStruct) -> list[str]:
    words = _option("--scale-a", SCALES[s.scale_a], "none") + _option("--scale-b", SCALES[s.scale_b], "none")
    words += _option("--scale-a-ld", s.scale_a_ld)
    usual = _vector_type(DTYPES[s.d.type])
    if s.bias:
        words += ["--bias", *_option("--bias-type", DTYPES[s.bias_type], usual)]
    words += _option("--activation", ACTIVATIONS[s.activation], "none")
    if s.residual:
        words += ["--residual", *_option("--c-type", DTYPES[s.c.type], usual)]
    if s.gated:
        words.append("--gated")
    words += _option("--scale-d", SCALES[s.scale_d], "none") + _option("--update", UPDATES[s.update], "set")
    if s.any_order and UPDATES[s.update] == "add":  # without "add" the flag has no effect
        words.append("--any-order")
    if s.norm_a:
        words.append("--norm-a")
    sums = SUMS[s.accumulate] if DTYPES[s.a.type] in _FP8 and not s.packed.type else "promoted"  # 16-bit sums are in fp32
    return words + _option("--accumulate", sums, "promoted")


def _weights(s: ProblemStruct) -> list[str]:
    """Returns the flags of the weight format. The order has no flag: the program derives it from the type of the tokens."""
    w = s.packed
    kind = WEIGHT_TYPES[w.type - 1]
    words = ["--weights", "int4" if kind == "uint4" and not w.zeros else kind]
    usual = default_format(kind)
    return (words + _option("--group", w.group, usual.group) + _option("--weight-scale", DTYPES[w.scale], usual.scale)
            + (["--zero", "per_group"] if w.zeros else []))


def _per_axis(values: Sequence[object]) -> str:
    """Returns the flag's text: one number if all axes are equal, else one number per axis, like "2x1"."""
    return str(values[0]) if len(set(values)) == 1 else "x".join(map(str, values))


def _convolution(s: ProblemStruct) -> list[str]:
    v = s.conv

    def axes(values: Sequence[int]) -> list[int]:
        return list(values[:v.spatial])

    padding = [str(before) if before == after else f"{before}:{after}"
               for before, after in zip(axes(v.padding), axes(v.padding_after if v.uneven_padding else v.padding))]
    return ["--conv", CONV_OPS[v.op - 1], "--input", "x".join(map(str, [v.images, v.channels, *axes(v.size)])),
            "--filter", "x".join(map(str, [v.filters, *axes(v.filter)])), *_option("--stride", _per_axis(axes(v.stride)), "1"),
            *_option("--padding", _per_axis(padding), "0"), *_option("--dilation", _per_axis(axes(v.dilation)), "1"),
            *_option("--x-pitch", v.x_pitch), *_option("--y-pitch", v.y_pitch)]

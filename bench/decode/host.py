# SPDX-License-Identifier: Apache-2.0
"""sluice on a CPU, so that this bench can be tested without a GPU. The host twin of tests/python/chain_on_host.py takes the place of
chains and of the binding's products, quantisers and norms. No time of it means anything.
"""
from __future__ import annotations

import contextlib
import functools
import importlib.util
import pathlib
from typing import Any, Iterator
from unittest import mock

import torch

TWIN = pathlib.Path(__file__).resolve().parents[2] / "tests/python/chain_on_host.py"


@functools.lru_cache(maxsize=None)
def twin() -> Any:
    spec = importlib.util.spec_from_file_location("chain_on_host", TWIN)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    spec.loader.exec_module(module)  # type: ignore[union-attr]
    return module


@functools.lru_cache(maxsize=None)
def field_names() -> dict[int, str]:
    from sluice import _binding
    return {number: name for name, number in _binding.FIELDS.items()}


def given_of(pairs: tuple) -> dict[str, Any]:
    """The arguments of a call of the binding by name; those that are not given are None."""
    names = field_names()
    return {**dict.fromkeys(names.values()), **{names[number]: value for number, value in zip(pairs[::2], pairs[1::2])}}


def packed_of(given: dict[str, Any]) -> Any:
    import sluice
    from sluice._library import WeightFormatStruct
    form = WeightFormatStruct(*(given[f"format.{name}"] for name in ("type", "group", "scale", "zeros", "order")))
    return sluice.PackedWeights(given["packed.blob"], given["n"], given["k"], sluice.WeightFormat.from_struct(form),
                                gated=bool(given["gated"]))


def product(*pairs: Any) -> None:
    from sluice._names import ACTIVATIONS
    given, functions, out = given_of(pairs), twin(), None
    more = {"c": given["c"], "gated": bool(given["gated"]), "activation": ACTIVATIONS[given["activation"] or 0]}
    more["activation"] = None if more["activation"] == "none" else more["activation"]
    if given["packed.blob"] is not None:
        out = functions.packed_mm(given["x"], packed_of(given), given["bias"], gamma=given["gamma"], epsilon=given["epsilon"], **more)
    elif given["weight"] is not None:
        out = functions.linear(given["input"], given["weight"], given["bias"], **more)
    else:
        out = functions.scaled_mm(given["mat_a"], given["mat_b"], given["scale_a"], given["scale_b"], given["bias"],
                                  out_dtype=given["out"].dtype, scale_d=given["scale_d"], **more)
    given["out"].copy_(out.view(given["out"].shape))


def quantize(*pairs: Any) -> None:
    given, functions = given_of(pairs), twin()
    if given["scale_given"]:
        given["output"].copy_(functions.quantize_static(given["input"], given["scales"]))
        return
    codes, scales = (functions.silu_mul_quantize if given["gate"] else functions.quantize)(given["input"], "row")
    given["output"].copy_(codes)
    given["scales"].copy_(scales)


def norm(*pairs: Any) -> None:
    from sluice._names import GRANULARITIES
    given, functions = given_of(pairs), twin()
    more = {"residual": given["residual"], "epsilon": given["epsilon"]}
    if given["scales"] is None:
        made = functions.rms_norm(given["input"], given["gamma"], **more)
    else:
        by = GRANULARITIES[given["granularity"]]
        made = functions.rms_norm_quantize(given["input"], given["gamma"], by, scale=given["scales"] if by == "tensor" else None, **more)
    outputs = [given[name] for name in ("output", "scales", "sum") if given[name] is not None]
    for output, value in zip(outputs, made if isinstance(made, tuple) else (made,)):
        if output is not value:
            output.copy_(value)


@contextlib.contextmanager
def on_host() -> Iterator[None]:
    """sluice.torch computes on the CPU."""
    import sluice.torch as st
    from sluice import _binding
    with contextlib.ExitStack() as stack:
        for name, function in (("product", product), ("quantize", quantize), ("norm", norm)):
            stack.enter_context(mock.patch.object(_binding, name, function))
        stack.enter_context(mock.patch.object(st, "Steps", twin().HostSteps, create=True))
        stack.enter_context(mock.patch.object(st, "Chain", twin().HostChain, create=True))
        torch._dynamo.reset()
        yield

# SPDX-License-Identifier: Apache-2.0
"""The names of types, layouts, scales and so on, in the order of the C interface's numbers."""
from __future__ import annotations

from . import errors
from ._arguments import did_you_mean, shown

DTYPES = ("bf16", "fp16", "fp32", "e4m3", "e5m2", "e8m0")
MAJORS = ("k", "mn")
SCALES = ("none", "tensor", "vector", "block", "vector128")
ACTIVATIONS = ("none", "relu", "gelu", "silu", "clamped_swiglu")
SUMS = ("promoted", "fast")
UPDATES = ("set", "add")
GROUPS = ("none", "ends", "counts", "along_k", "slots")
GRANULARITIES = ("tensor", "row", "1x128", "128x128")

# Maps other libraries' names of the types to the names used here.
ALIASES = {
    "bfloat16": "bf16", "float16": "fp16", "half": "fp16", "float32": "fp32", "float": "fp32",
    "float64": "fp64", "double": "fp64",
    "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "float8_e8m0fnu": "e8m0",
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

# SPDX-License-Identifier: Apache-2.0
"""Computes convolutions on the host for the tests of sluice.torch, in place of the binding's ``convolution``
and ``product``.

It computes the three products from their definition, tap by tap, in float64 with one rounding. It refuses what the library would:
other layouts than channels_last, pixels or addresses that are no multiples of 16 bytes, a residual of another pitch, other sizes.
"""
import itertools
import math

import pytest

torch = pytest.importorskip("torch")

from sluice import _binding as binding  # noqa: E402

NAMES = {number: name for name, number in binding.FIELDS.items()}
ACTIVATIONS = (lambda y: y, torch.relu, torch.nn.functional.gelu, torch.nn.functional.silu)
OPS = {1: "conv", 2: "conv_input", 3: "conv_weight"}


def at_16_bytes(name, tensor):
    assert tensor.data_ptr() % 16 == 0, f"{name} begins at {tensor.data_ptr() % 16} bytes past a multiple of 16"


def scaled_by(made, scale, shape):
    """Multiplies by an fp32 scale: one for all, or one per row or column."""
    if scale is None:
        return made
    assert scale.dtype is torch.float32 and scale.is_contiguous() and scale.numel() in (1, math.prod(shape)), scale.shape
    return made * scale.double().view(shape if scale.numel() > 1 else [1] * len(shape))


def pixels_of(name, tensor, pitch=True):
    """Returns a tensor as a matrix of pixels by channels. Checks that this needs no copy."""
    channels = tensor.shape[1]
    assert channels % 8 == 0 and channels * tensor.element_size() % 16 == 0, f"{name} has {channels} channels"
    at_16_bytes(name, tensor)
    try:
        matrix = tensor.movedim(1, -1).view(-1, channels)
    except RuntimeError:
        raise AssertionError(f"{name} of shape {tuple(tensor.shape)} and strides {tensor.stride()} is not channels_last") from None
    step = matrix.stride(0) if matrix.shape[0] > 1 else channels
    assert matrix.stride(1) == 1 and step * tensor.element_size() % 16 == 0, f"{name} has strides {tensor.stride()}"
    assert step == channels or (pitch and step > channels), f"{name} has pixels at {step} elements"
    return step


class Taps:
    """Iterates over the taps of a convolution, each with the part of the padded x that it is multiplied with.
    """

    def __init__(self, kernel, outputs, stride, before, after, dilation):
        self.kernel, self.outputs, self.stride, self.dilation = kernel, outputs, stride, dilation
        self.before, self.after = before, after

    def padded(self, x):
        sides = [side for pair in zip(reversed(self.before), reversed(self.after)) for side in pair]
        return torch.nn.functional.pad(x, sides)

    def cropped(self, x):
        return x[(slice(None), slice(None), *(slice(first, size - last) for first, size, last in zip(self.before, x.shape[2:], self.after)))]

    def __iter__(self):
        for tap in itertools.product(*map(range, self.kernel)):
            yield tap, (slice(None), slice(None), *(slice(t * d, t * d + s * (q - 1) + 1, s) for t, d, s, q
                                                    in zip(tap, self.dilation, self.stride, self.outputs)))


def forward(x, w, taps):
    padded = taps.padded(x.double())
    return sum(torch.einsum("nc...,kc->nk...", padded[part], w[(slice(None), slice(None), *tap)].double()) for tap, part in taps)


def of_input(dy, w, size, taps):
    padded = taps.padded(torch.zeros(size, dtype=torch.float64))
    for tap, part in taps:
        padded[part] += torch.einsum("nk...,kc->nc...", dy.double(), w[(slice(None), slice(None), *tap)].double())
    return taps.cropped(padded)


def of_weight(dy, x, size, taps):
    padded, result = taps.padded(x.double()), torch.zeros(size, dtype=torch.float64)
    for tap, part in taps:
        result[(slice(None), slice(None), *tap)] = torch.einsum("nkp,ncp->kc", dy.double().flatten(2), padded[part].flatten(2))
    return result


class OnHost:
    """Replaces the binding's convolution and product. Records the calls and their arguments."""

    def __init__(self):
        self.called, self.given = [], []

    def convolution(self, *pairs):
        given = {NAMES[field]: value for field, value in zip(pairs[::2], pairs[1::2])}
        op, result = given["op"], given["total"] if "total" in given else given["out"]
        x, w, y = given.get("input"), given.get("weight"), given.get("grad_output")
        x, w, y = (x, w, result) if op == 1 else (result, w, y) if op == 2 else (x, result, y)
        axes = x.dim() - 2
        numbers = {name: [given.get(f"{name}[{i}]", default) for i in range(axes)]
                   for name, default in (("stride", 1), ("dilation", 1), ("padding", 0))}
        after = [given.get(f"padding_after[{i}]", 0 if "uneven_padding" in given else numbers["padding"][i]) for i in range(axes)]
        pitches = {name: pixels_of(name, tensor, pitch=name != "w") for name, tensor in (("x", x), ("y", y), ("w", w))}
        spans = [size + first + last - d * (k - 1) - 1 for size, first, last, d, k
                 in zip(x.shape[2:], numbers["padding"], after, numbers["dilation"], w.shape[2:])]
        assert x.shape[1] == w.shape[1] and tuple(y.shape) == (
            x.shape[0], w.shape[0], *(span // step + 1 for span, step in zip(spans, numbers["stride"]))), (x.shape, w.shape, y.shape)
        reads = [tensor for tensor in (x, w, y) if tensor is not result]
        assert reads[0].dtype is reads[1].dtype and reads[0].dtype.itemsize <= 2
        taps = Taps(w.shape[2:], y.shape[2:], numbers["stride"], numbers["padding"], after, numbers["dilation"])
        self.given.append(given)
        self.called.append(OPS[op])
        if op == 1:
            made = forward(x, w, taps)
            assert made.shape == result.shape
            made = scaled_by(scaled_by(made, given.get("scale_x"), (1,)), given.get("scale_w"), (1, w.shape[0], *[1] * axes))
            if given.get("c") is not None:
                assert given["c"].shape == y.shape and pixels_of("c", given["c"]) == pitches["y"], "c has another pitch than the result"
                made = made + given["c"].double()
            if given.get("bias") is not None:
                made = made + given["bias"].double().view(1, w.shape[0], *[1] * axes)
            self.write(result, made, given)
        elif op == 2:
            result.copy_(of_input(y, w, x.shape, taps))
        elif given.get("add"):
            assert result.dtype is torch.float32
            self.called[-1] = "add_conv_weight in any order" if given["any_order"] else "add_conv_weight"
            result.copy_(result.double() + of_weight(y, x, w.shape, taps))
        else:
            result.copy_(of_weight(y, x, w.shape, taps))

    def product(self, *pairs):
        given = {NAMES[field]: value for field, value in zip(pairs[::2], pairs[1::2])}
        a, b = given.get("a", given.get("input", given.get("mat_a"))), given.get("b", given.get("mat_b"))
        b = given["weight"].t() if b is None else b
        result = given["total"] if "add" in given else given["out"]
        for name, matrix in (("a", a), ("b", b), ("the result", result)):
            at_16_bytes(name, matrix)
            assert 1 in matrix.stride() and max(matrix.stride()) * matrix.element_size() % 16 == 0, f"strides {matrix.stride()}"
        made = a.double() @ b.double()
        self.given.append(given)
        self.called.append("linear" if "weight" in given else "add_mm" if "add" in given else "scaled_mm" if "mat_a" in given else "mm")
        if "add" in given:
            result += made
            return
        if a.dtype.itemsize == 1:
            assert a.stride(1) == 1 and b.stride(0) == 1 and (given["scale_a"].numel() == 1) == (given["scale_b"].numel() == 1)
            made = scaled_by(scaled_by(made, given["scale_a"], (a.shape[0], 1)), given["scale_b"], (1, b.shape[1]))
        made = made if given.get("c") is None else made + given["c"].double()
        made = made if given.get("bias") is None else made + given["bias"].double()
        self.write(result, made, given)

    @staticmethod
    def write(result, made, given):
        made = ACTIVATIONS[given.get("activation") or 0](made)
        if given.get("scale_d") is not None:
            made = made / given["scale_d"].double()
        result.copy_(made)


@pytest.fixture
def on_host(monkeypatch):
    fake = OnHost()
    monkeypatch.setattr(binding, "convolution", fake.convolution)
    monkeypatch.setattr(binding, "product", fake.product)
    torch._dynamo.reset()
    return fake

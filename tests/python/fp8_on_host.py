# SPDX-License-Identifier: Apache-2.0
"""FP8 training on the host for the tests of sluice.torch: the binding's casts in both orders are the reference, its products those of the
codes in float64. Refuses operands that the library would refuse."""
import pytest

torch = pytest.importorskip("torch")

import sluice.torch as st  # noqa: E402
from sluice import _binding as binding  # noqa: E402
from sluice._names import GRANULARITIES  # noqa: E402
from sluice.torch.quantize import Source  # noqa: E402
from torch.distributed.pipelining._backward import stage_backward_input, stage_backward_weight  # noqa: E402

BF16, FP16, FP32, E4M3, E5M2 = torch.bfloat16, torch.float16, torch.float32, torch.float8_e4m3fn, torch.float8_e5m2
KINDS = [("tensor", "fp8"), ("row", "fp8"), ("row", "16bit"), ("block", "fp8")]  # recipe, weight_gradient
ALL = pytest.mark.parametrize("recipe, weight_gradient", KINDS)
FIELDS = ("INPUT", "OUTPUT", "SCALES", "OUTPUT_T", "SCALES_T", "GRANULARITY", "POWERS_OF_TWO", "SUM", "WORKSPACE", "GATE", "GRAD_OUTPUT")


def real(*shape, dtype=BF16, seed=0, spread=0.0):
    """Returns random numbers; rows differ by about e ** spread."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    values = torch.randn(shape, generator=generator)
    if spread:
        values = values * torch.exp(spread * torch.randn((*shape[:-1], 1), generator=generator))
    return values.to(dtype)


def bits(tensor):
    return tensor.contiguous().view({1: torch.uint8, 2: torch.int16, 4: torch.int32}[tensor.element_size()])


def same(one, other):
    return one.shape == other.shape and one.dtype is other.dtype and torch.equal(bits(one), bits(other))


def cosines(got, wanted):
    """Returns the cosine of each row. torch's cosine_similarity takes norms below 1e-8 as that."""
    got, wanted = got.double(), wanted.double()
    return ((got * wanted).sum(-1) / (got.norm(dim=-1) * wanted.norm(dim=-1)).clamp(1e-300)).flatten()


def cosine(got, wanted):
    return float(cosines(got.reshape(1, -1), wanted.reshape(1, -1)))


class OnHost:
    """Replaces the binding's quantize_both by the reference, and its product by the exact one of the codes. Records the calls."""

    def __init__(self):
        self.casts, self.products, self.workspaces, self.any_order, self.gates = [], [], [], [], []

    def quantize_both(self, *pairs):
        names = {getattr(binding, name): name.lower() for name in FIELDS}
        given = {names[field]: value for field, value in zip(pairs[::2], pairs[1::2])}
        input, granularity = given["input"], GRANULARITIES[given["granularity"]]
        assert input.stride(1) == 1, input.stride()
        codes = [given[name] for name in ("output", "output_t") if given[name] is not None]  # an order that is not wanted is left out
        gated, gradient = bool(given["gate"]), given["grad_output"]
        assert input.shape[1] % (32 if gated and gradient is None else 16) == 0 and codes and input.data_ptr() % 16 == 0
        assert granularity != "tensor" or given["scales_t"] is None
        if gradient is not None:
            assert gated and gradient.stride(1) == 1 and gradient.stride(0) >= gradient.shape[1] and gradient.stride(0) % 8 == 0, gradient.stride()
        assert granularity == "tensor" or all((given[codes] is None) == (given[scales] is None) for codes, scales in
                                              (("output", "scales"), ("output_t", "scales_t")))
        made = st.quantize_both_reference(input, granularity, dtype=codes[0].dtype, power_of_two=given["powers_of_two"], sums=True, gated=gated,
                                          gradient=gradient)
        for name, value in zip(("output", "scales", "output_t", "scales_t"), made):
            if given[name] is not None:
                value = value.t() if name == "scales_t" and granularity == "1x128" else value  # as the kernel writes it
                assert given[name].shape == value.shape and given[name].dtype is value.dtype, name
                given[name].copy_(value)
        sums = given["sum"]
        if sums is not None:  # each row has those of 128 tokens
            matrix = Source(gated, gradient).matrix(input)
            assert sums.shape == (-(-input.shape[0] // 128), matrix.shape[1]) and sums.dtype is FP32
            sums.copy_(torch.stack([rows.sum(0, dtype=FP32) for rows in matrix.split(128)]))
        self.casts.append((tuple(input.shape), granularity, sums is not None))
        self.gates.append((gated, gradient is not None))
        self.workspaces.append(given["workspace"])

    def product(self, *pairs):
        names = {number: name for name, number in binding.FIELDS.items()}
        given = {names[field]: value for field, value in zip(pairs[::2], pairs[1::2])}
        self.workspaces.append(given.get("workspace", 0))
        adds, out = given.get("add", False), given.get("out", given.get("total"))
        if adds:
            assert out.dtype is FP32 and out.stride(1) == 1
            self.any_order.append(given["any_order"])
        if "a" in given:
            a, b = given["a"], given["b"]
            assert a.dtype is b.dtype and a.dtype.itemsize == 2, (a.dtype, b.dtype)
            out.copy_(a.double() @ b.double() + (out.double() if adds else 0))
            self.products.append((*a.shape, b.shape[1], "16bit"))
            return
        a, b, scale_a, scale_b = (given[name] for name in ("mat_a", "mat_b", "scale_a", "scale_b"))
        (m, k), n = a.shape, b.shape[1]
        assert b.shape[0] == k and k % 16 == 0 and a.stride(1) == 1 and b.stride(0) == 1, (a.shape, a.stride(), b.shape, b.stride())
        assert a.stride(0) % 16 == 0 and b.stride(1) % 16 == 0 and scale_a.dtype is scale_b.dtype is FP32
        blocks = -(-k // 128)
        if scale_a.numel() == scale_b.numel() == 1:
            a, b = a.double() * scale_a.double(), b.double() * scale_b.double()
        elif scale_a.shape in ((), (m, 1)) and scale_b.shape in ((), (1, n)):
            a, b = a.double() * scale_a.double(), b.double() * scale_b.double()
        else:
            each = scale_b.shape == (n, blocks)  # by 1x128, as A's
            assert scale_a.shape == (m, blocks) and (each or scale_b.shape == (-(-n // 128), blocks)), (scale_a.shape, scale_b.shape, m, n, k)
            assert all((scales.t() if each else scales).is_contiguous() for scales in (scale_a, scale_b))
            a = a.double() * scale_a.double().repeat_interleave(128, 1)[:, :k]
            b = b.double() * (scale_b if each else scale_b.repeat_interleave(128, 0)[:n]).double().repeat_interleave(128, 1)[:, :k].t()
        result = a @ b
        out.copy_((result if given.get("bias") is None else result + given["bias"].double()) + (out.double() if adds else 0))
        self.products.append((m, k, n, "fast" if given.get("use_fast_accum") else "promoted"))


@pytest.fixture
def on_host(monkeypatch):
    fake = OnHost()
    for number, name in enumerate(FIELDS):  # until the binding has them
        if not hasattr(binding, name):
            monkeypatch.setattr(binding, name, -1 - number, raising=False)
    monkeypatch.setattr(binding, "quantize_both", fake.quantize_both, raising=False)
    monkeypatch.setattr(binding, "product", fake.product)
    torch._dynamo.reset()
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the tensors are small
    yield fake
    torch.set_num_threads(threads)


# ---- layers and models
def layer_of(recipe="row", weight_gradient="fp8", k=256, n=144, dtype=BF16, bias=True, **more):
    torch.manual_seed(k + n)
    layer = st.nn.Linear(k, n, bias, recipe=recipe, backward="fp8", weight_gradient=weight_gradient, dtype=dtype, **more)
    if bias:
        torch.nn.init.normal_(layer.bias)
    return layer


def model_of(dtype=BF16):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(128, 256, dtype=dtype), torch.nn.GELU(), torch.nn.Linear(256, 64, dtype=dtype))


def step(layer, x, dy):
    """Returns the output, and the gradients of input, weight and bias, of one forward and backward."""
    layer.zero_grad(set_to_none=True)
    x = x.detach().requires_grad_()
    y = layer(x)
    y.backward(dy)
    return y.detach(), x.grad, *(None if p is None else p.grad for p in (layer.weight, layer.bias))


def gradients_of(model, x, dy, call=None):
    model.zero_grad(set_to_none=True)
    x = x.detach().requires_grad_()
    y = model(x) if call is None else call(x)
    y.backward(dy)
    return [y.detach(), x.grad, *(p.grad for p in model.parameters())]


def in_two_walks(fake, model, x, dy):
    """Expects that torch's split backward gives the bits of a whole one, for a model of two linears."""
    wanted = gradients_of(model, x, dy)
    model.zero_grad(set_to_none=True)
    x = x.requires_grad_()
    y = model(x)
    fake.products.clear()
    _, groups = stage_backward_input([y], [dy], [x], model.parameters())
    assert same(x.grad, wanted[1]) and len(fake.products) == 2
    del y
    stage_backward_weight(model.parameters(), groups)
    assert all(same(p.grad, one) for p, one in zip(model.parameters(), wanted[2:])) and len(fake.products) == 4


def converted(recipe, weight_gradient="fp8", **more):
    return st.nn.convert_(model_of(), recipe=recipe, backward="fp8", weight_gradient=weight_gradient, narrow=True,
                           report=lambda done: None, **more)

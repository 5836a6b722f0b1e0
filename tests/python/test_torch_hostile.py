# SPDX-License-Identifier: Apache-2.0
"""Errors of sluice.torch for arguments that are no tensors, and for tensors of vmap, DTensors and autocast. Tensors without a
column are covered too."""
import inspect
import random

import pytest

torch = pytest.importorskip("torch")

import sluice  # noqa: E402
import sluice.torch as st  # noqa: E402
from hostile_values import arguments_for, values  # noqa: E402
from test_torch_host import on_host  # noqa: E402, F401 (a fixture)

FUNCTIONS = {f"{module.__name__}.{name}": member for module in (st, st.deep_gemm, st.grad) for name, member in vars(module).items()
             if inspect.isfunction(member) and member.__module__.startswith(module.__name__) and hasattr(member, "__wrapped__")}


def bf16(*shape):
    return torch.ones(*shape, dtype=torch.bfloat16)


def tensors():
    e4m3 = bf16(64, 128).to(torch.float8_e4m3fn)
    return [bf16(64, 128), bf16(128, 64), bf16(()), bf16(0, 128), bf16(64, 0), bf16(2, 3, 4), e4m3, e4m3.t(), torch.ones(()),
            torch.ones(64, 1), torch.zeros(64, 128, dtype=torch.int32), torch.ones(64, 128, dtype=torch.complex64),
            torch.ones(64, 128, device="meta"), torch.eye(8).to_sparse(), bf16(64, 128).requires_grad_(), bf16(64, 256)[:, ::2],
            torch.nn.Parameter(bf16(64, 128)), torch.ones(64, 128, dtype=torch.bool), torch.ones(4, 4).numpy(), torch.bfloat16]


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("grads", [True, False])
def test_hostile_arguments_get_an_answer_or_an_error_of_ours(name, grads):
    generator = random.Random(name)
    packed = st.pack_int4(bf16(64, 128), 64)
    # Without lists, because tvm-ffi converts them element by element.
    matrix, nested = [bf16(64, 128)], [value for value in values() if not isinstance(value, list)]
    good = {"": tensors() + nested, "a": matrix, "b": [bf16(128, 64)], "input": matrix, "weight": matrix, "x": matrix,
            "mat_a": [matrix[0].to(torch.float8_e4m3fn)], "mat_b": [matrix[0].to(torch.float8_e4m3fn).t()], "packed": [packed],
            "granularity": ["row", "1x128"], "activation": ["relu"], "out_dtype": [torch.bfloat16], "bias": [None, bf16(64)],
            "scale_a": [torch.ones(())], "scale_b": [torch.ones(())], "scale": [torch.ones(())], "codes": matrix}
    if ".conv" in name:
        images = [bf16(*(2, 8, 6, 5, 7)[:2 + axes]) for axes in (1, 2, 3)]
        good.update(input=images, weight=images, grad_output=images, input_size=[images[0].shape], weight_size=[images[0].shape],
                    stride=[1, 2, (1, 2)], padding=[0, "same", ((1, 0), (0, 1))], dilation=[1], groups=[1])
    with torch.set_grad_enabled(grads):
        for _ in range(150):
            places, named = arguments_for(name, FUNCTIONS[name], good, generator)
            try:
                FUNCTIONS[name](*places, **named)
            except sluice.Error as error:
                assert str(error).isprintable()
            except TypeError as error:  # Python's own error for arguments that do not match the parameters
                assert "multiple values" in str(error), repr(error)
            except RuntimeError as error:  # torch's error, from operations of the reference or from its own kinds of tensors
                assert "quantize_reference" in name or "parse" in str(error), repr(error)


def test_all_of_them_are_looked_at():
    assert {"sluice.torch.linear", "sluice.torch.mm", "sluice.torch.scaled_mm", "sluice.torch.packed_mm", "sluice.torch.quantize",
            "sluice.torch.quantize_static", "sluice.torch.deep_gemm.fp8_gemm_nt"} <= set(FUNCTIONS)


def test_an_entry_has_the_parameters_of_its_function():
    for function in (st.linear, st.scaled_mm, st.quantize, st.deep_gemm.fp8_gemm_nt):
        bare = function.__wrapped__
        assert function.__doc__ == bare.__doc__ and inspect.signature(function) == inspect.signature(bare)
        for name, default in (bare.__kwdefaults__ or {}).items():
            assert function.__kwdefaults__[name] is default
        assert function.__code__.co_varnames[:8] == bare.__code__.co_varnames[:8] or function.__code__.co_argcount < 8


@pytest.mark.parametrize("transformed", [
    lambda f, x: torch.vmap(f)(x), lambda f, x: torch.func.grad(lambda y: f(y).sum())(x), lambda f, x: torch.func.jvp(f, (x,), (x,)),
    lambda f, x: torch.func.jacrev(f)(x)], ids=["vmap", "grad", "jvp", "jacrev"])
def test_functorch_is_refused_by_name(transformed):
    x, weight = bf16(4, 16, 32), bf16(64, 32)
    with pytest.raises(sluice.InvalidType, match="linear cannot be called inside of torch.vmap"):
        transformed(lambda y: st.linear(y, weight), x)
    with pytest.raises(sluice.Error, match="quantize cannot be called inside of torch.vmap|quantize has no backward"):
        transformed(lambda y: st.quantize(y)[1], x)


def test_dtensors_are_refused_by_name():
    tensor = pytest.importorskip("torch.distributed.tensor")
    import torch.distributed as dist

    if not dist.is_available():
        pytest.skip("no torch.distributed")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        mesh = tensor.init_device_mesh("cpu", (1,))
        x, weight = (tensor.distribute_tensor(t, mesh, [tensor.Replicate()]) for t in (bf16(16, 32), bf16(64, 32)))
        for call in (lambda: st.linear(x, weight), lambda: st.mm(x, weight.t()), lambda: st.quantize(x)):
            with pytest.raises(sluice.InvalidType, match="DTensor.*to_local"):
                call()
    finally:
        dist.destroy_process_group()


def test_autocast_casts_nothing(on_host):  # noqa: F811
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert st.linear(torch.ones(8, 32), torch.ones(16, 32)).dtype is torch.float32, "what a GPU refuses: there are no fp32 products"
        assert st.linear(bf16(8, 32), bf16(16, 32)).dtype is torch.bfloat16
        weight = bf16(16, 32).requires_grad_()
        st.linear(bf16(8, 32), weight).sum().backward()
    assert weight.grad.dtype is torch.bfloat16


@pytest.mark.parametrize("shape, outputs", [((4, 0), 16), ((2, 3, 0), 16), ((4, 32), 0), ((0, 32), 16), ((2, 0, 32), 16), ((0, 0), 0),
                                            ((2, 3, 32), 16)])
def test_the_backward_of_an_empty_product(on_host, shape, outputs):  # noqa: F811
    """torch cannot infer -1 in reshape(-1, 0), so the backward must not use it."""
    x, weight = bf16(*shape).requires_grad_(), bf16(outputs, shape[-1]).requires_grad_()
    bias = torch.zeros(outputs, dtype=torch.bfloat16, requires_grad=True)
    st.linear(x, weight, bias).sum().backward()
    expected = torch.nn.functional.linear(x.detach(), weight.detach(), bias.detach())
    assert (x.grad.shape, weight.grad.shape, bias.grad.shape) == (x.shape, weight.shape, bias.shape)
    assert (bias.grad == expected.numel() // max(outputs, 1)).all() and (x.grad == outputs).all()


def test_an_fp8_layer_does_not_take_rows_of_another_width_apart():
    layer = st.nn.Linear(128, 64, recipe="row")
    with pytest.raises(sluice.Error):
        layer(bf16(4, 64))  # would be valid as 2 rows of 128

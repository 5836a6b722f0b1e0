# SPDX-License-Identifier: Apache-2.0
"""The backward of linear against fp64, main_grad, quantisers bit for bit, converted models."""
import pytest

torch = pytest.importorskip("torch")

import sluice.torch as st  # noqa: E402
from gpu_helpers import BF16, FP16, FP32, exactly, needs_gpu, real, whole  # noqa: E402

pytestmark = needs_gpu


def gradients(x, w, bias, upstream):
    x, w = x.double().requires_grad_(), w.double().requires_grad_()
    bias = bias.double().requires_grad_() if bias is not None else None
    torch.nn.functional.linear(x, w, bias).backward(upstream.double())
    return x.grad, w.grad, bias.grad if bias is not None else None


@pytest.mark.parametrize("dtype", [BF16, FP16])
@pytest.mark.parametrize("shape", [(64, 256), (3, 5, 256), (1, 256)])
@pytest.mark.parametrize("with_bias", [True, False])
def test_gradients_are_exact_on_whole_numbers(dtype, shape, with_bias):
    x, w = whole(*shape, dtype=dtype).requires_grad_(), whole(512, 256, dtype=dtype, seed=1).requires_grad_()
    bias = whole(512, dtype=dtype, seed=2).requires_grad_() if with_bias else None
    upstream = whole(*shape[:-1], 512, dtype=dtype, seed=3)
    st.linear(x, w, bias).backward(upstream)
    for got, wanted in zip((x.grad, w.grad, bias.grad if with_bias else None), gradients(x.detach(), w.detach(),
                           bias.detach() if with_bias else None, upstream)):
        if got is not None:
            exactly(got, wanted)


def test_a_vocabulary_of_50257_trains():
    x, w = whole(96, 256).requires_grad_(), whole(50257, 256, seed=1).requires_grad_()
    upstream = whole(96, 50257, seed=3)
    logits = st.linear(x, w)
    exactly(logits.detach(), x.detach().double() @ w.detach().double().t())
    logits.backward(upstream)
    exactly(w.grad, upstream.double().t() @ x.detach().double())
    exactly(x.grad, upstream.double() @ w.detach().double())


def test_gradients_of_real_data_are_within_rounding_of_fp64():
    x, w, bias = real(128, 512).requires_grad_(), real(256, 512, seed=1).requires_grad_(), real(256, seed=2).requires_grad_()
    upstream = real(128, 256, seed=3)
    st.linear(x, w, bias).backward(upstream)
    for got, wanted in zip((x.grad, w.grad, bias.grad), gradients(x.detach(), w.detach(), bias.detach(), upstream)):
        assert torch.allclose(got.double(), wanted, rtol=2**-7, atol=2**-5)


def test_a_gradient_that_is_expanded_is_taken():
    x, w = whole(16, 64).requires_grad_(), whole(64, 64, seed=1).requires_grad_()
    st.linear(x, w).sum().backward()
    exactly(w.grad, torch.ones(16, 64, device="cuda").double().t() @ x.detach().double())


@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("tokens", [1, 64, 777, 16384])
def test_main_grad_is_added_to_in_fp32(tokens, deterministic):
    x, w = whole(tokens, 256).requires_grad_(), torch.nn.Parameter(whole(512, 256, seed=1))
    w.main_grad = torch.full((512, 256), 0.25, device="cuda", dtype=FP32)
    upstream = whole(tokens, 512, seed=3)
    for _ in range(2):
        st.linear(x, w, deterministic=deterministic).backward(upstream)
    exactly(w.main_grad, 0.25 + 2 * (upstream.double().t() @ x.detach().double()))
    assert w.grad is None and w.grad_added_to_main_grad


def test_an_ordered_main_grad_has_the_same_bits_every_time():
    x, w = real(16384, 256), torch.nn.Parameter(real(512, 256, seed=1))
    upstream, totals = real(16384, 512, seed=3), []
    for _ in range(20):
        w.main_grad = torch.full((512, 256), 0.1, device="cuda", dtype=FP32)
        st.linear(x, w).backward(upstream)
        totals.append(w.main_grad)
    assert all(torch.equal(total, totals[0]) for total in totals)
    assert torch.allclose(totals[0].double(), 0.1 + upstream.double().t() @ x.double(), rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("deterministic", [True, False])
def test_a_compiled_backward_adds_to_main_grad(deterministic):
    layer = st.nn.Linear(256, 512, bias=False, device="cuda", deterministic=deterministic)
    x, upstream = whole(64, 256), whole(64, 512, seed=3)
    layer.weight.main_grad = torch.full((512, 256), 0.25, device="cuda", dtype=FP32)
    compiled = torch.compile(layer)
    for _ in range(2):
        compiled(x).backward(upstream)
    exactly(layer.weight.main_grad, 0.25 + 2 * (upstream.double().t() @ x.double()))


def test_a_captured_backward_adds_at_each_replay():
    x, w = whole(64, 256), torch.nn.Parameter(whole(512, 256, seed=1))
    w.main_grad = torch.zeros((512, 256), device="cuda", dtype=FP32)
    upstream, graph, side = whole(64, 512, seed=3), torch.cuda.CUDAGraph(), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        st.linear(x, w).backward(upstream)
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        st.linear(x, w).backward(upstream)
    for _ in range(3):
        graph.replay()
    exactly(w.main_grad, 4 * (upstream.double().t() @ x.double()))


def test_a_compiled_backward():
    layer = st.nn.Linear(256, 512, device="cuda")
    x, upstream = real(64, 256), real(64, 512, seed=1)
    eager = layer(x)
    eager.backward(upstream)
    wanted = layer.weight.grad.clone()
    layer.zero_grad()
    torch.compile(layer, fullgraph=True)(x).backward(upstream)
    assert torch.allclose(layer.weight.grad.float(), wanted.float(), rtol=2**-6, atol=2**-6)


def same_bits(got, wanted):
    assert torch.equal(got[1].nan_to_num(7), wanted[1].nan_to_num(7))
    assert torch.equal(got[0].float().nan_to_num(7), wanted[0].float().nan_to_num(7))


@pytest.mark.parametrize("dtype", [BF16, FP16, FP32])
@pytest.mark.parametrize("granularity", ["tensor", "row", "1x128", "128x128"])
@pytest.mark.parametrize("shape", [(1, 128), (77, 1000), (256, 7168), (4096, 512)])
def test_quantisers_give_the_bits_of_torchs_own_operations(dtype, granularity, shape):
    for x in (real(*shape, dtype=dtype), real(*shape, dtype=dtype) * 1e-5, torch.zeros(*shape, device="cuda", dtype=dtype)):
        same_bits(st.quantize(x, granularity), st.quantize_reference(x, granularity))
    special = real(*shape, dtype=dtype)
    special[0, 5], special[-1, 7] = float("nan"), 3e4
    same_bits(st.quantize(special, granularity), st.quantize_reference(special, granularity))


def test_quantisers_give_the_bits_of_deepgemms_casts():
    x = real(300, 1024)
    blocks = x.view(300, -1, 128)  # the code of DeepGEMM's per_token_cast_to_fp8
    amax = blocks.abs().float().amax(dim=2).view(300, -1).clamp(1e-4)
    wanted = (blocks * (448.0 / amax.unsqueeze(2))).to(torch.float8_e4m3fn).view(300, 1024), amax / 448.0
    same_bits(st.deep_gemm.per_token_cast_to_fp8(x), wanted)


def test_quantisers_take_views_and_batches():
    x = real(4, 16, 512)
    same_bits(st.quantize(x, "1x128"), st.quantize_reference(x, "1x128"))
    view = real(64, 1024)[:, 128:640]
    same_bits(st.quantize(view, "row"), st.quantize_reference(view, "row"))
    odd = real(33, 513)[:, 1:300]
    same_bits(st.quantize(odd, "1x128"), st.quantize_reference(odd, "1x128"))


def test_a_given_scale():
    x, scale = real(64, 512), torch.tensor(0.03125, device="cuda")
    wanted = (x.float() * 32).clamp(-448, 448).to(torch.float8_e4m3fn)
    assert torch.equal(st.quantize_static(x, scale).float(), wanted.float())


@pytest.mark.parametrize("recipe", [None, "tensor", "row", "block"])
def test_converted_models_say_what_the_plain_ones_do(recipe):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(512, 1024, dtype=BF16), torch.nn.SiLU(), torch.nn.Linear(1024, 512, dtype=BF16))
    model = model.cuda()
    x = real(3, 40, 512)
    with torch.no_grad():
        wanted = model(x).float()
        got = st.nn.convert_(model, recipe=recipe)(x).float()
    assert (got - wanted).norm() / wanted.norm() < (0.1 if recipe else 0.01)

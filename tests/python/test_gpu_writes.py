# SPDX-License-Identifier: Apache-2.0
"""No call may cache a weight's contents on a GPU. Tests every way to write a weight, replays of captured
writes included, for 16-bit, fp8 and packed weights."""
import copy

import pytest

torch = pytest.importorskip("torch")

import sluice.torch as st  # noqa: E402
from gpu_helpers import BF16, needs_gpu, real  # noqa: E402
from tensor_writes import READERS, WAYS, WAYS_OF_TRAINED, LayerReader, check_way, whole  # noqa: E402

pytestmark = needs_gpu


@pytest.mark.parametrize("way", WAYS_OF_TRAINED, ids=lambda way: way.__name__)
@pytest.mark.parametrize("reader", READERS)
def test_a_call_reads_what_was_written(reader, way):
    check_way(READERS[reader]("cuda"), way)


def capture(work):
    graph, side = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        work()
    torch.cuda.current_stream().wait_stream(side)
    with torch.cuda.graph(graph):
        work()
    return graph


@pytest.mark.parametrize("reader", READERS)
def test_a_call_reads_what_a_replay_wrote(reader):
    """An optimizer's step is captured, and the eager call is made between its replays. (A public report
    described stale weights in validation.)"""
    reader = READERS[reader]("cuda")
    weight = (reader.layer if isinstance(reader, LayerReader) else reader).weight
    step = torch.ones_like(weight, requires_grad=False)
    reader.check()
    with torch.no_grad():
        graph = capture(lambda: weight.sub_(step))
    for _ in range(3):
        reader.check()
        before = weight.detach().clone()
        graph.replay()
        assert torch.equal(weight.detach(), before - 1)
    reader.check()


@pytest.mark.parametrize("reader", READERS)
def test_a_replay_reads_what_was_written(reader):
    reader = READERS[reader]("cuda")
    weight = (reader.layer if isinstance(reader, LayerReader) else reader).weight
    made = {}

    def run():
        with torch.no_grad():
            made["y"] = reader.ours(weight)

    graph = capture(run)
    for seed in (2, 3):
        weight.data.copy_(whole(*weight.shape, device="cuda", seed=seed))
        graph.replay()
        wanted = reader.torchs(weight.detach().cpu().double())
        assert torch.equal(made["y"].cpu().double(), wanted.to(BF16).double())


def test_a_padded_weight_follows_an_optimizer_of_real_numbers():
    """A captured optimizer writes, and then a write through ``.data``. The number of channels is not a
    multiple of 8."""
    torch.manual_seed(0)
    w, x = torch.nn.Parameter(torch.randn(16, 3, 3, 3, device="cuda").bfloat16()), torch.randn(4, 3, 32, 32, device="cuda").bfloat16()
    gradient = torch.randn(16, 3, 3, 3, device="cuda").bfloat16()

    def differs():
        with torch.no_grad():
            ours = st.conv2d(x, w, padding=1).double().cpu()
            wanted = torch.nn.functional.conv2d(x.double().cpu(), w.double().cpu(), padding=1)
        return float((ours - wanted).abs().max() / wanted.abs().max())

    assert differs() < 0.01
    with torch.no_grad():
        graph = capture(lambda: w.sub_(gradient))
    assert differs() < 0.01
    for _ in range(5):
        graph.replay()
    assert differs() < 0.01
    w.data.mul_(3.0)
    assert differs() < 0.01


def fp8_layer(recipe):
    return lambda seed: st.nn.Linear.from_linear(_linear(seed), recipe)


def _linear(seed):
    torch.manual_seed(seed)
    return torch.nn.Linear(256, 384, device="cuda", dtype=BF16)


LAYERS = {**{f"fp8 {recipe}": fp8_layer(recipe) for recipe in ("tensor", "row", "block")},
          "int4": lambda seed: st.nn.Linear4bit.from_linear(_linear(seed)),
          "int4, e4m3 tokens": lambda seed: st.nn.Linear4bit.from_linear(_linear(seed), activations="e4m3"),
          "int8": lambda seed: st.nn.Linear8bit.from_linear(_linear(seed))}


def tensors_of(layer):
    return {name: tensor.detach() for name, tensor in (*layer.named_parameters(), *layer.named_buffers()) if name != "weight_format"}


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
@pytest.mark.parametrize("kind", LAYERS)
def test_quantised_layers_read_what_was_written(kind, way):
    """A layer gets the tensors of another layer, and must then give that layer's results to the bit."""
    layer, x = LAYERS[kind](0), real(5, 256)
    with torch.no_grad():
        layer(x)
        for seed in (1, 2):
            other = LAYERS[kind](seed)
            for name, values in tensors_of(other).items():
                way(layer, name, values)
            assert torch.equal(layer(x), other(x)) and torch.equal(copy.deepcopy(layer)(x), other(x))


@pytest.mark.parametrize("kind", LAYERS)
def test_quantised_layers_read_what_a_replay_wrote(kind):
    layer, other, x = LAYERS[kind](0), LAYERS[kind](1), real(5, 256)
    mine, others = tensors_of(layer), tensors_of(other)
    with torch.no_grad():
        layer(x)
        graph = capture(lambda: [mine[name].copy_(values) for name, values in others.items()])
        for name, values in tensors_of(LAYERS[kind](2)).items():
            mine[name].copy_(values)
        layer(x)
        graph.replay()
        assert torch.equal(layer(x), other(x))


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_a_permutation_is_read_at_each_call(way):
    torch.manual_seed(0)
    layer = st.nn.Linear4bit(256, 128, act_order=True, device="cuda")
    layer.weight_packed.copy_(st.pack_int4(real(128, 256)).blob)
    x = real(5, 256)
    plain = st.nn.Linear4bit(256, 128, device="cuda")
    for name, values in tensors_of(plain).items():
        values.copy_(getattr(layer, name).detach())
    with torch.no_grad():
        for _ in range(3):
            order = torch.randperm(256, device="cuda")
            way(layer, "permutation", order)
            assert torch.equal(layer(x), plain(x[:, order].contiguous()))

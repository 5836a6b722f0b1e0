# SPDX-License-Identifier: Apache-2.0
"""No call may cache a weight's contents: every way to write a weight, and then the result compared with
torch's. test_gpu_writes.py has the rest."""
import copy
import pickle

import pytest

torch = pytest.importorskip("torch")

import sluice.torch as st  # noqa: E402
from conv_on_host import on_host  # noqa: E402, F401 (a fixture)
from tensor_writes import READERS, WAYS_OF_TRAINED, check_way, whole  # noqa: E402


@pytest.mark.parametrize("way", WAYS_OF_TRAINED, ids=lambda way: way.__name__)
@pytest.mark.parametrize("reader", READERS)
def test_a_call_reads_what_was_written(on_host, reader, way):  # noqa: F811
    check_way(READERS[reader]("cpu"), way)


@pytest.mark.parametrize("change", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer)), lambda layer: layer.half().bfloat16(),
                                    lambda layer: layer.to(memory_format=torch.contiguous_format)])
def test_a_layer_that_moved_reads_what_is_written_then(on_host, change):  # noqa: F811
    layer = st.nn.Conv2d(16, 21, 1, bias=False, dtype=torch.bfloat16)
    x = whole(1, 16, 5, 6, device="cpu")
    with torch.no_grad():
        layer(x)
        moved = change(layer)
        moved.weight.data.copy_(whole(21, 16, 1, 1, device="cpu", seed=3))
        wanted = torch.nn.functional.conv2d(x.double(), moved.weight.double())
        assert torch.equal(moved(x).double(), wanted.bfloat16().double())


def test_an_average_of_weights_is_swapped_in_and_out(on_host):  # noqa: F811
    layer = st.nn.Conv2d(16, 3, 3, bias=False, dtype=torch.bfloat16)
    x, plain = whole(1, 16, 5, 5, device="cpu"), torch.nn.functional.conv2d
    weights = [whole(3, 16, 3, 3, device="cpu", seed=seed) for seed in range(2)]
    for turn in range(4):  # as torch_ema and timm do it
        layer.weight.data.copy_(weights[turn % 2])
        with torch.no_grad():
            assert torch.equal(layer(x).double(), plain(x.double(), weights[turn % 2].double()).bfloat16().double())

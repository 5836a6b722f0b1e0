# SPDX-License-Identifier: Apache-2.0
"""Ways to write a tensor of a module, and calls that read one, for tests that nothing of the package remembers what a tensor held.

A way takes a module, the tensor's name and the values that it shall hold. Some ways change no version counter, some no address, some
replace the tensor.
"""
import ctypes

import pytest

torch = pytest.importorskip("torch")

import sluice.torch as st  # noqa: E402

CONVOLUTIONS = {3: torch.nn.functional.conv1d, 4: torch.nn.functional.conv2d, 5: torch.nn.functional.conv3d}


def whole(*shape, device, seed=0):
    """Returns whole numbers that are so small that sums are exact, also after a step of an optimizer."""
    generator = torch.Generator().manual_seed(seed + sum(shape))
    return torch.randint(-2, 3, shape, generator=generator).to(device, torch.bfloat16)


def of(module, name):
    return getattr(module, name)


def as_integers(tensor):
    return tensor.detach().view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[tensor.element_size()])


def in_place(module, name, values):
    with torch.no_grad():
        of(module, name).copy_(values)


def through_data(module, name, values):
    of(module, name).data.copy_(values)


def new_data(module, name, values):
    of(module, name).data = values.clone()


def set_to(module, name, values):
    with torch.no_grad():
        of(module, name).set_(values.clone())


def in_inference_mode(module, name, values):
    with torch.inference_mode():
        of(module, name).copy_(values)


def raw_memory(module, name, values):
    tensor = of(module, name)
    source = torch.empty_like(tensor.detach()).copy_(values)
    assert source.stride() == tensor.stride()
    if not tensor.is_cuda:
        ctypes.memmove(tensor.data_ptr(), source.data_ptr(), source.nbytes)
        return
    torch.cuda.synchronize()
    copied = ctypes.CDLL("libcuda.so.1").cuMemcpyDtoD_v2(ctypes.c_uint64(tensor.data_ptr()), ctypes.c_uint64(source.data_ptr()),
                                                        ctypes.c_size_t(source.nbytes))
    assert copied == 0
    torch.cuda.synchronize()


def storage(module, name, values):
    tensor = of(module, name).detach()
    source = torch.empty_like(tensor).copy_(values)
    assert source.stride() == tensor.stride() and tensor.storage_offset() == 0
    tensor.untyped_storage().copy_(source.untyped_storage())


def dlpack_alias(module, name, values):
    torch.from_dlpack(as_integers(of(module, name))).copy_(as_integers(values))


def numpy_alias(module, name, values):
    if values.is_cuda:
        pytest.skip("numpy sees host memory")
    as_integers(of(module, name)).numpy()[...] = as_integers(values).numpy()


def a_view(module, name, values):
    of(module, name).detach().unsqueeze(0).copy_(values)


def foreach(module, name, values):
    with torch.no_grad():
        torch._foreach_copy_([of(module, name)], [values])


def load(module, name, values):
    module.load_state_dict({name: values}, strict=False)


def load_and_assign(module, name, values):
    module.load_state_dict({name: values.clone()}, strict=False, assign=True)


def swap(module, name, values):
    tensor = of(module, name)
    other = torch.nn.Parameter(values.clone(), tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter) else values.clone()
    torch.utils.swap_tensors(tensor, other)


def replace(module, name, values):
    tensor = of(module, name)
    setattr(module, name, torch.nn.Parameter(values.clone(), tensor.requires_grad) if isinstance(tensor, torch.nn.Parameter)
            else values.clone())


def a_vector(module, name, values):
    torch.nn.utils.vector_to_parameters(values.reshape(-1).clone(), [of(module, name)])


def _step(module, name, values, **arguments):
    parameter = of(module, name)
    parameter.grad = parameter.detach() - values
    torch.optim.SGD([parameter], lr=1.0, **arguments).step()
    parameter.grad = None


def an_optimizer(module, name, values):
    _step(module, name, values, foreach=False)


def a_foreach_optimizer(module, name, values):
    _step(module, name, values, foreach=True)


WAYS = [in_place, through_data, new_data, set_to, in_inference_mode, raw_memory, storage, dlpack_alias, numpy_alias, a_view, foreach, load,
        load_and_assign, swap, replace]
WAYS_OF_TRAINED = WAYS + [a_vector, an_optimizer, a_foreach_optimizer]


class Reader(torch.nn.Module):
    """A weight, a call that reads it, and the same call in torch. torch computes in float64 on the host,
    where that is exact."""

    def __init__(self, weight, ours, torchs):
        super().__init__()
        self.weight, self.ours, self.torchs = torch.nn.Parameter(weight), ours, torchs

    def check(self):
        with torch.no_grad():
            got, wanted = self.ours(self.weight), self.torchs(self.weight.cpu().double())
        assert torch.equal(got.cpu().double(), wanted.to(got.dtype).double()), "a stale weight"


class LayerReader(Reader):
    """A layer of ``sluice.torch.nn``, and torch's layer for comparison."""

    def __init__(self, layer, x, torchs):
        super().__init__(torch.zeros(()), lambda _: layer(x), torchs)
        del self.weight
        self.layer = layer

    @property
    def weight(self):
        return self.layer.weight


def _convolution(name, shape, weight, device, **arguments):
    x = whole(*shape, device=device)
    weight = whole(*weight, device=device, seed=1)
    return Reader(weight.movedim(1, -1).contiguous().movedim(-1, 1), lambda w: getattr(st, name)(x, w, **arguments),
                  lambda w: getattr(torch.nn.functional, name)(x.cpu().double(), w, **arguments))


def _input_gradient(device):
    dy = whole(1, 5, 4, 4, device=device)
    return Reader(whole(5, 3, 3, 3, device=device), lambda w: st.grad.conv2d_input((1, 3, 6, 6), w, dy),
                  lambda w: torch.nn.grad.conv2d_input((1, 3, 6, 6), w, dy.cpu().double()))


def _product(device):
    x = whole(8, 16, device=device)
    return Reader(whole(8, 16, device=device), lambda w: st.linear(x, w), lambda w: x.cpu().double() @ w.t())


def _layer(make, plain, shape, device):
    x = whole(*shape, device=device)
    layer = make()
    with torch.no_grad():
        layer.weight.copy_(whole(*layer.weight.shape, device=device, seed=1))
    return LayerReader(layer, x, lambda w: plain(x.cpu().double(), w))


READERS = {
    "conv1d": lambda d: _convolution("conv1d", (2, 3, 9), (5, 3, 3), d),
    "conv2d": lambda d: _convolution("conv2d", (2, 3, 9, 8), (16, 3, 3, 3), d, padding=1),
    "conv2d, odd filters": lambda d: _convolution("conv2d", (2, 16, 9, 8), (21, 16, 1, 1), d),
    "conv2d, whole channels": lambda d: _convolution("conv2d", (2, 16, 9, 8), (8, 16, 3, 3), d),
    "conv2d, patches": lambda d: _convolution("conv2d", (2, 3, 8, 8), (5, 3, 4, 4), d, stride=4),
    "conv3d": lambda d: _convolution("conv3d", (1, 3, 4, 5, 6), (5, 3, 2, 2, 2), d),
    "conv_transpose2d": lambda d: _convolution("conv_transpose2d", (1, 5, 4, 4), (5, 3, 3, 3), d),
    "grad.conv2d_input": _input_gradient,
    "linear": _product,
    "nn.Conv2d": lambda d: _layer(lambda: st.nn.Conv2d(16, 21, 1, bias=False, device=d, dtype=torch.bfloat16),
                                  torch.nn.functional.conv2d, (1, 16, 5, 6), d),
    "nn.Linear": lambda d: _layer(lambda: st.nn.Linear(16, 8, bias=False, device=d), torch.nn.functional.linear, (8, 16), d),
}


def check_way(reader, way):
    """Reads, then writes and reads again, three times, because freed memory may be allocated again at the
    same address."""
    module = reader.layer if isinstance(reader, LayerReader) else reader
    reader.check()
    for seed in (2, 3, 4):
        weight = module.weight
        values = whole(*weight.shape, device=weight.device, seed=seed)
        way(module, "weight", values)
        assert torch.equal(module.weight.detach(), values), "the way writes"
        reader.check()

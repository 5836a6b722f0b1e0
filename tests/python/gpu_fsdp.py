# SPDX-License-Identifier: Apache-2.0
"""FSDP2 of two ranks on two GPUs, with layers that train in FP8. Gradients are the mean of those of both ranks' data without FSDP, also where a
gathered weight takes the place of another. Exits with 0 if they are. test_gpu_fp8_training.py runs it.

    PYTHONPATH=python:tests/python python tests/python/gpu_fsdp.py
"""
import copy
import datetime
import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import sluice.torch as st

BF16, FP32 = torch.bfloat16, torch.float32
WIDTH, TOKENS = 512, 1000
RANKS = 2


def layers(recipe):
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(3)), torch.nn.Linear(WIDTH, 2 * WIDTH), torch.nn.Linear(WIDTH, WIDTH))
    model = st.nn.convert_(model.cuda(), recipe=recipe, backward="fp8", narrow=True, report=lambda done: None)
    return torch.nn.Sequential(*model[:3], st.nn.FeedForward(model[3], model[4]))


def data(rank):
    generator = torch.Generator("cuda").manual_seed(rank)
    return (torch.randn(TOKENS, WIDTH, device="cuda", generator=generator), torch.randn(TOKENS, WIDTH, device="cuda", generator=generator) * 1e-4)


def gradients(model, rank, dtype):
    model.zero_grad(set_to_none=True)
    x, dy = data(rank)
    y = model(x.to(dtype))
    y.backward(dy.to(y.dtype))
    return [parameter.grad for parameter in model.parameters()]


def check(rank, recipe):
    model = layers(recipe)
    alone = copy.deepcopy(model).to(BF16)
    wanted = [torch.stack([one.float() for one in of_ranks]).mean(0) for of_ranks in zip(*(
        [gradient.clone() for gradient in gradients(alone, other, BF16)] for other in range(RANKS)))]
    policy = MixedPrecisionPolicy(param_dtype=BF16, reduce_dtype=FP32)
    for layer in (*model, model):
        if list(layer.parameters()):
            fully_shard(layer, mp_policy=policy)
    for _ in range(2):
        with st.nn.weights_kept(model):  # layers of one shape: their gathered weights may lie at one address
            made = [gradients(model, rank, FP32), gradients(model, rank, FP32)]
        for one, again, other in zip(*made, wanted):
            distance = float((one.full_tensor() - other).norm() / other.norm())
            assert distance < 1e-5 and torch.equal(one.full_tensor(), again.full_tensor()), (rank, recipe, tuple(other.shape), distance)
    if rank == 0:
        print(f"{recipe}: gradients of {len(wanted)} parameters", flush=True)


def run(rank, store):
    os.environ["NCCL_NVLS_ENABLE"] = "0"
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", init_method=f"file://{store}", rank=rank, world_size=RANKS, device_id=torch.device("cuda", rank),
                            timeout=datetime.timedelta(seconds=120))
    try:
        for recipe in ("row", "tensor", "block"):
            check(rank, recipe)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    if torch.cuda.device_count() < RANKS:
        sys.exit(f"{torch.cuda.device_count()} GPUs are here, and {RANKS} are needed")
    with tempfile.TemporaryDirectory() as folder:
        torch.multiprocessing.spawn(run, (os.path.join(folder, "store"),), RANKS)

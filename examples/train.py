# SPDX-License-Identifier: Apache-2.0
"""A training loop in bf16 whose gradients and master weights are fp32. Needs a GPU, torch and sluice.

Sluice's linears replace the model's: its kernels compute the forward product and both products of the backward. Each
weight has a `main_grad` in fp32, to which the backward's product adds in place. It also has an fp32 master copy that the
optimizer steps; the bf16 weight is that copy, rounded. The model learns a fixed linear map, and the loss falls.

The first step takes longer: it compiles, and times three kernels of each product (docs/tuning.md says how to pin one).

    python examples/train.py --steps 200
"""
import argparse

import torch

import sluice.torch as st


class MainWeights:
    """fp32 master copies of a model's parameters, which torch's optimizer updates."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.of_model = list(model.parameters())
        self.masters = [p.detach().float().clone().requires_grad_() for p in self.of_model]
        for p in self.of_model:
            if p.dim() == 2:  # a linear's weight: its gradient is added in fp32 by the kernel itself
                p.main_grad = torch.zeros_like(p, dtype=torch.float32)

    def take_gradients(self) -> None:
        for p, master in zip(self.of_model, self.masters):
            master.grad = p.main_grad if hasattr(p, "main_grad") else p.grad.float()

    @torch.no_grad()
    def give_weights(self) -> None:
        for p, master in zip(self.of_model, self.masters):
            p.copy_(master)
            p.grad = None
            if hasattr(p, "main_grad"):
                p.main_grad.zero_()


def model_of(width: int, device: str) -> torch.nn.Module:
    layers = torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width))
    return st.nn.convert_(layers.to(device, torch.bfloat16), recipe=None)  # bf16 first: fp32 weights are refused


def train(steps: int, width: int = 256, batch: int = 512, device: str = "cuda") -> list:
    torch.manual_seed(0)
    model = model_of(width, device)
    right = torch.randn(width, width, device=device, dtype=torch.bfloat16) / width**0.5
    main = MainWeights(model)
    optimizer = torch.optim.AdamW(main.masters, lr=3e-3)
    losses = []
    for step in range(steps):
        x = torch.randn(batch, width, device=device, dtype=torch.bfloat16)
        loss = torch.nn.functional.mse_loss(model(x).float(), (x @ right).float())
        loss.backward()
        main.take_gradients()
        optimizer.step()
        main.give_weights()
        losses.append(loss.item())
        if step % 20 == 0 or step == steps - 1:
            print(f"step {step}: loss {losses[-1]:.4f}")
    return losses


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("examples/train.py needs a Hopper GPU, and torch finds none: `sluice doctor` says what this machine has")
    train(arguments.steps)

# SPDX-License-Identifier: Apache-2.0
"""Times a training step of ResNet-50 (forward and backward, no optimizer), channels_last in bf16 autocast, with torch's convolutions
and with ours: eager, compiled, and with main_grad.

    python tests/python/gpu_resnet.py [--batch 64] [--steps 30] [--json FILE] [--autotune]

torch runs with cuDNN's benchmark mode. "Compiled" is torch.compile, "graphs" is its mode="reduce-overhead", where the GPU replays a CUDA
graph and the host's calls take no time. Contenders take turns, so that a slow spell falls on all; a time is the median of CUDA events.
Loss and gradients are compared to torch's fp32 step, with torch's own bf16 step as the bound. Exits with 1 if they are outside, or if our
step takes longer than torch's: compiled, with graphs, or the best of each.
"""
import argparse
import copy
import json
import os
import statistics
import sys
import time

import torch

import sluice
import sluice.torch as st

BLOCKS, WIDTHS = (3, 4, 6, 3), (64, 128, 256, 512)


def conv(inputs: int, outputs: int, kernel: int, stride: int = 1) -> torch.nn.Conv2d:
    return torch.nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, bias=False)


class Bottleneck(torch.nn.Module):
    """A bottleneck block: 1x1, 3x3 (which has the stride, as in version 1.5) and 1x1, and the shortcut around
    them."""

    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(inputs, width, 1), torch.nn.BatchNorm2d(width)
        self.conv2, self.bn2 = conv(width, width, 3, stride), torch.nn.BatchNorm2d(width)
        self.conv3, self.bn3 = conv(width, 4 * width, 1), torch.nn.BatchNorm2d(4 * width)
        self.downsample = None
        if stride != 1 or inputs != 4 * width:
            self.downsample = torch.nn.Sequential(conv(inputs, 4 * width, 1, stride), torch.nn.BatchNorm2d(4 * width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        around = x if self.downsample is None else self.downsample(x)
        y = torch.relu(self.bn1(self.conv1(x)))
        y = torch.relu(self.bn2(self.conv2(y)))
        return torch.relu(self.bn3(self.conv3(y)) + around)


class ResNet50(torch.nn.Module):
    """ResNet-50. Parameters have torchvision's names."""

    def __init__(self, classes: int = 1000) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv(3, 64, 7, 2), torch.nn.BatchNorm2d(64)
        self.maxpool, inputs = torch.nn.MaxPool2d(3, 2, 1), 64
        for stage, (blocks, width) in enumerate(zip(BLOCKS, WIDTHS)):
            made = []
            for block in range(blocks):
                made.append(Bottleneck(inputs, width, 2 if stage > 0 and block == 0 else 1))
                inputs = 4 * width
            setattr(self, f"layer{stage + 1}", torch.nn.Sequential(*made))
        self.fc = torch.nn.Linear(inputs, classes)
        for module in self.modules():
            if isinstance(module, torch.nn.Conv2d):
                torch.nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(torch.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


def loss_of(model, x, labels, autocast):
    with torch.autocast(x.device.type, autocast or torch.bfloat16, enabled=autocast is not None):
        return torch.nn.functional.cross_entropy(model(x).float(), labels)


def gradients_of(model, x, labels, autocast):
    """Returns the loss and the gradients of a step, by the names of parameters; those in main_grad too."""
    loss = loss_of(model, x, labels, autocast)
    loss.backward()
    bare = getattr(model, "_orig_mod", model)
    return loss.item(), {name: (parameter.main_grad if parameter.grad is None else parameter.grad).detach().float().clone()
                         for name, parameter in bare.named_parameters()}


def largest_share(gradients, reference, bound):
    """Returns the gradient that is farthest from the fp32 step's, as a share of what is allowed, and its name."""
    shares = {name: ((gradients[name] - wanted).norm() / (1.5 * (bound[name] - wanted).norm() + 0.02 * wanted.norm())).item()
              for name, wanted in reference.items()}
    name = max(shares, key=shares.__getitem__)
    return shares[name], name


def timed(contenders, x, labels, steps):
    """Returns the medians of forward, backward and both in ms. Gradients are set to None outside of the timed part; those in main_grad
    are left to grow."""
    samples = {name: [] for name in contenders}
    for _ in range(steps):
        for name, model in contenders.items():
            model.zero_grad(set_to_none=True)
            torch.compiler.cudagraph_mark_step_begin()
            events = [torch.cuda.Event(enable_timing=True) for _ in range(3)]
            events[0].record()
            loss = loss_of(model, x, labels, torch.bfloat16)
            events[1].record()
            loss.backward()
            events[2].record()
            events[2].synchronize()
            samples[name].append((events[0].elapsed_time(events[1]), events[1].elapsed_time(events[2]), events[0].elapsed_time(events[2])))
    return {name: {what: round(statistics.median(column), 3) for what, column in zip(("forward", "backward", "step"), zip(*found))}
            for name, found in samples.items()}


def contenders_of(plain, autotune):
    """Returns the models by name. Each has parameters of its own."""
    def ours(main_grad=False):
        model = st.nn.convert_(copy.deepcopy(plain), recipe=None, report=lambda _: None)
        if main_grad:
            st.nn.main_grad_views(model)
        return model

    found = {"torch": copy.deepcopy(plain), "torch compiled": torch.compile(copy.deepcopy(plain)),
             "torch graphs": torch.compile(copy.deepcopy(plain), mode="reduce-overhead")}
    if autotune:
        found["torch autotuned"] = torch.compile(copy.deepcopy(plain), mode="max-autotune-no-cudagraphs")
    found["sluice"], found["sluice compiled"] = ours(), torch.compile(ours())
    found["sluice graphs"] = torch.compile(ours(), mode="reduce-overhead")
    found["sluice main_grad"] = ours(main_grad=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--json", help="file to write the results to")
    parser.add_argument("--autotune", action="store_true", help="torch.compile with mode=max-autotune-no-cudagraphs too")
    asked = parser.parse_args()
    torch.backends.cudnn.benchmark = True
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.manual_seed(0)
    plain = ResNet50().cuda().to(memory_format=torch.channels_last)
    x = torch.randn(asked.batch, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    labels = torch.randint(0, 1000, (asked.batch,), device="cuda")
    exact, reference = gradients_of(copy.deepcopy(plain), x, labels, None)
    contenders = contenders_of(plain, asked.autotune)
    checked, good, bound = {}, True, None
    for name, model in contenders.items():
        started = time.perf_counter()
        loss, gradients = gradients_of(model, x, labels, torch.bfloat16)
        bound = gradients if bound is None else bound
        share, worst = largest_share(gradients, reference, bound)
        checked[name] = {"loss": round(loss, 6), "largest_share_of_the_bound": round(share, 3), "of": worst,
                         "first_step_s": round(time.perf_counter() - started, 1)}
        good &= share <= 1 and abs(loss - exact) <= 2e-3 * abs(exact) + 2 * abs(checked["torch"]["loss"] - exact)
    copies = st.conv_layout_copies()
    timed(contenders, x, labels, 5)
    times = timed(contenders, x, labels, asked.steps)
    copies = st.conv_layout_copies() - copies
    fallbacks = st.nn.fallbacks(contenders["sluice"])
    best = {who: min((times[name]["step"], name) for name in times if name.startswith(who)) for who in ("torch", "sluice")}
    print(f"ResNet-50, batch {asked.batch}, bf16 autocast, channels_last; {torch.cuda.get_device_name()}; ms")
    print(f"{'':18}{'forward':>9}{'backward':>10}{'step':>9}{'loss':>10}  share of the bound")
    for name, row in times.items():
        print(f"{name:18}{row['forward']:9.3f}{row['backward']:10.3f}{row['step']:9.3f}{checked[name]['loss']:10.5f}  "
              f"{checked[name]['largest_share_of_the_bound']:.3f} ({checked[name]['of']})")
    print(f"loss in fp32 {exact:.5f}; layout copies in the timed steps: {copies}")
    for name, reason in fallbacks.items():
        print(f"left to torch: {name}: {reason}")
    pairs = [(times[f"sluice {kind}"]["step"], times[f"torch {kind}"]["step"], kind) for kind in ("compiled", "graphs")]
    pairs.append((best["sluice"][0], best["torch"][0], f"best ({best['sluice'][1]}, {best['torch'][1]})"))
    fast = all(ours <= torchs for ours, torchs, _ in pairs)
    for ours, torchs, kind in pairs:
        print(f"{kind}: {ours} ms, torch's {torchs} ms: {'met' if ours <= torchs else 'MISSED'}")
    print(f"gradients {'within' if good else 'OUTSIDE'} the bound")
    if asked.json:
        found = {"commit": os.environ.get("SLUICE_COMMIT", ""), "sluice": sluice.__version__, "torch": torch.__version__,
                 "cudnn": torch.backends.cudnn.version(), "gpu": torch.cuda.get_device_name(), "command": " ".join(sys.argv),
                 "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "batch": asked.batch, "ms": times, "checked": checked,
                 "loss_fp32": exact, "fallbacks": fallbacks, "layout_copies": copies}
        with open(asked.json, "w", encoding="utf-8") as file:
            json.dump(found, file, indent=1)
    return 0 if good and fast else 1


if __name__ == "__main__":
    sys.exit(main())

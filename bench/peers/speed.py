"""What a training step and attention cost here and in PyTorch, measured in turn: one of ours, one of PyTorch's, and again.

    speed.py path/of/speed threads [rounds]

A figure is the median of its rounds, a ratio the median of the rounds' ratios. PyTorch's models run as they are and
compiled by torch.compile; what is faster counts. AdamW is its fused one. bench/peers/run binds its threads and gives it
tcmalloc. Matrix products are counted as bench/workloads.h does.
"""

import os

ALL_CPUS = os.sched_getaffinity(0)  # before PyTorch's threads are bound, and this one with them

import logging
import statistics
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (
            part.view(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.qkv(x).split(width, 2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, vocab, context, layers, heads, width):
        super().__init__()
        self.token = nn.Embedding(vocab, width)
        self.position = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, targets):
        x = self.token(ids) + self.position.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.norm(x), self.token.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def training_step(vocab, context, layers, heads, width, batch, unasked, compiled):
    """The first `unasked` tokens of each sequence have no target, as in the copy task."""
    model = Gpt(vocab, context, layers, heads, width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.99), weight_decay=0.1, fused=True)
    batches = [torch.randint(vocab, (2, batch, context)) for _ in range(16)]
    for _, targets in batches:
        targets[:, :unasked] = -100
    loss_of = torch.compile(model) if compiled else model
    parameters = list(model.parameters())
    steps = 0

    def step():
        nonlocal steps
        ids, targets = batches[steps % len(batches)]
        steps += 1
        optimizer.zero_grad(set_to_none=True)
        loss_of(ids, targets).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()

    return step


def attention(length):
    q, k, v, dy = (torch.randn(4, 8, length, 64) for _ in range(4))
    for each in (q, k, v):
        each.requires_grad_()

    def run():
        q.grad = k.grad = v.grad = None
        F.scaled_dot_product_attention(q, k, v, is_causal=True).backward(dy)

    return run


def gpt(**size):
    return {"eager": lambda: training_step(**size, compiled=False), "compiled": lambda: training_step(**size, compiled=True)}


# What bench/workloads.h calls the same.
WORKLOADS = {
    "nanogpt": gpt(vocab=65, context=64, layers=4, heads=4, width=128, batch=12, unasked=0),
    "copy": gpt(vocab=11, context=30, layers=2, heads=4, width=64, batch=32, unasked=15),
    "small": gpt(vocab=11, context=30, layers=1, heads=4, width=32, batch=8, unasked=15),
    "attention/256": {"eager": lambda: attention(256)},
    "attention/1024": {"eager": lambda: attention(1024)},
    "attention/4096": {"eager": lambda: attention(4096)},
}


class Ours:
    def __init__(self, program, threads):
        environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
        self.process = subprocess.Popen(
            [program, str(threads)],
            env=environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            preexec_fn=lambda: os.sched_setaffinity(0, ALL_CPUS),
        )

    def ask(self, question):
        print(question, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline().strip()
        if not answer:
            sys.exit(f"speed.py: no answer to {question!r}")
        return answer

    def seconds_and_gflop(self, name, runs):
        seconds, gflop = self.ask(f"{name} {runs}").split()
        return float(seconds), float(gflop)


def median_seconds(run, runs):
    times = []
    for _ in range(runs):
        before = time.perf_counter()
        run()
        times.append(time.perf_counter() - before)
    return statistics.median(times)


def measure(name, ours, rounds):
    peers = {setting: make() for setting, make in WORKLOADS[name].items()}
    for run in peers.values():
        for _ in range(3):
            run()
    pace = median_seconds(next(iter(peers.values())), 3)
    runs = max(3, min(200, int(0.5 / pace)))  # half a second of each, in each round
    ours_seconds, peaks, peer_seconds = [], [], {setting: [] for setting in peers}
    for _ in range(rounds):
        peaks.append(float(ours.ask("peak")))
        seconds, gflop = ours.seconds_and_gflop(name, runs)
        ours_seconds.append(seconds)
        for setting, run in peers.items():
            peer_seconds[setting].append(median_seconds(run, runs))
    setting = min(peers, key=lambda each: statistics.median(peer_seconds[each]))
    ratios = [theirs / mine for mine, theirs in zip(ours_seconds, peer_seconds[setting])]
    return ours_seconds, peer_seconds[setting], ratios, statistics.median(peaks), gflop, setting


def main(program, threads, rounds=7):
    logging.getLogger("torch.utils.cpp_extension").setLevel(logging.ERROR)  # that there is no GPU
    torch.manual_seed(1)
    torch.set_num_threads(int(threads))
    ours = Ours(program, threads)
    version, isa = torch.__version__.split("+")[0], torch.backends.cpu.get_cpu_capability()
    print(f"\n{threads} thread(s); Attune {ours.ask('row')}, PyTorch {version} {isa}")
    print(f"{'FMA peak':>26}{'Attune':>18}{'PyTorch':>19}{'PyTorch / Attune':>22}")
    print(f"{'GFLOP/s':>26}{'ms':>10}{'% peak':>8}{'ms':>11}{'% peak':>8}{'median':>20}  (least to most)")
    for name in WORKLOADS:
        mine, theirs, ratios, peak, gflop, setting = measure(name, ours, int(rounds))
        a, b = statistics.median(mine), statistics.median(theirs)
        print(
            f"{name:<15} {peak:>10.0f} {1e3 * a:>9.3f} {100 * gflop / a / peak:>7.1f}"
            f" {1e3 * b:>10.3f} {100 * gflop / b / peak:>7.1f}  {setting:<9}"
            f" {statistics.median(ratios):>8.2f}  ({min(ratios):.2f} to {max(ratios):.2f})",
            flush=True,
        )


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Pipelines in Python: whatever the cut, schedule and number of copies, the same as one process.

    PYTHONPATH=build/release/python ./starling launch -n 4 -- /usr/bin/python3 tests/python/pipeline_test.py
"""

from __future__ import annotations

import itertools
import sys

import torch
from torch import nn

import starling

SAMPLES, STEPS = 24, 4


def make_net() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(
        nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 7), nn.Tanh(), nn.Linear(7, 5), nn.Linear(5, 3)
    )


def data() -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(11)
    x = torch.randn(STEPS * SAMPLES, 6, generator=generator)
    return x, (x @ torch.randn(6, 3, generator=generator)).argmax(1)


def batches_of(copy: int, copies: int):
    x, y = data()
    for step in range(STEPS):
        each = SAMPLES // copies
        begin = step * SAMPLES + copy * each
        yield x[begin : begin + each], y[begin : begin + each]


def by_one_process() -> list[torch.Tensor]:
    net = make_net()
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.5)
    for x, y in batches_of(0, 1):
        optimizer.zero_grad()
        nn.functional.cross_entropy(net(x), y).backward()
        optimizer.step()
    return [each.detach() for each in net.parameters()]


def train(**settings) -> starling.Pipeline:
    pipeline = starling.Pipeline(make_net(), nn.functional.cross_entropy, data(), **settings)
    optimizer = torch.optim.SGD(pipeline.parameters(), 0.1, momentum=0.5)
    for x, y in batches_of(pipeline.rank, pipeline.size):
        loss = pipeline.learn(x, y)
        assert (loss is not None) == pipeline.is_last
        pipeline.step(optimizer)
    pipeline.finish()
    return pipeline


def check_the_same_as_one_process(n: int) -> None:
    expected = by_one_process()
    for stages, micro_batches in itertools.product((2, 3, 4), (1, 2, 3, 5)):
        if n % stages != 0:
            continue
        for schedule, recompute in itertools.product(("naive", "gpipe", "1f1b"), (False, True)):
            extra = dict(
                pipeline=stages,
                micro_batches=micro_batches,
                pipeline_schedule=schedule,
                recompute=recompute,
            )
            whole = train(strategy="allreduce" if n > stages else "single", **extra).gather()
            for one, many in zip(expected, whole.parameters()):
                assert torch.allclose(one, many, atol=2e-6), extra


def check_one_worker_has_all_stages(n: int) -> None:
    if n > 1:
        return
    for one, many in zip(by_one_process(), train(pipeline=2).gather().parameters()):
        assert torch.equal(one, many)


def check_scores_and_where_it_is_cut(n: int) -> None:
    cut = {1: "0-5", 2: "0-3,4-5", 3: "0-1,2-3,4-5", 4: "0-1,2-3,4-4,5-5"}[n]
    pipeline = starling.Pipeline(
        make_net(),
        nn.functional.cross_entropy,
        strategy="single",
        **(dict(pipeline=n, stages=cut) if n > 1 else {}),
    )
    begin, end = cut.split(",")[pipeline.stage].split("-")
    assert len(pipeline._layers) == int(end) - int(begin) + 1
    x, _ = data()
    scores = pipeline.scores(x)
    if pipeline.is_last:
        assert torch.allclose(scores, make_net()(x), atol=1e-6)
    pipeline.finish()


def check_dropout_is_the_same_computed_twice(n: int) -> None:
    if n == 1:
        return
    # By times it might be cut elsewhere the second time.
    cut = {2: "0-4,5-6", 3: "0-2,3-4,5-6", 4: "0-2,3-4,5-5,6-6"}[n]
    found = []
    for recompute in (False, True):
        net = make_net()
        net = nn.Sequential(net[0], nn.Dropout(0.5), *net[1:])
        pipeline = starling.Pipeline(
            net, nn.functional.cross_entropy, strategy="single", pipeline=n, stages=cut,
            micro_batches=3, recompute=recompute,
        )
        torch.manual_seed(5)
        x, y = data()
        pipeline.learn(x, y)
        found.append([each.grad.clone() for each in pipeline.parameters()])
        pipeline.step(torch.optim.SGD(pipeline.parameters(), 0.1))
        pipeline.finish()
    for once, twice in zip(*found):
        assert torch.equal(once, twice)


def check_copies_mix_their_stages(n: int) -> None:
    if n != 4:
        return
    pipeline = train(system="pairwise", pipeline=2, period=2)
    mine = torch.cat([each.detach().reshape(-1) for each in pipeline.parameters()])
    both = pipeline.mean([float(each) for each in mine])  # of those who have this stage
    assert torch.allclose(torch.tensor(both), mine, atol=1e-6)


def check_refusals(n: int) -> None:
    def refused(text: str, **settings) -> None:
        try:
            starling.Pipeline(make_net(), nn.functional.cross_entropy, **settings)
        except (starling.Error, ValueError) as error:
            assert text in str(error) and "\n" not in str(error), error
        else:
            raise AssertionError(f"not refused: {settings}")

    if n == 1:
        return
    refused("example=", strategy="single", pipeline=n)
    refused("tensor", strategy="single", tensor=n)
    tied = make_net()
    tied[5] = tied[0]
    try:
        starling.Pipeline(
            tied, nn.functional.cross_entropy, strategy="single", pipeline=n,
            stages={2: "0-3,4-5", 3: "0-1,2-3,4-5", 4: "0-1,2-3,4-4,5-5"}[n],
        )
    except starling.Error as error:
        assert "share a parameter" in str(error)
    else:
        raise AssertionError("a parameter of two stages was not refused")


def main() -> None:
    n = starling.size()
    checks = [value for name, value in globals().items() if name.startswith("check_")]
    for check in checks:
        check(n)
        print(f"{check.__name__}: passed", flush=True)


if __name__ == "__main__":
    sys.exit(main())

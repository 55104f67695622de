"""Pipeline: an nn.Sequential whose layers live on several workers.

    net = nn.Sequential(...)                                   # the same in every worker
    pipeline = starling.Pipeline(net, loss, example=(x, y), pipeline=2)
    optimizer = torch.optim.SGD(pipeline.parameters(), 0.1)    # of the layers that are here
    for x, y in pipeline.share(loader):                        # the same for all stages of a copy
        pipeline.learn(x, y)                                   # in place of forward and backward
        pipeline.step(optimizer)
    pipeline.finish()

`starling launch -n 4 -- python3 program.py` with pipeline=2 makes two copies of two stages each, which
learn together by the system that is set.
"""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from typing import Any, Callable

import torch
from torch import nn

from . import _core, _session
from ._settings import toml
from .dist import Dist, _terms_of

_I64 = _core.ELEMENTS.index("i64")
_U8 = _core.ELEMENTS.index("u8")
_TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32)
_MOST_DIMENSIONS = 8
_MOST_ELEMENTS = 1 << 33  # of eight bytes, what one message can hold

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Pipeline(Dist):
    """One stage of a model, in step with the others, and with the same stage of other copies.

    `loss` is the mean over samples. `example` is a batch by which the layers' times are measured, so
    that all stages take about as long; not needed if `stages="0-2,3-5"` says which layers each has.
    All else is as Dist has it, of which this is the stage's.
    """

    def __init__(
        self,
        net: nn.Sequential,
        loss: Loss,
        example: tuple[torch.Tensor, torch.Tensor] | None = None,
        system: str = "",
        **settings: Any,
    ):
        session = _session.joined()
        self._settings = _core.Settings(session.core, str(system), toml(settings))
        if self._settings.tensor > 1:
            raise _core.Error("layers are not cut themselves from Python; leave out tensor")
        ranks = _core.stage_ranks(self._settings, session.rank)
        self.stage: int = ranks.index(session.rank)
        self.stages: int = len(ranks)
        self.is_first, self.is_last = self.stage == 0, self.stage == self.stages - 1
        self._net, self._loss = net, loss
        self._cut = _agreed_cut(session, self._settings, net, loss, example)
        self._layers = net[slice(*self._cut[self.stage])]
        _check_apart(net, self._cut)
        self._group = _core.Group(session.core, ranks, _core.PIPELINE_GROUP, of_stages=True)
        self._turns = _core.turns_of(self._settings, self.stage)
        self._micro_batches = len(self._turns) // 2
        self._begin(session, self._layers, _terms_of(net), str(system))

    def parameters(self) -> list[nn.Parameter]:
        """Of the layers that are here, for the optimizer."""
        return list(self._layers.parameters())

    def learn(self, inputs: torch.Tensor, targets: torch.Tensor) -> float | None:
        """Forward and backward of a batch, which all stages of a copy know.

        The first stage looks at the inputs, the last at the targets. Returns the mean loss, on the
        last stage.
        """
        samples = len(targets)
        if samples < self._micro_batches:
            raise ValueError(
                f"a batch of {samples} cannot be cut into {self._micro_batches} micro-batches"
            )
        inputs_of = inputs.tensor_split(self._micro_batches)
        targets_of = targets.tensor_split(self._micro_batches)
        kept: dict[int, _Kept] = {}
        sending: list[_Sending] = []
        total, passes_left = 0.0, self._micro_batches
        for forward, number in self._turns:
            if forward:
                x = inputs_of[number] if self.is_first else self._receive(self.stage - 1)
                kept[number] = self._forward(x, targets_of[number], samples)
                if self.is_last:
                    total += kept[number].output.item()
                else:
                    sending.append(self._send(kept[number].output.detach(), self.stage + 1))
                if self._settings.recompute and not self.is_last:
                    kept[number].output = None
                continue
            done = kept.pop(number)
            if done.output is None:
                done = self._again(done)
            gradient = None if self.is_last else self._receive(self.stage + 1)
            torch.autograd.backward(done.output, gradient)
            if not self.is_first:
                sending.append(self._send(done.input.grad, self.stage - 1))
            passes_left -= 1
            if passes_left > 0:
                self._worker.pass_over()
                self._announced = [False] * len(self._announced)
        for each in sending:
            each.wait()
        return total if self.is_last else None

    @torch.no_grad()
    def scores(self, inputs: torch.Tensor) -> torch.Tensor | None:
        """Forward alone, out of training, by all stages of a copy: the scores, on the last one."""
        was_training = self._layers.training
        self._layers.eval()
        x = self._layers(inputs if self.is_first else self._receive(self.stage - 1))
        self._layers.train(was_training)
        if self.is_last:
            return x
        self._send(x, self.stage + 1).wait()
        return None

    @torch.no_grad()
    def gather(self) -> nn.Sequential:
        """The whole net, with every stage's layers as they are there; all stages of a copy call it."""
        for stage, (begin, end) in enumerate(self._cut):
            for tensor in self._net[begin:end].state_dict().values():
                flat = tensor.detach().contiguous()
                self._group.broadcast(_bytes_of(flat), stage).wait()
                if flat.data_ptr() != tensor.data_ptr():
                    tensor.copy_(flat)
        return self._net

    def _forward(self, x: torch.Tensor, target: torch.Tensor, samples: int) -> "_Kept":
        if not self.is_first and x.is_floating_point():
            x.requires_grad_()
        random = torch.get_rng_state() if self._settings.recompute else None
        if self._settings.recompute and not self.is_last:
            with torch.no_grad():
                return _Kept(x, self._layers(x), random)
        output = self._layers(x)
        if self.is_last:
            output = self._loss(output, target) * (len(target) / samples)
        return _Kept(x, output, random)

    def _again(self, kept: "_Kept") -> "_Kept":
        """What was let go of, computed once more, with the same random numbers."""
        now = torch.get_rng_state()
        torch.set_rng_state(kept.random)
        kept.output = self._layers(kept.input)
        torch.set_rng_state(now)
        return kept

    # A tensor goes as its type and shape, and then its elements.
    def _send(self, tensor: torch.Tensor, to: int) -> "_Sending":
        if tensor.dtype not in _TYPES or tensor.dim() > _MOST_DIMENSIONS:
            raise _core.Error(
                f"stages cannot send each other a tensor of {tensor.dtype} and {tensor.dim()} dimensions"
            )
        tensor = tensor.cpu().contiguous()
        shape = [*tensor.shape] + [0] * (_MOST_DIMENSIONS - tensor.dim())
        head = torch.tensor([_TYPES.index(tensor.dtype), tensor.dim(), *shape])
        works = [
            self._group.send((head.data_ptr(), head.numel(), _I64), to),
            self._group.send(_bytes_of(tensor), to),
        ]
        return _Sending(works, (head, tensor))

    def _receive(self, source: int) -> torch.Tensor:
        head = torch.empty(2 + _MOST_DIMENSIONS, dtype=torch.int64)
        self._group.receive((head.data_ptr(), head.numel(), _I64), source).wait()
        kind, dimensions, *shape = head.tolist()
        elements = 1
        for each in shape[: max(0, dimensions)]:
            elements *= max(each, 0) if elements <= _MOST_ELEMENTS else 1
        is_sound = 0 <= kind < len(_TYPES) and 0 <= dimensions <= _MOST_DIMENSIONS
        if not is_sound or min(shape) < 0 or elements > _MOST_ELEMENTS:
            raise _core.Error(
                f"stage {source} sent a tensor that is none; all workers must run the same program"
            )
        tensor = torch.empty(shape[:dimensions], dtype=_TYPES[kind])
        self._group.receive(_bytes_of(tensor), source).wait()
        return tensor


@dataclass
class _Kept:
    """Of a micro-batch, between its way forward and its way back."""

    input: torch.Tensor
    output: torch.Tensor | None
    random: torch.Tensor | None


class _Sending:
    """Messages under way, and the memory that they are sent from."""

    def __init__(self, works: list, memory: tuple):
        self._works, self._memory = works, memory

    def wait(self) -> None:
        for work in self._works:
            work.wait()


def _bytes_of(tensor: torch.Tensor) -> _core.Memory:
    return (tensor.data_ptr(), tensor.numel() * tensor.element_size(), _U8)


def _agreed_cut(
    session: _session.Session,
    settings: _core.Settings,
    net: nn.Sequential,
    loss: Loss,
    example: tuple[torch.Tensor, torch.Tensor] | None,
) -> list[tuple[int, int]]:
    """Rank 0's, whose measurements count: those of others would differ a little."""
    if settings.pipeline == 1 or settings.stages:
        return _core.cut_of(settings, [(1.0, 1.0, 1, 1)] * len(net))
    if example is None:
        raise _core.Error(
            "there is nothing to measure the layers' times by; give an example=(inputs, targets), or "
            "say with stages='0-2,3-5' which layers each stage has"
        )
    ends = torch.zeros(settings.pipeline, dtype=torch.int64)
    if session.rank == 0:
        cut = _core.cut_of(settings, _measured(net, loss, example, settings.micro_batches))
        ends[:] = torch.tensor([end for _, end in cut])
    everyone = _core.Group(session.core, list(range(settings.workers)), _core.PIPELINE_GROUP)
    everyone.broadcast((ends.data_ptr(), ends.numel(), _I64), 0).wait()
    return list(zip([0, *ends.tolist()], ends.tolist()))


def _measured(
    net: nn.Sequential, loss: Loss, example: tuple[torch.Tensor, torch.Tensor], micro_batches: int
) -> list[tuple[float, float, int, int]]:
    """Seconds forward and back, bytes of parameters and of the output; of each layer."""
    net = copy.deepcopy(net)  # a norm would remember what it sees
    random = torch.get_rng_state()
    samples = max(1, len(example[1]) // micro_batches)
    costs = []
    x = example[0][:samples]
    for layer in net:
        forward, backward = [], []
        for _ in range(3):  # the fastest counts
            x_here = x.detach()
            if x_here.is_floating_point():
                x_here.requires_grad_()
            begin = time.perf_counter()
            y = layer(x_here)
            forward.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            if y.requires_grad:
                torch.autograd.backward(y, torch.ones_like(y))
            backward.append(time.perf_counter() - begin)
        parameter_bytes = sum(each.numel() * each.element_size() for each in layer.parameters())
        costs.append(
            (min(forward), min(backward), parameter_bytes, y.numel() * y.element_size())
        )
        x = y.detach()
    loss(x, example[1][:samples])  # what does not fit together is seen here, not in the midst of it
    torch.set_rng_state(random)
    return costs


def _check_apart(net: nn.Sequential, cut: list[tuple[int, int]]) -> None:
    owner: dict[int, int] = {}
    for stage, (begin, end) in enumerate(cut):
        for parameter in net[begin:end].parameters():
            if owner.setdefault(id(parameter), stage) != stage:
                raise _core.Error(
                    "stages cannot share a parameter; say with stages=... which layers belong together"
                )

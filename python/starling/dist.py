"""Dist: distributed training in a training loop of your own, by any of Starling's systems.

    dist = starling.Dist(model, system="pairwise", period=16)
    for x, y in dist.share(loader):            # this worker's share of the data
        loss(model(x), y).backward()
        dist.step(optimizer)                   # in place of step() and zero_grad()
    dist.finish()                              # all workers now hold the same model

`starling launch -n 4 -- python3 program.py` starts four workers. Without a launcher there is one, and
the loop does what it always did.

With `starling launch --elastic` the loop goes on when workers are lost, come or go: step() takes them
in, and share() deals out anew what is left of the epoch.
"""

from __future__ import annotations

import io
import re
import warnings
import weakref
from itertools import islice
from typing import Any, Callable, Iterable, Iterator, Sequence

import torch
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset
from torch.utils.data import BatchSampler, RandomSampler, SequentialSampler

from . import _core, _session
from ._settings import toml
from .common.exceptions import HasLeft

_F32 = _core.ELEMENTS.index("f32")
_U8 = _core.ELEMENTS.index("u8")


class Dist:
    """A worker's part in a training that it does together with others.

    `system` is a named system (`starling systems` lists them) or a TOML file; every other keyword is
    a setting, named as on the command line with _ for -. What the launcher was told must not
    contradict. All workers begin with rank 0's weights.

    Where servers update the weights, they do so by the settings optimizer, lr, momentum and so on;
    the optimizer that step() gets is then not used.
    """

    def __init__(self, model: torch.nn.Module, system: str = "", **settings: Any):
        session = _session.joined()
        self._settings = _core.Settings(session.core, str(system), toml(settings))
        if self._settings.slices > 1:
            raise _core.Error(
                "this program's model is whole in every worker, and cannot be cut; leave out pipeline "
                "and tensor, or use starling.Pipeline"
            )
        self._begin(session, model, _terms_of(model), str(system))

    def _begin(
        self, session: _session.Session, model: torch.nn.Module, terms: str, system: str
    ) -> None:
        """With the part of the model that is here; the terms are of the whole."""
        _end_finished()
        self._settings.report(session.core, system)
        self._flat = _FlatModel(model)
        self._worker = self._flat.worker(session.core, self._settings, terms)
        self._updates_weights: bool = self._worker.updates_weights
        self._max_norm: float | None = None
        self._norm_type = 2.0
        self._announced = [False] * len(self._flat.trained)
        self._shares: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._finished = False
        self._warned = False
        self._accumulators: list = []
        self.rank: int = self._worker.rank
        self.size: int = self._worker.size
        self._is_elastic: bool = self._worker.is_elastic
        self._progress = _Progress(self._settings)
        self._optimizer: torch.optim.Optimizer | None = None
        self._inherited: dict | None = None  # another's optimizer, until ours is known
        if self._is_elastic:
            self._begin_elastic()
        if self.size > 1 or self._is_elastic:
            self._flat.give_back_weights(all_of_them=True)
            self._watch_backward()
        _latest[:] = [weakref.ref(self)]

    def settings(self) -> str:
        """All settings of this training, as TOML."""
        return str(self._settings)

    # Steps

    def step(self, optimizer: torch.optim.Optimizer) -> bool:
        """Exchanges as the system has it, lets the optimizer update, clears the gradients.

        With backward_passes=k only every k-th call does that, and returns True; the others let the
        gradients add up. Before each call there is one backward(). In an elastic job it returns False,
        too, where a worker was lost and the step is not done; share() deals the batch out again.
        """
        self._warn_of_optimizer()
        if self._is_elastic:
            self._know(optimizer)
        self._collect_rest()
        did_before = self._progress.did_in_all
        self._progress.take()
        try:
            taken: bool = self._worker.step(lambda: self._update(optimizer))
        except _core.Error:
            if not self._worker.generation_failed():
                raise
            self._go_on()
            return self._progress.did_in_all > did_before
        finally:
            self._announced = [False] * len(self._announced)
            self._max_norm = None
        if taken:
            self._flat.give_back_weights()
            self._flat.clear_gradients()
        self._progress.met()
        if self._is_elastic:
            if _session.asked_to_leave():
                self._worker.leave()
            if self._worker.generation_is_over():
                self._go_on()
        return taken

    def clip_grad_norm_(self, max_norm: float, norm_type: float = 2.0) -> None:
        """Clips the gradient of the step that comes, once it is the mean of all workers'."""
        if self._updates_weights or self._settings.slices > 1:
            raise _core.Error(
                "no worker sees the whole mean gradient in this system; set clip=... when making Dist"
            )
        self._max_norm, self._norm_type = float(max_norm), float(norm_type)

    def finish(self) -> None:
        """Leaves the mean of all workers' models in each."""
        self._flat.take_weights()
        while True:
            try:
                self._worker.finish()
                break
            except _core.Error:
                if not self._worker.generation_failed():
                    raise
                self._go_on()
        self._flat.give_back_weights(all_of_them=self.size > 1)
        self._finished = True

    def expect_uneven_inputs(self) -> None:
        """Said by all before the first step, where some may have fewer batches than others."""
        self._worker.expect_uneven_inputs()

    def join(self, optimizer: torch.optim.Optimizer) -> None:
        """Called by who has run out of batches: goes along with the others until all have."""
        self._collect_rest()
        self._worker.join(lambda: self._update(optimizer))
        self._flat.give_back_weights()
        self._flat.clear_gradients()

    # What all workers call alike, in the same order and between steps

    def mean(self, value: float | Sequence[float]) -> float | list[float]:
        """The mean over all workers of a number, or of each of several."""
        if isinstance(value, (list, tuple)):
            return self._mean([float(each) for each in value])
        return self._mean([float(value)])[0]

    def _mean(self, values: list[float]) -> list[float]:
        means = self._together(lambda: self._worker.mean(values))
        return values if means is None else means

    def broadcast(self, tensor: torch.Tensor, root: int = 0) -> torch.Tensor:
        """The root's tensor, of any type, in everybody's, which has the same shape."""
        with torch.no_grad():
            flat = tensor.detach().cpu().contiguous()
            size = flat.numel() * flat.element_size()
            memory = (flat.data_ptr(), size, _U8)
            self._together(lambda: self._worker.broadcast(memory, root))
            if flat.data_ptr() != tensor.data_ptr() or flat.device != tensor.device:
                tensor.copy_(flat)
        return tensor

    def barrier(self) -> None:
        """Nobody leaves before everybody has come."""
        self._together(self._worker.barrier)

    def report(
        self,
        loss: float | None = None,
        test_loss: float | None = None,
        accuracy: float | None = None,
        epoch: float | None = None,
    ) -> None:
        """For the run folder, the live page and TensorBoard, which show what rank 0 tells.

        With an accuracy it counts as an evaluation, the last of which is the run's.
        """
        if self._progress.is_catching_up:
            return
        told = (None if each is None else float(each) for each in (loss, test_loss, accuracy, epoch))
        self._worker.report(*told)

    # Data

    def share(self, batches: Iterable) -> "Share":
        """This worker's share of the batches, in a new order each time it is gone through.

        Of a DataLoader the samples are shared out, and each worker takes batches of its size; of
        anything else every n-th batch is ours. All have the same number: where n does not divide, a
        few samples come twice, and of the last batches those are left out that are not enough for all.

        In an elastic job batches are dealt out, and where a worker is lost what it had not done is
        dealt out again. One that comes later finds the epochs that are over empty.
        """
        kind = ElasticShare if self._is_elastic else Share
        if not isinstance(batches, DataLoader):
            return kind(batches, self)
        if batches not in self._shares:
            self._shares[batches] = kind(batches, self)
        return self._shares[batches]

    # Others that come and go

    def _begin_elastic(self) -> None:
        _session.leave_on_sigterm()
        self._worker.keep(self._save, self._restore)
        self._go_on(is_in=True)

    def _go_on(self, is_in: bool = False) -> None:
        """With those who are there now, from where they stand."""
        while True:
            if not is_in and not self._worker.next_generation():
                self._worker.end()
                raise HasLeft
            is_in = False
            self.rank, self.size = self._worker.rank, self._worker.size
            try:
                self._progress.agree(self._worker)
                break
            except _core.Error:
                if not self._worker.generation_failed():
                    raise
        self._flat.give_back_weights(all_of_them=True)
        self._flat.clear_gradients()

    def _together(self, act: Callable) -> Any:
        """What all do. Who goes through epochs that are over does it alone; where somebody is lost
        meanwhile, it comes to nothing, and the next step goes on without them."""
        if self._progress.is_catching_up:
            return None
        try:
            return act()
        except _core.Error:
            if not self._worker.generation_failed():
                raise
            return None

    def _know(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        if self._inherited is not None:
            optimizer.load_state_dict(self._inherited)
            self._inherited = None

    def _save(self) -> bytes:
        state = None if self._optimizer is None else self._optimizer.state_dict()
        file = io.BytesIO()
        torch.save({"optimizer": state, "progress": self._progress.saved()}, file)
        return file.getvalue()

    def _restore(self, data: bytes) -> None:
        told = torch.load(io.BytesIO(data))
        self._progress.restore(told["progress"])
        self._inherited = told["optimizer"]
        if self._optimizer is not None and self._inherited is not None:
            self._know(self._optimizer)

    # The end

    def __enter__(self) -> "Dist":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: object) -> None:
        if error is None:
            if not self._finished:
                self.finish()
        else:
            _session.report_failure(error)
        self._worker.end(failed=error is not None)

    # Gradients

    def _watch_backward(self) -> None:
        # Autograd calls these in the thread that called backward(), so a bucket's exchange begins
        # right then, and its bytes move while the backward pass goes on.
        this = weakref.ref(self)

        def hook_of(index: int) -> Callable:
            def ready(*_: Any) -> None:
                dist = this()
                if dist is not None:
                    dist._gradient_ready(index)

            return ready

        for index, parameter in enumerate(self._flat.trained):
            if hasattr(parameter, "register_post_accumulate_grad_hook"):  # from torch 2.1 on
                parameter.register_post_accumulate_grad_hook(hook_of(index))
                continue
            with torch.enable_grad():
                accumulator = parameter.expand_as(parameter).grad_fn.next_functions[0][0]
            accumulator.register_hook(hook_of(index))
            self._accumulators.append(accumulator)  # autograd itself holds it only weakly

    def _gradient_ready(self, index: int) -> None:
        self._flat.collect(index)
        self._announced[index] = True
        self._worker.gradient_ready(index)

    def _collect_rest(self) -> None:
        # What the loss did not depend on has not been announced. Who is alone leaves it as it is.
        for index, announced in enumerate(self._announced):
            if not announced and (self.size > 1 or self._is_elastic or self._flat.trained[index].grad is not None):
                self._flat.collect(index)

    def _update(self, optimizer: torch.optim.Optimizer) -> None:
        self._flat.give_back_gradients()
        if self._max_norm is not None:
            torch.nn.utils.clip_grad_norm_(self._flat.trained, self._max_norm, self._norm_type)
        optimizer.step()
        self._flat.take_weights()
        self._progress.did()

    def _warn_of_optimizer(self) -> None:
        if self._updates_weights and not self._warned and self.rank == 0:
            warnings.warn(
                "servers update the weights in this system, by the settings optimizer, lr and so on; "
                "the optimizer given to step() is not used",
                stacklevel=3,
            )
        self._warned = True


class Share:
    """A worker's share of batches, to be gone through once an epoch."""

    def __init__(self, batches: Iterable, dist: Dist):
        self._rank, self._size = dist.rank, dist.size
        self._sampler = _sampler_for(batches, dist)
        self._batches = batches if self._sampler is None else _with_sampler(batches, self._sampler)
        self._epoch = 0

    def __len__(self) -> int:
        count = len(self._batches)  # type: ignore[arg-type]
        return count if self._sampler is not None else count // self._size

    def __iter__(self) -> Iterator:
        if self._sampler is not None:
            self._sampler.set_epoch(self._epoch)
            self._epoch += 1
            yield from self._batches
            return
        yield from _in_turns(iter(self._batches), self._rank, self._size)


class _Progress:
    """How far the workers of an elastic job are: in which epoch, and which of its batches are left.

    A generation of n workers deals out what is left in turns: worker i takes the i-th, the (n + i)-th
    and so on. When it is over, what each has done is struck out. What a lost worker has done is known
    where gradients are averaged, and where all mix in step as far as others have mixed with it; the
    rest is done again.
    """

    def __init__(self, settings: _core.Settings):
        text = str(settings)
        self._alike = settings.strategy in ("allreduce", "ring-leader")
        self._in_step = "schedule = 'sync'" in text
        self._period = int(re.search(r"^period = (\d+)", text, re.M).group(1))
        self.epoch = 0
        self.left: list[int] | None = None  # when this generation began; None: no epoch has
        self.generation = 0  # counts how often they have agreed on it
        self.is_catching_up = False  # in epochs that were over before we came
        self.did_in_all = 0
        self._place, self._places = 0, 1
        self._turns = 0  # that we have done of it
        self._met = 0  # of these, after which all is well
        self._taken = 0

    def begin_epoch(self, epoch: int, batches: int) -> bool:
        """False if it is over."""
        if epoch > self.epoch or self.left is None:
            self.epoch, self.left = max(epoch, self.epoch), list(range(batches))
            self._turns = self._met = 0
        self.is_catching_up = epoch < self.epoch
        return not self.is_catching_up

    def take(self) -> None:
        self._taken += 1

    def did(self) -> None:
        """The optimizer has made a step of what was taken."""
        self._turns += self._taken
        self.did_in_all += self._taken
        self._taken = 0

    def met(self) -> None:
        """What there was to exchange in that step was."""
        self._met = self._turns // self._period * self._period

    def saved(self) -> list:
        return [self.epoch, self.left, self._turns, self._met]

    def restore(self, saved: list) -> None:
        """Another's: ours has not ended the step that it has, or has just come."""
        if self.epoch == saved[0]:
            self.did_in_all += max(0, saved[2] - self._turns)
        self.epoch, self.left, self._turns, self._met = saved

    def agree(self, worker: _core.Worker) -> None:
        """Of what is left, as rank 0 finds it, which was there before."""
        rank, size = worker.rank, worker.size

        def told(numbers: Sequence[int], root: int) -> list[int]:
            tensor = torch.tensor(list(numbers), dtype=torch.int64)
            worker.broadcast((tensor.data_ptr(), 8 * len(tensor), _U8), root)
            return tensor.tolist()

        own = [self.generation, self._place, self.epoch, self._turns, self._met]
        everybody = [told(own, root) for root in range(size)]
        left = self._left_after(everybody) if rank == 0 else None
        generation, epoch, count = told(
            [self.generation + 1, self.epoch, -1 if left is None else len(left)], 0
        )
        if count > 0:
            left = told(left if rank == 0 else [0] * count, 0)
        self.generation, self.epoch = generation, epoch
        self.left = None if count < 0 else left if count else []
        self._place, self._places = rank, size
        self._turns = self._met = self._taken = 0

    def _left_after(self, everybody: list[list[int]]) -> list[int] | None:
        if self.left is None:
            return None
        all_turns = -(-len(self.left) // self._places)
        done: list[int | None] = [None] * self._places
        known = []
        for generation, place, epoch, turns, met in everybody:
            if generation != self.generation or epoch < self.epoch or place >= self._places:
                continue
            done[place] = turns if epoch == self.epoch else all_turns
            known.append(met if epoch == self.epoch else all_turns)
        of_lost = self._turns if self._alike else min(known) if self._in_step else 0
        done_by = [of_lost if turns is None else turns for turns in done]
        return [
            batch
            for index, batch in enumerate(self.left)
            if index // self._places >= done_by[index % self._places]
        ]


class ElasticShare:
    """A worker's share of batches that are always the same, whoever takes which; to be gone through once
    an epoch."""

    def __init__(self, batches: Iterable, dist: Dist):
        self._dist = weakref.ref(dist)
        self._batches = batches
        self._deals_samples = _leaves_order_to_torch(batches)
        self._epoch = 0

    def __len__(self) -> int:
        """Of those that are left, as many as each has if nobody comes or goes."""
        dist = self._dist()
        left = dist._progress.left
        count = self._count() if left is None or dist._progress.epoch < self._epoch else len(left)
        return -(-count // dist.size) if self._deals_samples else count // dist.size

    def __iter__(self) -> Iterator:
        dist = self._dist()
        progress, epoch = dist._progress, self._epoch
        self._epoch += 1
        is_over = False
        while not is_over and progress.begin_epoch(epoch, self._count()):
            generation, is_over = progress.generation, True
            for batch in self._ours(dist, epoch):
                yield batch
                if progress.generation != generation:
                    is_over = False
                    break

    def _count(self) -> int:
        if self._deals_samples or hasattr(self._batches, "__len__"):
            return len(self._batches)  # type: ignore[arg-type]
        raise _core.Error(
            "an elastic job must know how many batches there are; give share() a DataLoader or a list"
        )

    def _ours(self, dist: Dist, epoch: int) -> Iterable:
        """Of those that are left. All have as many."""
        left, rank, size = dist._progress.left, dist.rank, dist.size
        if not self._deals_samples:
            ours = set(left[: len(left) // size * size][rank::size])
            return (batch for number, batch in enumerate(self._batches) if number in ours)
        loader = self._batches
        order = torch.arange(len(loader.dataset))
        if isinstance(loader.sampler, RandomSampler):
            draw = torch.Generator().manual_seed(dist._settings.seed + epoch)
            order = torch.randperm(len(loader.dataset), generator=draw)
        batches = order.split(loader.batch_size)
        more = [left[i % len(left)] for i in range(-len(left) % size)] if left else []
        ours = [batches[number].tolist() for number in (left + more)[rank::size]]
        return _with_options(loader, batch_sampler=ours)


def _in_turns(batches: Iterator, rank: int, size: int) -> Iterator:
    while len(turn := list(islice(batches, size))) == size:
        yield turn[rank]


def _leaves_order_to_torch(batches: Iterable) -> bool:
    if not isinstance(batches, DataLoader) or isinstance(batches.dataset, IterableDataset):
        return False
    if type(batches.sampler) not in (RandomSampler, SequentialSampler):
        return False
    if batches.batch_size is None or type(batches.batch_sampler) is not BatchSampler:
        return False
    return not getattr(batches.sampler, "replacement", False)


def _sampler_for(batches: Iterable, dist: Dist) -> DistributedSampler | None:
    """Deals out samples where the loader leaves it to torch in which order they come."""
    if not _leaves_order_to_torch(batches) or dist.size == 1:
        return None
    shuffle = isinstance(batches.sampler, RandomSampler)
    return DistributedSampler(
        batches.dataset, dist.size, dist.rank, shuffle, dist._settings.seed, batches.drop_last
    )


def _with_sampler(loader: DataLoader, sampler: DistributedSampler) -> DataLoader:
    return _with_options(
        loader, sampler=sampler, batch_size=loader.batch_size, drop_last=loader.drop_last
    )


def _with_options(loader: DataLoader, **other: Any) -> DataLoader:
    """The same but for how it is gone through."""
    options = {
        name: getattr(loader, name)
        for name in (
            "num_workers collate_fn pin_memory timeout worker_init_fn multiprocessing_context "
            "generator persistent_workers"
        ).split()
    }
    if loader.num_workers > 0:
        options["prefetch_factor"] = loader.prefetch_factor
    return DataLoader(loader.dataset, **options, **other)


class _FlatModel:
    """A model whose tensors live in two flat vectors of 32-bit floats, weights and gradients.

    The model goes on to use its tensors as before. Those of other types or devices cannot live there;
    they are copied in before an exchange, and out after it.
    """

    def __init__(self, model: torch.nn.Module):
        named = list(model.named_parameters())
        trained = [(name, each) for name, each in named if each.requires_grad]
        kept = [(name, each) for name, each in named if not each.requires_grad]
        kept += model.named_buffers()
        kept = [(name, each) for name, each in kept if each.is_floating_point()]
        if not trained:
            raise _core.Error("the model has no parameters to train")
        for name, each in trained + kept:
            _check(name, each)
        self.trained = [each for _, each in trained]
        self.names = [name for name, _ in trained]
        self._ranges: list[tuple[int, int]] = []
        self._gradient_views: list[torch.Tensor] = []
        # (tensor, its place among the weights, its place among the gradients or None)
        self._staged: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]] = []
        lengths = [each.numel() for _, each in trained + kept]
        with torch.no_grad():
            self._weights = torch.empty(sum(lengths))
            self._gradients = torch.zeros(sum(lengths[: len(trained)]))
            at = 0
            for index, (_, tensor) in enumerate(trained + kept):
                is_trained = index < len(trained)
                self._move_in(tensor, at, is_trained)
                at += tensor.numel()

    def worker(self, core: _core.Core, settings: _core.Settings, terms: str) -> _core.Worker:
        folds = [
            (begin, tensor.shape[0], tensor.numel() // tensor.shape[0])
            for (begin, _), tensor in zip(self._ranges, self.trained)
            if tensor.dim() >= 2 and tensor.numel() > 0
        ]
        memory = (self._weights, self._gradients)
        weights, gradients = ((t.data_ptr(), t.numel(), _F32) for t in memory)
        return _core.Worker(
            core, settings, weights, gradients, self._ranges, self.names, folds, terms, memory
        )

    def collect(self, index: int) -> None:
        """Brings a parameter's gradient into the flat vector: a user's zero_grad() may have cut it
        loose, or there may be none."""
        parameter, view = self.trained[index], self._gradient_views[index]
        gradient = parameter.grad
        if gradient is view:
            return
        with torch.no_grad():
            if gradient is None:
                view.zero_()
            else:
                view.copy_(gradient.to_dense() if gradient.is_sparse else gradient)
        if not _needs_staging(parameter):
            parameter.grad = view

    def give_back_gradients(self) -> None:
        for tensor, _, gradient in self._staged:
            if gradient is None:
                continue
            if tensor.grad is None:
                tensor.grad = torch.zeros_like(tensor)
            tensor.grad.copy_(gradient)

    def take_weights(self) -> None:
        with torch.no_grad():
            for tensor, weights, _ in self._staged:
                weights.copy_(tensor)

    def give_back_weights(self, all_of_them: bool = False) -> None:
        # Only what an exchange has changed: a double has more digits than its place. Where all are
        # to have the same, these go.
        with torch.no_grad():
            for tensor, weights, _ in self._staged:
                here = weights.to(tensor.device)
                if not all_of_them:
                    here = torch.where(tensor.float() == here, tensor, here.to(tensor.dtype))
                tensor.copy_(here)

    def clear_gradients(self) -> None:
        # Those in the flat vector are clear already.
        for tensor, _, gradient in self._staged:
            if gradient is not None and tensor.grad is not None:
                tensor.grad = None

    def _move_in(self, tensor: torch.Tensor, at: int, is_trained: bool) -> None:
        size = tensor.numel()
        weights = self._weights[at : at + size].view(tensor.shape)
        weights.copy_(tensor)
        gradients = None
        if is_trained:
            gradients = self._gradients[at : at + size].view(tensor.shape)
            self._ranges.append((at, at + size))
            self._gradient_views.append(gradients)
        if _needs_staging(tensor):
            self._staged.append((tensor, weights, gradients))
        else:
            tensor.data = weights


def _terms_of(model: torch.nn.Module) -> str:
    """What all workers must have alike."""
    tensors = [*model.parameters(), *(each for each in model.buffers() if each.is_floating_point())]
    trained = sum(each.requires_grad for each in model.parameters())
    return f"model = {sum(each.numel() for each in tensors)} numbers, {trained} parameters to train\n"


def _needs_staging(tensor: torch.Tensor) -> bool:
    return tensor.dtype != torch.float32 or tensor.device.type != "cpu"


def _check(name: str, tensor: torch.Tensor) -> None:
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        raise _core.Error(f"{name} has no shape yet; pass a batch through the model first")
    if not tensor.is_floating_point():
        raise _core.Error(f"{name} is of {tensor.dtype}; only real floating-point parameters train")
    if tensor.device.type not in ("cpu", "cuda"):
        raise _core.Error(f"{name} is on {tensor.device}; move the model to the CPU first")


_latest: list = []  # the Dist that was made last, weakly


def _end_finished() -> None:
    """One that has finished makes room for the next."""
    last = _latest[0]() if _latest else None
    if last is not None and last._finished:
        last._worker.end()

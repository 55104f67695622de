"""Batch normalization over the batches of all ranks."""

from __future__ import annotations

import torch
from torch.nn.modules.batchnorm import _BatchNorm

from ..common.world import ProcessSet, global_process_set
from .mpi_ops import Sum, allgather, allreduce, size


class SyncBatchNorm(_BatchNorm):
    """As torch.nn.BatchNorm*, but that mean and variance are those of all ranks' batches."""

    def __init__(self, num_features: int, eps: float = 1e-5, momentum: float = 0.1,
                 affine: bool = True, track_running_stats: bool = True,
                 process_set: ProcessSet = global_process_set):
        super().__init__(num_features, eps, momentum, affine, track_running_stats)
        self.process_set = process_set

    def _check_input_dim(self, input: torch.Tensor) -> None:  # noqa: A002
        if input.dim() < 2:
            raise ValueError(f"expected at least 2D input (got {input.dim()}D input)")

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002
        self._check_input_dim(input)
        uses_batch = self.training or self.running_mean is None
        if not (uses_batch and size() > 1):
            return super().forward(input)
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
        mean, variance, count = _statistics(input, self.process_set)
        if self.training and self.running_mean is not None:
            share = self.momentum
            if share is None:
                share = 1.0 / float(self.num_batches_tracked)
            with torch.no_grad():
                unbiased = variance * (count / max(count - 1, 1))
                self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
                self.running_var.lerp_(unbiased.to(self.running_var.dtype), share)
        return _Normalize.apply(input, self.weight, self.bias, mean, variance, count, self.eps,
                                self.process_set)


def _per_channel(values: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    return values.view([1, -1] + [1] * (like.dim() - 2))


def _statistics(x: torch.Tensor, process_set: ProcessSet):
    """Mean, variance and count over all ranks, of each channel."""
    with torch.no_grad():
        over = [d for d in range(x.dim()) if d != 1]
        wide = x.double() if x.dtype == torch.float64 else x.float()
        own = torch.stack([wide.mean(over), wide.var(over, unbiased=False),
                           torch.full_like(wide.mean(over), x.numel() / x.shape[1])])
        everybody = allgather(own.unsqueeze(0), process_set=process_set)
        means, variances, counts = everybody[:, 0], everybody[:, 1], everybody[:, 2]
        count = float(counts[:, 0].sum())
        mean = (means * counts).sum(0) / count
        variance = ((variances + (means - mean) ** 2) * counts).sum(0) / count
        return mean, variance, count


class _Normalize(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight, bias, mean, variance, count, eps, process_set):
        scale = torch.rsqrt(variance + eps)
        normal = (x - _per_channel(mean, x)) * _per_channel(scale, x)
        ctx.save_for_backward(normal, weight, scale)
        ctx.count, ctx.process_set = count, process_set
        result = normal
        if weight is not None:
            result = normal * _per_channel(weight, x) + _per_channel(bias, x)
        return result.to(x.dtype)

    @staticmethod
    def backward(ctx, gradient):
        normal, weight, scale = ctx.saved_tensors
        over = [d for d in range(gradient.dim()) if d != 1]
        of_bias = gradient.sum(over)
        of_weight = (gradient * normal).sum(over)
        scaled = gradient if weight is None else gradient * _per_channel(weight, gradient)
        sums = torch.stack([scaled.sum(over), (scaled * normal).sum(over)])
        means = allreduce(sums, op=Sum, process_set=ctx.process_set) / ctx.count
        of_input = (scaled - _per_channel(means[0], normal)
                    - normal * _per_channel(means[1], normal)) * _per_channel(scale, normal)
        if weight is None:
            of_weight = of_bias = None
        return (of_input.to(gradient.dtype), of_weight, of_bias) + (None,) * 5

"""What becomes of a tensor before it is exchanged, and the way back."""

from __future__ import annotations

import torch


class Compressor:
    """compress() returns a tensor and whatever decompress() needs to undo it."""

    @staticmethod
    def compress(tensor: torch.Tensor):
        raise NotImplementedError

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx) -> torch.Tensor:
        raise NotImplementedError


class NoneCompressor(Compressor):
    """As it is."""

    @staticmethod
    def compress(tensor: torch.Tensor):
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx) -> torch.Tensor:
        return tensor


class FP16Compressor(Compressor):
    """Floating-point tensors as 16-bit ones."""

    @staticmethod
    def compress(tensor: torch.Tensor):
        if tensor.dtype.is_floating_point:
            return tensor.to(torch.float16), tensor.dtype
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx) -> torch.Tensor:
        return tensor if ctx is None else tensor.to(ctx)


class Compression:
    """The compressors there are."""

    none = NoneCompressor
    fp16 = FP16Compressor

"""Training that goes on when workers are lost, come or go: Horovod's elastic interface."""

from .run import run
from .sampler import ElasticSampler
from .state import ObjectState, State, TorchState

__all__ = ["ElasticSampler", "ObjectState", "State", "TorchState", "run"]

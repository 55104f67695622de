"""Training that goes on from its last commit after an error.

The workers are always the same: who has died is not replaced, and nobody joins later. What works is
to restore and meet again after a collective that failed while all are alive.
"""

from .run import run
from .sampler import ElasticSampler
from .state import ObjectState, State, TorchState

__all__ = ["ElasticSampler", "ObjectState", "State", "TorchState", "run"]

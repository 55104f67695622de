"""Starting functions and programs on several processes, as horovod.run and horovodrun do."""

from .run import run

__all__ = ["run"]

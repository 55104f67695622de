"""Process sets, under the name that Horovod's programs import them by."""

from .world import ProcessSet, add_process_set, global_process_set, remove_process_set

__all__ = ["ProcessSet", "add_process_set", "global_process_set", "remove_process_set"]

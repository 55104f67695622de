"""Errors by Horovod's names."""

from __future__ import annotations


class HorovodInternalError(RuntimeError):
    """A collective failed: ranks differ in what they asked for, or one of them is gone."""

    # Whether a rank has died, so that the job cannot meet again as it was.
    rank_is_lost = False


class HorovodVersionMismatchError(ImportError):
    """For programs that catch it: Starling goes with whichever version of a framework is there."""

    def __init__(self, name: str, version: str, installed_version: str):
        super().__init__(f"{name} is of version {version}, and {installed_version} was installed with")
        self.name, self.version, self.installed_version = name, version, installed_version


class HasLeft(SystemExit):
    """This worker was asked to leave, and the others go on without it: its process ends well."""

    def __init__(self):
        super().__init__(0)


class HostsUpdatedInterrupt(RuntimeError):
    """Workers have come or gone, and the job is to meet anew."""

    def __init__(self, skip_sync: bool = False):
        super().__init__()
        self.skip_sync = skip_sync

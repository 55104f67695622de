"""Machines to test clusters on: network namespaces with names and addresses of their own, on one bridge.

    with Machines("slurm", ["n1", "n2"]) as machines:
        machines.run("n1", "ping", "-c1", "n2")
        machines.kill("n2")     all that runs on it, as when its power fails

They share this machine's files and users. Needs root.
"""

import os
import signal
import subprocess
import tempfile
import time
from pathlib import Path


class Machines:
    def __init__(self, test, names, networks=1):
        """Each has one address on each network: its name is that of the first, 10.98.0.x."""
        self.test = f"{test}{os.getpid()}"
        self.names = names
        self.networks = networks
        self.hosts = None

    def address(self, name, network=0):
        return f"10.98.{network}.{self.names.index(name) + 1}"

    def space(self, name):
        return f"{self.test}-{name}"

    def __enter__(self):
        descriptor, path = tempfile.mkstemp(prefix="hosts-")
        self.hosts = Path(path)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write("127.0.0.1 localhost\n")
            file.writelines(f"{self.address(name)} {name}\n" for name in self.names)
        self.hosts.chmod(0o644)
        try:
            for network in range(self.networks):
                _ip("link", "add", self._bridge(network), "type", "bridge")
                _ip("link", "set", self._bridge(network), "up")
            for number, name in enumerate(self.names):
                self._add(number, name)
        except BaseException:
            self.__exit__()
            raise
        return self

    def _bridge(self, network):
        return f"{self.test}b{network}"[-15:]

    def _add(self, number, name):
        space = self.space(name)
        _ip("netns", "add", space)
        _ip("-n", space, "link", "set", "lo", "up")
        for network in range(self.networks):
            cable = f"{self.test}c{network}x{number}"[-15:]
            _ip("link", "add", cable, "type", "veth", "peer", "name", f"eth{network}", "netns", space)
            _ip("link", "set", cable, "master", self._bridge(network), "up")
            _ip("-n", space, "addr", "add", f"{self.address(name, network)}/24", "dev", f"eth{network}")
            _ip("-n", space, "link", "set", f"eth{network}", "up")

    def __exit__(self, *_):
        for name in self.names:
            self.kill(name)
            subprocess.run(["ip", "netns", "del", self.space(name)], stderr=subprocess.DEVNULL)
        for network in range(self.networks):
            subprocess.run(["ip", "link", "del", self._bridge(network)], stderr=subprocess.DEVNULL)
        if self.hosts is not None:
            self.hosts.unlink()

    def words(self, name, *words):
        # Not `ip netns exec`, which hides the control groups that slurmd looks for.
        return ["nsenter", f"--net=/run/netns/{self.space(name)}", "unshare", "--uts", "--mount",
                "sh", "-c", f'mount --bind {self.hosts} /etc/hosts && hostname {name} && exec "$@"',
                "sh", *map(str, words)]

    def start(self, name, *words, **options):
        return subprocess.Popen(self.words(name, *words), stdin=subprocess.DEVNULL, text=True,
                                **options)

    def run(self, name, *words, timeout=300, **options):
        return subprocess.run(self.words(name, *words), stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout,
                              **options)

    def processes(self, name):
        found = subprocess.run(["ip", "netns", "pids", self.space(name)], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True).stdout
        return [int(word) for word in found.split()]

    def kill(self, name):
        for _ in range(50):
            processes = self.processes(name)
            if not processes:
                return
            for process in processes:
                try:
                    os.kill(process, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            time.sleep(0.1)


def _ip(*words):
    subprocess.run(["ip", *words], check=True)

"""A Slurm of its own, of Debian's packages: a controller and nodes, each in a network namespace.

    with SlurmCluster(folder, nodes=4) as slurm:
        slurm.run("srun", "-N4", "hostname")
        slurm.machines.kill("n3")
"""

import os
import shutil
import subprocess
import time

from machines import Machines

CONFIGURATION = """\
ClusterName=starling
SlurmctldHost=ctl
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool-%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
SlurmdTimeout=8
KillWait=5
MinJobAge=300
ReturnToService=2
RebootProgram=/bin/false
GresTypes=gpu
JobRequeue=1
NodeName=n[1-{nodes}] CPUs=4 RealMemory=1000 Gres=gpu:1 State=UNKNOWN
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverTimeLimit=0
"""


def missing():
    """What is not installed, or nothing."""
    needed = ["slurmctld", "slurmd", "srun", "sbatch", "munged"]
    return [program for program in needed if shutil.which(program) is None]


class SlurmCluster:
    def __init__(self, folder, nodes):
        self.folder = folder
        self.nodes = [f"n{i + 1}" for i in range(nodes)]
        self.machines = Machines("slurm", ["ctl", *self.nodes])
        self.environment = os.environ | {"SLURM_CONF": str(folder / "slurm.conf")}
        self.munged = None

    def __enter__(self):
        (self.folder / "slurm.conf").write_text(
            CONFIGURATION.format(folder=self.folder, nodes=len(self.nodes)))
        (self.folder / "gres.conf").write_text("Name=gpu File=/dev/zero\n")
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o600)
        self.machines.__enter__()
        try:
            self.munged = subprocess.Popen(
                ["munged", "--foreground", "--force", f"--key-file={key}",
                 f"--socket={self.folder}/munge.socket", f"--pid-file={self.folder}/munged.pid",
                 f"--seed-file={self.folder}/munged.seed", f"--log-file={self.folder}/munged.log"],
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            self._wait(lambda: (self.folder / "munge.socket").exists(), "munged")
            self.machines.start("ctl", "slurmctld", "-D", env=self.environment,
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            for node in self.nodes:
                self.start_node(node)
            self._wait(lambda: self.state().count("idle") == len(self.nodes), "all nodes")
        except BaseException:
            self.__exit__()
            raise
        return self

    def start_node(self, node):
        self.machines.start(node, "slurmd", "-D", "-N", node, env=self.environment,
                            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def state(self):
        """Of each node, a word."""
        return self.run("sinfo", "-h", "-N", "-o", "%t").stdout.split()

    def run(self, *words, **options):
        """One of Slurm's commands, as on a login node."""
        return self.machines.run("ctl", *words, env=self.environment, **options)

    def start(self, *words, **options):
        return self.machines.start("ctl", *words, env=self.environment, **options)

    def _wait(self, happened, what):
        for _ in range(300):
            if happened():
                return
            time.sleep(0.1)
        logs = [log.read_text()[-2000:] for log in self.folder.glob("*.log")]
        raise TimeoutError(f"waited 30 s for {what}: {self.state()}\n" + "\n".join(logs))

    def __exit__(self, *_):
        self.machines.__exit__()
        if self.munged is not None:
            self.munged.kill()
            self.munged.wait()

"""A Kubernetes of its own: etcd, API server, controllers, scheduler, kubelet, containerd and CoreDNS, on one node.

    with KubernetesCluster(folder) as cluster:
        cluster.load_image("starling", {"/etc/passwd": words}, ["entrypoint"], user="10001:10001")
        cluster.kubectl("apply", "-k", overlay)

All of it runs in namespaces of its own, of processes, mounts and networks: they end together, whatever becomes of the test, and so does
what they write to /run, /var/lib and /var/log, which is kept in memory. Needs root.
"""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import time
from pathlib import Path

ADDRESS = "10.98.0.1"  # of the node, and of its name server
TOKEN = "of-no-use-outside-of-these-namespaces"
PROGRAMS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "starling/kubernetes/bin"
PLUGINS = Path("/usr/lib/cni")

# $1: the folder. What the kubelet would write to the whole machine's settings goes to files in the place of those; the same values
# as it would set, so that it finds nothing to do. The last line ends with the test.
SPACES = r"""
set -e
mount --make-rprivate /
for each in /run /var/lib /var/log; do mount -t tmpfs starling "$each"; done
while read -r setting value; do
  [ -e "/proc/sys/$setting" ] || continue
  echo "$value" >"$1/settings/$value"
  mount --bind "$1/settings/$value" "/proc/sys/$setting"
done <<END
vm/overcommit_memory 1
vm/panic_on_oom 0
kernel/panic 10
kernel/panic_on_oops 1
kernel/keys/root_maxkeys 1000000
kernel/keys/root_maxbytes 25000000
END
hostname node
ip link set lo up
ip link add node type bridge
ip addr add ADDRESS/24 dev node
ip link set node up
echo ready
read -r line || true
""".replace("ADDRESS", ADDRESS)

CONTAINERD = """\
version = 2
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "pause:1"
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    base_runtime_spec = "{folder}/container.json"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{folder}/cni"
"""

NETWORK = {
    "cniVersion": "0.4.0", "name": "pods",
    "plugins": [{"type": "bridge", "bridge": "pods", "isGateway": True,
                 "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.98.1.0/24"}]],
                          "routes": [{"dst": "0.0.0.0/0"}]}}]}

# As kubeadm sets it up, with names kept for 30 s.
NAME_SERVER = """\
.:53 {{
  errors
  kubernetes cluster.local in-addr.arpa {{
    kubeconfig {folder}/admin.yaml
    ttl 30
  }}
  cache 30
}}
"""


def missing():
    """What is not installed, or nothing."""
    built = ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "kubectl", "coredns"]
    return ([name for name in built if not (PROGRAMS / name).exists()]
            + [name for name in ("containerd", "ctr", "runc", "etcd", "openssl") if shutil.which(name) is None]
            + [str(PLUGINS / name) for name in ("bridge", "host-local", "loopback") if not (PLUGINS / name).exists()])


class KubernetesCluster:
    def __init__(self, folder, mounts):
        """Mounts are folders of this machine by their places in each container: nobody need copy a gigabyte of libraries."""
        self.folder, self.mounts = folder, mounts
        self.spaces = None
        self.first = None  # the process that all others in the spaces end with
        self.started = {}
        self.groups = f"starling-kubernetes-{os.getpid()}"

    def __enter__(self):
        try:
            self._make_spaces()
            self._write_settings()
            self._start_programs()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _make_spaces(self):
        for name in ("logs", "settings", "cni", "plugins"):
            (self.folder / name).mkdir()
        for group in self._group_folders(make=True):
            group.mkdir()
        self.spaces = subprocess.Popen(
            ["unshare", "--mount", "--net", "--pid", "--uts", "--ipc", "--fork", "--kill-child", "--mount-proc",
             "bash", "-c", SPACES, "bash", self.folder],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        if self.spaces.stdout.readline() != "ready\n":
            raise OSError("no namespaces could be made")
        children = Path(f"/proc/{self.spaces.pid}/task/{self.spaces.pid}/children").read_text()
        self.first = int(children.split()[0])

    def _write_settings(self):
        files = {
            "containerd.toml": CONTAINERD.format(folder=self.folder, plugins=PLUGINS),
            "cni/pods.conflist": json.dumps(NETWORK),
            "Corefile": NAME_SERVER.format(folder=self.folder),
            "tokens.csv": f'{TOKEN},admin,admin,"system:masters"\n'
                          f'{TOKEN}-node,system:node:node,node,"system:nodes"\n',
            "admin.yaml": self._access(TOKEN),
            "node.yaml": self._access(f"{TOKEN}-node"),
            "resolv.conf": "",
            "kubelet.yaml": json.dumps({
                "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
                "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
                # Who can call it is in these namespaces.
                "authentication": {"anonymous": {"enabled": True}, "webhook": {"enabled": False}},
                "authorization": {"mode": "AlwaysAllow"},
                "cgroupDriver": "cgroupfs", "cgroupRoot": f"/{self.groups}", "failCgroupV1": False,
                "clusterDNS": [ADDRESS], "clusterDomain": "cluster.local",
                "resolvConf": f"{self.folder}/resolv.conf",
                "volumePluginDir": f"{self.folder}/plugins",
                "failSwapOn": False, "makeIPTablesUtilChains": False,
                # This machine's disk may be as full as it likes.
                "imageGCHighThresholdPercent": 100, "localStorageCapacityIsolation": False,
                "evictionHard": {"memory.available": "100Mi", "nodefs.available": "0%", "nodefs.inodesFree": "0%",
                                 "imagefs.available": "0%"}})}
        for name, text in files.items():
            (self.folder / name).write_text(text)
        container = json.loads(subprocess.run(["ctr", "oci", "spec"], check=True, stdout=subprocess.PIPE).stdout)
        container["mounts"] += [{"destination": place, "source": str(source), "type": "bind", "options": ["bind", "ro"]}
                                for place, source in self.mounts.items()]
        (self.folder / "container.json").write_text(json.dumps(container))
        subprocess.run(["openssl", "genrsa", "-out", self.folder / "accounts.key", "2048"], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def _access(self, token):
        return json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "here",
            "clusters": [{"name": "here", "cluster": {
                "server": f"https://{ADDRESS}:6443",
                "certificate-authority": f"{self.folder}/certificates/apiserver.crt"}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "users": [{"name": "me", "user": {"token": token}}]})

    def _start_programs(self):
        folder, admin = self.folder, f"--kubeconfig={self.folder}/admin.yaml"
        self._start("etcd", "etcd", "--data-dir=/var/lib/etcd")
        self._start("containerd", "containerd", "--config", folder / "containerd.toml")
        self._start(
            "kube-apiserver", PROGRAMS / "kube-apiserver", "--etcd-servers=http://127.0.0.1:2379",
            f"--advertise-address={ADDRESS}", "--service-cluster-ip-range=10.98.2.0/24",
            f"--cert-dir={folder}/certificates", f"--token-auth-file={folder}/tokens.csv",
            "--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={folder}/accounts.key",
            f"--service-account-signing-key-file={folder}/accounts.key",
            "--kubelet-preferred-address-types=InternalIP")
        self.wait(lambda: self.kubectl("get", "--raw", "/readyz", check=False).stdout == "ok", "the API server")
        self._start("kube-controller-manager", PROGRAMS / "kube-controller-manager", admin, "--leader-elect=false",
                    f"--service-account-private-key-file={folder}/accounts.key", "--bind-address=127.0.0.1",
                    f"--cert-dir={folder}/certificates/controllers")
        self._start("kube-scheduler", PROGRAMS / "kube-scheduler", admin, "--leader-elect=false",
                    "--bind-address=127.0.0.1", f"--cert-dir={folder}/certificates/scheduler")
        self._start("kubelet", PROGRAMS / "kubelet", f"--kubeconfig={folder}/node.yaml", f"--node-ip={ADDRESS}",
                    f"--config={folder}/kubelet.yaml", "--hostname-override=node",
                    f"--cert-dir={folder}/certificates/kubelet")
        self._start("coredns", PROGRAMS / "coredns", "-conf", folder / "Corefile")
        self.wait(lambda: "True" == self.kubectl(
            "get", "node", "node", "-o", 'jsonpath={.status.conditions[?(@.type=="Ready")].status}', check=False).stdout,
            "the node to be ready")

    def _start(self, name, *words):
        with open(self.folder / f"logs/{name}", "w") as log:
            self.started[name] = subprocess.Popen(self.words(*words), stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def words(self, *words):
        return ["nsenter", f"--target={self.first}", "--mount", "--net", "--pid", "--uts", "--ipc", "--",
                *map(str, words)]

    def run(self, *words, check=True, timeout=300, **options):
        """A command in the cluster's spaces."""
        done = subprocess.run(self.words(*words), text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              timeout=timeout, **{"stdin": subprocess.DEVNULL} | options)
        if check and done.returncode != 0:
            raise ChildProcessError(f"{' '.join(map(str, words))}: {done.stdout}")
        return done

    def kubectl(self, *words, **options):
        return self.run("env", f"KUBECONFIG={self.folder}/admin.yaml", f"HOME={self.folder}", PROGRAMS / "kubectl",
                        *words, **options)

    def get(self, *words):
        return json.loads(self.kubectl("get", *words, "-o", "json").stdout)

    def load_image(self, name, files, entrypoint, user):
        """Of some files, their bytes by their places, and of what is mounted in each container."""
        archive = self.folder / "image.tar"
        # Nothing is mounted in the container that holds a pod's network: its only program comes with the image.
        for path in ["/usr/bin/sleep", *libraries_of("/usr/bin/sleep")]:
            files = files | {re.sub("^/(lib|lib64)/", r"/usr/\1/", path): Path(path).read_bytes()}
        write_image(archive, files, self.mounts, {
            f"{name}:latest": {"Entrypoint": entrypoint, "User": user, "Env": ["PATH=/programs:/usr/sbin:/usr/bin"]},
            "pause:1": {"Entrypoint": ["/usr/bin/sleep", "infinity"]}})
        self.run("ctr", "--namespace", "k8s.io", "images", "import", archive)

    def wait(self, happened, what, seconds=600):
        for _ in range(seconds * 2):
            if happened():
                return
            for name, process in self.started.items():
                if process.poll() is not None:
                    raise TimeoutError(f"{name} has ended:\n{self.log(name)}")
            time.sleep(0.5)
        logs = "\n".join(f"{name}: {self.log(name)[-1500:]}" for name in self.started)
        raise TimeoutError(f"waited {seconds} s for {what}\n{logs}")

    def log(self, name):
        return (self.folder / f"logs/{name}").read_text(errors="replace")[-6000:]

    def _group_folders(self, make=False):
        top = Path("/sys/fs/cgroup")
        # Of version 2 there is one tree, of version 1 one for each controller.
        trees = [top] if (top / "cgroup.controllers").exists() else [each for each in top.iterdir() if each.is_dir() and not each.is_symlink()]
        return [tree / self.groups for tree in trees if make or (tree / self.groups).exists()]

    def __exit__(self, *_):
        if self.spaces is not None:
            self.spaces.stdin.close()
            self.spaces.wait()
            self.spaces.stdout.close()
        for process in self.started.values():
            process.wait()
        for tree in self._group_folders():
            for group, _, _ in os.walk(tree, topdown=False):
                remove_group(Path(group))


def remove_group(group):
    # Its last processes may be on their way out.
    for _ in range(50):
        try:
            return group.rmdir()
        except OSError:
            time.sleep(0.1)


def libraries_of(program):
    said = subprocess.run(["ldd", program], check=True, stdout=subprocess.PIPE, text=True).stdout
    return re.findall(r"(/\S+) \(", said)


def write_image(path, files, folders, images):
    """One layer, of which several images are made, in the format of `docker save`."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as tar:
        for place in ["/tmp", "/runs", *folders]:
            add(tar, place, type=tarfile.DIRTYPE, mode=0o1777 if place == "/tmp" else 0o755)
        for place in ("bin", "sbin", "lib", "lib64"):
            add(tar, place, type=tarfile.SYMTYPE, linkname=f"usr/{place}")
        for place, data in files.items():
            add(tar, place, data, mode=0o755)
    layer = layer.getvalue()
    digest = hashlib.sha256(layer).hexdigest()
    processor = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    manifest = []
    with tarfile.open(path, "w") as archive:
        add(archive, "layer.tar", layer)
        for number, (name, config) in enumerate(images.items()):
            image = {"architecture": processor, "os": "linux", "config": config,
                     "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]}}
            add(archive, f"{number}.json", json.dumps(image).encode())
            manifest.append({"Config": f"{number}.json", "RepoTags": [name], "Layers": ["layer.tar"]})
        add(archive, "manifest.json", json.dumps(manifest).encode())


def add(tar, place, data=b"", **properties):
    entry = tarfile.TarInfo(place.lstrip("/"))
    entry.size = len(data)
    for name, value in properties.items():
        setattr(entry, name, value)
    tar.addfile(entry, io.BytesIO(data))

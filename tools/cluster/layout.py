"""Names, addresses and paths of one test cluster. All follow from its name, so that `down` finds everything, whatever
happened to the `up` that made it."""

import os
import re
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).resolve().parent

# Every cluster has network namespaces of its own, so that all may use the same addresses.
CONTROL_ADDRESS = "10.89.0.1"
SERVICE_CIDR = "10.96.0.0/16"
KUBERNETES_SERVICE = "10.96.0.1"
POD_CIDR = "10.244.0.0/16"
FAKE_POD_CIDR = "10.245.0.0/16"
CLUSTER_DOMAIN = "cluster.local"
API_PORT = 6443
DISCOVERY_PORT = 9110
NODE_GRACE_SECONDS = 8

# Every process of a cluster carries this variable with the cluster's folder as its value; it is how `down` and
# `status` know them.
MARK = "GNN_CLUSTER_MARK"
PART = "GNN_CLUSTER_PART"


class UserError(Exception):
    """One line that says what is wrong and what to do."""


def base_directory():
    """Where clusters live; not below /run or /var/lib, which nodes see as their own."""
    if os.geteuid() == 0:
        return Path("/var/tmp/gnn-cluster")
    return Path(f"/var/tmp/gnn-cluster-{os.geteuid()}")


def cache_directory():
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(cache) / "gnn-operator"


@dataclass(frozen=True)
class Node:
    index: int
    cluster: "Layout"

    @property
    def name(self):
        return f"node-{self.index}"

    @property
    def address(self):
        return f"10.89.0.{10 + self.index}"

    @property
    def pod_cidr(self):
        return f"10.244.{self.index + 1}.0/24"

    @property
    def directory(self):
        return self.cluster.directory / self.name

    @property
    def socket(self):
        return self.directory / "containerd.sock"

    @property
    def cgroup(self):
        return f"{self.cluster.cgroup_prefix}{self.name}"

    @property
    def holder(self):
        """The process that keeps this node's namespaces."""
        return f"{self.name}-holder"


@dataclass(frozen=True)
class Layout:
    name: str

    def __post_init__(self):
        if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,18}[a-z0-9])?", self.name):
            raise UserError(
                f"cluster name {self.name!r}: use up to 20 characters of a-z, 0-9 and '-', "
                "starting and ending with a letter or digit"
            )

    @property
    def directory(self):
        return base_directory() / self.name

    @property
    def pki(self):
        return self.directory / "pki"

    @property
    def logs(self):
        return self.directory / "logs"

    @property
    def volumes(self):
        """Seen by all nodes under the same path: for static hostPath volumes."""
        return self.directory / "volumes"

    @property
    def kubeconfig(self):
        return self.directory / "kubeconfig"

    @property
    def options_file(self):
        return self.directory / "options.json"

    @property
    def cgroup_prefix(self):
        return f"gnn-cluster-{self.name}."

    def node(self, index):
        return Node(index, self)

    def nodes(self, count):
        return [Node(i, self) for i in range(count)]

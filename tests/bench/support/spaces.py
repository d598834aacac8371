"""Jobs whose nodes have a network namespace each, on one machine."""

import contextlib
import json
import os
import re
import subprocess
from pathlib import Path

PORT = 29400


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Nodes:
    """Two network namespaces with a cable between them."""

    def __init__(self):
        self.names = [f"gnn-bench-{os.getpid()}-{node}" for node in range(2)]

    def __enter__(self):
        for name in self.names:
            ip("netns", "add", name)
        ip("link", "add", "pod", "netns", self.names[0], "type", "veth", "peer", "name", "pod", "netns", self.names[1])
        for node, name in enumerate(self.names):
            ip("-n", name, "address", "add", f"{self.address(node)}/24", "dev", "pod")
            ip("-n", name, "link", "set", "pod", "up")
            ip("-n", name, "link", "set", "lo", "up")
        return self

    def __exit__(self, *_):
        for name in self.names:
            subprocess.run(["ip", "netns", "delete", name], check=False)

    @staticmethod
    def address(node):
        return f"10.78.0.{node + 1}"

    def shape(self, rate):
        for name in self.names:
            command = ["ip", "netns", "exec", name, "tc", "qdisc", "replace", "dev", "pod", "root", "tbf"]
            subprocess.run([*command, "rate", rate, "burst", "1mb", "latency", "50ms"], check=True)


def environment(folder, node, nodes, address):
    return os.environ | {
        "GNN_CONTRACT": "1",
        "GNN_JOB": "products",
        "GNN_JOB_UID": "bench",
        "GNN_ATTEMPT": "1",
        "GNN_ROUNDS_LEFT": "0",
        "GNN_NODE_RANK": str(node),
        "GNN_NNODES": str(nodes),
        "GNN_NPROC_PER_NODE": "1",
        "GNN_HTTP_ADDRESS": ":9400",
        "GNN_CONFIG": f"{folder}/job.yaml",
        "GNN_TERMINATION_LOG": f"{folder}/result-{node}",
        "GNN_DATA_KEY_FILE": f"{folder}/data.key",
        "GNN_DATA_ADDRESS": ":29600",
        "MASTER_ADDR": address,
        "MASTER_PORT": str(PORT),
    }


def in_space(space, *command):
    return subprocess.run(["ip", "netns", "exec", space, *command], check=True, capture_output=True, text=True).stdout


def read_metrics(space, wanted):
    """The counters of the agent there that begin with a word of `wanted`, without what tells its rank."""
    program = "import sys,urllib.request as u;sys.stdout.write(u.urlopen('http://127.0.0.1:9400/metrics').read().decode())"
    metrics = {}
    for line in in_space(space, "python3", "-c", program).splitlines():
        if line.startswith(wanted) and "_bucket" not in line:
            name, value = line.rsplit(" ", 1)
            metrics[re.sub(r'(job|node|(local_)?rank)="[^"]*",?', "", name).replace(",}", "}").replace("{}", "")] = float(value)
    return metrics


def fields_of(process):
    """Of /proc/PID/stat, from the state on."""
    return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()


def cpu_seconds(agents):
    """CPU time of agents and their ranks so far."""
    ticks, family = 0, {agent.pid for agent in agents}
    for each in os.listdir("/proc"):
        with contextlib.suppress(OSError, IndexError):
            if each.isdigit() and int(fields_of(each)[1]) in family:  # a rank
                family.add(int(each))
    for each in family:
        with contextlib.suppress(OSError, IndexError):
            ticks += sum(int(time) for time in fields_of(each)[11:13])
    return ticks / os.sysconf("SC_CLK_TCK")


def received_bytes(space):
    """Bytes that came over the cable, with headers."""
    return json.loads(in_space(space, "ip", "-json", "-s", "link", "show", "pod"))[0]["stats64"]["rx"]["bytes"]

"""Enforces NetworkPolicies in the test cluster: translates them to nftables in each node's network namespace.

Nodes route every packet to and from their pods (the ptp plugin gives each pod a link of its own), so the forward hook
sees them all, after kube-proxy has replaced service addresses by pods'. `compile_node` is the whole translation and
does no I/O; the rest watches the API server and loads what it gives.

Not covered, because the test cluster does not have them: IPv6, SCTP's own details, pods on the host's network.
"""

import subprocess
import sys
import threading
import time

from layout import CONTROL_ADDRESS
from watch import Collection, connector

# CoreDNS runs beside the nodes; to policies it is the pod that it would be in other clusters.
OUTSIDE_WORKLOADS = [
    {"metadata": {"name": "coredns", "namespace": "kube-system", "labels": {"k8s-app": "kube-dns"}},
     "spec": {"containers": [{"ports": [{"name": "dns", "containerPort": 53, "protocol": "UDP"},
                                        {"name": "dns-tcp", "containerPort": 53, "protocol": "TCP"}]}]},
     "status": {"phase": "Running", "podIP": CONTROL_ADDRESS}},
]


# --- Selectors -------------------------------------------------------------------------------------------------


def selects(selector, labels):
    """Kubernetes' label selector; an empty one selects all."""
    for key, value in (selector.get("matchLabels") or {}).items():
        if labels.get(key) != value:
            return False
    for term in selector.get("matchExpressions") or []:
        key, operator, values = term["key"], term["operator"], term.get("values") or []
        holds = {
            "In": labels.get(key) in values,
            "NotIn": labels.get(key) not in values,
            "Exists": key in labels,
            "DoesNotExist": key not in labels,
        }[operator]
        if not holds:
            return False
    return True


def _labels(thing):
    return thing["metadata"].get("labels") or {}


def _address(pod):
    return pod.get("status", {}).get("podIP")


def is_live(pod):
    """Has an address of its own now; the address of a finished pod may belong to another."""
    return bool(
        _address(pod)
        and not pod["spec"].get("hostNetwork")
        and pod.get("status", {}).get("phase") not in ("Succeeded", "Failed")
    )


def _peer_pods(peer, policy, pods, namespaces):
    own = policy["metadata"]["namespace"]
    namespace_selector = peer.get("namespaceSelector")
    if namespace_selector is None:
        chosen = {own}
    else:
        chosen = {n["metadata"]["name"] for n in namespaces if selects(namespace_selector, _labels(n))}
    pod_selector = peer.get("podSelector") or {}
    return [p for p in pods if p["metadata"]["namespace"] in chosen and selects(pod_selector, _labels(p))]


# --- Rules -----------------------------------------------------------------------------------------------------


def _named_port(pod, name, protocol):
    for container in pod["spec"].get("containers", []):
        for port in container.get("ports") or []:
            if port.get("name") == name and port.get("protocol", "TCP") == protocol:
                return port["containerPort"]
    return None


def _port_matches(ports, target_pod):
    """nftables expressions, any of which admits a packet; names are looked up in the pod that listens (None: not known)."""
    if not ports:
        return [""]
    matches = []
    for entry in ports:
        protocol = entry.get("protocol", "TCP")
        port = entry.get("port")
        if isinstance(port, str):
            port = _named_port(target_pod, port, protocol) if target_pod else None
            if port is None:
                continue
        if port is None:
            matches.append(f"meta l4proto {protocol.lower()} ")
        elif entry.get("endPort"):
            matches.append(f"{protocol.lower()} dport {port}-{entry['endPort']} ")
        else:
            matches.append(f"{protocol.lower()} dport {port} ")
    return matches


def _uses_names(ports):
    return any(isinstance(p.get("port"), str) for p in ports or [])


def _rule_lines(rule, direction, policy, pod, pods, namespaces):
    """The admitting lines of one ingress or egress rule for `pod`."""
    ports = rule.get("ports")
    side = "saddr" if direction == "ingress" else "daddr"
    peers = rule.get("from" if direction == "ingress" else "to")
    lines = []

    def admit(address_match, listener):
        lines.extend(f"{address_match}{match}return" for match in _port_matches(ports, listener))

    if not peers:  # everybody; with named ports of egress, everybody who has such a port
        if direction == "egress" and _uses_names(ports):
            for other in filter(is_live, pods):
                admit(f"ip {side} {_address(other)} ", other)
        else:
            admit("", pod)
        return lines
    for peer in peers:
        if "ipBlock" in peer:
            if ":" in peer["ipBlock"]["cidr"]:
                continue  # nobody here has an IPv6 address
            match = f"ip {side} {peer['ipBlock']['cidr']} "
            if peer["ipBlock"].get("except"):
                match += f"ip {side} != {{ {', '.join(peer['ipBlock']['except'])} }} "
            admit(match, pod if direction == "ingress" else None)
            continue
        others = [p for p in _peer_pods(peer, policy, pods, namespaces) if is_live(p)]
        if direction == "ingress" or not _uses_names(ports):
            addresses = sorted({_address(p) for p in others})
            if addresses:
                admit(f"ip {side} {{ {', '.join(addresses)} }} ", pod)
        else:
            for other in others:
                admit(f"ip {side} {_address(other)} ", other)
    return lines


def _chain(pod, direction, policies, pods, namespaces):
    """The lines of the chain that judges this direction of the pod; None: no policy isolates it."""
    isolating = []
    for policy in policies:
        spec = policy["spec"]
        types = spec.get("policyTypes") or ["Ingress", *(["Egress"] if spec.get("egress") else [])]
        same_namespace = policy["metadata"]["namespace"] == pod["metadata"]["namespace"]
        if direction.capitalize() in types and same_namespace and selects(spec.get("podSelector") or {}, _labels(pod)):
            isolating.append(policy)
    if not isolating:
        return None
    lines = []
    for policy in isolating:
        for rule in policy["spec"].get(direction) or []:
            lines += _rule_lines(rule, direction, policy, pod, pods, namespaces)
    return [*dict.fromkeys(lines), "counter drop"]


def compile_node(node, policies, pods, namespaces):
    """The nftables script that makes the node's rules be these and no others, at once."""
    policies = sorted(policies, key=lambda p: (p["metadata"]["namespace"], p["metadata"]["name"]))
    everyone = [*pods, *OUTSIDE_WORKLOADS]
    local = sorted((p for p in pods if p["spec"].get("nodeName") == node and is_live(p)), key=_address)
    dispatch, chains = [], []
    for pod in local:
        for direction, match in (("egress", "saddr"), ("ingress", "daddr")):
            lines = _chain(pod, direction, policies, everyone, namespaces)
            if lines is None:
                continue
            chain = f"{direction}_{_address(pod).replace('.', '_')}"
            dispatch.append(f"ip {match} {_address(pod)} jump {chain}")
            body = "".join(f"    {line}\n" for line in lines)
            chains.append(f"  chain {chain} {{ # {pod['metadata']['namespace']}/{pod['metadata']['name']}\n{body}  }}\n")
    forward = "".join(f"    {line}\n" for line in ["ct state established,related accept", *dispatch])
    return (
        "table ip gnn_policy\ndelete table ip gnn_policy\ntable ip gnn_policy {\n"
        + "".join(chains)
        + "  chain forward {\n    type filter hook forward priority 0; policy accept;\n" + forward + "  }\n}\n"
    )


# --- Watching the API server -----------------------------------------------------------------------------------

_PATHS = {
    "policies": "/apis/networking.k8s.io/v1/networkpolicies",
    "pods": "/api/v1/pods",
    "namespaces": "/api/v1/namespaces",
}


def main():
    """usage: network_policy.py HOST PORT CA CERTIFICATE KEY NODE=PID..., with a process in each node's namespaces"""
    connect = connector(*sys.argv[1:6])
    nodes = dict(argument.split("=") for argument in sys.argv[6:])
    changed = threading.Event()
    collections = {name: Collection(connect, path, changed) for name, path in _PATHS.items()}
    for collection in collections.values():
        collection.start()
    loaded = {}
    while True:
        changed.wait()
        changed.clear()
        seen = {name: collection.items() for name, collection in collections.items()}
        if any(items is None for items in seen.values()):
            continue
        for node, pid in nodes.items():
            script = compile_node(node, seen["policies"], seen["pods"], seen["namespaces"])
            if loaded.get(node) == script:
                continue
            done = subprocess.run(
                ["nsenter", f"--net=/proc/{pid}/ns/net", "--", "nft", "-f", "-"],
                input=script, text=True, capture_output=True, check=False,
            )
            if done.returncode == 0:
                loaded[node] = script
                print(f"{node}: {script.count('jump ')} directions isolated", flush=True)
            else:
                print(f"{node}: nft refused:\n{done.stderr}\n{script}", flush=True)
                time.sleep(0.5)
                changed.set()


if __name__ == "__main__":
    main()

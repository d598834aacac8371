"""Tests of the translation of NetworkPolicies to nftables."""

import unittest

import network_policy
from network_policy import compile_node, selects


def namespace(name, **labels):
    return {"metadata": {"name": name, "labels": {"kubernetes.io/metadata.name": name, **labels}}}


def pod(name, address, *, node="n0", space="jobs", phase="Running", ports=(), **labels):
    return {
        "metadata": {"name": name, "namespace": space, "labels": labels},
        "spec": {"nodeName": node, "containers": [{"ports": list(ports)}]},
        "status": {"phase": phase, "podIP": address},
    }


def policy(selector=None, space="jobs", **spec):
    return {"metadata": {"name": "p", "namespace": space}, "spec": {"podSelector": selector or {}, **spec}}


def chain(script, name):
    """The lines of one chain; None: there is no such chain."""
    if f"chain {name} {{" not in script:
        return None
    text = script.split(f"chain {name} {{", 1)[1].split("\n  }\n", 1)[0]
    return [line.strip() for line in text.splitlines()[1:]]


NAMESPACES = [namespace("jobs"), namespace("monitoring", team="ops"), namespace("other")]
A = pod("a", "10.244.1.2", role="worker")
B = pod("b", "10.244.2.2", node="n1", role="worker")
OUTSIDER = pod("c", "10.244.2.3", node="n1", space="other", role="worker")
PROMETHEUS = pod("prom", "10.244.2.4", node="n1", space="monitoring", app="prometheus")
PODS = [A, B, OUTSIDER, PROMETHEUS]


class SelectorTest(unittest.TestCase):
    def test_matches_labels_and_expressions(self):
        labels = {"a": "1", "b": "2"}
        cases = [
            ({}, True),
            ({"matchLabels": {"a": "1"}}, True),
            ({"matchLabels": {"a": "2"}}, False),
            ({"matchLabels": {"c": "1"}}, False),
            ({"matchExpressions": [{"key": "a", "operator": "In", "values": ["0", "1"]}]}, True),
            ({"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["1"]}]}, False),
            ({"matchExpressions": [{"key": "c", "operator": "NotIn", "values": ["1"]}]}, True),
            ({"matchExpressions": [{"key": "b", "operator": "Exists"}]}, True),
            ({"matchExpressions": [{"key": "b", "operator": "DoesNotExist"}]}, False),
            ({"matchLabels": {"a": "1"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}, False),
        ]
        for selector, expected in cases:
            with self.subTest(selector=selector):
                self.assertEqual(selects(selector, labels), expected)


class CompileTest(unittest.TestCase):
    def compiled(self, *policies, node="n0", pods=PODS):
        return compile_node(node, list(policies), pods, NAMESPACES)

    def test_without_policies_nothing_is_judged(self):
        script = self.compiled()
        self.assertEqual(
            chain(script, "forward"),
            ["type filter hook forward priority 0; policy accept;", "ct state established,related accept"],
        )

    def test_default_deny_drops_all_of_local_pods_only(self):
        script = self.compiled(policy(policyTypes=["Ingress", "Egress"]))
        self.assertEqual(chain(script, "ingress_10_244_1_2"), ["counter drop"])
        self.assertEqual(chain(script, "egress_10_244_1_2"), ["counter drop"])
        self.assertIsNone(chain(script, "ingress_10_244_2_2"), "that pod is on the other node")
        self.assertIn("ip daddr 10.244.1.2 jump ingress_10_244_1_2", chain(script, "forward"))

    def test_policy_holds_in_its_own_namespace_only(self):
        script = self.compiled(policy(policyTypes=["Ingress"]), node="n1")
        self.assertIsNone(chain(script, "ingress_10_244_2_3"))
        self.assertIsNotNone(chain(script, "ingress_10_244_2_2"))

    def test_peers_by_pod_and_namespace(self):
        worker = {"podSelector": {"matchLabels": {"role": "worker"}}}
        operations = {"namespaceSelector": {"matchLabels": {"team": "ops"}}}
        script = self.compiled(
            policy(ingress=[{"from": [worker]}, {"from": [operations], "ports": [{"port": 9400}]}])
        )
        self.assertEqual(
            chain(script, "ingress_10_244_1_2"),
            ["ip saddr { 10.244.1.2, 10.244.2.2 } return", "ip saddr { 10.244.2.4 } tcp dport 9400 return", "counter drop"],
        )

    def test_peer_with_both_selectors_needs_both(self):
        both = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"app": "prometheus"}}}
        script = self.compiled(policy(ingress=[{"from": [both]}]))
        self.assertEqual(chain(script, "ingress_10_244_1_2"), ["ip saddr { 10.244.2.4 } return", "counter drop"])

    def test_ports_ranges_protocols_and_everybody(self):
        ports = [{"port": 53, "protocol": "UDP"}, {"port": 1000, "endPort": 2000}, {"protocol": "TCP"}]
        script = self.compiled(policy(policyTypes=["Egress"], egress=[{"ports": ports}]))
        self.assertEqual(
            chain(script, "egress_10_244_1_2"),
            ["udp dport 53 return", "tcp dport 1000-2000 return", "meta l4proto tcp return", "counter drop"],
        )

    def test_empty_rule_admits_everything(self):
        script = self.compiled(policy(ingress=[{}]))
        self.assertEqual(chain(script, "ingress_10_244_1_2"), ["return", "counter drop"])

    def test_address_blocks_with_exceptions(self):
        block = {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.244.0.0/16"]}}
        script = self.compiled(policy(policyTypes=["Egress"], egress=[{"to": [block], "ports": [{"port": 443}]}]))
        self.assertEqual(
            chain(script, "egress_10_244_1_2"),
            ["ip daddr 10.0.0.0/8 ip daddr != { 10.244.0.0/16 } tcp dport 443 return", "counter drop"],
        )

    def test_blocks_of_ipv6_admit_nobody_here(self):
        blocks = [{"ipBlock": {"cidr": cidr}} for cidr in ("0.0.0.0/0", "::/0")]
        script = self.compiled(policy(policyTypes=["Egress"], egress=[{"to": blocks, "ports": [{"port": 443}]}]))
        self.assertEqual(chain(script, "egress_10_244_1_2"), ["ip daddr 0.0.0.0/0 tcp dport 443 return", "counter drop"])
        script = self.compiled(policy(policyTypes=["Egress"], egress=[{"to": blocks[1:]}]))
        self.assertEqual(chain(script, "egress_10_244_1_2"), ["counter drop"])

    def test_named_ports_are_the_listeners(self):
        server = pod("s", "10.244.2.9", node="n1", ports=[{"name": "web", "containerPort": 8080}], role="server")
        to_servers = {"podSelector": {"matchLabels": {"role": "server"}}}
        out = self.compiled(
            policy(policyTypes=["Egress"], egress=[{"to": [to_servers], "ports": [{"port": "web"}]}]), pods=[A, server]
        )
        self.assertEqual(chain(out, "egress_10_244_1_2"), ["ip daddr 10.244.2.9 tcp dport 8080 return", "counter drop"])
        into = self.compiled(policy(ingress=[{"ports": [{"port": "web"}, {"port": "none"}]}]), pods=[server], node="n1")
        self.assertEqual(chain(into, "ingress_10_244_2_9"), ["tcp dport 8080 return", "counter drop"])

    def test_peer_that_selects_nobody_admits_nobody(self):
        nobody = {"podSelector": {"matchLabels": {"role": "none"}}}
        script = self.compiled(policy(ingress=[{"from": [nobody]}]))
        self.assertEqual(chain(script, "ingress_10_244_1_2"), ["counter drop"])

    def test_several_policies_add_up(self):
        script = self.compiled(
            policy(policyTypes=["Ingress"]), policy({"matchLabels": {"role": "worker"}}, ingress=[{"ports": [{"port": 1}]}])
        )
        self.assertEqual(chain(script, "ingress_10_244_1_2"), ["tcp dport 1 return", "counter drop"])

    def test_finished_pods_lend_their_address_to_nobody(self):
        old = pod("old", "10.244.1.2", phase="Succeeded", role="old")
        script = self.compiled(policy({"matchLabels": {"role": "old"}}, policyTypes=["Ingress"]), pods=[old, A])
        self.assertIsNone(chain(script, "ingress_10_244_1_2"))

    def test_cluster_dns_counts_as_a_pod_of_kube_system(self):
        dns = {"namespaceSelector": {}, "podSelector": {"matchLabels": {"k8s-app": "kube-dns"}}}
        spaces = [*NAMESPACES, namespace("kube-system")]
        script = compile_node(
            "n0", [policy(policyTypes=["Egress"], egress=[{"to": [dns], "ports": [{"port": 53, "protocol": "UDP"}]}])],
            PODS, spaces,
        )  # fmt: skip
        self.assertEqual(
            chain(script, "egress_10_244_1_2"),
            [f"ip daddr {{ {network_policy.CONTROL_ADDRESS} }} udp dport 53 return", "counter drop"],
        )


if __name__ == "__main__":
    unittest.main()

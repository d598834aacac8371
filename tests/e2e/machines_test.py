"""Machines that are lost, drained, wanted by somebody else or not there, on the two-node cluster: a gang moves or waits, and it is
charged nothing.

The worker keeps the contract and trains nothing.
"""

import json
import unittest

import conformance_cluster
from conformance_cluster import NAMESPACE, job
from installation import Failed

cluster = None


def setUpModule():
    global cluster
    cluster = conformance_cluster.start("machines")


class Machines(unittest.TestCase):
    def start(self, name, **changes):
        """A job that runs on both machines, and on and on."""
        manifest = job(name, CONFORMANCE_EPOCH_SECONDS="3600")
        manifest["spec"]["workers"].update(changes)
        cluster.apply(manifest)
        self.addCleanup(cluster.kubectl, "delete", "gnnjob", name, "-n", NAMESPACE, "--ignore-not-found")
        cluster.kubectl("wait", "-n", NAMESPACE, f"gnnjob/{name}", "--for=condition=Running", "--timeout=60s")

    def assert_moves_free(self, name, seconds):
        def moved():
            found = cluster.get("gnnjob", name, NAMESPACE)
            return found["status"] if found["status"]["attempt"] == 2 and cluster.holds(found, "Running") else None

        status = cluster.wait(f"the next attempt of {name} runs", moved, seconds)
        self.assertEqual(status["restarts"], 0, status)

    def machine_of(self, pod):
        return cluster.get("pod", pod, NAMESPACE)["spec"]["nodeName"]

    def test_a_machine_whose_link_is_cut_is_replaced(self):
        # Kubelet and pod run on, and nobody hears of them.
        self.start("cut")
        machine = self.machine_of("cut-1-1")
        cluster.enter("ip", "link", "set", f"to-{machine}", "down")
        try:
            self.assert_moves_free("cut", 240)
            pods = cluster.list("pods", NAMESPACE, "gnn.dev/job=cut")
            machines = {pod["spec"]["nodeName"] for pod in pods if pod["metadata"]["labels"]["gnn.dev/attempt"] == "2"}
            self.assertNotIn(machine, machines)
        finally:
            cluster.enter("ip", "link", "set", f"to-{machine}", "up")
            cluster.kubectl("wait", f"node/{machine}", "--for=condition=Ready", "--timeout=60s")
        cluster.wait("the old pod is gone", lambda: len(cluster.list("pods", NAMESPACE, "gnn.dev/job=cut")) == 2, 60)
        self.assert_moves_free("cut", 0)

    def test_a_drain_waits_for_the_disruption_budget_and_then_moves_the_gang(self):
        self.start("drained")
        budget = {
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "all", "namespace": NAMESPACE},
            "spec": {"minAvailable": 2, "selector": {"matchLabels": {"gnn.dev/job": "drained"}}},
        }
        cluster.apply(budget)

        def counted():
            return cluster.get("pdb", "all", NAMESPACE).get("status", {}).get("currentHealthy") == 2

        cluster.wait("the budget counts both pods", counted, 30)
        machine = self.machine_of("drained-1-1")
        drain = ["drain", machine, "--ignore-daemonsets", "--delete-emptydir-data", "--pod-selector=gnn.dev/job=drained"]
        self.addCleanup(cluster.kubectl, "uncordon", machine)
        with self.assertRaisesRegex(Failed, "disruption budget"):
            cluster.kubectl(*drain, "--timeout=6s")
        self.assertEqual(cluster.get("gnnjob", "drained", NAMESPACE)["status"]["attempt"], 1)
        cluster.kubectl("delete", "pdb", "all", "-n", NAMESPACE)
        cluster.kubectl(*drain, "--timeout=60s")
        self.assert_moves_free("drained", 120)
        pods = cluster.list("pods", NAMESPACE, "gnn.dev/job=drained")
        self.assertNotIn(machine, {pod["spec"]["nodeName"] for pod in pods})

    def test_a_gang_waits_for_the_slices_of_gpus_that_it_names_and_takes_them(self):
        slices = "nvidia.com/mig-1g.10gb"
        manifest = job("sliced", CONFORMANCE_EPOCH_SECONDS="3600")
        manifest["spec"]["workers"].update(gpusPerProcess=1, gpuResource=slices)
        cluster.apply(manifest)
        self.addCleanup(cluster.kubectl, "delete", "gnnjob", "sliced", "-n", NAMESPACE, "--ignore-not-found")

        def waits():
            return f"Insufficient {slices}" in str(cluster.get("gnnjob", "sliced", NAMESPACE).get("status"))

        cluster.wait("the gang waits for slices", waits, 60)
        for node in ("node-0", "node-1"):
            advertised = [{"op": "add", "path": f"/status/capacity/{slices.replace('/', '~1')}", "value": "1"}]
            cluster.kubectl("patch", "node", node, "--subresource=status", "--type=json", "-p", json.dumps(advertised))
        cluster.kubectl("wait", "-n", NAMESPACE, "gnnjob/sliced", "--for=condition=Running", "--timeout=60s")
        for pod in cluster.list("pods", NAMESPACE, "gnn.dev/job=sliced"):
            self.assertEqual(pod["spec"]["containers"][0]["resources"]["limits"], {slices: "1"})

    def test_a_preempted_gang_waits_for_its_place(self):
        # Each machine pretends to have four GPUs.
        cluster.apply({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"}, "value": 1000,
        })
        self.start("preempted", gpusPerProcess=1, processesPerNode=4)
        cluster.apply({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "urgent", "namespace": NAMESPACE},
            "spec": {
                "restartPolicy": "Never", "priorityClassName": "urgent", "terminationGracePeriodSeconds": 1,
                "securityContext": {"runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{
                    "name": "urgent", "image": "localhost/gnn-cluster/busybox:1", "imagePullPolicy": "Never",
                    "command": ["sleep", "3600"], "resources": {"limits": {"nvidia.com/gpu": "4"}},
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }],
            },
        })
        remove = ["delete", "pod", "urgent", "-n", NAMESPACE, "--ignore-not-found"]
        self.addCleanup(cluster.kubectl, *remove)

        def waits():
            status = cluster.get("gnnjob", "preempted", NAMESPACE)["status"]
            return status["attempt"] == 2 and "Insufficient nvidia.com/gpu" in str(status["conditions"])

        cluster.wait("the next attempt waits for a place", waits, 90)

        def runs():
            return cluster.get("pod", "urgent", NAMESPACE)["status"]["phase"] == "Running"

        cluster.wait("the urgent pod runs in its place", runs, 60)
        cluster.kubectl(*remove)
        self.assert_moves_free("preempted", 120)


if __name__ == "__main__":
    unittest.main()

"""gnn-controller and a worker that keeps the contract on the two-node cluster, with real kubelets, pods and DNS: what the
controller promises, without LibTorch. Needs root and the cluster's programs, and one run of gnn-controller's build.
"""

import unittest

import conformance_cluster
from conformance_cluster import NAMESPACE, job

cluster = None


def setUpModule():
    global cluster
    cluster = conformance_cluster.start("conformance")


class ConformanceTest(unittest.TestCase):
    def restarting_events(self, name):
        events = cluster.list("events", NAMESPACE)
        return [each for each in events if each["involvedObject"]["name"] == name and each["reason"] == "Restarting"]

    def test_runs_to_complete_on_both_nodes(self):
        cluster.apply(job("plain"))
        cluster.kubectl("wait", "-n", NAMESPACE, "gnnjob/plain", "--for=condition=Running", "--timeout=60s")

        def progress():
            return (cluster.get("gnnjob", "plain", NAMESPACE)["status"].get("progress") or {}).get("epoch", 0) > 1

        cluster.wait("progress in the status", progress, 30)
        cluster.kubectl("wait", "-n", NAMESPACE, "gnnjob/plain", "--for=condition=Complete", "--timeout=90s")
        pods = cluster.list("pods", NAMESPACE, "gnn.dev/job=plain")
        self.assertEqual(len({pod["spec"]["nodeName"] for pod in pods}), 2)
        found = cluster.get("gnnjob", "plain", NAMESPACE)["status"]
        self.assertEqual((found["attempt"], found["restarts"]), (1, 0))
        self.assertEqual(found["progress"]["testMetric"], "0.75")
        described = cluster.kubectl("describe", "gnnjob", "plain", "-n", NAMESPACE)
        self.assertIn("Complete", described)
        self.assertIn("gnn.dev/gnn-controller", described)

    def test_a_killed_pod_gives_one_restarting_and_a_complete(self):
        cluster.apply(job("killed"))
        cluster.kubectl("wait", "-n", NAMESPACE, "gnnjob/killed", "--for=condition=Running", "--timeout=60s")
        cluster.kubectl("delete", "pod", "killed-1-1", "-n", NAMESPACE, "--grace-period=0", "--force")
        cluster.kubectl("wait", "-n", NAMESPACE, "gnnjob/killed", "--for=condition=Complete", "--timeout=120s")
        found = cluster.get("gnnjob", "killed", NAMESPACE)["status"]
        self.assertEqual(found["attempt"], 2)
        cluster.wait("an event Restarting", lambda: self.restarting_events("killed"), 10)
        self.assertEqual(len(self.restarting_events("killed")), 1)

    def test_a_configuration_error_is_never_retried(self):
        cluster.apply(job("wrong", CONFORMANCE_FAIL_NODE="1", CONFORMANCE_EXIT_CODE="64"))
        cluster.kubectl("wait", "-n", NAMESPACE, "gnnjob/wrong", "--for=condition=Failed", "--timeout=60s")
        found = cluster.get("gnnjob", "wrong", NAMESPACE)["status"]
        self.assertEqual((found["attempt"], found["lastFailure"]["node"], found["lastFailure"]["exitCode"]), (1, 1, 64))

    def test_a_failed_job_that_keeps_its_pods_stops_them(self):
        manifest = job("kept", CONFORMANCE_EPOCH_SECONDS="600")
        manifest["spec"]["runPolicy"] = {"activeDeadlineSeconds": 10, "cleanPodPolicy": "None"}
        cluster.apply(manifest)
        cluster.kubectl("wait", "-n", NAMESPACE, "gnnjob/kept", "--for=condition=Failed", "--timeout=60s")

        def stopped():
            pods = cluster.list("pods", NAMESPACE, "gnn.dev/job=kept")
            return pods if all(pod["status"]["phase"] in ("Failed", "Succeeded") for pod in pods) else None

        pods = cluster.wait("the kubelets have stopped both pods", stopped, 60)
        self.assertEqual(len(pods), 2)
        cluster.wait("both are released", lambda: not any(
            pod["metadata"].get("finalizers") for pod in cluster.list("pods", NAMESPACE, "gnn.dev/job=kept")
        ), 30)


if __name__ == "__main__":
    unittest.main()

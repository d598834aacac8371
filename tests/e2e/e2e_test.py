"""The whole product on a real two-node Kubernetes: jobs, faults, monitoring, installation.

Every fault test trains the same small job and ends with the same parameters as the undisturbed run, bit for bit.
"""

import json
import os
import re
import signal
import time
import unittest
from functools import lru_cache
from pathlib import Path

import yaml

from installation import ROOT, Installation

NAMESPACE = "train"
STEPS_BEFORE_FAULT = 40

operator = Installation("e2e")


def setUpModule():
    operator.down()
    operator.up("--prometheus")
    operator.build_images("dev")
    operator.load_images()
    operator.install()
    operator.apply({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": NAMESPACE, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}},
    })
    operator.volume(NAMESPACE, "checkpoints")


def tearDownModule():
    operator.down()


def small_job(name, nodes=2, processes=2, epochs=30, **changes):
    """A GraphSAGE on a small generated graph: deterministic, seconds long, with a checkpoint each epoch."""
    spec = {
        "task": {"type": "NodeClassification"},
        "dataset": {"format": "Synthetic", "synthetic": {"shape": "Arxiv", "scale": "0.05", "seed": 1}},
        "model": {"type": "GraphSAGE", "graphSage": {"layers": 2, "hiddenChannels": 64}},
        "sampling": {"fanout": [10, 10], "numThreads": 1},
        "training": {"device": "CPU", "epochs": epochs, "batchSize": 64, "evaluation": {"every": 10}},
        "workers": {
            "nodes": nodes, "processesPerNode": processes,
            "template": {
                "image": operator.images["worker"], "imagePullPolicy": "Never",
                "resources": {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"cpu": "2", "memory": "2Gi"}},
                "volumes": [{"name": "checkpoints", "persistentVolumeClaim": {"claimName": "checkpoints"}}],
                "volumeMounts": [{"name": "checkpoints", "mountPath": "/checkpoints"}],
                "terminationGracePeriodSeconds": 30,
            },
        },
        "checkpoint": {"path": f"/checkpoints/{name}", "everyEpochs": 1},
        "runPolicy": {"maxRestarts": 5},
    }
    for path, value in changes.items():
        at = spec
        *parents, last = path.split("__")
        for part in parents:
            at = at.setdefault(part, {})
        at[last] = value
    return {"apiVersion": "gnn.dev/v1alpha1", "kind": "GNNJob", "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec}


@lru_cache
def undisturbed_hash():
    operator.apply(small_job("undisturbed"))
    job = operator.wait_finished("undisturbed", NAMESPACE, 240)
    assert operator.holds(job, "Complete"), json.dumps(job["status"])
    return operator.results("undisturbed", NAMESPACE)[0]["parametersHash"]


def processes(job, subcommand):
    """Process ids of the agents or ranks of a job, on whichever node."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            environment = (entry / "environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if len(arguments) > 1 and arguments[0].endswith(b"gnn-worker") and arguments[1] == subcommand.encode():
            if f"GNN_JOB={job}".encode() in environment:
                found.append(int(entry.name))
    return sorted(found)


class EndToEnd(unittest.TestCase):
    def submit(self, name, **changes):
        operator.apply(small_job(name, **changes))
        self.addCleanup(operator.kubectl, "delete", "gnnjob", name, "-n", NAMESPACE, "--ignore-not-found")
        return name

    def assert_complete_like_undisturbed(self, name, restarts=None, seconds=300):
        job = operator.wait_finished(name, NAMESPACE, seconds)
        self.assertTrue(operator.holds(job, "Complete"), json.dumps(job["status"], indent=1))
        self.assertEqual(operator.results(name, NAMESPACE)[0]["parametersHash"], undisturbed_hash())
        if restarts is not None:
            self.assertEqual(job["status"].get("restarts", 0), restarts, json.dumps(job["status"], indent=1))
        return job


class Jobs(EndToEnd):
    def test_a_job_completes_and_kubectl_wait_returns(self):
        undisturbed_hash()
        operator.kubectl("wait", "gnnjob/undisturbed", "-n", NAMESPACE, "--for=condition=Complete", "--timeout=5s")
        story = operator.kubectl("describe", "gnnjob", "undisturbed", "-n", NAMESPACE)
        self.assertIn("Complete", story)
        results = operator.results("undisturbed", NAMESPACE)
        self.assertEqual(set(results), {0, 1})
        self.assertEqual(results[0]["exitCode"], 0)

    def test_a_bad_dataset_fails_once_with_the_file_named(self):
        name = self.submit("bad-data", dataset={"format": "OGB", "path": "/checkpoints/nowhere"})
        job = operator.wait_finished(name, NAMESPACE, 120)
        self.assertTrue(operator.holds(job, "Failed"))
        self.assertEqual(job["status"].get("restarts", 0), 0)
        self.assertEqual(job["status"]["lastFailure"]["exitCode"], 65)
        self.assertIn("/checkpoints/nowhere", job["status"]["lastFailure"]["message"])

    def test_samples_pass_the_api_server(self):
        samples = sorted((ROOT / "manifests/samples").glob("*.yaml"))
        self.assertGreaterEqual(len(samples), 5)
        for sample in samples:
            operator.kubectl("apply", "-n", NAMESPACE, "--dry-run=server", "-f", sample)

    def test_suspend_and_resume_continue_from_the_checkpoint(self):
        name = self.submit("suspended")
        operator.wait_step(name, NAMESPACE, STEPS_BEFORE_FAULT, 120)
        patch = lambda value: operator.kubectl(  # noqa: E731
            "patch", "gnnjob", name, "-n", NAMESPACE, "--type=merge", "-p", json.dumps({"spec": {"suspend": value}})
        )
        patch(True)
        operator.wait("no pod is left", lambda: not operator.list("pods", NAMESPACE, f"gnn.dev/job={name}"), 90)
        self.assertTrue(operator.holds(operator.get("gnnjob", name, NAMESPACE), "Suspended"))
        patch(False)
        self.assert_complete_like_undisturbed(name, restarts=0)

    def test_deleting_a_running_job_leaves_nothing(self):
        name = self.submit("deleted")
        operator.wait_step(name, NAMESPACE, STEPS_BEFORE_FAULT, 120)
        operator.kubectl("delete", "gnnjob", name, "-n", NAMESPACE, "--timeout=60s")

        def left():
            return [
                item["metadata"]["name"]
                for kind in ("pods", "services", "configmaps", "networkpolicies")
                for item in operator.list(kind, NAMESPACE, f"gnn.dev/job={name}")
            ]

        operator.wait("nothing of the job is left", lambda: not left(), 90)

    def test_two_gangs_that_do_not_fit_together_both_finish(self):
        # Each node pretends to have four GPUs; each job wants three on each of both nodes.
        gpus = {"workers__gpusPerProcess": 1, "workers__processesPerNode": 3, "training__epochs": 3}
        for name in ("gang-a", "gang-b"):
            self.submit(name, **gpus)
        for name in ("gang-a", "gang-b"):
            job = operator.wait_finished(name, NAMESPACE, 400)
            self.assertTrue(operator.holds(job, "Complete"), json.dumps(job["status"]))


class Faults(EndToEnd):
    def disturbed(self, name, **changes):
        undisturbed_hash()
        self.submit(name, **changes)
        operator.wait_step(name, NAMESPACE, STEPS_BEFORE_FAULT, 120)
        return name

    def test_a_killed_rank_restarts_in_place(self):
        name = self.disturbed("rank-killed")
        os.kill(processes(name, "rank")[-1], signal.SIGKILL)
        job = self.assert_complete_like_undisturbed(name, restarts=1)
        self.assertEqual(job["status"]["attempt"], 1, "the pods are the same")

    def test_a_killed_agent_starts_a_new_attempt(self):
        name = self.disturbed("agent-killed")
        os.kill(processes(name, "agent")[-1], signal.SIGKILL)
        job = self.assert_complete_like_undisturbed(name, restarts=1)
        self.assertEqual(job["status"]["attempt"], 2)

    def test_an_evicted_pod_is_not_charged(self):
        name = self.disturbed("evicted")
        pod = f"{name}-1-1"
        eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": NAMESPACE}}
        operator.kubectl(
            "create", "--raw", f"/api/v1/namespaces/{NAMESPACE}/pods/{pod}/eviction", "-f", "-", stdin=json.dumps(eviction)
        )
        job = self.assert_complete_like_undisturbed(name, restarts=0)
        self.assertEqual(job["status"]["attempt"], 2)

    def test_training_does_not_notice_a_new_controller_and_api_server(self):
        name = self.disturbed("control-plane")
        operator.kubectl(
            "-n", operator.namespace, "delete", "pods", "-l", "app.kubernetes.io/component=controller", "--wait=false"
        )
        operator.restart_part("kube-apiserver")
        operator.wait("the API server answers", lambda: self.answers(), 60)
        job = self.assert_complete_like_undisturbed(name, restarts=0)
        self.assertEqual(job["status"]["attempt"], 1)

    @staticmethod
    def answers():
        try:
            return operator.kubectl("get", "--raw", "/readyz")
        except Exception:  # noqa: BLE001: any failure means not yet
            return None

    def test_a_lost_node_is_replaced(self):
        # The job's second pod finds a place on the node that is left.
        name = self.disturbed("node-lost")
        node = operator.get("pod", f"{name}-1-1", NAMESPACE)["spec"]["nodeName"]
        kubelet = operator.status()["parts"][f"{node}-kubelet"]
        os.kill(kubelet, signal.SIGKILL)
        try:
            job = self.assert_complete_like_undisturbed(name, seconds=400)
            self.assertGreaterEqual(job["status"]["attempt"], 2)
        finally:
            operator.restart_part(f"{node}-kubelet")
            operator.kubectl("wait", f"node/{node}", "--for=condition=Ready", "--timeout=60s")


class Fence(EndToEnd):
    def test_only_the_jobs_own_pods_reach_its_store(self):
        name = self.submit("fenced", epochs=200)
        operator.wait_step(name, NAMESPACE, 1, 120)
        address = operator.get("pod", f"{name}-1-0", NAMESPACE)["status"]["podIP"]
        probe = {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger", "namespace": NAMESPACE},
            "spec": {
                "restartPolicy": "Never", "automountServiceAccountToken": False,
                "securityContext": {"runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{
                    "name": "probe", "image": "localhost/gnn-cluster/busybox:1", "imagePullPolicy": "Never",
                    "command": ["sh", "-c", f"nc -w 3 {address} 29400 </dev/null && echo reached || echo refused"],
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }],
            },
        }
        self.addCleanup(operator.kubectl, "-n", NAMESPACE, "delete", "pod", "stranger", "--ignore-not-found", "--wait=false")
        operator.apply(probe)
        operator.wait(
            "the stranger has tried",
            lambda: operator.get("pod", "stranger", NAMESPACE)["status"].get("phase") in ("Succeeded", "Failed"), 60,
        )
        self.assertEqual(operator.kubectl("-n", NAMESPACE, "logs", "stranger").strip(), "refused")


class Monitoring(EndToEnd):
    def test_every_panel_shows_data_of_a_real_run(self):
        name = self.submit("watched", epochs=60)
        operator.wait_step(name, NAMESPACE, STEPS_BEFORE_FAULT, 120)
        os.kill(processes(name, "rank")[-1], signal.SIGKILL)  # so that restarts and rounds are not all zero
        operator.wait_step(name, NAMESPACE, 4 * STEPS_BEFORE_FAULT, 200)
        empty = self.empty_panels(name)
        # A panel may fill later than others (a second scrape, an evaluation): wait for those alone.
        deadline = time.monotonic() + 60
        while empty and time.monotonic() < deadline:
            time.sleep(1)
            empty = self.empty_panels(name)
        self.assertEqual(empty, [])

    @staticmethod
    def empty_panels(job):
        # Panels of things that must not happen; their queries are executed, and may be empty.
        allowed = {"Errors"}
        empty = []
        for file in sorted((ROOT / "charts/gnn-operator/dashboards").glob("*.json")):
            dashboard = json.loads(file.read_text(encoding="utf-8"))
            own = ".+" if file.stem == "operator" else job
            for panel in dashboard["panels"]:
                for target in panel["targets"]:
                    expression = target["expr"]
                    for variable, value in (
                        ("$__rate_interval", "30s"), ("$__range", "10m"), ("$namespace", ".+"), ("$job", own), ("$instance", ".+"),
                    ):
                        expression = expression.replace(variable, value)
                    if not operator.query(expression) and panel["title"] not in allowed:
                        empty.append(f"{file.stem}: {panel['title']}: {target['expr']}")
        return empty

    def test_rules_evaluate_on_real_series(self):
        rules = yaml.safe_load((ROOT / "charts/gnn-operator/files/rules.yaml").read_text(encoding="utf-8"))
        for group in rules["groups"]:
            for rule in group["rules"]:
                operator.query(rule["expr"])

    def test_exported_metrics_are_the_declared_ones(self):
        page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
        declared = set(re.findall(r"`([a-z][a-z0-9_]+)`", page))
        exported = {
            re.sub(r"_(bucket|sum|count)$", "", item["metric"]["__name__"])
            for item in operator.query('{__name__=~"gnn.*|controller_runtime.*|workqueue.*|rest_client.*|leader_election.*"}')
        }
        self.assertLessEqual(exported, declared | {name + suffix for name in declared for suffix in ("",)})


class Chart(EndToEnd):
    def test_helm_test_runs_a_job(self):
        operator.helm("test", "gnn-operator", "--namespace", operator.namespace, "--timeout", "300s")

    def test_an_upgrade_leaves_a_running_job_alone(self):
        undisturbed_hash()
        name = self.submit("upgraded")
        operator.wait_step(name, NAMESPACE, STEPS_BEFORE_FAULT, 120)
        operator.install("controller.logLevel=debug")
        job = self.assert_complete_like_undisturbed(name, restarts=0)
        self.assertEqual(job["status"]["attempt"], 1)


if __name__ == "__main__":
    unittest.main()

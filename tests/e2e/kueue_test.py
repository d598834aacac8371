"""Jobs in queues of the real Kueue, on the two-node cluster with the images and the chart that users install."""

import json
import os
import re
import unittest
from pathlib import Path

import kueue_cluster
from installation import Failed, Installation
from kueue_cluster import API, NAMESPACE, QUEUE, TOGGLE, URGENT

STEPS_BEFORE_PREEMPTION = 40
EPOCHS = 60
FINALIZER = "kueue.x-k8s.io/resource-in-use"
ACCOUNT = "system:serviceaccount:gnn-system:gnn-operator"

operator = Installation("kueue")


def setUpModule():
    operator.down()
    unittest.addModuleCleanup(operator.down)  # also where what follows fails
    kueue_cluster.start(operator, Path(os.environ["GNN_BUILD_DIR"]).name)


def workload(job):
    return kueue_cluster.workload(operator, job)


def pods_of(job):
    return operator.list("pods", NAMESPACE, f"gnn.dev/job={job}")


class Kueue(unittest.TestCase):
    def tearDown(self):
        self.assert_nothing_was_forbidden()

    def assert_nothing_was_forbidden(self):
        """Neither roles nor admission policies have kept the two from anything that they tried."""
        for namespace, pods in ((operator.namespace, "app.kubernetes.io/component=controller"),
                                ("kueue-system", "control-plane=controller-manager")):
            log = operator.kubectl("logs", "-n", namespace, "-l", pods, "--tail=-1", "--prefix")
            self.assertTrue(log, pods)
            self.assertEqual([line for line in log.splitlines() if "forbidden" in line], [])

    def submit(self, name, labels, **changes):
        kueue_cluster.submit(operator, name, labels, **changes)
        self.addCleanup(operator.kubectl, "delete", "gnnjob", name, "-n", NAMESPACE, "--ignore-not-found")

    def wait_queued(self, name, reason, message):
        """Until it waits in its queue for that reason, with such a message of Kueue's, and has no pod."""

        def waits():
            found = operator.condition(operator.get("gnnjob", name, NAMESPACE), "Scheduled") or {}
            return found.get("reason") == reason and message in found["message"] and not pods_of(name)

        operator.wait(f"{name} is {reason}: {message}, and has no pod", waits, 90)

    def wait_complete(self, name):
        job = operator.wait_finished(name, NAMESPACE, 300)
        self.assertTrue(operator.holds(job, "Complete"), json.dumps(job["status"], indent=1))
        return job["status"]

    def resumed_at(self, pod):
        """Epoch and step of the checkpoint from which the attempt of that pod began."""
        log = operator.kubectl("logs", "-n", NAMESPACE, pod)
        found = re.search(r"Resumed from \S+: epoch (\d+), step (\d+)", log)
        self.assertIsNotNone(found, log)
        return tuple(map(int, found.groups()))

    def test_a_second_job_waits_for_the_first_and_resumes_after_a_more_urgent_one(self):
        daily = {"epochs": EPOCHS, "workers__template__priorityClassName": "daily"}
        self.submit("first", QUEUE, **daily)
        operator.kubectl("wait", "-n", NAMESPACE, "gnnjob/first", "--for=condition=Running", "--timeout=120s")
        self.submit("second", QUEUE, **daily)
        self.wait_queued("second", "Queued", "insufficient unused quota for cpu in flavor linux")
        self.assertEqual(self.wait_complete("first")["attempt"], 1)

        operator.wait_step("second", NAMESPACE, STEPS_BEFORE_PREEMPTION, 120)
        self.assert_ended_before("first", "second")
        self.submit("urgent", URGENT, epochs=2)
        self.wait_queued("second", "Evicted", "Preempted to accommodate a workload")
        self.wait_complete("urgent")
        status = self.wait_complete("second")
        self.assertEqual((status["attempt"], status["restarts"]), (2, 0))
        self.assertGreater(self.resumed_at("second-2-0"), (0, 0))
        # Of the same specification, and undisturbed.
        undisturbed = operator.results("first", NAMESPACE)[0]["parametersHash"]
        self.assertEqual(operator.results("second", NAMESPACE)[0]["parametersHash"], undisturbed)
        for job in ("first", "second", "urgent"):
            operator.wait(f"{job}'s quota is free", lambda job=job: operator.holds(workload(job), "Finished"), 30)

    def assert_ended_before(self, first, second):
        """All pods of one job had ended when the other's were created."""
        ended = [
            container["state"]["terminated"]["finishedAt"]
            for pod in pods_of(first) for container in pod["status"]["containerStatuses"]
        ]
        self.assertLessEqual(max(ended), min(pod["metadata"]["creationTimestamp"] for pod in pods_of(second)))

    def test_a_suspended_job_leaves_its_queue_and_comes_back(self):
        self.submit("held", QUEUE, epochs=5000)
        operator.wait_step("held", NAMESPACE, 1, 120)
        self.suspend("held")
        self.assertFalse(workload("held")["spec"]["active"])
        self.patch("held", suspend=False)
        operator.wait("the job runs again", lambda: operator.holds(operator.get("gnnjob", "held", NAMESPACE), "Running"), 90)

    def suspend(self, job):
        self.patch(job, suspend=True)
        operator.wait(f"{job} gave its quota back", lambda: "admission" not in workload(job)["status"], 90)
        self.assertEqual(pods_of(job), [])

    def patch(self, job, **spec):
        operator.kubectl("patch", "gnnjob", job, "-n", NAMESPACE, "--type=merge", "-p", json.dumps({"spec": spec}))

    def test_the_operators_account_may_not_touch_what_no_job_owns(self):
        """Its roles let it write all Workloads; the admission policy does not."""
        alien = {
            "apiVersion": API, "kind": "Workload", "metadata": {"name": "alien", "namespace": NAMESPACE},
            "spec": {"queueName": "jobs", "podSets": [{"name": "main", "count": 1, "template": {"spec": {
                "containers": [{"name": "main", "image": "localhost/none:1"}], "restartPolicy": "Never",
            }}}]},
        }
        self.assert_refused("create", "-f", "-", stdin=json.dumps(alien))
        operator.apply(alien)
        self.addCleanup(operator.kubectl, "delete", "workloads.kueue.x-k8s.io", "alien", "-n", NAMESPACE, "--ignore-not-found")
        name = ("workloads.kueue.x-k8s.io", "alien", "-n", NAMESPACE)
        self.assert_refused("patch", *name, "--type=merge", "-p", '{"spec": {"active": false}}')
        # By server-side apply, for which kubectl does not read first.
        finished = {"type": "Finished", "status": "True", "reason": "Done", "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        status = {**alien, "status": {"conditions": [finished]}}
        del status["spec"]
        self.assert_refused("apply", "--server-side", "--subresource=status", "-f", "-", stdin=json.dumps(status))
        self.assert_refused("delete", *name)

    def assert_refused(self, *command, **options):
        with self.assertRaisesRegex(Failed, "the operator may touch only what a GNNJob controls"):
            operator.kubectl("--as", ACCOUNT, *command, **options)

    def test_uninstalling_lets_workloads_go_and_an_installation_takes_the_jobs_up_again(self):
        self.submit("running", QUEUE, epochs=5000)
        operator.wait_step("running", NAMESPACE, 1, 120)
        self.submit("waiting", QUEUE)
        self.wait_queued("waiting", "Queued", "insufficient unused quota")
        for job in ("running", "waiting"):
            self.assertIn(FINALIZER, workload(job)["metadata"]["finalizers"])
        self.assert_nothing_was_forbidden()  # before its log goes

        operator.helm("uninstall", "gnn-operator", "--namespace", operator.namespace, "--wait", "--timeout", "120s")
        self.addCleanup(operator.install, TOGGLE)
        for job in ("running", "waiting"):
            self.assertNotIn("finalizers", workload(job)["metadata"])
        self.assertEqual(len(pods_of("running")), 2)
        operator.kubectl("delete", "gnnjob", "waiting", "-n", NAMESPACE)
        operator.wait("the deleted job's Workload is gone", lambda: workload("waiting") is None, 60)

        step = operator.get("gnnjob", "running", NAMESPACE)["status"]["progress"]["globalStep"]
        operator.install(TOGGLE)
        self.assertEqual(operator.wait_step("running", NAMESPACE, step + 1, 120)["status"]["attempt"], 1)
        self.suspend("running")


if __name__ == "__main__":
    unittest.main()

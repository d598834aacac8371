"""The whole product on a real two-node Kubernetes: jobs, faults, monitoring, installation.

Every fault test trains the same small job and ends with the same parameters as the undisturbed run, bit for bit.
"""

import contextlib
import fcntl
import json
import math
import os
import re
import signal
import struct
import time
import unittest
from functools import lru_cache
from pathlib import Path

import yaml

import jobs
from demo import import_package_index, on_two_nodes, sample
from installation import ROOT, Failed, Installation, run

NAMESPACE = "train"
STEPS_BEFORE_FAULT = 40
# The build whose programs the images take.
PRESET = Path(os.environ["GNN_BUILD_DIR"]).name
WORKER = Path(os.environ["GNN_BUILD_DIR"]) / "worker/main/gnn-worker"
PAGE = os.sysconf("SC_PAGE_SIZE")
# Pages beside the one that is read, which the kernel maps with it.
FAULT_AROUND = 65536 // PAGE

RULES = ROOT / "charts/gnn-operator/files/rules.yaml"

operator = Installation("e2e")


def install(*values):
    """The chart with a way out for jobs that is neither DNS nor their own pods, as a site with an object store has, and with
    controllers that run as a user that no image knows, as OpenShift chooses one."""
    rule = "jobs.networkPolicy.egress.rules[0]"
    return operator.install(
        rf"{rule}.to[0].namespaceSelector.matchLabels.kubernetes\.io/metadata\.name=monitoring",
        f"{rule}.ports[0].port=9090", f"{rule}.ports[0].protocol=TCP",
        "podSecurityContext.runAsUser=1000680000", "podSecurityContext.runAsGroup=0", *values,
    )


def make_namespace(name, **labels):
    operator.apply({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": "restricted", **labels}},
    })


def setUpModule():
    operator.down()
    unittest.addModuleCleanup(operator.down)  # also where what follows fails
    operator.up("--prometheus", "--prometheus-rules", RULES)
    operator.build_images(PRESET, built=True)
    operator.load_images()
    install()
    make_namespace(NAMESPACE)
    operator.volume(NAMESPACE, "checkpoints")


def small_job(name, **changes):
    return jobs.small_job(name, NAMESPACE, operator.images["worker"], **changes)


def claims(*names):
    return [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in names]


def mounts(*names):
    return [{"name": name, "mountPath": f"/{name}"} for name in names]


def own_pages(data, part):
    """The pages of the feature rows' and the lists' file that hold a part of a data set of one node type."""
    manifest = yaml.safe_load((data / "manifest.yaml").read_text(encoding="utf-8"))
    begin, end = manifest["partitions"]["nodeTypes"][0]["offsets"][part:part + 2]
    arrays = {array["name"]: array for array in manifest["arrays"]}

    def pages(name, first, last):
        """Of the elements [first, last) of the first dimension."""
        file, (count, *rest) = data / f"{name}.npy", arrays[name]["shape"]
        size = {"float32": 4, "int32": 4, "int64": 8}[arrays[name]["dtype"]] * math.prod(rest)
        header = file.stat().st_size - size * count
        return range((header + first * size) // PAGE, -(-(header + last * size) // PAGE))

    def list_begin(node):
        with open(data / "edges.node.to.node.indptr.npy", "rb") as file:
            file.seek(8 * (node - arrays["edges.node.to.node.indptr"]["shape"][0]), os.SEEK_END)
            return struct.unpack("q", file.read(8))[0]

    return {
        "nodes.node.features": pages("nodes.node.features", begin, end),
        "edges.node.to.node.indices": pages("edges.node.to.node.indices", list_begin(begin), list_begin(end)),
    }


def resident_pages(process, file):
    """The pages of a mapped file that are in the process' page table."""
    found = set()
    for line in Path(f"/proc/{process}/maps").read_text(encoding="utf-8").splitlines():
        if not line.endswith(file):
            continue
        addresses, _, offset, *_ = line.split()
        begin, end = (int(address, 16) // PAGE for address in addresses.split("-"))
        with open(f"/proc/{process}/pagemap", "rb") as table:
            table.seek(8 * begin)
            entries = struct.unpack(f"{end - begin}Q", table.read(8 * (end - begin)))
        found |= {int(offset, 16) // PAGE + index for index, entry in enumerate(entries) if entry >> 63}
    return found


@lru_cache
def undisturbed_hash():
    operator.apply(small_job("undisturbed"))
    job = operator.wait_finished("undisturbed", NAMESPACE, 400)
    assert operator.holds(job, "Complete"), json.dumps(job["status"])
    return operator.results("undisturbed", NAMESPACE)[0]["parametersHash"]


def processes(job, subcommand, *variables):
    """Process ids of the agents or ranks of a job, on whichever node, that have these variables."""
    return processes_of("gnn-worker", subcommand, f"GNN_JOB={job}", *variables)


def processes_of(name, subcommand, *variables):
    """Process ids of a program in containers, on whichever node, that have these variables."""
    wanted = {variable.encode() for variable in variables}
    host = os.readlink("/proc/self/ns/mnt")  # where other tests may run a job of the same name
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            program = os.readlink(entry / "exe")  # an agent starts its ranks as /proc/self/exe
            arguments = (entry / "cmdline").read_bytes().split(b"\0")
            environment = (entry / "environ").read_bytes().split(b"\0")
            in_container = os.readlink(entry / "ns/mnt") != host
        except OSError:
            continue
        is_it = program.endswith(f"/{name}") and arguments[1:2] == [subcommand.encode()] and wanted <= set(environment)
        if in_container and is_it:
            found.append(int(entry.name))
    return sorted(found)


def hold(rank, what, check, seconds):
    """Keeps a rank from training, and so all that train with it, until check() gives something true.

    It runs for a moment every ten seconds: an agent restarts a rank that is silent for thirty.
    """

    def cpu_ticks():
        return sum(map(int, Path(f"/proc/{rank}/stat").read_text().rpartition(")")[2].split()[11:13]))

    def run_a_moment():
        """Until the clock has counted CPU time, or for a second: it may wait for a peer that is gone."""
        before, limit = cpu_ticks(), time.monotonic() + 1
        os.kill(rank, signal.SIGCONT)
        while cpu_ticks() == before and time.monotonic() < limit:
            time.sleep(0.005)
        os.kill(rank, signal.SIGSTOP)

    deadline = time.monotonic() + seconds
    os.kill(rank, signal.SIGSTOP)
    try:
        while time.monotonic() < deadline:
            try:
                return operator.wait(what, check, 10)
            except Failed:
                with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # its pod may end before check() sees it
                    run_a_moment()
        raise Failed(f"{what}: not within {seconds} s")
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(rank, signal.SIGCONT)


class EndToEnd(unittest.TestCase):
    def submit(self, name, **changes):
        operator.apply(small_job(name, **changes))
        self.addCleanup(operator.kubectl, "delete", "gnnjob", name, "-n", NAMESPACE, "--ignore-not-found")
        return name

    def disturbed(self, name, **changes):
        """A job that trains by now, to be held against the undisturbed run."""
        undisturbed_hash()
        self.submit(name, **changes)
        operator.wait_step(name, NAMESPACE, STEPS_BEFORE_FAULT, 120)
        return name

    def assert_complete_like_undisturbed(self, name, restarts=None, seconds=300):
        job = operator.wait_finished(name, NAMESPACE, seconds)
        self.assertTrue(operator.holds(job, "Complete"), json.dumps(job["status"], indent=1))
        self.assertEqual(operator.results(name, NAMESPACE)[0]["parametersHash"], undisturbed_hash())
        if restarts is not None:
            self.assertEqual(job["status"].get("restarts", 0), restarts, json.dumps(job["status"], indent=1))
        return job

    def served_job(self, name, folder, epochs):
        """The sample with servers, small, on partitions that are there already."""
        job = yaml.safe_load(sample("products-servers.yaml", operator.images["worker"]))
        job["metadata"].update(name=name, namespace=NAMESPACE)
        spec = job["spec"]
        del spec["prepare"]
        spec["dataset"]["path"] = f"/{folder}/parts"
        spec["model"]["graphSage"]["hiddenChannels"] = 32
        spec["sampling"]["numThreads"] = 1
        spec["training"].update(epochs=epochs, batchSize=16, evaluation={"every": 20, "mode": "Sampled"})
        for role in ("workers", "servers"):
            template = spec[role]["template"]
            template["resources"] = {"requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"cpu": "2", "memory": "2Gi"}}
            template["volumes"], template["volumeMounts"] = claims(folder), mounts(folder)
        return job

    def make_parts(self, claim):
        """A small data set of two partitions on a volume."""
        folder = operator.volume(NAMESPACE, claim)
        run([WORKER, "data", "generate", "--shape", "ogbn-products", "--scale", "0.002", "--output", folder / "whole"])
        run([WORKER, "data", "partition", "--input", folder / "whole", "--output", folder / "parts", "--parts", "2",
             "--method", "hotness", "--fanout", "15,10,5", "--batch-size", "16"])


class Jobs(EndToEnd):
    def test_a_job_completes_and_kubectl_wait_returns(self):
        # As OpenShift assigns them: no image knows this user.
        name = self.submit("plain", workers__template__securityContext={"runAsUser": 1000680000, "runAsGroup": 1000680000})
        operator.kubectl("wait", f"gnnjob/{name}", "-n", NAMESPACE, "--for=condition=Complete", "--timeout=240s")
        self.assert_complete_like_undisturbed(name, restarts=0)
        story = operator.kubectl("describe", "gnnjob", name, "-n", NAMESPACE)
        self.assertIn("Complete", story)
        results = operator.results(name, NAMESPACE)
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
        for file in samples:
            operator.kubectl("apply", "-n", "default", "--dry-run=server", "-f", file)

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

    def submit_partitioned(self, name, placement):
        """The sample, small; returns what its condition Prepared is at any time."""
        job = yaml.safe_load(sample("products-partitioned.yaml", operator.images["worker"]))
        job["metadata"].update(name=name, namespace=NAMESPACE)
        spec, template = job["spec"], job["spec"]["workers"]["template"]
        spec["model"]["graphSage"]["hiddenChannels"] = 32
        spec["sampling"]["numThreads"] = 1
        spec["training"].update(epochs=40, batchSize=16, evaluation={"every": 20})
        spec["placement"] = placement(spec["placement"])
        spec["checkpoint"] = {"path": f"/checkpoints/{name}"}
        template["volumes"] += claims("checkpoints")
        template["volumeMounts"] += mounts("checkpoints")
        template["resources"] = spec["prepare"]["resources"] = {
            "requests": {"cpu": "100m", "memory": "512Mi"}, "limits": {"cpu": "2", "memory": "2Gi"},
        }
        operator.apply(job)
        self.addCleanup(operator.kubectl, "delete", "gnnjob", name, "-n", NAMESPACE, "--ignore-not-found")
        return lambda: operator.condition(operator.get("gnnjob", name, NAMESPACE), "Prepared")

    def assert_maps_its_part_alone(self, name, data):
        """Each rank's page table has pages of its own node's rows and lists, and none of the other's."""
        for node in range(2):
            ranks = processes(name, "rank", f"GROUP_RANK={node}")
            self.assertEqual(len(ranks), 2)
            for array, part in own_pages(data, node).items():
                for rank in ranks:
                    pages = resident_pages(rank, f"/{array}.npy")
                    where = f"{array} of node {node}, which has the pages {part}"
                    self.assertGreater(len(pages.intersection(part)), len(part) / 2, where)
                    self.assertGreaterEqual(min(pages), part.start - FAULT_AROUND, where)
                    self.assertLess(max(pages), part.stop + FAULT_AROUND, where)

    def test_raw_files_become_partitions_and_a_model_through_a_suspension_and_a_lost_pod(self):
        folder = operator.volume(NAMESPACE, "datasets")
        run([WORKER, "data", "generate", "--shape", "ogbn-products", "--scale", "0.002", "--form", "ogb-npz",
             "--output", folder / "ogbn_products"])

        # Who writes the same partitions elsewhere keeps the pod waiting for as long as the suspension needs.
        with open(folder / "products-2.lock", "w", encoding="utf-8") as other:
            os.chmod(other.name, 0o666)
            fcntl.fcntl(other, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
            prepared = self.submit_partitioned("parted", lambda placement: placement)
            waits = "waiting for another writer of the data"
            operator.wait("the pod waits for the other writer", lambda: waits in (prepared() or {}).get("message", ""), 120)
            self.assertEqual(operator.get("gnnjob", "parted", NAMESPACE)["status"]["state"], "Preparing")
            operator.wait("Prometheus reads how far it is", lambda: operator.query('gnn_prepare_ratio{job="parted"}'), 60)
            patch = lambda value: operator.kubectl(  # noqa: E731
                "patch", "gnnjob", "parted", "-n", NAMESPACE, "--type=merge", "-p", json.dumps({"spec": {"suspend": value}})
            )
            patch(True)
            operator.wait("no pod is left", lambda: not operator.list("pods", NAMESPACE, "gnn.dev/job=parted"), 90)
            self.assertEqual(prepared()["reason"], "Suspended")
        self.assertFalse((folder / "products-2").exists())
        patch(False)
        attempt = operator.wait_step("parted", NAMESPACE, STEPS_BEFORE_FAULT, 180)["status"]["attempt"]
        self.assert_maps_its_part_alone("parted", folder / "products-2")
        operator.kubectl("delete", "pod", f"parted-{attempt}-1", "-n", NAMESPACE, "--grace-period=0", "--force")
        said = operator.kubectl("logs", f"parted-prepare-{attempt}", "-n", NAMESPACE)
        self.assertIn("/data/products: already complete", said, "the import was made before the suspension")
        self.assertRegex(prepared()["message"], r"^/data/products-2: \d+ nodes")
        job = operator.wait_finished("parted", NAMESPACE, 300)
        self.assertTrue(operator.holds(job, "Complete"), json.dumps(job["status"], indent=1))
        self.assertEqual((job["status"]["attempt"], job["status"].get("restarts", 0)), (attempt + 1, 0))

        # All nodes have all data, and nothing is lost.
        prepared = self.submit_partitioned("whole", lambda placement: {"partitions": placement["partitions"]})
        job = operator.wait_finished("whole", NAMESPACE, 300)
        self.assertTrue(operator.holds(job, "Complete"), json.dumps(job["status"], indent=1))
        self.assertEqual(job["status"]["attempt"], 1)
        self.assertIn("/data/products-2: already complete", prepared()["message"])
        parted, whole = (operator.results(name, NAMESPACE)[0]["parametersHash"] for name in ("parted", "whole"))
        self.assertEqual(parted, whole)

    def test_a_killed_server_costs_no_restart_and_no_bit(self):
        self.make_parts("served-data")
        job = self.served_job("served", "served-data", epochs=40)
        operator.apply(job)
        self.addCleanup(operator.kubectl, "delete", "gnnjob", "served", "-n", NAMESPACE, "--ignore-not-found")
        operator.wait_step("served", NAMESPACE, STEPS_BEFORE_FAULT, 180)
        self.assertEqual(len(processes("served", "rank")), 2)
        for rank in processes("served", "rank"):
            mapped = Path(f"/proc/{rank}/maps").read_text(encoding="utf-8")
            self.assertNotIn("/parts/", mapped, "a worker has neither graph nor features")
        os.kill(processes("served", "server", "GNN_SERVER=1")[0], signal.SIGKILL)
        pods = lambda: {pod["metadata"]["name"] for pod in operator.list("pods", NAMESPACE, "gnn.dev/job=served,gnn.dev/server=1")}  # noqa: E731
        operator.wait("another pod of server 1", lambda: "served-s1-1" in pods(), 60)
        done = operator.wait_finished("served", NAMESPACE, 300)
        self.assertTrue(operator.holds(done, "Complete"), json.dumps(done["status"], indent=1))
        self.assertEqual((done["status"]["attempt"], done["status"].get("restarts", 0)), (1, 0))
        self.assertEqual(done["status"]["servers"]["restarts"], 1)

        job = self.served_job("unserved", "served-data", epochs=40)
        del job["spec"]["servers"]
        operator.apply(job)
        self.addCleanup(operator.kubectl, "delete", "gnnjob", "unserved", "-n", NAMESPACE, "--ignore-not-found")
        other = operator.wait_finished("unserved", NAMESPACE, 300)
        self.assertTrue(operator.holds(other, "Complete"), json.dumps(other["status"], indent=1))
        served, unserved = (operator.results(name, NAMESPACE)[0]["parametersHash"] for name in ("served", "unserved"))
        self.assertEqual(served, unserved)

    def test_deleting_a_running_job_leaves_nothing(self):
        name = self.submit("deleted")
        operator.wait_step(name, NAMESPACE, STEPS_BEFORE_FAULT, 120)
        kinds = ("pods", "services", "configmaps", "networkpolicies")

        def there():
            return [kind for kind in kinds for _ in operator.list(kind, NAMESPACE, f"gnn.dev/job={name}")]

        self.assertEqual(set(there()), set(kinds))
        operator.kubectl("delete", "gnnjob", name, "-n", NAMESPACE, "--timeout=60s")
        operator.wait("nothing of the job is left", lambda: not there(), 90)

    def test_two_gangs_that_do_not_fit_together_both_finish(self):
        # Each node pretends to have four GPUs; each job wants three on each of both nodes.
        gpus = {"workers__gpusPerProcess": 1, "workers__processesPerNode": 3, "training__epochs": 3}
        for name in ("gang-a", "gang-b"):
            self.submit(name, **gpus)

        def states():
            return sorted(operator.get("gnnjob", name, NAMESPACE).get("status", {}).get("state", "") for name in ("gang-a", "gang-b"))

        operator.wait("one gang trains while the other has no place", lambda: states() == ["Pending", "Running"], 200)
        for name in ("gang-a", "gang-b"):
            job = operator.wait_finished(name, NAMESPACE, 400)
            self.assertTrue(operator.holds(job, "Complete"), json.dumps(job["status"]))


def read_ids(file):
    """The numbers of a .npy file of int64."""
    content = file.read_bytes()
    length = int.from_bytes(content[8:10], "little")
    assert b"'<i8'" in content[10:10 + length], f"{file} is not of int64"
    return [number for number, in struct.iter_unpack("<q", content[10 + length:])]


class Results(EndToEnd):
    """What people do with a trained model."""

    def test_a_second_job_predicts_as_well_as_the_model_that_the_first_one_exported(self):
        folder = operator.volume(NAMESPACE, "checkpoints")
        run([WORKER, "data", "generate", "--shape", "ogbn-arxiv", "--scale", "0.05", "--output", folder / "papers"])
        dataset = {"format": "Native", "path": "/checkpoints/papers"}
        self.submit(
            "trained", epochs=200, dataset=dataset, export={"path": "/checkpoints/exported"},
            training__evaluation={"every": 1, "mode": "LayerWise", "testModel": "Best"},
            training__earlyStopping={"metric": "Accuracy", "patience": 3},
            checkpoint={"path": "/checkpoints/trained", "best": {"metric": "Accuracy"}},
        )
        job = operator.wait_finished("trained", NAMESPACE, 300)
        self.assertTrue(operator.holds(job, "Complete"), json.dumps(job["status"], indent=1))
        self.assertLess(job["status"]["progress"]["epoch"], 199, "it has not stopped early")
        tested = operator.results("trained", NAMESPACE)[0]["testMetric"]

        applied = small_job(
            "inferred", dataset=dataset, task__mode="Inference", model__from="/checkpoints/exported/best.safetensors",
            predictions={"path": "/checkpoints/predicted"},
        )
        del applied["spec"]["checkpoint"], applied["spec"]["sampling"]
        operator.apply(applied)
        self.addCleanup(operator.kubectl, "delete", "gnnjob", "inferred", "-n", NAMESPACE, "--ignore-not-found")
        job = operator.wait_finished("inferred", NAMESPACE, 200)
        self.assertTrue(operator.holds(job, "Complete"), json.dumps(job["status"], indent=1))
        classes = dict(zip(*(read_ids(folder / "predicted" / f"{name}.npy") for name in ("ids", "classes")), strict=True))
        labels = read_ids(folder / "papers/nodes.node.labels.npy")
        self.assertEqual(len(classes), len(labels))
        test = read_ids(folder / "papers/split.test.npy")
        right = sum(classes[node] == labels[node] for node in test)
        self.assertAlmostEqual(right / len(test), float(tested), places=4)
        self.assertEqual(operator.results("inferred", NAMESPACE)[0]["testMetric"], tested)


class PackageIndex(EndToEnd):
    """The samples on real data, with this machine's package index on a volume."""

    NAMESPACE = "packages"

    @classmethod
    def setUpClass(cls):
        make_namespace(cls.NAMESPACE)
        cls.addClassCleanup(operator.kubectl, "delete", "namespace", cls.NAMESPACE, "--wait=false")
        import_package_index(operator, cls.NAMESPACE)

    def start(self, name):
        """Applies the sample's job on 2 nodes x 2 processes."""
        manifest = on_two_nodes(sample(f"{name}.yaml", operator.images["worker"]))
        operator.kubectl("apply", "-n", self.NAMESPACE, "-f", "-", stdin=manifest)

    def progress_of_complete(self, name):
        job = operator.wait_finished(name, self.NAMESPACE, 600)
        self.assertTrue(operator.holds(job, "Complete"), json.dumps(job["status"]))
        self.assertEqual(set(operator.results(name, self.NAMESPACE)), {0, 1})
        return job["status"]["progress"]

    def test_the_demos_job_learns_from_this_machines_packages(self):
        self.start("packages-sage")
        # 58 sections; the largest holds a fifth of the packages.
        self.assertGreater(float(self.progress_of_complete("packages-sage")["testMetric"]), 0.5)

    def test_tags_of_packages_are_predicted_and_the_auc_is_shown_everywhere(self):
        name = "package-tags"
        self.start(name)
        operator.wait("both dashboards show the AUC", lambda: self.dashboards_with("auc", name) == {"job", "jobs"}, 200)
        progress = self.progress_of_complete(name)
        self.assertEqual(progress["metricName"], "auc")
        self.assertGreater(float(progress["testMetric"]), 0.95)
        header, row = operator.kubectl("get", "gnnjob", name, "-n", self.NAMESPACE).splitlines()
        shown = dict(zip(re.split(r"\s{2,}", header), re.split(r"\s{2,}", row), strict=False))
        self.assertEqual((shown["METRICNAME"], shown["METRIC"]), ("auc", progress["validationMetric"]))

    def dashboards_with(self, metric, job):
        """The dashboards on which a panel shows this metric of the job's validation."""
        chosen = {"$namespace": self.NAMESPACE, "$job": job, "$instance": ".+"}
        return {
            file.stem
            for file in (ROOT / "charts/gnn-operator/dashboards").glob("*.json")
            for panel in json.loads(file.read_text(encoding="utf-8"))["panels"]
            for target in panel["targets"] if "gnn_train_metric" in target["expr"]
            for item in operator.query(filled(target["expr"], chosen))
            if item["metric"]["metric"] == metric and item["metric"].get("split", "validation") == "validation"
        }


class Faults(EndToEnd):
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

    def test_a_killed_agent_is_replaced_alone_where_a_rule_says_so(self):
        rule = {"exitCodes": [137], "action": "RestartNode"}
        name = self.disturbed("node-replaced", runPolicy__failurePolicy={"rules": [rule]})
        before = operator.get("pod", f"{name}-1-0", NAMESPACE)["metadata"]["uid"]
        os.kill(processes(name, "agent", "GNN_NODE_RANK=1")[0], signal.SIGKILL)
        replaced = f"gnn.dev/job={name},gnn.dev/node-restart=1"
        operator.wait("the new pod of node 1", lambda: operator.list("pods", NAMESPACE, replaced), 120)
        self.assertEqual(operator.get("pod", f"{name}-1-0", NAMESPACE)["metadata"]["uid"], before)
        job = self.assert_complete_like_undisturbed(name, restarts=1)
        self.assertEqual((job["status"]["attempt"], job["status"]["replacedNodes"]), (1, [1]))

    def test_a_killed_pod_starts_a_new_attempt(self):
        name = self.disturbed("pod-killed")
        operator.kubectl("delete", "pod", f"{name}-1-1", "-n", NAMESPACE, "--grace-period=0", "--force")
        job = self.assert_complete_like_undisturbed(name, restarts=0)
        self.assertEqual(job["status"]["attempt"], 2)

    def test_a_pod_out_of_memory_fails_the_second_time_and_says_what_it_took(self):
        name = self.submit(
            "out-of-memory", dataset__synthetic={"shape": "Products", "scale": "0.5", "seed": 1},
            workers__template__resources={"requests": {"cpu": "100m"}, "limits": {"cpu": "2", "memory": "500Mi"}},
        )
        job = operator.wait_finished(name, NAMESPACE, 240)
        self.assertEqual((operator.condition(job, "Failed") or {}).get("reason"), "OutOfMemory", json.dumps(job["status"], indent=1))
        self.assertEqual((job["status"]["attempt"], job["status"]["restarts"]), (2, 1))
        failure = job["status"]["lastFailure"]
        self.assertEqual(failure["reason"], "OutOfMemory")
        version_2 = Path("/sys/fs/cgroup/cgroup.controllers").exists()  # it ends the agent together with its rank
        text = r"rank \d held \d+ MiB.* limit is 500 MiB" if version_2 else r"rank \d.*peak \d+ MiB, limit 500 MiB"
        self.assertRegex(failure["message"], text)

    def test_a_read_only_claim_for_checkpoints_is_named(self):
        claim = {"claimName": "checkpoints", "readOnly": True}
        name = self.submit(
            "read-only", runPolicy__maxRestarts=0,
            workers__template__volumes=[{"name": "checkpoints", "persistentVolumeClaim": claim}],
        )
        job = operator.wait_finished(name, NAMESPACE, 120)
        self.assertTrue(operator.holds(job, "Failed"), json.dumps(job["status"], indent=1))
        failure = job["status"]["lastFailure"]
        self.assertEqual(failure["exitCode"], 70)
        self.assertRegex(failure["message"], rf"spec\.checkpoint\.path: .*/checkpoints/{name}.*Read-only file system")

    def test_a_deleted_node_is_replaced(self):
        # Its kubelet knows nothing of it and goes on: the pod goes when the garbage collector of pods sees that its node
        # is no more, which takes up to a minute. Training waits that long.
        name = self.disturbed("node-deleted")
        monitored_from = operator.get("pod", "prometheus", "monitoring")["spec"]["nodeName"]
        node = next(  # Prometheus would be gone with its node
            pod["spec"]["nodeName"] for pod in operator.list("pods", NAMESPACE, f"gnn.dev/job={name}")
            if pod["spec"]["nodeName"] != monitored_from
        )

        def replaced():
            return operator.get("gnnjob", name, NAMESPACE)["status"]["attempt"] == 2

        operator.kubectl("delete", "node", node)
        try:
            hold(processes(name, "rank")[-1], "a new attempt", replaced, 200)
            self.assert_complete_like_undisturbed(name, restarts=0)
            self.assertTrue(replaced())
        finally:
            operator.restart_part(f"{node}-kubelet")  # registers the node again

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
        operator.restart_part("api-server")
        operator.wait("the API server answers", self.answers, 60)
        job = self.assert_complete_like_undisturbed(name, restarts=0)
        self.assertEqual(job["status"]["attempt"], 1)

    @staticmethod
    def answers():
        try:
            return operator.kubectl("get", "--raw", "/readyz")
        except Exception:  # any failure means not yet
            return None

    def test_a_lost_node_is_replaced(self):
        # The job's second pod finds a place on the node that is left.
        name = self.disturbed("node-lost")
        node = operator.get("pod", f"{name}-1-1", NAMESPACE)["spec"]["nodeName"]
        kubelet = operator.status()["parts"][f"{node}-kubelet"]
        os.kill(kubelet, signal.SIGKILL)
        try:
            job = self.assert_complete_like_undisturbed(name, restarts=0, seconds=400)
            self.assertEqual(job["status"]["attempt"], 2)
        finally:
            operator.restart_part(f"{node}-kubelet")
            operator.kubectl("wait", f"node/{node}", "--for=condition=Ready", "--timeout=60s")


class Fence(EndToEnd):
    """The job's NetworkPolicy, on a cluster that enforces it."""

    def asks(self, name, labels, questions, namespace=NAMESPACE):
        """What a pod with these labels hears: title -> whether the connection (or the name) was there."""
        script = "".join(
            f"{command} >/dev/null 2>&1 </dev/null && echo {title} yes || echo {title} no\n" for title, command in questions.items()
        )
        self.addCleanup(operator.kubectl, "-n", namespace, "delete", "pod", name, "--ignore-not-found", "--wait=false")
        operator.apply({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace, "labels": labels},
            "spec": {
                "restartPolicy": "Never", "automountServiceAccountToken": False, "terminationGracePeriodSeconds": 1,
                "securityContext": {"runAsNonRoot": True, "runAsUser": 65534, "seccompProfile": {"type": "RuntimeDefault"}},
                "containers": [{
                    "name": "probe", "image": "localhost/gnn-cluster/busybox:1", "imagePullPolicy": "Never",
                    "command": ["sh", "-c", script],
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }],
            },
        })
        operator.wait(
            f"pod {name} has asked",
            lambda: operator.get("pod", name, namespace)["status"].get("phase") in ("Succeeded", "Failed"), 90,
        )
        answers = operator.kubectl("-n", namespace, "logs", name).split("\n")
        return {title: answer == "yes" for title, answer in (line.split() for line in answers if line)}

    def test_only_the_jobs_own_pods_reach_its_store_and_they_reach_only_what_values_allow(self):
        name = self.submit("fenced", epochs=400)
        job = operator.wait_step(name, NAMESPACE, 1, 120)
        own = operator.get("pod", f"{name}-1-0", NAMESPACE)["status"]["podIP"]
        prometheus = operator.get("pod", "prometheus", "monitoring")["status"]["podIP"]
        questions = {
            "store": f"nc -w 3 {own} 29400 -e true",
            "metrics": f"nc -w 3 {own} 9400 -e true",
            "prometheus": f"nc -w 3 {prometheus} 9090 -e true",
            "api": "nc -w 3 kubernetes.default.svc.cluster.local 443 -e true",
            "name": f"getent hosts {name}-0.{name}-gnn.{NAMESPACE}.svc.cluster.local",
        }
        own_label = {"gnn.dev/job-uid": job["metadata"]["uid"]}
        outside = {"store": False, "metrics": False, "prometheus": True, "api": True, "name": True}
        self.assertEqual(self.asks("stranger", {}, questions), outside)
        self.assertEqual(self.asks("pretender", own_label, questions, "default"), outside, "the label counts in its namespace only")
        self.assertEqual(
            self.asks("insider", own_label, questions),
            {"store": True, "metrics": True, "prometheus": True, "api": False, "name": True},
        )
        # The controller and Prometheus are let in: progress came above, and a target is up.
        operator.wait("Prometheus reads the agents", lambda: operator.query(f'gnn_train_epoch{{job="{name}"}}'), 30)


# Panels on which zero is what a healthy controller, or a healthy job, shows, by title.
MAY_BE_ZERO = {"Errors", "Queue depth", "Longest running reconcile", "Refused and lost connections", "Remote calls under way"}
# Of pods that are gone when a job trains: shown while one prepares data.
WHILE_PREPARING = {"Preparation"}
# Of jobs with sampling servers.
OF_SERVERS = {
    "Sampling servers", "Replaced servers", "Batches made by servers", "Sent by servers", "Busy share of servers", "Queues of servers",
    "A batch's time at the servers", "A batch's time for the workers", "Ready servers", "Memory of servers", "Failovers",
}


def filled(expression, values):
    for variable in sorted(values, key=len, reverse=True):  # $namespace before $name
        expression = expression.replace(variable, values[variable])
    return expression


class Monitoring(EndToEnd):
    def test_every_panel_shows_data_of_a_real_run(self):
        # A counter that is first read after it rose shows no increase: so of the times to schedule, an earlier job's is read first.
        self.submit("earlier", epochs=1)
        scheduled = "gnnjob_queue_duration_seconds_count > 0"
        operator.wait("Prometheus reads a time to schedule", lambda: operator.query(scheduled), 120)
        # Longer than all the looking takes. Its nodes read from each other.
        self.make_parts("watched-data")
        name = self.submit("watched", epochs=5000, dataset={"format": "Native", "path": "/watched-data/parts"},
                           placement={"topology": "Partitioned", "features": "Partitioned", "partitions": 2},
                           workers__template__volumes=claims("checkpoints", "watched-data"),
                           workers__template__volumeMounts=mounts("checkpoints", "watched-data"))
        operator.wait_step(name, NAMESPACE, STEPS_BEFORE_FAULT, 120)
        # Nor would a lost rank's counters.
        read = f'count(count by (node) (gnn_agent_rounds_total{{job="{name}"}})) == 2'
        operator.wait("Prometheus reads both agents", lambda: operator.query(read), 60)
        os.kill(processes(name, "rank")[-1], signal.SIGKILL)  # so that restarts and rounds are not all zero
        operator.wait_step(name, NAMESPACE, 4 * STEPS_BEFORE_FAULT, 200)
        self.assert_no_panel_is_empty(name, lambda title: title not in WHILE_PREPARING | OF_SERVERS)
        operator.kubectl("delete", "gnnjob", name, "-n", NAMESPACE)
        operator.apply(self.served_job("served-watched", "watched-data", epochs=5000))
        self.addCleanup(operator.kubectl, "delete", "gnnjob", "served-watched", "-n", NAMESPACE, "--ignore-not-found")
        operator.wait_step("served-watched", NAMESPACE, STEPS_BEFORE_FAULT, 120)
        series = ("gnn_server_ready", "gnn_agent_servers", "gnn_served_failovers_total")
        read = " and ".join(f'count({each}{{job="served-watched"}}) == 2' for each in series)
        operator.wait("Prometheus reads both roles", lambda: operator.query(read), 60)
        # A server that dies between two questions has none that another must answer: it dies when ranks wait for it.
        server = processes("served-watched", "server", "GNN_SERVER=0")[0]
        os.kill(server, signal.SIGSTOP)
        held = 'max(changes(gnn_train_steps_total{job="served-watched"}[5s])) == 0'
        operator.wait("ranks wait for the stopped server", lambda: operator.query(held), 60)
        os.kill(server, signal.SIGKILL)
        self.assert_no_panel_is_empty("served-watched", lambda title: title in OF_SERVERS)

    def assert_no_panel_is_empty(self, job, is_meant):
        empty = self.empty_panels(job, is_meant)
        # A panel may fill later than others (a second scrape, an evaluation): wait for those alone.
        deadline = time.monotonic() + 60
        while empty and time.monotonic() < deadline:
            time.sleep(1)
            empty = self.empty_panels(job, is_meant)
        self.assertFalse(empty, "\n".join(empty))

    def empty_panels(self, job, is_meant):
        """Targets that show nothing, no number, or only zeros where a run with a lost rank has more to show."""
        empty = []
        for file in sorted((ROOT / "charts/gnn-operator/dashboards").glob("*.json")):
            dashboard = json.loads(file.read_text(encoding="utf-8"))
            values = {"$__rate_interval": "30s", "$__range": "10m"}
            for variable in dashboard["templating"]["list"]:
                if variable["type"] == "query":
                    values["$" + variable["name"]] = self.choice(variable["query"]["query"], values, job)
            for panel in dashboard["panels"]:
                if not is_meant(panel["title"]):
                    continue
                for target in panel["targets"]:
                    shown = [float(item["value"][1]) for item in operator.query(filled(target["expr"], values))]
                    shown = [value for value in shown if math.isfinite(value)]
                    if not shown or (not any(shown) and panel["title"] not in MAY_BE_ZERO):
                        empty.append(f"{file.stem}: {panel['title']}: {filled(target['expr'], values)}")
        return empty

    @staticmethod
    def choice(query, values, job):
        """What a reader of this job's dashboard chooses of a variable's values; all of them where the job does not decide."""
        selector, label = re.fullmatch(r"label_values\((.+), (\w+)\)", query).groups()
        found = operator.prometheus(f"label/{label}/values", **{"match[]": filled(selector, values)})
        for wanted in (NAMESPACE, job):
            if wanted in found:
                return wanted
        return "|".join(re.escape(value).replace("\\", "\\\\") for value in found)

    def test_rules_evaluate_on_real_series(self):
        name = self.submit("ruled", epochs=5000)
        operator.wait_step(name, NAMESPACE, STEPS_BEFORE_FAULT, 120)
        rules = [rule for group in yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"] for rule in group["rules"]]

        def evaluated():
            found = [rule for group in operator.prometheus("rules")["groups"] for rule in group["rules"]]
            return found if all(rule["health"] != "unknown" for rule in found) else None

        found = operator.wait("every rule was evaluated", evaluated, 60)
        self.assertEqual(sorted(rule["name"] for rule in found), sorted(rule.get("alert") or rule["record"] for rule in rules))
        self.assertEqual([rule for rule in found if rule["health"] != "ok"], [])
        for rule in rules:
            if "record" in rule:
                series = f'{rule["record"]}{{job="{name}"}}'
                operator.wait(f"{series} is recorded", lambda series=series: operator.query(series), 60)

    def test_exported_metrics_are_the_declared_ones(self):
        page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
        declared = set(re.findall(r"`([a-z][a-z0-9_]+)`", page))
        exported = {
            re.sub(r"_(bucket|sum|count)$", "", item["metric"]["__name__"])
            for item in operator.query('{__name__=~"gnn[^:]*|controller_runtime.*|workqueue.*|rest_client.*|leader_election.*"}')
        }
        self.assertLessEqual(exported, declared)


class Chart(EndToEnd):
    def test_helm_test_runs_a_job(self):
        operator.helm("test", "gnn-operator", "--namespace", operator.namespace, "--timeout", "300s")

    def test_upgrade_and_rollback_leave_a_running_job_alone(self):
        name = self.disturbed("upgraded")
        install("controller.logLevel=debug")
        operator.helm("rollback", "gnn-operator", "--namespace", operator.namespace, "--wait", "--timeout", "120s")
        job = self.assert_complete_like_undisturbed(name, restarts=0)
        self.assertEqual(job["status"]["attempt"], 1)

    def test_uninstalling_keeps_jobs_and_manifests_take_over(self):
        """Helm goes with a job running, `kubectl apply -k` comes, and then Helm again."""
        name = self.disturbed("uninstalled")
        operator.helm("uninstall", "gnn-operator", "--namespace", operator.namespace, "--wait", "--timeout", "120s")
        self.addCleanup(install)
        self.assertEqual(operator.list("deployments", operator.namespace), [])
        self.assertIsNotNone(operator.get("gnnjob", name, NAMESPACE))
        pods = operator.list("pods", NAMESPACE, f"gnn.dev/job={name}")
        self.assertEqual([pod["metadata"].get("finalizers", []) for pod in pods], [[]] * len(pods))

        objects = self.manifests()
        operator.kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(objects))
        self.addCleanup(operator.kubectl, "delete", "--ignore-not-found", "-f", "-", stdin=yaml.safe_dump_all(
            [item for item in objects if item["kind"] not in ("CustomResourceDefinition", "Namespace")]
        ))
        operator.kubectl("-n", operator.namespace, "rollout", "status", "deployment/gnn-operator", "--timeout=120s")
        self.assert_complete_like_undisturbed(name)

    @staticmethod
    def manifests():
        """`kubectl kustomize manifests/` with the image that was just built, as a kustomization of one's own would say."""
        objects = list(yaml.safe_load_all(operator.kubectl("kustomize", ROOT / "manifests")))
        for item in objects:
            if item["kind"] == "Deployment":
                container = item["spec"]["template"]["spec"]["containers"][0]
                container.update(image=operator.images["controller"], imagePullPolicy="Never")
        return objects


class OpenShift(EndToEnd):
    """The chart with its values for OpenShift, where namespaces choose the users of pods as restricted-v2 does."""

    NAMESPACE = "ranged"
    FIRST_USER = 1000680000
    POLICIES = ROOT / "tests/support/restricted_v2.yaml"

    def setUp(self):
        operator.helm("uninstall", "gnn-operator", "--namespace", operator.namespace, "--wait", "--timeout", "120s")
        self.addCleanup(install)
        operator.kubectl("apply", "-f", self.POLICIES)
        self.addCleanup(operator.kubectl, "delete", "-f", self.POLICIES)
        labels = {"range": str(self.FIRST_USER)}
        make_namespace(self.NAMESPACE, **labels)
        self.addCleanup(operator.kubectl, "delete", "namespace", self.NAMESPACE, "--wait=false")
        make_namespace(operator.namespace, **labels)
        self.addCleanup(
            operator.kubectl, "label", "namespace", operator.namespace, "range-", "pod-security.kubernetes.io/enforce-"
        )
        operator.wait("the policies act", self.policies_act, 60)

    def policies_act(self):
        return self.user_of_a_new_pod() == self.FIRST_USER and "must be in the namespace's range" in self.user_of_a_new_pod(
            runAsUser=65532
        )

    def user_of_a_new_pod(self, **security):
        """Of one that is only asked for; or what is said against it."""
        pod = {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "asked", "namespace": self.NAMESPACE},
            "spec": {
                "securityContext": {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}, **security},
                "containers": [{
                    "name": "asked", "image": "asked",
                    "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
                }],
            },
        }  # fmt: skip
        try:
            made = operator.kubectl("create", "--dry-run=server", "-o", "json", "-f", "-", stdin=json.dumps(pod))
        except Failed as refusal:
            return str(refusal)
        return json.loads(made)["spec"]["securityContext"].get("runAsUser")

    def assert_run_as_chosen(self, found, count):
        self.assertEqual(len(found), count)
        for process in found:
            lines = (line.split() for line in Path(f"/proc/{process}/status").read_text(encoding="utf-8").splitlines())
            status = {name: values for name, *values in lines}
            user = str(self.FIRST_USER)
            # The image's passwd knows no such user: its group is root's, as on OpenShift, and the volumes' is a further one.
            self.assertEqual((status["Uid:"], status["Gid:"], status["Groups:"]), ([user] * 4, ["0"] * 4, ["0", user]))

    def test_controllers_and_a_job_run_as_the_users_that_their_namespaces_choose(self):
        operator.install(files=["values-openshift.yaml"])
        pods = operator.list("pods", operator.namespace, "app.kubernetes.io/component=controller")
        hosts = [f"HOSTNAME={pod['metadata']['name']}" for pod in pods]
        self.assert_run_as_chosen([process for host in hosts for process in processes_of("gnn-controller", "run", host)], 2)

        folder = operator.volume(self.NAMESPACE, "checkpoints")
        operator.apply(jobs.small_job(
            "chosen", self.NAMESPACE, operator.images["worker"], predictions={"path": "/checkpoints/predicted"}
        ))  # fmt: skip
        operator.wait_step("chosen", self.NAMESPACE, 1, 120)
        self.assert_run_as_chosen(processes("chosen", "agent"), 2)
        self.assert_run_as_chosen(processes("chosen", "rank"), 4)
        job = operator.wait_finished("chosen", self.NAMESPACE, 200)
        self.assertTrue(operator.holds(job, "Complete"), json.dumps(job["status"], indent=1))
        ids, classes = (read_ids(folder / f"predicted/{name}.npy") for name in ("ids", "classes"))
        self.assertEqual(ids, list(range(len(classes))))
        written = [file for file in folder.rglob("*") if file.is_file()]
        self.assertIn("chosen", {file.relative_to(folder).parts[0] for file in written}, "no checkpoint")
        self.assertEqual({file.stat().st_uid for file in written}, {self.FIRST_USER})


class Images(unittest.TestCase):
    """The images that the other cases run."""

    BUILDAH = ("buildah", "--storage-driver", "vfs")

    def inspect(self, target):
        return json.loads(run([*self.BUILDAH, "inspect", "--type", "image", operator.images[target]]))

    def test_run_as_a_numeric_user_and_say_what_they_are(self):
        for target, program in (("controller", "gnn-controller"), ("worker", "gnn-worker")):
            config = self.inspect(target)["OCIv1"]["config"]
            self.assertEqual(config["User"], "65532:65532")
            self.assertEqual(config["Entrypoint"], [f"/usr/local/bin/{program}"])
            self.assertEqual(config["Labels"]["org.opencontainers.image.title"], program)
            self.assertRegex(config["Labels"]["org.opencontainers.image.revision"], "^([0-9a-f]{40}|unknown)$")

    def test_the_worker_image_stays_small(self):
        listed = json.loads(run([*self.BUILDAH, "images", "--json", operator.images["worker"]]))
        self.assertLessEqual(size_in_megabytes(listed[0]["size"]), 700)

    def test_name_what_they_hold(self):
        for target, name, package in (
            ("controller", "gnn-controller", "libcpprest2.10"), ("worker", "gnn-worker", "torch"),
        ):
            container = run([*self.BUILDAH, "from", "--pull-never", operator.images[target]]).strip()
            self.addCleanup(run, [*self.BUILDAH, "rm", container])
            folder = Path(run([*self.BUILDAH, "mount", container]).strip())
            bill = json.loads((folder / f"usr/share/doc/{name}.spdx.json").read_text(encoding="utf-8"))
            self.assertEqual(bill["spdxVersion"], "SPDX-2.3")
            packages = {item["name"]: item["versionInfo"] for item in bill["packages"]}
            self.assertIn(package, packages)
            self.assertIn("libc6", packages)
            self.assertIn(name, packages)

    def test_the_same_input_gives_the_same_tag(self):
        again = Installation("again")  # the cluster has the first ones loaded: the other cases go on with those
        self.assertEqual(again.build_images(PRESET, built=True), operator.images)


def size_in_megabytes(text):
    """Of buildah's "638 MB"."""
    number, unit = text.split()
    return float(number) * {"KB": 1e-3, "MB": 1, "GB": 1e3}[unit]


if __name__ == "__main__":
    unittest.main()

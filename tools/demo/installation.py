"""The operator on a test cluster: images built, chart installed, jobs applied and watched. Serves the end-to-end tests and
the demo.
"""

import json
import subprocess
import sys
import time
import urllib.parse
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Failed(Exception):
    """A step that did not work; the message says which and why."""


def run(command, **options):
    """What the command printed, unless `stdout` says where that goes. Options are subprocess.run's."""
    said = " ".join(map(str, command))
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    try:
        ran = subprocess.run([str(part) for part in command], text=True, check=False, **options)
    except OSError as error:
        raise Failed(f"{said} could not be started: {error}") from None
    except subprocess.TimeoutExpired as error:
        raise Failed(f"{said} did not finish within {error.timeout} s") from None
    if ran.returncode != 0:
        raise Failed(f"{said} failed with code {ran.returncode}:\n{(ran.stdout or '')[-3000:]}{ran.stderr[-3000:]}")
    return ran.stdout


def parsed(text, what):
    """A command's output that is JSON."""
    try:
        return json.loads(text)
    except ValueError:
        raise Failed(f"{what}: expected JSON, got {text[-3000:]!r}") from None


class Installation:
    def __init__(self, name, namespace="gnn-system"):
        self.name = name
        self.namespace = namespace
        self.images = {}
        self._cluster = [sys.executable, ROOT / "tools/cluster/cluster.py", "--name", name]

    # --- The cluster ---------------------------------------------------------------------------------------------
    def up(self, *arguments):
        run([*self._cluster, "up", *arguments])

    def down(self):
        run([*self._cluster, "down"])

    def status(self):
        # It prints its answer also with the code that says that not all runs.
        ran = subprocess.run([*map(str, self._cluster), "status", "--json"], capture_output=True, text=True, check=False)
        return parsed(ran.stdout or ran.stderr, f"status of cluster {self.name}")

    def restart_part(self, part):
        run([*self._cluster, "restart", part])

    def enter(self, *command):
        """What a command in the cluster's network prints."""
        return run([*self._cluster, "enter", "--", *command])

    @property
    def volumes(self):
        """A folder that all nodes see under the same path."""
        return Path(self.status()["directory"]) / "volumes"

    # --- Images and chart ------------------------------------------------------------------------------------------
    def build_images(self, preset, *, built=False, log=None):
        """Builds the images; with `built` from programs that the preset has built already."""
        base = run([ROOT / "tools/cluster/base_image"]).strip().splitlines()[-1]
        for target in ("controller", "worker"):
            options = ["--base", base, "--preset", preset, *(["--built"] if built else [])]
            made = run([ROOT / "scripts/images", *options, target])
            self.images[target] = made.strip().splitlines()[-1]
            if log:
                log(self.images[target])
        return self.images

    def load_images(self):
        run([*self._cluster, "load", *self.images.values()])

    def helm(self, *arguments):
        tools = run([ROOT / "tools/cluster/go/build"]).strip().splitlines()[-1]
        return run([*self._cluster, "enter", "--", Path(tools) / "helm", *arguments])

    def install(self, *values, files=(), release="gnn-operator"):
        """Installs or upgrades the chart with the built images, and waits until it runs. `files` are of the chart's folder."""
        repository, tag = self.images["controller"].rsplit(":", 1)
        worker, worker_tag = self.images["worker"].rsplit(":", 1)
        settings = [
            f"image.repository={repository}", f"image.tag={tag}", "image.pullPolicy=Never",
            f"tests.image.repository={worker}", f"tests.image.tag={worker_tag}", *values,
        ]
        command = [
            "upgrade", "--install", release, ROOT / "charts/gnn-operator", "--namespace", self.namespace,
            "--create-namespace", "--wait", "--timeout", "120s",
        ]
        for file in files:
            command += ["--values", ROOT / "charts/gnn-operator" / file]
        for value in settings:
            command += ["--set", value]
        return self.helm(*command)

    # --- Objects -----------------------------------------------------------------------------------------------------
    def kubectl(self, *arguments, stdin=None, timeout=None):
        return run([*self._cluster, "kubectl", *arguments], input=stdin, timeout=timeout)

    def get(self, kind, name, namespace, timeout=None):
        """The object, or None if there is none."""
        found = self.kubectl("get", kind, name, "-n", namespace, "-o", "json", "--ignore-not-found", timeout=timeout)
        return parsed(found, f"kubectl get {kind} {name}") if found.strip() else None

    def list(self, kind, namespace, selector="", timeout=None):
        found = self.kubectl("get", kind, "-n", namespace, "-l", selector, "-o", "json", timeout=timeout)
        return parsed(found, f"kubectl get {kind}")["items"]

    def apply(self, *objects):
        for item in objects:
            self.kubectl("apply", "-f", "-", stdin=json.dumps(item))

    def volume(self, namespace, name, gibibytes=4):
        """A PersistentVolumeClaim over a folder that all nodes share; returns the folder."""
        folder = self.volumes / f"{namespace}-{name}"
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o777)
        size = {"storage": f"{gibibytes}Gi"}
        self.apply(
            {
                "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": f"{namespace}-{name}"},
                "spec": {
                    "capacity": size, "accessModes": ["ReadWriteMany"], "hostPath": {"path": str(folder)},
                    "persistentVolumeReclaimPolicy": "Retain", "storageClassName": "shared",
                    "claimRef": {"namespace": namespace, "name": name},
                },
            },
            {
                "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name, "namespace": namespace},
                "spec": {
                    "accessModes": ["ReadWriteMany"], "resources": {"requests": size}, "storageClassName": "shared",
                    "volumeName": f"{namespace}-{name}",
                },
            },
        )
        return folder

    def condition(self, job, kind):
        for condition in (job or {}).get("status", {}).get("conditions", []):
            if condition["type"] == kind:
                return condition
        return None

    def holds(self, job, kind):
        found = self.condition(job, kind)
        return found is not None and found["status"] == "True"

    def wait(self, what, check, seconds):
        """Waits until check() gives something true, and returns it."""
        deadline = time.monotonic() + seconds
        while True:
            found = check()
            if found:
                return found
            if time.monotonic() > deadline:
                raise Failed(f"{what}: not within {seconds} s")
            time.sleep(0.5)  # each look runs a kubectl, on the cores that the job trains on

    def wait_finished(self, name, namespace, seconds):
        def check():
            job = self.get("gnnjob", name, namespace)
            return job if self.holds(job, "Complete") or self.holds(job, "Failed") else None

        return self.wait(f"GNNJob {namespace}/{name} finished", check, seconds)

    def wait_step(self, name, namespace, step, seconds):
        """Waits until the job's progress has reached an optimizer step."""

        def check():
            job = self.get("gnnjob", name, namespace)
            if self.holds(job, "Failed") or self.holds(job, "Complete"):
                raise Failed(f"GNNJob {name} ended before step {step}: {json.dumps(job['status'])}")
            return (job or {}).get("status", {}).get("progress", {}).get("globalStep", 0) >= step and job

        return self.wait(f"GNNJob {namespace}/{name} at step {step}", check, seconds)

    def results(self, name, namespace):
        """Node rank -> result that the newest attempt's pod left in its termination message."""
        found = {}
        for pod in self.list("pods", namespace, f"gnn.dev/job={name},gnn.dev/node"):
            for status in pod.get("status", {}).get("containerStatuses", []):
                ended = status.get("state", {}).get("terminated")
                if ended and ended.get("message"):
                    found[int(pod["metadata"]["labels"]["gnn.dev/node"])] = json.loads(ended["message"])
        return found

    # --- Prometheus ----------------------------------------------------------------------------------------------------
    def query(self, expression):
        """Prometheus' answer to an instant query: a list of {metric, value}."""
        return self.prometheus("query", query=expression)["result"]

    def prometheus(self, endpoint, **arguments):
        """The data of a GET on Prometheus' API, e.g. prometheus("label/job/values", match="up")."""
        path = f"/api/v1/namespaces/monitoring/pods/prometheus:9090/proxy/api/v1/{endpoint}?" + urllib.parse.urlencode(arguments)
        answer = parsed(self.kubectl("get", "--raw", path), path)
        if answer["status"] != "success":
            raise Failed(f"{endpoint} {arguments}: {answer}")
        return answer["data"]

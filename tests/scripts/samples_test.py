"""manifests/samples: what one of them uses another one makes, and each fits a namespace that enforces `restricted`."""

import unittest
from pathlib import Path, PurePosixPath

import yaml

ROOT = Path(__file__).resolve().parents[2]


def documents():
    """(file's name, object) of every sample."""
    for path in sorted((ROOT / "manifests/samples").glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text(encoding="utf-8")):
            yield path.name, document


OBJECTS = list(documents())
JOBS = [(name, item["spec"]) for name, item in OBJECTS if item["kind"] == "GNNJob"]


def pod_specs():
    """(file's name, spec) of the pods that people write whole; those of GNNJobs are the controller's."""
    for name, item in OBJECTS:
        if item["kind"] == "Pod":
            yield name, item["spec"]
        elif item["kind"] == "Job":
            yield name, item["spec"]["template"]["spec"]


def mount_of(template, path):
    """The longest mount that holds the path."""
    mounts = [mount for mount in template.get("volumeMounts", []) if PurePosixPath(path).is_relative_to(mount["mountPath"])]
    return max(mounts, key=lambda mount: len(mount["mountPath"]), default=None)


class Samples(unittest.TestCase):
    def assert_writable(self, template, path):
        mount = mount_of(template, path)
        self.assertIsNotNone(mount, path)
        volume = next(volume for volume in template["volumes"] if volume["name"] == mount["name"])
        self.assertFalse(mount.get("readOnly") or volume["persistentVolumeClaim"].get("readOnly"), path)

    def test_every_claim_that_is_used_is_made(self):
        made = {item["metadata"]["name"] for _, item in OBJECTS if item["kind"] == "PersistentVolumeClaim"}
        used = {}
        for name, spec in [*pod_specs(), *((name, spec["workers"]["template"]) for name, spec in JOBS)]:
            for volume in spec.get("volumes", []):
                used.setdefault(volume["persistentVolumeClaim"]["claimName"], []).append(name)
        self.assertEqual(set(used), made, used)

    def test_data_and_checkpoints_lie_on_volumes(self):
        for name, spec in JOBS:
            template = spec["workers"]["template"]
            with self.subTest(name):
                if "path" in spec["dataset"]:
                    self.assertIsNotNone(mount_of(template, spec["dataset"]["path"]))
                if "from" in spec["model"]:
                    self.assertIsNotNone(mount_of(template, spec["model"]["from"]))
                for written in ("checkpoint", "export", "predictions"):
                    if written in spec:
                        self.assert_writable(template, spec[written]["path"])
        for written in ("checkpoint", "export", "predictions"):
            self.assertTrue(any(written in spec for _, spec in JOBS), written)

    def test_what_jobs_read_in_native_form_is_imported(self):
        options = {}  # --output -> options of the import
        for _, spec in pod_specs():
            for container in spec["containers"]:
                if container.get("args", [])[:2] == ["data", "import"]:
                    output = next(option for option in container["args"] if option.startswith("--output="))
                    options[output.partition("=")[2]] = container["args"]
        read = {
            spec["dataset"]["path"]: spec
            for _, spec in JOBS
            if spec["dataset"]["format"] == "Native" and "placement" not in spec
        }
        self.assertEqual(set(read), set(options))
        for path, spec in read.items():
            self.assertIn("--add-reverse" if "link" in spec["task"] else "--to-undirected", options[path])

    def test_partitioned_data_is_made_by_its_job(self):
        partitioned = [(name, spec) for name, spec in JOBS if "placement" in spec]
        self.assertTrue(partitioned)
        for name, spec in partitioned:
            with self.subTest(name):
                self.assertIn("partition", spec["prepare"])
                for path in (spec["dataset"]["path"], spec["prepare"]["import"]["output"]):
                    self.assert_writable(spec["workers"]["template"], path)

    def test_jobs_on_real_data_say_what_they_need(self):
        real = [(name, spec) for name, spec in JOBS if spec["dataset"]["format"] != "Synthetic"]
        self.assertGreaterEqual(len(real), 4)
        for name, spec in real:
            resources = spec["workers"]["template"].get("resources", {})
            self.assertLessEqual({"cpu", "memory"}, set(resources.get("requests", {})), name)
            self.assertIn("memory", resources.get("limits", {}), name)

    def test_pods_fit_a_restricted_namespace(self):
        pods = list(pod_specs())
        self.assertGreaterEqual(len(pods), 2)
        for name, spec in pods:
            with self.subTest(name):
                self.assertTrue(spec["securityContext"]["runAsNonRoot"])
                self.assertEqual(spec["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
                for container in spec["containers"]:
                    self.assertFalse(container["securityContext"]["allowPrivilegeEscalation"])
                    self.assertEqual(container["securityContext"]["capabilities"], {"drop": ["ALL"]})


if __name__ == "__main__":
    unittest.main()

"""The JSON schema of the GNNJob: equal to what the CRD gives, and judging manifests as a real validator does."""

import copy
import json
import subprocess
import sys
import unittest
from pathlib import Path

import jsonschema
import yaml

ROOT = Path(__file__).resolve().parents[3]
TOOL = ROOT / "tools/generate/job_schema.py"
FILE = ROOT / "docs/schemas/gnn.dev/gnnjob_v1alpha1.json"
VALIDATOR = jsonschema.Draft7Validator(json.loads(FILE.read_text(encoding="utf-8")))


def jobs_of(folder):
    """File name -> each GNNJob in it."""
    return [
        (file.name, document)
        for file in sorted((ROOT / folder).glob("*.yaml"))
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8"))
        if document and document.get("kind") == "GNNJob"
    ]


def sample(name):
    return next(job for file, job in jobs_of("manifests/samples") if file == name)


def put(object_, path, value):
    """A copy with the value at "a.b.0.c"."""
    made = copy.deepcopy(object_)
    *parents, last = path.split(".")
    place = made
    for key in parents:
        place = place[int(key)] if isinstance(place, list) else place[key]
    place[int(last) if isinstance(place, list) else last] = value
    return made


class JobSchema(unittest.TestCase):
    def test_is_up_to_date(self):
        done = subprocess.run([sys.executable, TOOL, "--check"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_is_a_schema_that_describes_every_field(self):
        jsonschema.Draft7Validator.check_schema(VALIDATOR.schema)

        def walk(path, schema):
            if path and not path.startswith(".metadata"):
                self.assertTrue(schema.get("description") or path.endswith("[]"), path)
            for name, inner in schema.get("properties", {}).items():
                walk(f"{path}.{name}", inner)
            if "items" in schema and "properties" in schema["items"]:
                walk(f"{path}[]", schema["items"])

        walk("", VALIDATOR.schema)

    def test_takes_every_sample(self):
        jobs = jobs_of("manifests/samples")
        self.assertGreaterEqual(len(jobs), 12)
        for name, job in jobs:
            self.assertEqual([error.message for error in VALIDATOR.iter_errors(job)], [], name)

    def test_takes_jobs_as_a_cluster_shows_them(self):
        jobs = json.loads((ROOT / "tests/support/job_states.json").read_text(encoding="utf-8"))
        self.assertGreaterEqual(len(jobs), 10)
        for state, job in jobs.items():
            job["spec"] = sample("fake-gcn.yaml")["spec"]
            self.assertEqual([error.message for error in VALIDATOR.iter_errors(job)], [], state)

    def test_refuses_what_the_api_server_refuses_and_says_where(self):
        job = sample("fake-gcn.yaml")
        VALIDATOR.validate(job)
        for path, value in (
            ("spec.training.epocs", 3),
            ("spec.training.epochs", "3"),
            ("spec.training.epochs", 0),
            ("spec.training.optimizer.learningRate", 0.01),
            ("spec.training.optimizer.learningRate", "fast"),
            ("spec.training.optimizer.type", "RMSProp"),
            ("spec.sampling.fanout", []),
            ("spec.sampling.fanout.0", -2),
            ("spec.workers.nodes", 100000),
            ("spec.workers.template.volumes", [{"name": "data", "hostPath": {"path": "/"}}]),
            ("spec.workers.template.nodeSelector", {"a": 1}),
            ("spec.workers.template.resources", {"requests": {"cpu": 0.5}}),
            ("spec.task", None),
            ("metadata.name", "Cora"),
            ("metadata.name", "c" * 41),
            ("metadata.lables", {"a": "b"}),
            ("metadata.labels", {"a": 5}),
            ("apiVersion", "gnn.dev/v1"),
            ("kind", "GNNjob"),
            ("stauts", {}),
        ):
            with self.subTest(path=path, value=value):
                errors = list(VALIDATOR.iter_errors(put(job, path, value)))
                self.assertEqual(len(errors), 1, errors)
                # An unknown field is told of the object that has it.
                told = [".".join(map(str, errors[0].absolute_path)), errors[0].message]
                self.assertTrue(told[0].startswith(path) or f"'{path.split('.')[-1]}' was unexpected" in told[1], told)

    def test_asks_for_what_a_job_must_have(self):
        job = sample("fake-gcn.yaml")
        for path in ("metadata", "spec", "spec.task", "spec.dataset", "spec.model", "spec.sampling.fanout", "metadata.name"):
            *parents, last = path.split(".")
            without = copy.deepcopy(job)
            place = without
            for key in parents:
                place = place[key]
            del place[last]
            self.assertFalse(VALIDATOR.is_valid(without), path)

    def test_takes_null_for_absent(self):
        self.assertTrue(VALIDATOR.is_valid(put(sample("fake-gcn.yaml"), "spec.training.device", None)))

    def test_takes_a_name_that_is_made_up_later(self):
        job = sample("fake-gcn.yaml")
        job["metadata"] = {"generateName": "fake-"}
        self.assertTrue(VALIDATOR.is_valid(job))


if __name__ == "__main__":
    unittest.main()

"""manifests/integrations: what Argo CD, Argo Workflows, Katib and kstatus make of GNNJobs in every state.

tools/judges asks the libraries of these tools; the objects are those that the controller writes
(tests/controller/reconcile/state_machine_test.cpp).
"""

import copy
import json
import re
import subprocess
import unittest
from functools import lru_cache
from pathlib import Path

import jsonschema
import yaml

ROOT = Path(__file__).resolve().parents[2]
JOBS = json.loads((ROOT / "tests/support/job_states.json").read_text(encoding="utf-8"))
AT_WORK = (
    "Unseen", "Edited", "Pending", "Released", "Preparing", "Starting", "Running", "Restarting", "Suspending",
)  # fmt: skip


def documents(name):
    return list(yaml.safe_load_all((ROOT / "manifests/integrations" / name).read_text(encoding="utf-8")))


@lru_cache
def judges():
    built = subprocess.run([ROOT / "tools/judges/build"], check=True, capture_output=True, text=True)
    return built.stdout.strip()


def verdicts(tool, jobs, success="", failure=""):
    """What the tool makes of each job."""
    cases = [{"tool": tool, "success": success, "failure": failure, "object": job} for job in jobs.values()]
    ran = subprocess.run([judges()], input=json.dumps(cases), capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise AssertionError(ran.stderr)
    return dict(zip(jobs, json.loads(ran.stdout), strict=True))


def contract(name):
    """A constant of common/contract.h."""
    text = (ROOT / "common/contract.h").read_text(encoding="utf-8")
    return re.search(rf'{name} = "([^"]*)"', text)[1]


@lru_cache
def schema():
    crd = yaml.safe_load((ROOT / "manifests/crds/gnnjobs.gnn.dev.yaml").read_text(encoding="utf-8"))
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]


class Integrations(unittest.TestCase):
    maxDiff = None

    def expect(self, found, **by_state):
        rest = by_state.pop("rest")
        self.assertEqual(found, {**dict.fromkeys(AT_WORK, rest), **by_state})

    def test_kstatus_knows_what_is_under_way_done_and_failed(self):
        self.expect(
            verdicts("kstatus", JOBS),
            rest="InProgress", Complete="Current", Suspended="Current", Failed="Failed", Invalid="Failed",
        )  # fmt: skip

    def test_argo_cd_knows_the_health(self):
        script = documents("argo-cd.yaml")[0]["data"]["resource.customizations.health.gnn.dev_GNNJob"]
        expected = {"Complete": "Healthy", "Suspended": "Suspended", "Failed": "Degraded", "Invalid": "Degraded"}
        self.expect(verdicts("argo-cd", JOBS, script), rest="Progressing", **expected)
        bare = {"Pending": {**JOBS["Pending"], "status": {}}, "Unseen": {"metadata": {"generation": 1}}}
        self.assertEqual(set(verdicts("argo-cd", bare, script).values()), {"Progressing"})

    def test_argo_workflows_ends_its_step_with_the_job(self):
        step = documents("argo-workflows.yaml")[-1]["spec"]["templates"][0]["resource"]
        found = verdicts("argo-workflows", JOBS, step["successCondition"], step["failureCondition"])
        # It created the job, so that nobody has edited it before.
        found["Edited"] = "Running"
        self.expect(found, rest="Running", Complete="Succeeded", Suspended="Running", Failed="Failed", Invalid="Failed")
        jsonschema.validate(yaml.safe_load(step["manifest"]), schema())

    def test_katib_ends_its_trial_with_the_job(self):
        trial = documents("katib.yaml")[0]["spec"]["trialTemplate"]
        found = verdicts("katib", JOBS, trial["successCondition"], trial["failureCondition"])
        found["Edited"] = "Running"
        self.expect(found, rest="Running", Complete="Succeeded", Suspended="Running", Failed="Failed", Invalid="Failed")
        self.assertEqual(trial["primaryContainerName"], contract("kWorkerContainer"))
        self.assertEqual(list(trial["primaryPodLabels"]), [contract("kLabelNode")])

    def test_katib_reads_the_accuracy_of_each_epoch(self):
        experiment = documents("katib.yaml")[0]["spec"]
        (pattern,) = experiment["metricsCollectorSpec"]["source"]["filter"]["metricsFormat"]
        log = (
            "rank 0 | Epoch 00000 | Average Loss 6.6519 | Accuracy 0.0969 | Time 0.3107\n"
            "rank 0 | Epoch 00001 | Average Loss 2.3286 | Accuracy 0.0705 | Time 0.0764\nrank 0 | Test Accuracy 0.0961\n"
        )
        name = experiment["objective"]["objectiveMetricName"]
        self.assertEqual(re.findall(pattern, log), [(name, "0.0969"), (name, "0.0705")])

    def test_katib_puts_decimals_into_a_trial_and_integers_only_into_text(self):
        trial = documents("katib.yaml")[0]["spec"]["trialTemplate"]
        names = {parameter["name"] for parameter in trial["trialParameters"]}
        written = json.dumps(trial["trialSpec"])
        self.assertEqual(set(re.findall(r"\$\{trialParameters\.(\w+)\}", written)), names)

        def with_values(text):
            job = json.loads(text.replace("${trialParameters.learningRate}", "0.01234"))
            return {**job, "metadata": {"name": "learning-rate-x"}}

        jsonschema.validate(with_values(written), schema())
        integer = copy.deepcopy(trial["trialSpec"])
        integer["spec"]["training"]["batchSize"] = "${trialParameters.learningRate}"
        with self.assertRaisesRegex(jsonschema.ValidationError, "is not of type 'integer'"):
            jsonschema.validate(with_values(json.dumps(integer)), schema())


class Kubeconform(unittest.TestCase):
    """Finds the schema by its file's place, and judges by it."""

    SCHEMAS = str(ROOT / "docs/schemas/{{.Group}}/{{.ResourceKind}}_{{.ResourceAPIVersion}}.json")

    def test_takes_every_sample_and_names_what_is_wrong(self):
        jobs = {
            file.name: document
            for file in sorted((ROOT / "manifests/samples").glob("*.yaml"))
            for document in yaml.safe_load_all(file.read_text(encoding="utf-8")) if document["kind"] == "GNNJob"
        }  # fmt: skip
        self.assertGreaterEqual(len(jobs), 12)
        misspelt, wrong = copy.deepcopy(jobs["cora.yaml"]), copy.deepcopy(jobs["cora.yaml"])
        misspelt["spec"]["training"]["epocs"] = 1
        wrong["spec"]["workers"]["nodes"] = 0
        found = verdicts("kubeconform", {**jobs, "misspelt": misspelt, "wrong": wrong}, success=self.SCHEMAS)
        self.assertIn("epocs", found.pop("misspelt"))
        self.assertIn("/spec/workers/nodes", found.pop("wrong"))
        self.assertEqual(set(found.values()), {"valid"}, found)


if __name__ == "__main__":
    unittest.main()

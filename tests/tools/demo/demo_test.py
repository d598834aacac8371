"""The demo where something goes wrong: one clear message, what the cluster knows of it, and then everything taken down."""

import contextlib
import io
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import demo
from installation import Failed, Installation, parsed, run


def gnn_job(**status):
    return {"status": {"state": "Running", "message": "2 of 2 nodes", **status}}


FAILED_JOB = gnn_job(
    state="Failed", message="node 1 failed",
    conditions=[{"type": "Failed", "status": "True", "reason": "RankFailed", "message": "rank 3 left with code 70"}],
    lastFailure={"node": 1, "rank": 3, "exitCode": 70},
)


class Stage(Installation):
    """An installation whose cluster is what a test says; `told` has what happened in order."""

    def __init__(self):
        super().__init__("test")
        self.told = []
        self.state = "running"
        self.state_after = None  # once the images are being built
        self.objects = {}  # (kind, name) -> object
        self.fails = ()  # words of kubectl commands that fail
        self.without_limit = []

    def status(self):
        return {"state": self.state}

    def down(self):
        self.told.append("down")

    def build_images(self, preset, *, built=False, log=None):
        self.state = self.state_after or self.state
        raise Failed("buildah: no space left")

    def kubectl(self, *arguments, stdin=None, timeout=None):
        self.told.append(" ".join(arguments))
        if timeout is None:
            self.without_limit.append(arguments)
        for word in self.fails:
            if word in arguments:
                raise Failed(f"kubectl {word} did not finish within {timeout} s")
        if arguments[0] == "get" and "--ignore-not-found" in arguments:
            found = self.objects.get(arguments[1:3])
            return json.dumps(found) if found else ""
        if arguments[:2] == ("get", "pods"):
            namespace = arguments[arguments.index("-n") + 1]
            return json.dumps({"items": [{"metadata": {"name": f"pod-of-{namespace}"}}]})
        if "logs" in arguments:
            return f"log of {arguments[3]}\n"
        return f"table: {' '.join(arguments)}\n"


class Demo(unittest.TestCase):
    def setUp(self):
        self.cluster = Stage()

    def run_(self, function, *arguments):
        """Returns its value and what it printed on standard error."""
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), contextlib.redirect_stdout(io.StringIO()):
            return function(*arguments), errors.getvalue()

    def main(self, *arguments):
        with mock.patch.object(demo, "Installation", lambda name: self.cluster), \
                mock.patch.object(demo, "build_programs", lambda preset: None), \
                mock.patch.object(sys, "argv", ["demo.py", *arguments]):
            return self.run_(demo.main)

    def test_explains_by_status_events_and_logs(self):
        self.cluster.objects["gnnjob", demo.JOB] = FAILED_JOB
        _, said = self.run_(demo.explain, self.cluster)
        self.assertIn("Failed: node 1 failed", said)
        self.assertIn("Failed True RankFailed: rank 3 left with code 70", said)
        self.assertIn('"exitCode": 70', said)
        self.assertIn("table: -n demo get events", said)
        self.assertIn("log of pod-of-demo", said)
        self.assertIn("log of pod-of-gnn-system", said)
        self.assertEqual(self.cluster.without_limit, [])

    def test_a_look_that_fails_does_not_end_the_others(self):
        self.cluster.fails = ("events", "gnnjob")
        _, said = self.run_(demo.explain, self.cluster)
        self.assertIn("kubectl events did not finish within 20 s", said)
        self.assertIn("kubectl gnnjob did not finish within 20 s", said)
        self.assertIn("log of pod-of-gnn-system", said)

    def test_events_come_by_their_creation(self):
        self.assertIn("--sort-by=.metadata.creationTimestamp", demo.events(self.cluster, "demo"))

    def test_a_failure_is_explained_before_the_cluster_goes(self):
        self.cluster.state, self.cluster.state_after = "not running", "damaged"
        code, said = self.main()
        self.assertEqual(code, 1)
        self.assertIn("demo: buildah: no space left\n", said)
        self.assertIn("scripts/demo --keep", said)
        self.assertNotIn("Traceback", said)
        self.assertEqual(self.cluster.told[-1], "down")
        self.assertIn("logs pod-of-demo", " ".join(self.cluster.told[:-1]))

    def test_keep_leaves_a_failed_demo_up(self):
        self.cluster.state, self.cluster.state_after = "not running", "damaged"
        code, said = self.main("--keep")
        self.assertEqual(code, 1)
        self.assertNotIn("down", self.cluster.told)
        self.assertIn("the cluster keeps running", said)

    def test_what_an_earlier_demo_left_is_taken_down_first(self):
        for state in ("half made", "damaged"):
            with self.subTest(state=state):
                self.cluster.told = []
                self.cluster.state, self.cluster.state_after = state, "not running"
                self.main("--keep")
                self.assertEqual(self.cluster.told, ["down"])

    def test_without_a_cluster_there_is_no_look(self):
        self.cluster.state = "not running"
        code, said = self.main()
        self.assertEqual(code, 1)
        self.assertIn("its cluster is not running", said)
        self.assertNotIn("the cluster", said)
        self.assertEqual(self.cluster.told, ["down"])

    def test_keep_does_not_speak_of_a_cluster_that_is_not_there(self):
        self.cluster.state = "not running"
        code, said = self.main("--keep")
        self.assertEqual(code, 1)
        self.assertNotIn("keeps running", said)

    def test_an_interrupt_takes_the_cluster_down(self):
        self.cluster.state = "not running"
        with mock.patch.object(self.cluster, "build_images", side_effect=KeyboardInterrupt):
            code, said = self.main()
        self.assertEqual(code, 130)
        self.assertIn("interrupted", said)
        self.assertEqual(self.cluster.told, ["down"])

    def test_a_cluster_that_is_up_is_left_alone(self):
        code, said = self.main()
        self.assertEqual(code, 1)
        self.assertIn("still running", said)
        self.assertEqual(self.cluster.told, [])

    def test_a_failed_import_is_noticed_at_once(self):
        self.cluster.objects["job", demo.IMPORT] = {
            "status": {"conditions": [{"type": "Failed", "status": "True", "message": "Job has reached the backoff limit"}]}
        }
        with self.assertRaisesRegex(Failed, "data-import failed: Job has reached the backoff limit"):
            demo.wait_for_import(self.cluster, 0)

    def test_a_finished_import_is_no_failure(self):
        self.cluster.objects["job", demo.IMPORT] = {"status": {"conditions": [{"type": "Complete", "status": "True"}]}}
        demo.wait_for_import(self.cluster, 0)

    def test_the_table_names_the_parts_of_the_set_up(self):
        steps = demo.Steps(100, ["60 LibTorch", "30 Debian packages"])
        self.assertEqual(
            [(text.strip(), minutes) for text, minutes in steps.minutes],
            [("Set the machine up", 100 / 60), ("of which LibTorch", 1.0), ("of which Debian packages", 0.5)],
        )


class Commands(unittest.TestCase):
    def test_a_failed_one_is_named_with_its_output(self):
        with self.assertRaisesRegex(Failed, r"(?s)sh -c .* failed with code 3:\nto stdout\nto stderr"):
            run(["sh", "-c", "echo to stdout; echo to stderr >&2; exit 3"])

    def test_a_missing_one_is_named(self):
        with self.assertRaisesRegex(Failed, "/no/such/program could not be started"):
            run(["/no/such/program"])

    def test_one_that_takes_too_long_is_named(self):
        with self.assertRaisesRegex(Failed, "cat did not finish within 0.01 s"):
            reader, writer = os.pipe()  # nothing ever comes
            self.addCleanup(os.close, reader)
            self.addCleanup(os.close, writer)
            run(["cat"], stdin=reader, timeout=0.01)

    def test_output_that_is_no_json_is_shown(self):
        with self.assertRaisesRegex(Failed, "status of cluster demo: expected JSON, got 'Segmentation fault'"):
            parsed("Segmentation fault", "status of cluster demo")

    def test_a_package_index_that_cannot_be_had_says_why(self):
        with tempfile.TemporaryDirectory(prefix="gnn-demo-") as folder:
            program = Path(folder, "apt-cache")
            program.write_text("#!/bin/sh\necho 'the cache is locked' >&2\nexit 100\n", encoding="utf-8")
            program.chmod(0o755)
            with mock.patch.dict(os.environ, {"PATH": f"{folder}:{os.environ['PATH']}"}):
                with self.assertRaisesRegex(Failed, "(?s)apt-cache dumpavail failed with code 100.*the cache is locked"):
                    demo.dump_package_index(Path(folder, "Packages"))
                program.write_text("#!/bin/sh\n", encoding="utf-8")
                with self.assertRaisesRegex(Failed, "run apt-get update first"):
                    demo.dump_package_index(Path(folder, "Packages"))


if __name__ == "__main__":
    unittest.main()

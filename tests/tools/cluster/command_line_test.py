"""Tests of scripts/cluster that start nothing: its arguments, and what it says about a machine that cannot run it."""

import contextlib
import io
import json
import subprocess
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import cluster
import host
import images
import pod_discovery
import programs
from layout import MARK, Layout, UserError


def parse(*arguments):
    return cluster.parse(list(arguments))


class ArgumentsTest(unittest.TestCase):
    def refused(self, *arguments):
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), self.assertRaises(SystemExit) as raised:
            parse(*arguments)
        self.assertEqual(raised.exception.code, 2)
        return errors.getvalue()

    def test_defaults(self):
        options = parse("up")
        self.assertEqual((options.name, options.nodes, options.fake_nodes, options.gpus), ("default", 2, 0, 4))

    def test_name_before_and_after_the_command(self):
        self.assertEqual(parse("--name", "x", "status").name, "x")
        self.assertEqual(parse("status", "--name", "x").name, "x")

    def test_kubectl_arguments_are_passed_on_as_they_are(self):
        options = parse("--name", "x", "kubectl", "-n", "y", "get", "--name", "z", "--help")
        self.assertEqual(options.name, "x")
        self.assertEqual(options.arguments, ["-n", "y", "get", "--name", "z", "--help"])

    def test_contradictions_are_refused(self):
        self.assertIn("--prometheus needs nodes", self.refused("up", "--control-plane-only", "--prometheus"))
        self.assertIn("--kueue needs nodes", self.refused("up", "--control-plane-only", "--kueue"))
        self.assertIn("--prometheus-rules needs --prometheus", self.refused("up", "--prometheus-rules", __file__))
        self.assertIn("there is no file /no", self.refused("up", "--prometheus", "--prometheus-rules", "/no"))
        self.assertIn("--nodes must be 1 to 8", self.refused("up", "--nodes", "0"))
        self.assertIn("--nodes must be 1 to 8", self.refused("up", "--nodes", "99"))
        self.assertIn("--fake-nodes must be", self.refused("up", "--fake-nodes", "-1"))
        self.assertIn("--port is for --control-plane-only", self.refused("up", "--port", "6443"))

    def test_bad_names_are_refused(self):
        for name in ("", "-a", "a-", "A", "a/b", "..", "a" * 21):
            with self.subTest(name=name), self.assertRaisesRegex(UserError, "cluster name"):
                Layout(name)

    def test_names_do_not_share_cgroups(self):
        self.assertFalse(Layout("a-b").node(0).cgroup.startswith(Layout("a").cgroup_prefix))


class MachineTest(unittest.TestCase):
    OPTIONS = {"nodes": 2, "fake_nodes": 0, "gpus": 0, "control_plane_only": False, "port": None, "prometheus": False}

    def refusal(self, **options):
        with self.assertRaises(UserError) as raised:
            cluster.check_machine({**self.OPTIONS, **options})
        self.assertNotIn("\n", str(raised.exception))
        return str(raised.exception)

    def test_nodes_need_root(self):
        with mock.patch("os.geteuid", return_value=1000):
            self.assertIn("need root", self.refusal())

    def test_missing_command_names_its_package(self):
        with mock.patch("os.geteuid", return_value=0), mock.patch("shutil.which", lambda name: None if name == "nft" else name):
            self.assertIn("apt-get install nftables", self.refusal())

    def test_missing_plugins_name_their_package(self):
        with mock.patch("os.geteuid", return_value=0), mock.patch("shutil.which", str), mock.patch("host.CNI_FOLDERS", ["/none"]):
            self.assertIn("containernetworking-plugins", self.refusal())

    def test_too_little_memory_says_how_much(self):
        with mock.patch("host.available_memory_mib", return_value=700):
            self.assertIn("700 MiB of memory", self.refusal(control_plane_only=True))

    def test_kernel_feature_is_named_with_the_kernels_reason(self):
        with self.assertRaisesRegex(UserError, r"does not allow flying pigs \(no wings\): buy some"):
            host._probe("flying pigs", "buy some", "echo no wings >&2; false")

    def test_missing_cgroup_controller_is_named(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch("host.CGROUPS", Path(folder)):
            Path(folder, "cgroup.controllers").write_text("cpu memory")
            with self.assertRaisesRegex(UserError, "'pids' is missing"):
                host.hierarchies()
            Path(folder, "cgroup.controllers").write_text("cpu memory pids")
            self.assertEqual(host.hierarchies(), [Path(folder)])

    def test_a_cgroup_takes_what_a_hierarchy_offers_and_says_what_it_is_refused(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch("host.CGROUPS", Path(folder)):
            # Version 1, and beside it a hierarchy of version 2 with nothing left for it.
            for name in ("cpu", "memory", "pids", "unified"):
                Path(folder, name).mkdir()
                Path(folder, name, "cgroup.procs").touch()
            Path(folder, "unified/cgroup.controllers").write_text("")
            Path(folder, "unified/cgroup.subtree_control").mkdir()  # whatever is written to it is refused
            host.create_cgroup("node")
            self.assertTrue(Path(folder, "unified/node").is_dir())
            Path(folder, "unified/cgroup.controllers").write_text("memory")
            with self.assertRaisesRegex(UserError, "'memory' can't be given to .*unified's children"):
                host.create_cgroup("node")

    def test_taken_port_is_said(self):
        import socket

        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.assertIn(f"port {port} cannot be used", self.refusal(control_plane_only=True, port=port))

    def test_command_on_no_cluster_is_one_line_and_code_1(self):
        script = Path(__file__).resolve().parents[3] / "scripts" / "cluster"
        for command in (["kubectl", "get", "nodes"], ["env"], ["load", "x"], ["restart", "etcd"], ["logs", "etcd"]):
            with self.subTest(command=command):
                done = subprocess.run([script, "--name", "never-made", *command], capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        done = subprocess.run([script, "--name", "never-made", "down"], capture_output=True, text=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "cluster: never-made is not running; nothing to do\n"))
        done = subprocess.run([script, "--name", "never-made", "status"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 3)


class ProcessesTest(unittest.TestCase):
    def test_only_marked_processes_are_found_and_killed(self):
        with tempfile.TemporaryDirectory() as folder, subprocess.Popen(["sleep", "100"]) as stranger:
            try:
                ours = host.start(["sh", "-c", "sleep 100 & exec sleep 100"], directory=Path(folder), part="x", log=f"{folder}/x.log")
                while len(host.processes(folder)) < 2:
                    self.assertIsNone(ours.poll())
                self.assertEqual(set(host.processes(folder).values()), {"x"})
                self.assertEqual(host.main_processes(folder), {"x": ours.pid})
                host.kill_everything(folder, "gnn-cluster-of-no-name.")
                self.assertEqual(host.processes(folder), {})
                self.assertEqual(ours.wait(), -9)
                self.assertIsNone(stranger.poll())
            finally:
                stranger.kill()


class ImagesTest(unittest.TestCase):
    def test_an_import_bears_the_clusters_mark(self):
        node = Layout("marked").node(0)
        with mock.patch.object(images, "run") as run:
            images.import_archive(node, "image.tar")
        self.assertEqual(run.call_args.kwargs["env"][MARK], str(node.cluster.directory))
        self.assertIn("PATH", run.call_args.kwargs["env"])

    def test_archive_is_the_same_each_time(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("one", "two"):
                images._write_image(f"{folder}/{name}", "x:1", {"a/b": b"c"}, {}, {"a/d": "b"}, {"tmp": 0o1777})
            self.assertEqual(Path(folder, "one").read_bytes(), Path(folder, "two").read_bytes())


class ProgramsTest(unittest.TestCase):
    def test_leases_are_renewed_well_within_the_grace_period(self):
        node = Layout("x").node(0)
        with tempfile.TemporaryDirectory() as folder, mock.patch("layout.base_directory", return_value=Path(folder)):
            node.directory.mkdir(parents=True)
            pki = mock.Mock(**{"certificate.return_value": "c", "key.return_value": "k"})
            programs.kubelet(Path("/tools"), node, pki, "config")
            written = json.loads((node.directory / "kubelet.json").read_text())
        manager = programs.controller_manager(Path("/tools"), pki, "config")
        grace = next(word for word in map(str, manager) if word.startswith("--node-monitor-grace-period="))
        # A kubelet renews its lease four times in the lease's duration; two may come late.
        seconds = int(grace.partition("=")[2].removesuffix("s"))
        self.assertLess(written["nodeLeaseDurationSeconds"] / 4 * 3, seconds)
        self.assertEqual(written["cgroupRoot"], "/gnn-cluster-x.node-0")


class DiscoveryTest(unittest.TestCase):
    def test_one_target_for_each_port_with_kubernetes_labels(self):
        pod = {
            "metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": {"app.kubernetes.io/name": "x"},
                         "annotations": {"prometheus.io/scrape": "true"}},
            "spec": {"nodeName": "node-0", "containers": [
                {"name": "c", "ports": [{"name": "http", "containerPort": 9400}, {"containerPort": 1}]}, {"name": "d"}]},
            "status": {"podIP": "10.0.0.1", "phase": "Running"},
        }  # fmt: skip
        waiting = {"metadata": {"name": "w"}, "spec": {"containers": []}, "status": {}}
        groups = pod_discovery.target_groups([pod, waiting])
        self.assertEqual([g["targets"] for g in groups], [["10.0.0.1:9400"], ["10.0.0.1:1"], ["10.0.0.1"]])
        labels = groups[0]["labels"]
        self.assertEqual(labels["__meta_kubernetes_pod_label_app_kubernetes_io_name"], "x")
        self.assertEqual(labels["__meta_kubernetes_pod_annotation_prometheus_io_scrape"], "true")
        self.assertEqual(labels["__meta_kubernetes_pod_container_port_name"], "http")


if __name__ == "__main__":
    unittest.main()

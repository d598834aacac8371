"""Tests of tools/cluster/go/build: the programs are there, in the versions that go.mod pins."""

import re
import subprocess
import unittest
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3] / "tools/cluster/go"


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


class GoBuildTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        # Builds them if this machine has not yet.
        cls.folder = Path(subprocess.run([SOURCE / "build"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip())
        cls.pins = dict(re.findall(r"^\t(\S+) (v\S+)", (SOURCE / "go.mod").read_text(), re.MULTILINE))

    def test_second_build_gives_the_same_folder(self):
        self.assertEqual(output(SOURCE / "build").strip(), str(self.folder))

    def test_versions_are_the_pinned_ones(self):
        kubernetes = self.pins["k8s.io/kubernetes"]
        for part in ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy", "kubelet"):
            self.assertEqual(output(self.folder / part, "--version").strip(), f"Kubernetes {kubernetes}")
        self.assertIn(f"Client Version: {kubernetes}", output(self.folder / "kubectl", "version", "--client"))
        etcd = self.pins["go.etcd.io/etcd/server/v3"].removeprefix("v")
        self.assertIn(f"etcd Version: {etcd}\n", output(self.folder / "etcd", "--version"))
        self.assertIn(self.pins["sigs.k8s.io/kwok"], output(self.folder / "kwok", "--version"))
        self.assertIn(self.pins["github.com/coredns/coredns"].removeprefix("v"), output(self.folder / "coredns", "-version"))
        self.assertEqual(output(self.folder / "helm", "version", "--template", "{{.Version}}"), self.pins["helm.sh/helm/v4"])

    def test_one_program_says_its_parts(self):
        done = subprocess.run([self.folder / "kubernetes", "no-such-part"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("etcd|kube-apiserver|", done.stderr)
        self.assertIn("v1.34", output(self.folder / "kubernetes", "kubelet", "--version"))


if __name__ == "__main__":
    unittest.main()

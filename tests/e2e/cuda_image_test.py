"""The worker's CUDA image, built from the files that users build. It needs no GPU: that the kernels compute is what the tests
with the label gpu show."""

import json
import unittest
from pathlib import Path

from installation import ROOT, run

BUILDAH = ["buildah", "--storage-driver", "vfs"]

image = None


def setUpModule():
    global image
    base = run([ROOT / "tools/cluster/base_image"]).strip().splitlines()[-1]
    image = run([ROOT / "scripts/images", "--base", base, "worker-cuda"]).strip().splitlines()[-1]


def tearDownModule():
    # Some gigabytes that nothing else uses.
    if image:
        run([*BUILDAH, "rmi", "--force", image])


class CudaImage(unittest.TestCase):
    def setUp(self):
        self.container = run([*BUILDAH, "from", "--pull-never", image]).strip()
        self.addCleanup(run, [*BUILDAH, "rm", self.container])

    def test_holds_the_libraries_that_the_program_loads(self):
        loaded = run([*BUILDAH, "run", "--isolation", "chroot", self.container, "--", "ldd", "/usr/local/bin/gnn-worker"])
        self.assertIn("libtorch_cuda.so", loaded)
        # The driver's library alone comes from the node.
        missing = [line.split()[0] for line in loaded.splitlines() if "not found" in line]
        self.assertLessEqual(set(missing), {"libcuda.so.1"})

    def test_holds_no_library_that_nothing_loads(self):
        folder = Path(run([*BUILDAH, "mount", self.container]).strip())
        held = {path.name for path in (folder / "usr/local/lib/gnn").iterdir()}
        loaded = run([*BUILDAH, "run", "--isolation", "chroot", self.container, "--", "ldd", "/usr/local/bin/gnn-worker"])
        needed = {line.split()[0] for line in loaded.splitlines()}
        # cuBLAS opens these two by name.
        opened = {name for name in held if name.startswith(("libnvrtc.so.", "libnvrtc-builtins.so."))}
        self.assertEqual(len(opened), 2)
        self.assertEqual(held - needed - opened, set())

    def test_starts_on_a_machine_without_a_gpu(self):
        said = run([*BUILDAH, "run", "--isolation", "chroot", self.container, "--", "gnn-worker", "--help"])
        self.assertIn("agent", said)

    def test_asks_the_runtime_for_the_driver_but_for_no_gpu(self):
        config = json.loads(run([*BUILDAH, "inspect", "--type", "image", image]))["OCIv1"]["config"]
        self.assertIn("NVIDIA_DRIVER_CAPABILITIES=compute,utility", config["Env"])
        self.assertEqual([item for item in config["Env"] if item.startswith("NVIDIA_VISIBLE_DEVICES")], [])

    def test_names_its_wheels_and_runs_as_no_root(self):
        config = json.loads(run([*BUILDAH, "inspect", "--type", "image", image]))["OCIv1"]["config"]
        self.assertEqual(config["User"], "65532:65532")
        folder = Path(run([*BUILDAH, "mount", self.container]).strip())
        bill = json.loads((folder / "usr/share/doc/gnn-worker.spdx.json").read_text(encoding="utf-8"))
        packages = {item["name"] for item in bill["packages"]}
        self.assertLessEqual({"torch", "nvidia-nccl-cu13"}, packages)


if __name__ == "__main__":
    unittest.main()

"""docker/sbom.sh on a small dpkg database: a whole SPDX 2.3 document, equal for equal content alone."""

import json
import os
import re
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

STATUS = """Package: libstdc++6
Status: install ok installed
Architecture: amd64
Maintainer: somebody
Version: 12.2.0-14+deb12u1
Description: a library

Package: libc6
Status: install ok installed
Architecture: amd64
Maintainer: somebody
Version: 2.36-9
Description: a library

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Maintainer: somebody
Version: 1
Config-Version: 1
Description: removed
"""

WHEELS = """# A comment.
torch==2.11.0 --hash=sha256:00
nvidia_nccl==2.1+cu13 --hash=sha256:00
"""


class Bill(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="gnn-sbom-")
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        for name, text in {"status": STATUS, "wheels.txt": WHEELS, "program": "the program\n"}.items():
            self.write(name, text)

    def write(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")

    def bill(self, version="0.1.0", wheels=True):
        ran = subprocess.run(
            ["sh", ROOT / "docker/sbom.sh", "gnn-worker", version, "program", *(["wheels.txt"] if wheels else [])], cwd=self.folder,
            env={**os.environ, "DPKG_ADMINDIR": str(self.folder)}, capture_output=True, text=True, check=False,
        )
        self.assertEqual((ran.returncode, ran.stderr), (0, ""))
        return ran.stdout

    def test_has_the_fields_that_spdx_requires(self):
        bill = json.loads(self.bill())
        self.assertEqual((bill["spdxVersion"], bill["dataLicense"], bill["SPDXID"]), ("SPDX-2.3", "CC0-1.0", "SPDXRef-DOCUMENT"))
        self.assertEqual(bill["name"], "gnn-worker-0.1.0")
        self.assertRegex(bill["documentNamespace"], r"^https://gnn\.dev/spdx/gnn-worker-0\.1\.0-[0-9a-f]{64}$")
        self.assertRegex(bill["creationInfo"]["created"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertRegex(bill["creationInfo"]["creators"][0], "^Tool: ")
        identifiers = [package["SPDXID"] for package in bill["packages"]]
        self.assertEqual(len(set(identifiers)), len(identifiers))
        for package in bill["packages"]:
            self.assertRegex(package["SPDXID"], r"^SPDXRef-[A-Za-z0-9.-]+$")
            self.assertTrue(package["name"] and package["versionInfo"] and package["downloadLocation"])

    def test_describes_the_image_which_contains_all_the_rest(self):
        bill = json.loads(self.bill())
        relations = {
            (relation["spdxElementId"], relation["relationshipType"], relation["relatedSpdxElement"])
            for relation in bill["relationships"]
        }
        [image] = [to for _, kind, to in relations if kind == "DESCRIBES"]
        others = {package["SPDXID"] for package in bill["packages"]} - {image}
        self.assertEqual(
            relations, {("SPDXRef-DOCUMENT", "DESCRIBES", image)} | {(image, "CONTAINS", identifier) for identifier in others}
        )

    def test_lists_our_program_the_installed_packages_and_the_wheels(self):
        packages = {package["name"]: package for package in json.loads(self.bill())["packages"]}
        versions = {name: package["versionInfo"] for name, package in packages.items()}
        self.assertEqual(versions, {
            "gnn-worker image": "0.1.0", "gnn-worker": "0.1.0", "libc6": "2.36-9", "libstdc++6": "12.2.0-14+deb12u1",
            "torch": "2.11.0", "nvidia_nccl": "2.1+cu13",
        })
        digest = subprocess.run(["sha256sum", self.folder / "program"], capture_output=True, text=True, check=True).stdout.split()[0]
        self.assertEqual(packages["gnn-worker"]["checksums"], [{"algorithm": "SHA256", "checksumValue": digest}])
        self.assertEqual(
            packages["libstdc++6"]["externalRefs"][0]["referenceLocator"], "pkg:deb/debian/libstdc%2B%2B6@12.2.0-14%2Bdeb12u1"
        )

    def test_is_valid_without_wheels_too(self):
        packages = {package["name"] for package in json.loads(self.bill(wheels=False))["packages"]}
        self.assertEqual(packages, {"gnn-worker image", "gnn-worker", "libc6", "libstdc++6"})

    def test_equal_content_gives_equal_bytes(self):
        first = self.bill()
        self.write("status", "\n\n".join(reversed(STATUS.strip().split("\n\n"))) + "\n")
        self.assertEqual(self.bill(), first)

    def test_only_equal_content_gives_an_equal_namespace(self):
        def namespace(**options):
            return json.loads(self.bill(**options))["documentNamespace"]

        seen = [namespace(), namespace(version="0.1.1"), namespace(wheels=False)]
        self.write("program", "another program\n")
        seen.append(namespace())
        self.write("status", re.sub("2.36-9", "2.36-10", STATUS))
        seen.append(namespace())
        self.assertEqual(len(set(seen)), len(seen))

    def test_fails_where_the_program_is_missing(self):
        (self.folder / "program").unlink()
        ran = subprocess.run(
            ["sh", ROOT / "docker/sbom.sh", "gnn-worker", "1", "program"], cwd=self.folder, capture_output=True, text=True, check=False
        )
        self.assertNotEqual(ran.returncode, 0)
        self.assertEqual(ran.stdout, "")


if __name__ == "__main__":
    unittest.main()

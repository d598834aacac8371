"""The syntax check must find every shell script, not those of some folders alone."""

import unittest

import format as check


class ShellScripts(unittest.TestCase):
    def setUp(self):
        self.found = check.shell_scripts()

    def test_are_found_by_what_they_start_with(self):
        for name in (
            ".ci/run", "scripts/setup", "scripts/test", "docker/sbom.sh", "tests/cluster/base_image", "tests/cluster/tools/build",
        ):
            self.assertIn(name, self.found)

    def test_are_no_other_programs(self):
        for name in ("tests/bench/peers/run", "tests/run_stages.py", "README.md"):
            self.assertTrue((check.ROOT / name).is_file(), name)
            self.assertNotIn(name, self.found)


if __name__ == "__main__":
    unittest.main()

"""The compiler cache as CMake calls it, with a store of its own: what it has to find again."""

import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

BUILD = Path(os.environ["GNN_BUILD_DIR"])
LOCALES = ("LANG", "LC_ALL", "LC_CTYPE", "LC_MESSAGES")


def launcher(build):
    """What CMake runs the compiler with: a compiler cache, or nothing."""
    for line in (build / "CMakeCache.txt").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition("=")
        if name == "GNN_COMPILER_LAUNCHER:INTERNAL":
            return [word for word in value.split(";") if word]
    return []


@unittest.skipUnless(shutil.which("ccache"), "there is no ccache")
class CompilerCache(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.log = self.folder / "log"
        self.command = [f"CCACHE_DIR={self.folder}/store" if word.startswith("CCACHE_DIR=") else word for word in launcher(BUILD)]
        self.source = self.folder / "one.cpp"
        self.source.write_text("int one() { return 1; }\n", encoding="utf-8")

    def compiled(self, **locale):
        """The cache's answers at a compilation in a shell with that locale."""
        self.log.unlink(missing_ok=True)
        environment = {name: value for name, value in os.environ.items() if name not in LOCALES}
        subprocess.run(
            [*self.command, "c++", "-c", self.source, "-o", self.folder / "one.o"], check=True,
            env={**environment, **locale, "CCACHE_LOGFILE": str(self.log)},
        )
        return re.findall(r"Result: (\w+)", self.log.read_text(encoding="utf-8"))

    def test_a_build_by_hand_finds_what_the_scripts_have_compiled(self):
        self.assertIn("cache_miss", self.compiled(LC_CTYPE="C.UTF-8"))  # as Python sets it where there is none
        for locale in ({}, {"LANG": "C.UTF-8"}, {"LANG": "en_US.UTF-8", "LC_MESSAGES": "C"}, {"LC_ALL": "C"}):
            with self.subTest(locale=locale):
                self.assertIn("direct_cache_hit", self.compiled(**locale))


if __name__ == "__main__":
    unittest.main()

"""scripts/images: which names it gives to what, and when it builds again.

The checkout is a copy of what the script reads; cmake and buildah are stand-ins. The program that cmake installs and the
libraries beside it are files of the test, and an image is a file that tells what went into it.
"""

import os
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

BASE_PROGRAMS = [
    "bash", "basename", "cat", "cp", "cut", "dirname", "env", "find", "mkdir", "nproc", "rm", "sed", "sha256sum", "sort", "xargs",
]

CMAKE = r"""#!/usr/bin/env bash
echo "cmake $*" >>"$STAND_IN/calls"
if [ "$1" = --build ] && [ -f "$STAND_IN/broken" ]; then echo "main.cpp:1: error"; exit 1; fi
[ "$1" = --install ] || exit 0
while [ $# -gt 0 ]; do
  case $1 in --prefix) prefix=$2 ;; --component) component=$2 ;; esac
  shift
done
mkdir -p "$prefix/bin"
cp "$STAND_IN/program" "$prefix/bin/gnn-$component"
[ "$component" = controller ] || { mkdir -p "$prefix/lib"; cp "$STAND_IN/library" "$prefix/lib/libtorch_cpu.so"; }
"""

BUILDAH = r"""#!/usr/bin/env bash
shift 2 # the storage's driver
image_of() { echo "$STAND_IN/images/${1//\//%}"; }
case $1 in
  images) [ -e "$(image_of "$3")" ] ;;
  tag) cp "$(image_of "$2")" "$(image_of "$3")" ;;
  bud)
    echo "buildah $*" >>"$STAND_IN/builds"
    context=${!#} stage=only
    while [ $# -gt 0 ]; do
      case $1 in -t) name=$2 ;; --target) stage=$2 ;; esac
      shift
    done
    { echo "stage $stage"; cat "$context"/bin/*; } >"$(image_of "$name")"
    ;;
esac
"""


class Images(unittest.TestCase):
    def setUp(self):
        self.folder = Path(tempfile.mkdtemp(prefix="gnn-images-"))
        self.addCleanup(shutil.rmtree, self.folder)
        (self.folder / "images").mkdir()
        self.bin = self.folder / "bin"
        self.bin.mkdir()
        for program in BASE_PROGRAMS:
            (self.bin / program).symlink_to(shutil.which(program))
        self.program("cmake", CMAKE)
        self.program("buildah", BUILDAH)
        self.write("program", "first")
        self.write("library", "torch")
        self.checkout = self.make_checkout("checkout")

    def program(self, name, text):
        path = self.bin / name
        path.write_text(text.replace("/usr/bin/env bash", shutil.which("bash")), encoding="utf-8")
        path.chmod(0o755)

    def write(self, name, text):
        (self.folder / name).write_text(text + "\n", encoding="utf-8")

    def make_checkout(self, name):
        checkout = self.folder / name
        (checkout / "scripts").mkdir(parents=True)
        shutil.copy(ROOT / "scripts/images", checkout / "scripts")
        shutil.copy(ROOT / "CMakeLists.txt", checkout)
        shutil.copytree(ROOT / "docker", checkout / "docker")
        (checkout / "pins").mkdir()
        for pins in ("requirements-torch.txt", "requirements-cuda.txt"):
            shutil.copy(ROOT / "pins" / pins, checkout / "pins")
        return checkout

    def run_(self, *arguments, checkout=None):
        return subprocess.run(
            [(checkout or self.checkout) / "scripts/images", *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False, env={"PATH": str(self.bin), "HOME": str(self.folder), "STAND_IN": str(self.folder)},
        )

    def names(self, *arguments, checkout=None):
        ran = self.run_(*arguments, checkout=checkout)
        self.assertEqual(ran.returncode, 0, ran.stderr)
        return ran.stdout.splitlines()

    def name(self, *arguments, checkout=None):
        [name] = self.names(*arguments, checkout=checkout)
        return name

    def image(self, name):
        """What is in the image of that name."""
        return (self.folder / "images" / name.replace("/", "%")).read_text(encoding="utf-8").split("\n")[:-1]

    def lines(self, name):
        path = self.folder / name
        return path.read_text(encoding="utf-8").splitlines() if path.exists() else []

    def test_the_same_input_gives_the_same_tag_and_is_built_once(self):
        first = self.names("controller", "worker", "worker-cuda")
        self.assertEqual(len(set(first)), 3)
        self.assertRegex(first[0], r"^localhost/gnn-controller:\d+\.\d+\.\d+-[0-9a-f]{12}$")
        self.assertRegex(first[1], r"^localhost/gnn-worker:\d+\.\d+\.\d+-[0-9a-f]{12}$")
        self.assertRegex(first[2], r"^localhost/gnn-worker:\d+\.\d+\.\d+-[0-9a-f]{12}-cuda$")
        self.assertEqual(self.names("controller", "worker", "worker-cuda"), first)
        self.assertEqual(len(self.lines("builds")), 3)

    def test_changed_input_gives_another_tag(self):
        seen = [self.name("worker")]
        for what, change in {
            "program": lambda: self.write("program", "second"),
            "library": lambda: self.write("library", "another torch"),
            "Dockerfile": lambda: self.append("docker/worker.Dockerfile"),
            "bill of materials": lambda: self.append("docker/sbom.sh"),
            "pins": lambda: self.append("pins/requirements-torch.txt"),
        }.items():
            with self.subTest(what):
                change()
                self.assertNotIn(self.name("worker"), seen)
                seen.append(self.name("worker"))
        self.assertNotIn(self.name("--base", "another:base", "worker"), seen)

    def append(self, name):
        with open(self.checkout / name, "a", encoding="utf-8") as file:
            file.write("# changed\n")

    def test_the_place_of_the_checkout_does_not_matter(self):
        elsewhere = self.make_checkout("var/lib/cuda-lib/checkout")
        first = self.name("worker", checkout=elsewhere)
        self.assertEqual(first, self.name("worker"))
        self.write("program", "second")
        self.assertNotEqual(self.name("worker", checkout=elsewhere), first)

    def test_a_given_tag_tells_the_cuda_image_from_the_cpu_image(self):
        names = self.names("--prefix", "registry.example", "--tag", "1.2", "controller", "worker", "worker-cuda")
        self.assertEqual(
            names,
            ["registry.example/gnn-controller:1.2", "registry.example/gnn-worker:1.2", "registry.example/gnn-worker:1.2-cuda"],
        )
        self.assertEqual([self.image(name)[0] for name in names], ["stage only", "stage cpu", "stage cuda"])

    def test_a_given_tag_moves_to_what_was_built_last(self):
        name = self.name("--tag", "1.2", "controller")
        self.assertEqual(self.image(name), ["stage only", "first"])
        self.write("program", "second")
        self.assertEqual(self.name("--tag", "1.2", "controller"), name)
        self.assertEqual(self.image(name), ["stage only", "second"])
        self.write("program", "first")
        self.name("--tag", "1.2", "controller")
        self.assertEqual(self.image(name), ["stage only", "first"])
        self.assertEqual(len(self.lines("builds")), 2)

    def test_rebuild_makes_an_image_anew_without_what_was_kept_of_it(self):
        name = self.name("controller")
        self.assertEqual(self.name("--rebuild", "controller"), name)
        first, second = self.lines("builds")
        self.assertNotIn("--no-cache", first)
        self.assertIn("--no-cache", second)

    def test_built_programs_are_taken_and_not_built(self):
        name = self.name("--built", "--preset", "dev", "worker")
        self.assertEqual(self.image(name), ["stage cpu", "first"])
        [call] = self.lines("calls")
        self.assertRegex(call, "^cmake --install .*/build/dev ")

    def test_print_makes_no_image(self):
        (self.bin / "buildah").unlink()
        name = self.name("--print", "worker")
        self.assertEqual(os.listdir(self.folder / "images"), [])
        self.program("buildah", BUILDAH)
        self.assertEqual(self.name("worker"), name)

    def test_print_of_a_given_tag_builds_nothing(self):
        names = self.names("--print", "--tag", "1.2", "worker", "worker-cuda")
        self.assertEqual(names, ["localhost/gnn-worker:1.2", "localhost/gnn-worker:1.2-cuda"])
        self.assertEqual(self.lines("calls"), [])

    def test_a_failed_build_tells_what_the_compiler_said(self):
        (self.folder / "broken").touch()
        ran = self.run_("controller")
        self.assertNotEqual(ran.returncode, 0)
        self.assertIn("main.cpp:1: error", ran.stderr)
        self.assertEqual(ran.stdout, "")

    def test_without_a_container_tool_it_names_one_to_install(self):
        (self.bin / "buildah").unlink()
        ran = self.run_("controller")
        self.assertEqual((ran.returncode, ran.stdout), (1, ""))
        self.assertIn("apt-get install buildah", ran.stderr)


if __name__ == "__main__":
    unittest.main()

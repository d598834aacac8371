"""Packs the GPU tests and benchmarks of the preset cuda for a machine that has a GPU and torch, but neither this checkout nor a
network: stripped programs, the shared libraries that they load beyond glibc and LibTorch, and what runs them."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "gnn-gpu-check"  # of the archive's files
MOST_BYTES = 60_000_000
# glibc and the driver are of the machine.
OF_THE_MACHINE = re.compile(r"^(ld-linux-x86-64|libc|libm|libdl|libpthread|librt|libresolv|libutil|libcuda)\.so\.\d+$")


class Failed(Exception):
    pass


def output_of(*command):
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=False)
    if ran.returncode != 0:
        raise Failed(f"{' '.join(map(str, command))}: {(ran.stderr or ran.stdout).strip()}")
    return ran.stdout


def read_tests(build):
    """The tests with the label gpu, as CTest knows them."""
    shown = json.loads(output_of("ctest", "--test-dir", build, "-L", "^gpu$", "--show-only=json-v1"))
    tests = []
    for test in shown["tests"]:
        properties = {item["name"]: item["value"] for item in test["properties"]}
        environment = dict(item.split("=", 1) for item in properties.get("ENVIRONMENT", []))
        if "command" not in test:  # CTest leaves it out where there is no program
            raise Failed(f"{test['name']} is not built")
        tests.append({
            "name": test["name"], "program": test["command"][0], "environment": environment,
            # Tests of processes start programs that a sanitizer would only slow down.
            "sanitize": properties["LABELS"] == ["gpu"],
        })
    if not tests:
        raise Failed(f"{build} has no tests with the label gpu")
    return tests


def read_benches(build):
    """The benchmarks that gnn_gpu_bench() declared."""
    return [json.loads(path.read_text(encoding="utf-8")) for path in sorted((build / "gpu-benches").glob("*.json"))]


class Archive:
    """A folder that is filled and then packed."""

    def __init__(self, folder, build, wheels):
        self.folder = folder
        self.build = build
        self.wheels = wheels
        for part in ("bin", "lib"):
            (folder / part).mkdir(parents=True)

    def add_program(self, path):
        """Where the program lies in the archive, with what it loads beside it."""
        path = Path(path)
        if not path.is_file():
            raise Failed(f"{path} is not built")
        place = f"bin/{path.name}"
        if not (self.folder / place).exists():
            output_of("strip", "-o", self.folder / place, path)
            self.add_libraries(path)
        return place

    def add_libraries(self, program):
        for line in output_of("ldd", program).splitlines():
            found = re.match(r"\s*(\S+) => (not found|\S+)", line)
            if not found or OF_THE_MACHINE.match(found[1]):
                continue
            if found[2] == "not found":
                raise Failed(f"{program}: {found[1]} is not found")
            if Path(found[2]).resolve().is_relative_to(self.wheels):
                continue
            if not (self.folder / "lib" / found[1]).exists():
                shutil.copy(Path(found[2]).resolve(), self.folder / "lib" / found[1])

    def moved(self, value):
        """A value of the environment; a program of the build it names is taken along."""
        if not value.startswith(f"{self.build}/"):
            return value
        return "{here}/" + self.add_program(value)

    def pack(self, out):
        def without_owner(entry):
            entry.uid = entry.gid = 0
            entry.uname = entry.gname = ""
            return entry

        # Under its name once it is whole.
        with tempfile.TemporaryDirectory(prefix=f".{out.name}-", dir=out.resolve().parent) as folder:
            packed = Path(folder) / out.name
            with tarfile.open(packed, "w:gz", compresslevel=6) as archive:
                archive.add(self.folder, FOLDER, filter=without_owner)
            size = packed.stat().st_size
            if size > MOST_BYTES:
                raise Failed(f"{out} would have {size} bytes, expected at most {MOST_BYTES}")
            packed.replace(out)
        return size


def pinned_torch(wheels):
    text = (wheels / "torch/version.py").read_text(encoding="utf-8")
    return re.search(r"^__version__\s*=\s*['\"]([^'\"]+)", text, re.MULTILINE)[1]


def fill(archive, tests, benches):
    for test in tests:
        test["program"] = archive.add_program(test["program"])
        test["environment"] = {name: archive.moved(value) for name, value in test["environment"].items()}
    for bench in benches:
        bench["program"] = archive.add_program(bench["program"])
    manifest = {
        "torch": pinned_torch(archive.wheels),
        "glibc": re.search(r"[\d.]+$", os.confstr("CS_GNU_LIBC_VERSION"))[0],
        "revision": output_of("git", "-C", ROOT, "describe", "--always", "--dirty").strip(),
        "tests": tests, "benches": benches,
    }
    (archive.folder / "manifest.json").write_text(json.dumps(manifest, indent=1) + "\n", encoding="utf-8")
    shutil.copy(ROOT / "tools/gpu/check.py", archive.folder / "run")
    (archive.folder / "run").chmod(0o755)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path, help="build folder of the preset cuda")
    parser.add_argument("out", type=Path, help="the archive, .tar.gz; or a folder, which is filled and not packed")
    arguments = parser.parse_args()
    build = arguments.build.resolve()
    try:
        wheels = Path(output_of(ROOT / "scripts/setup", "--print-dir", "cuda").strip()).resolve()
        with tempfile.TemporaryDirectory(prefix="gnn-gpu-check-") as temporary:
            folder = arguments.out if arguments.out.is_dir() else Path(temporary) / FOLDER
            archive = Archive(folder, build, wheels)
            fill(archive, read_tests(build), read_benches(build))
            if folder != arguments.out:
                size = archive.pack(arguments.out)
                print(f"{arguments.out}: {size / 1e6:.1f} MB")
    except (Failed, OSError) as why:
        print(f"gpu-check: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

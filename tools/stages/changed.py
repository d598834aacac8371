"""What a change can touch: the targets of the build, by their sources and what those include, and the tests, by the targets
they need, the modules they import and the files they name.

It rather takes a test too many: a file that a test names, or that lies in a folder it names, is one that it may read.
Standard library only, as run_stages.py.
"""

import ast
import json
import os
import re
import subprocess
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

CODE = {".h", ".cpp", ".cu", ".cuh"}
# What every target depends on.
OF_ALL_TARGETS = re.compile(r"(CMakeLists\.txt|CMakePresets\.json|cmake/.*|pins/.*)")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
LITERAL = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+")
VARIABLE = re.compile(r"\$\{?\w+\}?/")


@dataclass
class Target:
    name: str
    folder: str  # of its CMakeLists.txt, from the root
    sources: list = field(default_factory=list)
    needs: set = field(default_factory=set)  # names of targets
    artifacts: list = field(default_factory=list)  # paths in the build folder


@dataclass
class Test:
    name: str
    labels: list
    script: str = ""  # of a test in Python, from the root
    python_path: list = field(default_factory=list)


def changed_files(root):
    """Paths of what differs from where this branch left main, committed or not; empty on main without changes."""

    def git(*arguments):
        ran = subprocess.run(["git", *arguments], cwd=root, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        return ran.stdout.split("\0") if ran.returncode == 0 else None

    for main in ("main", "origin/main"):
        if base := git("merge-base", main, "HEAD"):
            differing = git("diff", "--name-only", "--no-renames", "-z", base[0].strip())
            return sorted({*differing, *git("ls-files", "-o", "--exclude-standard", "-z")} - {""})
    raise RuntimeError("neither main nor origin/main has a commit in common with HEAD: fetch it, or run scripts/test")


# --- What CMake and CTest know -----------------------------------------------------------------------------------------
def ask_for_targets(build):
    """Has the next configuration write what read_targets() reads."""
    query = build / ".cmake/api/v1/query/client-gnn-operator/codemodel-v2"
    query.parent.mkdir(parents=True, exist_ok=True)
    query.touch()


def read_targets(root, build):
    """Name -> Target, from CMake's file API."""
    reply = build / ".cmake/api/v1/reply"
    index = json.loads(max(reply.glob("index-*.json")).read_text(encoding="utf-8"))
    model = index["reply"]["client-gnn-operator"]["codemodel-v2"]["jsonFile"]
    (configuration,) = json.loads((reply / model).read_text(encoding="utf-8"))["configurations"]
    found = [json.loads((reply / entry["jsonFile"]).read_text(encoding="utf-8")) for entry in configuration["targets"]]
    names = {each["id"]: each["name"] for each in found}

    def from_root(path):
        path = Path(root, path)
        return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)

    return {
        each["name"]: Target(
            each["name"], each["paths"]["source"], [from_root(source["path"]) for source in each.get("sources", [])],
            {names[need["id"]] for need in each.get("dependencies", [])},
            [artifact["path"] for artifact in each.get("artifacts", [])],
        )
        for each in found
    }


def read_tests(root, build):
    """The tests of CTest. One of a program has the name of its target."""
    listing = json.loads(subprocess.run(
        ["ctest", "--test-dir", build, "--show-only=json-v1"], check=True, stdout=subprocess.PIPE
    ).stdout)
    tests = []
    for entry in listing["tests"]:
        properties = {each["name"]: each["value"] for each in entry["properties"]}
        test = Test(entry["name"], properties["LABELS"])
        if "python" in test.labels:
            test.script = Path(entry["command"][2]).relative_to(root).as_posix()
            environment = dict(each.split("=", 1) for each in properties["ENVIRONMENT"] if "=" in each)
            test.python_path = [path for path in environment.get("PYTHONPATH", "").split(":") if path]
        tests.append(test)
    return tests


# --- What files say of each other --------------------------------------------------------------------------------------
class Tree:
    """The files of the checkout. Paths are from the root."""

    def __init__(self, root):
        self.root = root
        self.including = lru_cache(None)(self.including)
        self.named = lru_cache(None)(self.named)

    def text(self, path):
        try:
            return (self.root / path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def including(self, path):
        """What a source includes itself."""
        found = []
        for name in INCLUDE.findall(self.text(path)):
            beside = os.path.normpath(Path(path).parent / name)
            found.append(next((each for each in (name, beside) if (self.root / each).is_file()), name))
        return found

    def named(self, path):
        """What a source, test or script names of the tree: files and folders."""
        text = self.text(path)
        if path.endswith(".py"):
            try:
                words = [node.value for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
            except SyntaxError:
                words = []
        elif Path(path).suffix in CODE:
            words = [word for word in LITERAL.findall(text) if "/" in word]
        else:
            words = []
        if Path(path).suffix not in CODE:
            words += PATH.findall(VARIABLE.sub(" ", text))
        found = set()
        for word in (each.strip("/") for each in words):
            if word and len(word) < 200 and not word.startswith("..") and "\n" not in word and "\0" not in word:
                found |= {each for each in (word, f"{Path(path).parent}/{word}") if (self.root / each).exists()}
        return found - {"."}

    def imported(self, path, folders):
        """The modules of the tree that a file in Python imports."""
        try:
            nodes = list(ast.walk(ast.parse(self.text(path))))
        except SyntaxError:
            return set()
        names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and node.module:
                names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        found = set()
        for name in names:
            for folder in (str(Path(path).parent), *folders, "."):
                file = os.path.normpath(Path(folder, name.replace(".", "/") + ".py"))
                if (self.root / file).is_file():
                    found.add(file)
        return found

    def all_from(self, starts, following):
        """The files that can be reached."""
        seen, ahead = set(), list(starts)
        while ahead:
            path = ahead.pop()
            if path not in seen:
                seen.add(path)
                ahead += following(path)
        return seen


@dataclass
class Touched:
    files: list
    targets: list  # names, sorted
    tests: list  # Test


def touched(tree, files, targets, tests):
    """The targets and tests that a change of these files can touch."""
    files_ = set(files)
    of_all = any(OF_ALL_TARGETS.fullmatch(file) for file in files)
    folders = {target.folder for target in targets.values()} - {"."}

    def changes_folder(folder):
        """Its CMakeLists.txt, or data beside its sources, was changed."""
        for file in files:
            path = Path(file)
            if path.suffix in CODE | {".py", ".md"}:
                continue
            nearest = next((str(parent) for parent in path.parents if str(parent) in folders), None)
            if nearest == folder:
                return True
        return False

    def reads_changed(names):
        return any(file == name or file.startswith(f"{name}/") for name in names for file in files)

    of_folders = {folder for folder in folders if changes_folder(folder)}

    def is_changed(target):
        if of_all or target.folder in of_folders:
            return True
        sources = tree.all_from(target.sources, tree.including)
        return bool(sources & files_) or reads_changed(set().union(*(tree.named(source) for source in sources)))

    names = {name for name, target in targets.items() if is_changed(target)}
    grown = True
    while grown:
        using = {name for name, target in targets.items() if target.needs & names} - names
        names |= using
        grown = bool(using)
    makes = {artifact: name for name, target in targets.items() for artifact in target.artifacts}

    def is_touched_test(test):
        if not test.script:
            return test.name in names
        if f"{Path(test.script).parent}/CMakeLists.txt" in files_:
            return True
        path = [os.path.relpath(each, tree.root) if os.path.isabs(each) else each for each in test.python_path]

        def following(file):
            if not file.endswith(".py"):
                return [each for each in tree.named(file) if Path(each).suffix in ("", ".sh")] if (tree.root / file).is_file() else []
            programs = [each for each in tree.named(file) if (tree.root / each).is_file() and Path(each).suffix in ("", ".py", ".sh")]
            return [*tree.imported(file, path), *programs]

        reached = tree.all_from([test.script, "tests/support/run_python_tests.py"], following)
        programs = {name for file in reached for artifact, name in makes.items() if artifact in tree.text(file)}
        return bool(reached & files_) or bool(programs & names) or reads_changed(set().union(*map(tree.named, reached)))

    return Touched(sorted(files), sorted(names), [test for test in tests if is_touched_test(test)])

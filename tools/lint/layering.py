"""Fails on an include, or a link, that the layering table of docs/architecture.md does not allow.

Linking enforces the layering first: a module's include path is the whole tree, but its symbols come only from
what it links. So the links that the CMakeLists.txt of the modules name are held against the table, and, as the second
net for headers that need no symbol, so is every include. Nothing outside tests/ uses what is in it, in no language.
"""

import argparse
import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Module folder -> folders of ours it may include (itself always). From the bottom up: each names only what stands above
# it here, so that there is no circle.
ALLOWED = {
    "common": [],
    "common/http": ["common"],
    "common/api": ["common"],
    # The pod template of a GNNJob is made of parts of a pod: one set of structs serves both.
    "controller/objects": ["common", "common/api"],
    "controller/client": ["common", "controller/objects"],
    "controller/runtime": ["common", "controller/objects", "controller/client"],
    "controller/reconcile": ["common", "common/api", "controller/objects"],
    "controller/app": [
        "common", "common/api", "common/http", "controller/objects", "controller/client", "controller/runtime",
        "controller/reconcile",
    ],
    "controller/main": ["common", "controller/app"],
    "worker/data": ["common"],
    "worker/interop": ["common", "common/api", "worker/data"],
    "worker/partition": ["common", "worker/data"],
    "worker/graph": ["common", "common/api", "worker/data"],
    "worker/sampling/core": ["common"],
    "worker/sampling": ["common", "worker/data", "worker/graph", "worker/sampling/core"],
    "worker/gpu/kernels": ["common", "worker/sampling/core"],
    "worker/gpu": ["common", "worker/sampling/core", "worker/gpu/kernels"],
    "worker/sampling/device": [
        "common", "worker/data", "worker/graph", "worker/sampling/core", "worker/sampling", "worker/gpu/kernels", "worker/gpu",
    ],
    "worker/nn/sparse": [],
    "worker/nn/cpu": ["common", "worker/nn/sparse"],
    "worker/nn/cuda": ["common", "worker/sampling/core", "worker/gpu/kernels", "worker/gpu", "worker/nn/sparse"],
    "worker/nn": ["common", "worker/graph", "worker/nn/sparse", "worker/nn/cpu", "worker/nn/cuda"],
    "worker/rendezvous": ["common"],
    "worker/progress": ["common"],
    "worker/tracking": ["common", "common/http", "common/api", "worker/rendezvous", "worker/progress"],
    "worker/report": ["common", "common/api", "worker/rendezvous", "worker/progress"],
    "worker/rpc": ["common"],
    "worker/comm": ["common", "worker/rendezvous", "worker/progress"],
    "worker/checkpoint": ["common", "worker/rendezvous", "worker/progress"],
    "worker/embedding": ["common", "common/api", "worker/rendezvous", "worker/progress", "worker/comm", "worker/checkpoint"],
    "worker/loader": [
        "common", "worker/data", "worker/graph", "worker/sampling/core", "worker/sampling", "worker/gpu/kernels", "worker/gpu",
    ],
    "worker/shards": [
        "common", "worker/data", "worker/graph", "worker/sampling/core", "worker/sampling", "worker/rpc", "worker/loader",
    ],
    "worker/servers": [
        "common", "common/api", "worker/data", "worker/graph", "worker/sampling/core", "worker/sampling", "worker/rpc",
        "worker/loader", "worker/shards",
    ],
    "worker/training": [
        "common", "common/api", "worker/data", "worker/interop", "worker/graph", "worker/sampling/core", "worker/sampling", "worker/nn",
        "worker/rendezvous", "worker/progress", "worker/report", "worker/comm", "worker/checkpoint", "worker/embedding", "worker/loader",
        "worker/shards",
    ],
    "worker/tasks": [
        "common", "common/api", "worker/data", "worker/interop", "worker/partition", "worker/graph", "worker/sampling/core",
        "worker/sampling", "worker/sampling/device", "worker/nn",
        "worker/rendezvous", "worker/progress", "worker/report", "worker/rpc", "worker/comm",
        "worker/checkpoint", "worker/embedding", "worker/loader", "worker/shards", "worker/servers", "worker/training",
    ],
    "worker/agent": ["common", "common/api", "common/http", "worker/rendezvous", "worker/progress"],
    "worker/app": [
        "common", "common/api", "worker/data", "worker/interop", "worker/partition", "worker/graph", "worker/sampling/core",
        "worker/sampling", "worker/sampling/device", "worker/nn",
        "worker/rendezvous", "worker/progress", "worker/report", "worker/rpc", "worker/comm",
        "worker/checkpoint", "worker/embedding", "worker/loader", "worker/shards", "worker/servers", "worker/training",
        "worker/tasks", "worker/agent", "worker/tracking",
    ],
    "worker/main": ["common", "worker/app"],
}

# Modules that decide and do nothing else: no threads, no I/O, no log, no randomness, and the time is an argument. What
# they may include is listed, of the standard library, of others' and of common, rather than what they may not.
PURE = ["controller/reconcile"]
PURE_HEADERS = {
    "algorithm", "array", "chrono", "compare", "cstddef", "cstdint", "functional", "iterator", "limits", "map", "memory",
    "numeric", "optional", "set", "span", "string", "string_view", "tuple", "type_traits", "unordered_map", "utility",
    "variant", "vector", "nlohmann/json.hpp",
    "common/clock.h", "common/contract.h", "common/hash.h", "common/overloaded.h", "common/printable.h", "common/result.h",
    "common/rfc3339.h",
}
# common/clock.h is there for its types alone.
IMPURE = re.compile(r"\bnow\s*\(|\b(System)?Clock\b|\bmonotonic\s*\(|\bgetenv\s*\(|\bthis_thread\b")

# The modules that know LibTorch. The thread sanitizer covers the others, because it can't see into LibTorch.
WITH_TORCH = [
    module for module in ALLOWED
    if module.startswith("worker/") and module not in {
        "worker/data", "worker/interop", "worker/partition", "worker/sampling/core", "worker/gpu/kernels", "worker/gpu",
        "worker/rendezvous", "worker/progress", "worker/tracking", "worker/rpc", "worker/agent",
    }
]

# Third-party headers that only some folders (or files) may include.
RESTRICTED = [
    (re.compile(r"^cpprest/|^pplx/"), lambda name: name == "controller/client/cpprest_transport.cpp"),
    (re.compile(r"^(torch|ATen|c10)/"), lambda name: module_of(name) in WITH_TORCH),
    (re.compile(r"^torch/csrc/distributed/"), lambda name: name.endswith((".cpp", ".cu")) and name.startswith("worker/comm/")),
    (re.compile(r"^prometheus/"), lambda name: name == "common/metrics.cpp"),
    (re.compile(r"^spdlog/"), lambda name: name == "common/log.cpp"),
    (re.compile(r"^httplib\.h$"), lambda name: name == "common/http/server.cpp"),
    (re.compile(r"^asio(/|\.hpp$)"), lambda name: module_of(name) == "worker/rpc"),
    (re.compile(r"^metis\.h$"), lambda name: name == "worker/partition/assign_by_metis.cpp"),
]

# The same for what others' libraries are linked by.
RESTRICTED_LINKS = [
    (re.compile(r"^cpprestsdk::"), ["controller/client"]),
    (re.compile(r"^prometheus-cpp::|^spdlog::"), ["common"]),
    (re.compile(r"^gnn::httplib$"), ["common/http"]),
    (re.compile(r"^gnn::asio$"), ["worker/rpc"]),
    (re.compile(r"^gnn::metis$"), ["worker/partition"]),
    (re.compile(r"^LibTorch::"), WITH_TORCH),
]

COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.DOTALL)
INCLUDE = re.compile(r'^\s*#\s*include\s+(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


def module_of(path):
    for folder in sorted(ALLOWED, key=len, reverse=True):
        if path == folder or path.startswith(folder + "/"):
            return folder
    return None


def problems_in(name, text):
    found = []
    module = module_of(name)
    for match in INCLUDE.finditer(text):
        own, other = match.groups()
        line = text.count("\n", 0, match.start()) + 1
        target = own or other
        if own:
            if not (ROOT / own).is_file():
                found.append(f"{name}:{line}: \"{own}\" is no file of the tree: include from the root")
                continue
            into = module_of(own)
            if module and own.startswith("tests/"):
                found.append(f"{name}:{line}: product code includes the tests' {own}")
            elif module and into and into != module and into not in ALLOWED[module]:
                found.append(f"{name}:{line}: {module} may not include {into} ({own})")
        if target == "torch/torch.h":
            found.append(f"{name}:{line}: torch/torch.h costs 12 s of CPU in each file: include what is used of it")
        if module in PURE and target not in PURE_HEADERS and module_of(target) in (None, "common"):
            found.append(f"{name}:{line}: {module} decides and does nothing else: {target} may not be included")
        if module:
            for pattern, allowed in RESTRICTED:
                if pattern.search(target) and not allowed(name):
                    found.append(f"{name}:{line}: {target} may not be included here")
    if module in PURE:
        code = COMMENT_OR_TEXT.sub(lambda match: "\n" * match.group().count("\n"), text)
        for match in IMPURE.finditer(code):
            line = code.count("\n", 0, match.start()) + 1
            found.append(f"{name}:{line}: {module} is told the time and everything else: {match.group()} may not be used")
    if module and name.endswith(".h") and re.search(r"#\s*if.*\b(CUDA|USE_C10D|GNN_WITH)", text):
        found.append(f"{name}: a public header may not depend on CUDA by #if")
    if module and re.search(r"using\s+namespace", text):
        found.append(f"{name}: 'using namespace' is not allowed")
    if module and name.endswith(".h") and "#pragma once" not in text:
        found.append(f"{name}: '#pragma once' is missing")
    return found


# A command of CMake with its words; what ours say in their lists nests no parentheses.
COMMAND = re.compile(r"\b(gnn_library|gnn_executable|target_link_libraries)\s*\(([^()]*)\)")
KEYWORDS = ("TORCH", "SOURCES", "PUBLIC", "PRIVATE", "INTERFACE", "COMPONENT")


def links_in(text):
    """(target, library) for each library that a CMakeLists.txt links to a target. TORCH links LibTorch::cpu."""
    for command, words in COMMAND.findall(re.sub(r"#[^\n]*", "", text)):
        target, *rest = words.split()
        keyword = None
        for word in rest:
            if word in KEYWORDS:
                keyword = word
                if word == "TORCH":
                    yield target, "LibTorch::cpu"
            elif keyword in ("PUBLIC", "PRIVATE", "INTERFACE") or (command == "target_link_libraries" and keyword is None):
                yield target, word


def targets_in(text):
    """The targets that a CMakeLists.txt makes."""
    return [words.split()[0] for command, words in COMMAND.findall(text) if command != "target_link_libraries"]


def link_problems_in(name, text, module_of_target):
    """`module_of_target`: gnn_x -> the module whose CMakeLists.txt makes it."""
    found = []
    module = module_of(name)
    for target, library in links_in(text):
        short = library.removeprefix("gnn::")
        into = module_of_target.get(f"gnn_{short}") or module_of_target.get(library)
        if library.startswith("gnn::") and into is None and library not in ("gnn::asio", "gnn::httplib", "gnn::metis"):
            found.append(f"{name}: {target} links {library}, which no module makes")
        elif into and into != module and into not in ALLOWED[module]:
            found.append(f"{name}: {target}: {module} may not link {library} of {into}")
        for pattern, allowed in RESTRICTED_LINKS:
            if pattern.search(library) and module not in allowed:
                found.append(f"{name}: {target}: {library} may not be linked here")
    return found


def folder_problems_in(name, text):
    """A folder is a target: its CMakeLists.txt makes one library or one program."""
    targets = list(dict.fromkeys(targets_in(text)))
    if len(targets) == 1:
        return []
    return [f"{name}: makes {len(targets)} targets ({', '.join(targets) or 'none'}): a folder with a CMakeLists.txt is one"]


def table_problems(allowed):
    """Modules that the table lets include what does not stand before them."""
    before = set()
    found = []
    for module, others in allowed.items():
        found += [f"{module} may include {other}, which does not stand above it" for other in others if other not in before]
        before.add(module)
    return found


def link_problems():
    lists = {f"{module}/CMakeLists.txt": (ROOT / module / "CMakeLists.txt").read_text(encoding="utf-8") for module in ALLOWED}
    module_of_target = {target: module_of(name) for name, text in lists.items() for target in targets_in(text)}
    problems = table_problems(ALLOWED)
    for name, text in lists.items():
        problems += folder_problems_in(name, text)
        problems += link_problems_in(name, text, module_of_target)
    return problems


def tracked(*patterns):
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", *patterns], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.splitlines()
    return [name for name in listed if (ROOT / name).is_file()]


def python_problems_in(name, text, names):
    """A program outside tests/ finds its modules beside itself. `names`: all files of the tree."""
    found = []
    of_tests = {Path(other).stem for other in names if other.startswith("tests/") and other.endswith(".py")}
    beside = {Path(other).stem for other in names if Path(other).parent == Path(name).parent}
    for node in ast.walk(ast.parse(text)):
        imported = []
        if isinstance(node, ast.Import):
            imported = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            imported = [node.module]
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and (node.value.id, node.attr) == ("sys", "path"):
            found.append(f"{name}:{node.lineno}: sys.path is not for programs outside tests: put the module beside its user")
        for module in imported:
            top = module.split(".")[0]
            if top == "tests" or (top in of_tests and top not in beside):
                found.append(f"{name}:{node.lineno}: imports {module} of the tests")
    return found


def text_problems_in(name, text):
    """The same for CMake and shell: outside comments they name nothing below tests/."""
    code = re.sub(r"(^|\s)#[^\n]*", "", text)
    return [f"{name}: uses {path} of the tests" for path in re.findall(r"(?<![\w-])tests/[\w./-]+", code)]


def is_command(name):
    return not Path(name).suffix and name.startswith((".ci/", "scripts/", "tools/"))


# What makes the tests or runs them.
ABOUT_TESTS = ("CMakeLists.txt", "cmake/GnnTargets.cmake")


def use_of_tests():
    names = tracked()
    found = []
    for name in names:
        if name.startswith("tests/") or name in ABOUT_TESTS:
            continue
        if name.endswith(".py"):
            found += python_problems_in(name, (ROOT / name).read_text(encoding="utf-8"), names)
        elif name.endswith(("CMakeLists.txt", ".cmake", ".sh")) or is_command(name):
            found += text_problems_in(name, (ROOT / name).read_text(encoding="utf-8"))
    return found


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    names = tracked("*.h", "*.cpp", "*.cu", "*.cuh")
    problems = link_problems() + use_of_tests()
    for name in names:
        problems += problems_in(name, (ROOT / name).read_text(encoding="utf-8"))
    for problem in problems:
        print(problem)
    print(f"layering: {len(names)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

"""Fails on an include, or a link, that the layering table of docs/architecture.md does not allow.

Linking enforces the layering first: a module's include path is the whole tree, but its symbols come only from
what it links. So the links that the CMakeLists.txt of the modules name are held against the table, and, as the second
net for headers that need no symbol, so is every include.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Module folder -> folders of ours it may include (itself always).
ALLOWED = {
    "common": [],
    "common/api": ["common"],
    # Narrowed below: the pod template of a GNNJob is made of parts of a pod: one set of structs serves both.
    "controller/objects": ["common", "common/api"],
    "controller/client": ["common", "controller/objects"],
    "controller/runtime": ["common", "controller/objects", "controller/client"],
    "controller/reconcile": ["common", "common/api", "controller/objects"],
    "controller/app": [
        "common", "common/api", "controller/objects", "controller/client", "controller/runtime",
        "controller/reconcile",
    ],
    # Narrowed below: `load.h` turns the dataset part of a GNNJob into a data set.
    "worker/graph": ["common", "common/api"],
    "worker/sampling": ["common", "worker/graph"],
    "worker/nn": ["common", "worker/graph"],
    "worker/distributed/comm": ["common"],
    "worker/training": [
        "common", "common/api", "worker/graph", "worker/sampling", "worker/nn", "worker/distributed/comm",
    ],
    "worker/tasks": [
        "common", "common/api", "worker/graph", "worker/sampling", "worker/nn", "worker/distributed/comm",
        "worker/training",
    ],
    # Narrowed below: of training only what a rank reports (gnn::progress), since the rest would bring in LibTorch.
    "worker/agent": ["common", "common/api", "worker/distributed/comm", "worker/training"],
    "worker/app": [
        "common", "common/api", "worker/graph", "worker/sampling", "worker/nn", "worker/distributed/comm",
        "worker/training", "worker/tasks", "worker/agent",
    ],
}

# (module, what it may include) -> the only files of the module that may.
NARROWED_FILES = {
    ("controller/objects", "common/api"): ["controller/objects/pod.h", "controller/objects/pod.cpp"],
    ("worker/graph", "common/api"): ["worker/graph/load.h", "worker/graph/load.cpp"],
}

# (module, what it may include) -> the only headers, and the only targets, that it may take from there.
NARROWED_HEADERS = {
    ("worker/agent", "worker/training"): ["worker/training/progress_sink.h", "worker/training/stop_token.h"],
}
NARROWED_TARGETS = {
    ("worker/agent", "worker/distributed/comm"): ["rendezvous"],
    ("worker/agent", "worker/training"): ["progress"],
}

# Modules that decide and do nothing else: no threads, no I/O, no log, no randomness, and the time is an argument. What
# they may include is listed, of the standard library, of others' and of common, rather than what they may not.
PURE = ["controller/reconcile"]
PURE_HEADERS = {
    "algorithm", "array", "chrono", "compare", "cstddef", "cstdint", "functional", "iterator", "limits", "map", "memory",
    "numeric", "optional", "set", "span", "string", "string_view", "tuple", "type_traits", "unordered_map", "utility",
    "variant", "vector", "nlohmann/json.hpp",
    "common/clock.h", "common/contract.h", "common/result.h", "common/rfc3339.h",
}
# common/clock.h is there for its types alone.
IMPURE = re.compile(r"\bnow\s*\(|\b(System)?Clock\b|\bmonotonic\s*\(|\bgetenv\s*\(|\bthis_thread\b")

# Third-party headers that only some folders (or files) may include.
RESTRICTED = [
    (re.compile(r"^cpprest/|^pplx/"), lambda name: name == "controller/client/cpprest_transport.cpp"),
    (re.compile(r"^(torch|ATen|c10)/"), lambda name: name.startswith("worker/") and not name.startswith("worker/agent/")),
    (re.compile(r"^torch/csrc/distributed/"), lambda name: name.endswith((".cpp", ".cu")) and name.startswith("worker/distributed/comm/")),
    (re.compile(r"^torch/torch\.h$"), lambda name: name.endswith(".cpp")),
    (re.compile(r"^prometheus/"), lambda name: name == "common/metrics.cpp"),
    (re.compile(r"^spdlog/"), lambda name: name == "common/log.cpp"),
    (re.compile(r"^httplib\.h$"), lambda name: name == "common/http_server.cpp"),
]

# The same for what others' libraries are linked by.
RESTRICTED_LINKS = [
    (re.compile(r"^cpprestsdk::"), ["controller/client"]),
    (re.compile(r"^prometheus-cpp::|^spdlog::|^gnn::httplib$"), ["common"]),
    (re.compile(r"^LibTorch::"), [module for module in ALLOWED if module.startswith("worker/") and module != "worker/agent"]),
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
            elif name not in NARROWED_FILES.get((module, into), [name]):
                found.append(f"{name}:{line}: of {module} only {NARROWED_FILES[module, into][0]} may include {into} ({own})")
            elif own not in NARROWED_HEADERS.get((module, into), [own]):
                found.append(f"{name}:{line}: {module} may not include {own} of {into}")
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
        if library.startswith("gnn::") and into is None and library != "gnn::httplib":
            found.append(f"{name}: {target} links {library}, which no module makes")
        elif into and into != module and into not in ALLOWED[module]:
            found.append(f"{name}: {target}: {module} may not link {library} of {into}")
        elif into and short not in NARROWED_TARGETS.get((module, into), [short]):
            found.append(f"{name}: {target}: {module} may not link {library} of {into}")
        for pattern, allowed in RESTRICTED_LINKS:
            if pattern.search(library) and module not in allowed:
                found.append(f"{name}: {target}: {library} may not be linked here")
    return found


def link_problems():
    lists = {f"{module}/CMakeLists.txt": (ROOT / module / "CMakeLists.txt").read_text(encoding="utf-8") for module in ALLOWED}
    module_of_target = {target: module_of(name) for name, text in lists.items() for target in targets_in(text)}
    return [problem for name, text in lists.items() for problem in link_problems_in(name, text, module_of_target)]


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.h", "*.cpp", "*.cu", "*.cuh"],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True,
    ).stdout.splitlines()
    problems = link_problems()
    for name in names:
        if (ROOT / name).is_file():
            problems += problems_in(name, (ROOT / name).read_text(encoding="utf-8"))
    for problem in problems:
        print(problem)
    print(f"layering: {len(names)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

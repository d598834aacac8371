"""Fails on an include, or a link, that the layering table of docs/architecture.md does not allow.

Linking enforces the layering first: a module's include path is the whole tree, but its symbols come only from
what it links. This is the second net, for headers that need no symbol.
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
    # The pod template of a GNNJob is made of parts of a pod: one set of structs serves both.
    "controller/objects": ["common", "common/api"],
    "controller/client": ["common", "controller/objects"],
    "controller/runtime": ["common", "controller/objects", "controller/client"],
    "controller/reconcile": ["common", "common/api", "controller/objects"],
    "controller/app": [
        "common", "common/api", "controller/objects", "controller/client", "controller/runtime",
        "controller/reconcile",
    ],
    # `load.h` turns the dataset part of a GNNJob into a data set.
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
    # Of training only what a rank reports (gnn::progress): linking the rest would bring in LibTorch.
    "worker/agent": ["common", "common/api", "worker/distributed/comm", "worker/training"],
    "worker/app": [
        "common", "common/api", "worker/graph", "worker/sampling", "worker/nn", "worker/distributed/comm",
        "worker/training", "worker/tasks", "worker/agent",
    ],
}

# Third-party headers that only some folders (or files) may include.
RESTRICTED = [
    (re.compile(r"^cpprest/|^pplx/"), lambda name: name.startswith("controller/client/cpprest_")),
    (re.compile(r"^(torch|ATen|c10)/"), lambda name: name.startswith("worker/") and not name.startswith("worker/agent/")),
    (re.compile(r"^torch/csrc/distributed/"), lambda name: name.endswith((".cpp", ".cu")) and name.startswith("worker/distributed/comm/")),
    (re.compile(r"^torch/torch\.h$"), lambda name: name.endswith(".cpp")),
    (re.compile(r"^prometheus/"), lambda name: name == "common/metrics.cpp"),
    (re.compile(r"^spdlog/"), lambda name: name == "common/log.cpp"),
    (re.compile(r"^httplib\.h$"), lambda name: name == "common/http_server.cpp"),
]

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
        if module:
            for pattern, allowed in RESTRICTED:
                if pattern.search(target) and not allowed(name):
                    found.append(f"{name}:{line}: {target} may not be included here")
    if module and name.endswith(".h") and re.search(r"#\s*if.*\b(CUDA|USE_C10D|GNN_WITH)", text):
        found.append(f"{name}: a public header may not depend on CUDA by #if")
    if module and re.search(r"using\s+namespace", text):
        found.append(f"{name}: 'using namespace' is not allowed")
    if module and name.endswith(".h") and "#pragma once" not in text:
        found.append(f"{name}: '#pragma once' is missing")
    return found


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    names = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.h", "*.cpp", "*.cu", "*.cuh"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    ).stdout.splitlines()
    problems = []
    for name in names:
        if (ROOT / name).is_file():
            problems += problems_in(name, (ROOT / name).read_text(encoding="utf-8"))
    for problem in problems:
        print(problem)
    print(f"layering: {len(names)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())

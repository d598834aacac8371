"""Fails where the table of docs/reliability.md does not agree with the tests.

Its rows are numbered from 1, in order. Each test that a row names exists, is in a program or script that CTest
runs, and has the level and the mode that the row states. A row without a test says "none".
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = "docs/reliability.md"

GOOGLE_TEST = re.compile(r"^(?:TEST|TEST_F|TEST_P|TYPED_TEST)\(\s*(\w+),\s*(\w+)\s*\)", re.MULTILINE)
PYTHON_CLASS = re.compile(r"^class (\w+)|^    def (test_\w+)\(", re.MULTILINE)
PROGRAM = re.compile(r"^ *gnn_(python_)?test\(([^)]*)\)", re.MULTILINE)
WORD = re.compile(r'"[^"]*"|[^\s"]+')
KEYWORDS = {"TORCH", "OPTIMIZED", "SOURCES", "SCRIPT", "LINK", "LABELS", "TIMEOUT", "TOOLS", "ENV"}


def programs(text):
    """For each test program of a CMakeLists.txt: its sources, and its labels."""
    found = []
    for python, body in PROGRAM.findall(text):
        words, keyword = {}, ""
        for word in WORD.findall(body):
            if word in KEYWORDS:
                keyword = word
            else:
                words.setdefault(keyword, []).append(word)
        found.append((words.get("SCRIPT" if python else "SOURCES", []), set(words.get("LABELS", []))))
    return found


def level(path, labels):
    """U: unit test; P: real agents and ranks; A: a real API server; C: the two-node cluster."""
    if "e2e" in labels:
        return "C"
    if path.startswith("tests/integration/"):
        return "A"
    return "P" if "integration" in labels else "U"


def names(path, text):
    """The tests of a file, as the page writes them."""
    if path.endswith(".cpp"):
        return [f"{suite}.{case}" for suite, case in GOOGLE_TEST.findall(text)]
    found, suite = [], ""
    for name, case in PYTHON_CLASS.findall(text):
        suite = name or suite
        found += [f"{suite}.{case}"] if case else []
    return found


def tests(files):
    """Name -> set of (level, whether only --full runs it), from `files`: path -> text."""
    found = {}
    for path, text in files.items():
        if Path(path).name != "CMakeLists.txt":
            continue
        for sources, labels in programs(text):
            for source in sources:
                file = f"{Path(path).parent.as_posix()}/{source}"
                for name in names(file, files.get(file, "")):
                    found.setdefault(name, set()).add((level(file, labels), "slow" in labels))
    return found


def mode(of_tests):
    modes = {full for each in of_tests for _, full in each}
    return "both" if len(modes) == 2 else "--full" if modes == {True} else "default"


def problems(page, known):
    """`page`: the text of the page. `known`: what tests() found."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in page.splitlines() if re.match(r"\| *\d+ *\|", line)]
    numbers = [int(row[0]) for row in rows]
    found = [] if numbers == list(range(1, len(rows) + 1)) else [f"expected rows numbered from 1, found {numbers}"]
    for row in rows:
        where = f"fault {row[0]}"
        if len(row) != 6 or not all(row):
            found.append(f"{where}: expected six cells, each with text")
            continue
        named = re.findall(r"`([^`]+)`", row[2])
        if not named:
            if row[2:5] != ["none", "–", "–"]:
                found.append(f"{where}: names no test in `quotes`; if there is none, say none, – and –")
            continue
        gone = [name for name in named if name not in known]
        found += [f"{where}: there is no test {name}" for name in gone]
        if gone:
            continue
        of_tests = [known[name] for name in named]
        levels = {each for of_test in of_tests for each, _ in of_test}
        expected = ", ".join(each for each in "UPAC" if each in levels)
        if row[3] != expected:
            found.append(f"{where}: its tests have level {expected}, not {row[3]}")
        if row[4].strip("`") != mode(of_tests):
            found.append(f"{where}: its tests run in mode {mode(of_tests)}, not {row[4]}")
    return found


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "tests"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.splitlines()
    wanted = [name for name in listed if name.endswith((".cpp", ".py", "CMakeLists.txt")) and (ROOT / name).is_file()]
    known = tests({name: (ROOT / name).read_text(encoding="utf-8") for name in wanted})
    found = problems((ROOT / PAGE).read_text(encoding="utf-8"), known)
    for problem in found:
        print(f"{PAGE}: {problem}")
    print(f"faults: {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

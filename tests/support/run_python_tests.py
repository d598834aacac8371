"""Runs one file of unittest tests and writes a JUnit report.

usage: run_python_tests.py FILE REPORT.xml [argument for unittest...]
"""

import importlib.util
import sys
import time
import unittest
import xml.etree.ElementTree as xml
from pathlib import Path


class RecordingResult(unittest.TextTestResult):
    """Keeps each test's outcome and duration for the report."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.cases = []

    def startTest(self, test):
        super().startTest(test)
        self._started = time.monotonic()

    def _record(self, test, outcome, text=""):
        seconds = time.monotonic() - getattr(self, "_started", time.monotonic())
        self.cases.append((test.id(), outcome, text, seconds))

    def addSuccess(self, test):
        super().addSuccess(test)
        self._record(test, "passed")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._record(test, "failure", self._exc_info_to_string(err, test))

    def addError(self, test, err):
        super().addError(test, err)
        self._record(test, "failure", self._exc_info_to_string(err, test))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._record(test, "skipped", reason)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._record(subtest, "failure", self._exc_info_to_string(err, test))


def main():
    if len(sys.argv) < 3:
        print(__doc__, file=sys.stderr)
        return 2
    file, report = Path(sys.argv[1]), Path(sys.argv[2])
    sys.path.insert(0, str(file.parent))
    spec = importlib.util.spec_from_file_location(file.stem, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module
    spec.loader.exec_module(module)
    program = unittest.main(
        module=module,
        argv=[str(file), *sys.argv[3:]],
        testRunner=unittest.TextTestRunner(resultclass=RecordingResult, verbosity=2),
        exit=False,
    )
    cases = program.result.cases
    suite = xml.Element("testsuite", name=file.stem, tests=str(len(cases)))
    for name, outcome, text, seconds in cases:
        case = xml.SubElement(suite, "testcase", name=name, classname=file.stem, time=f"{seconds:.3f}")
        if outcome != "passed":
            xml.SubElement(case, outcome, message=text)
    report.parent.mkdir(parents=True, exist_ok=True)
    xml.ElementTree(suite).write(report, encoding="utf-8", xml_declaration=True)
    if not cases:
        print(f"{file}: no test was found", file=sys.stderr)
        return 1
    return 0 if program.result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())

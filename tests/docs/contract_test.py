"""docs/worker-contract.md and its schemas against common/contract.h."""

import json
import re
import unittest
from pathlib import Path

import jsonschema

ROOT = Path(__file__).resolve().parents[2]
HEADER = (ROOT / "common/contract.h").read_text(encoding="utf-8")
PAGE = (ROOT / "docs/worker-contract.md").read_text(encoding="utf-8")


# Where the controller makes the pods, and the codec of what they report.
DESIRED = (ROOT / "controller/reconcile/desired.cpp").read_text(encoding="utf-8")
TIMEOUTS = (ROOT / "common/api/environment.cpp").read_text(encoding="utf-8")
REPORT = (ROOT / "common/api/report.cpp").read_text(encoding="utf-8")


def constants(prefix):
    pattern = rf"inline constexpr [\w:]+ (k{prefix}\w*) =\s*\"?([^\";]+)\"?;"
    return dict(re.findall(pattern, HEADER))


def rows(section):
    """The rows of the page's tables below a heading, as lists of cells."""
    text = PAGE.split(f"\n## {section}\n")[1].split("\n## ")[0]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def quoted(text):
    return set(re.findall(r"`([^`]+)`", text))


def schema(name):
    return json.loads((ROOT / "docs/schemas" / name).read_text(encoding="utf-8"))


class ContractPage(unittest.TestCase):
    def test_names_every_environment_variable(self):
        names = constants("Env")
        self.assertGreater(len(names), 15)
        for constant, value in names.items():
            self.assertIn(f"`{value}`", PAGE, constant)

    def test_names_every_exit_code(self):
        codes = constants("Exit")
        self.assertEqual(len(codes), 7)
        for constant, value in codes.items():
            self.assertRegex(PAGE, rf"\n\| {value}\b", constant)

    def test_the_controllers_variables_are_those_it_sets(self):
        names = constants("Env")
        set_by_controller = {names[constant] for constant in re.findall(r"contract::(kEnv\w+)", DESIRED + TIMEOUTS)}
        self.assertGreater(len(set_by_controller), 15)
        section = PAGE.split("The controller sets for the agent:")[1].split("It leaves five")[0]
        self.assertEqual(quoted(section) - {"spec.training.timeouts"}, set_by_controller)

    def test_ports_are_a_row_each_with_name_and_paths(self):
        header = {**constants("Store"), **constants("Http"), **constants("Data")}
        paths = constants("MetricsPath") | constants("ProgressPath")
        by_number = {row[0]: row for row in rows("Ports")}
        for port in ("Store", "Http", "Data"):
            number, name = header[f"k{port}Port"], header[f"k{port}PortName"]
            self.assertEqual(by_number[number][1], f"`{name}`")
        self.assertEqual(quoted(by_number[header["kHttpPort"]][2]), set(paths.values()) | set(constants("HealthPath").values()))

    def test_labels_of_children_are_those_that_the_controller_gives(self):
        given = set(re.findall(r"contract::(kLabel\w+)", DESIRED))
        self.assertEqual(given, set(constants("Label")), "a label of the contract that no child has")
        listed = {name for row in rows("Names") if row[0] in ("every child", "pods") for name in quoted(row[1])}
        opt_outs = HEADER.split("kMeshOptOutLabels = {")[1].split("};")[0]
        self.assertEqual(listed, {*constants("Label").values(), *re.findall(r'MeshOptOut\{"([^"]+)"', opt_outs)})

    def test_names_the_finalizer_of_pods(self):
        self.assertIn(f"`{constants('PodFinalizer')['kPodFinalizer']}`", PAGE)

    def test_a_reason_on_the_page_is_one_of_the_contract(self):
        reasons = [row[1] for row in rows("Exit codes")[2:]]
        self.assertEqual(sorted(reasons), sorted(schema("result.v1.json")["properties"]["reason"]["enum"]))

    def test_the_pages_example_is_a_valid_result(self):
        example = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.DOTALL).group(1))
        jsonschema.Draft202012Validator(schema("result.v1.json")).validate(example)

    def test_reasons_of_the_schema_are_those_of_the_exit_codes(self):
        source = (ROOT / "common/contract.cpp").read_text(encoding="utf-8")
        reasons = set(re.findall(r'return "(\w+)";', source))
        self.assertEqual(reasons, set(schema("result.v1.json")["properties"]["reason"]["enum"]))

    def test_the_codec_reads_what_the_schemas_have(self):
        reads = re.findall(r'(count|text|line|decimal|flag)_of\(object, "(\w+)"', REPORT)
        self.assertGreater(len(reads), 15)
        properties = {**schema("progress.v1.json")["properties"], **schema("result.v1.json")["properties"]}
        for kind, name in reads:
            with self.subTest(field=name):
                self.assertIn(name, properties)
                of_field = properties[name]
                is_flag = of_field.get("const") is True or of_field.get("type") == "boolean"
                is_count = "const" in of_field or of_field.get("type") == "integer"
                self.assertEqual(
                    "decimal" if "$ref" in of_field else "flag" if is_flag else "count" if is_count else "text",
                    "text" if kind == "line" else kind,
                )
        self.assertEqual(set(properties), {name for _, name in reads})

    def test_schemas_are_schemas(self):
        for name in ("progress.v1.json", "result.v1.json"):
            jsonschema.Draft202012Validator.check_schema(schema(name))


if __name__ == "__main__":
    unittest.main()

"""docs/worker-contract.md and its schemas against common/contract.h."""

import json
import re
import unittest
from pathlib import Path

import jsonschema

ROOT = Path(__file__).resolve().parents[2]
HEADER = (ROOT / "common/contract.h").read_text(encoding="utf-8")
PAGE = (ROOT / "docs/worker-contract.md").read_text(encoding="utf-8")


def constants(prefix):
    pattern = rf"inline constexpr [\w:]+ (k{prefix}\w*) =\s*\"?([^\";]+)\"?;"
    return dict(re.findall(pattern, HEADER))


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

    def test_names_ports_and_labels_of_children(self):
        for value in constants("StorePort").values():
            self.assertIn(value, PAGE)
        for constant in ("kLabelJob", "kLabelJobUid", "kLabelAttempt", "kLabelNode"):
            self.assertIn(f"`{constants('Label')[constant]}`", PAGE)

    def test_the_pages_example_is_a_valid_result(self):
        example = json.loads(re.search(r"```json\n(.*?)```", PAGE, re.DOTALL).group(1))
        jsonschema.Draft202012Validator(schema("result.v1.json")).validate(example)

    def test_reasons_of_the_schema_are_those_of_the_exit_codes(self):
        source = (ROOT / "common/contract.cpp").read_text(encoding="utf-8")
        reasons = set(re.findall(r'return "(\w+)";', source))
        self.assertEqual(reasons, set(schema("result.v1.json")["properties"]["reason"]["enum"]))

    def test_schemas_are_schemas(self):
        for name in ("progress.v1.json", "result.v1.json"):
            jsonschema.Draft202012Validator.check_schema(schema(name))


if __name__ == "__main__":
    unittest.main()

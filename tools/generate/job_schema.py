"""Writes the JSON schema of the GNNJob for editors and offline checks from the CRD; run it after a change of the CRD.

The file lies where kubeconform and editors look for the schemas of custom resources: GROUP/KIND_VERSION.json. CEL rules have
no counterpart in JSON schema: they stand in the descriptions, and `gnn-controller validate` checks them.

usage: job_schema.py [--check]
"""

import json
import re
import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
CRD = ROOT / "manifests/crds/gnnjobs.gnn.dev.yaml"
FOLDER = ROOT / "docs/schemas"

# Of Kubernetes' ObjectMeta: those that people write, and the others that it has.
STRINGS = {"type": ["object", "null"], "additionalProperties": {"type": "string"}}
METADATA = {
    "namespace": {"description": "Namespace of the job.", "type": ["string", "null"], "maxLength": 63},
    "labels": {"description": "Labels of the job, not of its pods.", **STRINGS},
    "annotations": {"description": "Annotations of the job, not of its pods.", **STRINGS},
    "generateName": {"description": "Beginning of a name that the API server completes.", "type": ["string", "null"]},
}
OTHER_METADATA = (
    "creationTimestamp", "deletionGracePeriodSeconds", "deletionTimestamp", "finalizers", "generation", "managedFields",
    "ownerReferences", "resourceVersion", "selfLink", "uid",
)  # fmt: skip
KEPT = (
    "type", "enum", "default", "pattern", "minLength", "maxLength", "minimum", "maximum", "minItems", "maxItems",
    "maxProperties", "required",
)  # fmt: skip


def described(schema):
    """The description, with the messages of rules that only the API server and `gnn-controller validate` check."""
    rules = list(dict.fromkeys(rule["message"] for rule in schema.get("x-kubernetes-validations", [])))
    return "\n".join([schema.get("description", ""), *(f"- {rule}" for rule in rules)]).strip()


def converted(schema, optional=False):
    """In JSON schema, draft 7. As everywhere in Kubernetes, null counts as absent."""
    made = {"description": described(schema)} if described(schema) else {}
    made.update({key: schema[key] for key in KEPT if key in schema})
    if schema.get("format") == "date-time":
        made["format"] = "date-time"
    if schema.get("x-kubernetes-int-or-string"):
        made["type"] = ["integer", "string"]
    if "properties" in schema:
        required = schema.get("required", [])
        made["properties"] = {name: converted(each, name not in required) for name, each in schema["properties"].items()}
        made["additionalProperties"] = False
    elif "additionalProperties" in schema:
        made["additionalProperties"] = converted(schema["additionalProperties"])
    if "items" in schema:
        made["items"] = converted(schema["items"])
        if schema.get("x-kubernetes-list-type") == "set":
            made["uniqueItems"] = True
    if optional:
        made["type"] = [made["type"], "null"] if isinstance(made["type"], str) else [*made["type"], "null"]
        if "enum" in made:
            made["enum"] = [*made["enum"], None]
    return made


def metadata(schema):
    """What the CRD's rule says of the name, and the fields that Kubernetes knows."""
    (rule,) = (each for each in schema["x-kubernetes-validations"] if "self.metadata.name" in each["rule"])
    name = {
        "description": rule["message"],
        "type": "string",
        "maxLength": int(re.search(r"size\(\) <= (\d+)", rule["rule"])[1]),
        "pattern": re.search(r"matches\('(.*)'\)", rule["rule"])[1],
    }
    return {
        "type": "object",
        "properties": {"name": name, **METADATA, **{other: {} for other in OTHER_METADATA}},
        "anyOf": [{"required": ["name"]}, {"required": ["generateName"]}],
        "additionalProperties": False,
    }


def made():
    """The file, and its text."""
    spec = yaml.safe_load(CRD.read_text(encoding="utf-8"))["spec"]
    (version,) = spec["versions"]
    kind, group = spec["names"]["kind"], spec["group"]
    crd = version["schema"]["openAPIV3Schema"]
    schema = converted(crd)
    schema["properties"]["apiVersion"] = {**schema["properties"]["apiVersion"], "type": "string", "const": f"{group}/{version['name']}"}
    schema["properties"]["kind"] = {**schema["properties"]["kind"], "type": "string", "const": kind}
    schema["properties"]["metadata"] = metadata(crd)
    schema["required"] = ["apiVersion", "kind", "metadata", *crd["required"]]
    head = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "$comment": "Written by tools/generate/job_schema.py from manifests/crds; change the CRD and run it again.",
        "title": kind,
    }
    path = FOLDER / group / f"{kind.lower()}_{version['name']}.json"
    return path, json.dumps({**head, **schema}, indent=1, ensure_ascii=False) + "\n"


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    path, text = made()
    if sys.argv[1:] == ["--check"]:
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            print(f"{path.name} is out of date: run tools/generate/job_schema.py", file=sys.stderr)
            return 1
        return 0
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

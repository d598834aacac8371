"""Writes docs/reference/gnnjob.md from the CRD; run it after a change of the CRD.

usage: reference.py [--check]
"""

import sys
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
CRD = ROOT / "manifests/crds/gnnjobs.gnn.dev.yaml"
PAGE = ROOT / "docs/reference/gnnjob.md"


def cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


def type_of(schema):
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    kind = schema["type"]
    if kind == "array":
        return f"list of {type_of(schema['items'])}"
    if kind == "object" and "additionalProperties" in schema:
        return f"map of {type_of(schema['additionalProperties'])}"
    if kind == "string" and any("double(self)" in rule["rule"] for rule in schema.get("x-kubernetes-validations", [])):
        return "decimal string"
    if schema.get("format") == "date-time":
        return "time"
    return kind


def values_of(schema):
    """Enum, bounds and length, as people read them."""
    schema = schema.get("items", schema) if schema.get("type") == "array" else schema
    if "enum" in schema:
        return ", ".join(f"`{word}`" for word in schema["enum"])
    if "minimum" in schema or "maximum" in schema:
        return f"{schema.get('minimum', '')} – {schema.get('maximum', '')}"
    if "maxLength" in schema and schema.get("type") == "string" and type_of(schema) != "decimal string":
        return f"at most {schema['maxLength']} characters"
    return ""


def default_of(schema, required):
    if required:
        return "required"
    default = schema.get("default")
    return "" if default is None or default == {} else f"`{str(default).lower() if isinstance(default, bool) else default}`"


def rules_of(schema):
    """Messages of the rules, each once, after the field that they name; a decimal's bounds stand in its text."""
    said = []
    for rule in schema.get("x-kubernetes-validations", []):
        field = rule.get("fieldPath", "")[1:]
        said.append(f"`{field}`: {rule['message']}" if field else rule["message"])
    decimal = type_of(schema) == "decimal string"
    return [] if decimal else list(dict.fromkeys(said))


def section(path, schema, lines):
    """One table per object, then the objects inside it."""
    lines += [f"## {path}", "", schema.get("description", ""), ""]
    rules = rules_of(schema)
    if rules:
        lines += ["Rules:", "", *(f"- {rule}" for rule in rules), ""]
    lines += ["| Field | Type | Default | Values | Meaning |", "| --- | --- | --- | --- | --- |"]
    inner = []
    for name, field in schema["properties"].items():
        required = name in schema.get("required", [])
        meaning = " ".join([field.get("description", ""), *(f"({rule})" for rule in rules_of(field) if "properties" not in field)])
        row = [f"`{name}`", type_of(field), default_of(field, required), values_of(field), meaning]
        lines.append("| " + " | ".join(cell(part) for part in row) + " |")
        item = field.get("items", field) if field.get("type") == "array" else field
        if "properties" in item:
            inner.append((f"{path}.{name}" + ("[]" if item is not field else ""), item))
    lines.append("")
    for inner_path, inner_schema in inner:
        section(inner_path, inner_schema, lines)


def page():
    crd = yaml.safe_load(CRD.read_text(encoding="utf-8"))
    names = crd["spec"]["names"]
    version = crd["spec"]["versions"][0]
    schema = version["schema"]["openAPIV3Schema"]
    lines = [
        "<!-- Written by tools/generate/reference.py from manifests/crds; change the CRD and run it again. -->",
        f"# {names['kind']}",
        "",
        schema["description"],
        "",
        (f"API version `{crd['spec']['group']}/{version['name']}`, resource `{names['plural']}`, short name"
         f" `{names['shortNames'][0]}`, category `{names['categories'][0]}`. Decimal strings are numbers in quotes, such as"
         " `\"0.01\"` or `\"5e-4\"`: the API holds no floats. Unknown fields are refused."),
        "",
        *(f"- {rule}" for rule in rules_of(schema)),
        "",
    ]
    for part in ("spec", "status"):
        section(part, schema["properties"][part], lines)
    return "\n".join(lines).rstrip("\n") + "\n"


def main():
    if sys.argv[1:] not in ([], ["--check"]):
        print(__doc__, file=sys.stderr)
        return 2
    if sys.argv[1:] == ["--check"]:
        if not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page():
            print(f"{PAGE.name} is out of date: run tools/generate/reference.py", file=sys.stderr)
            return 1
        return 0
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

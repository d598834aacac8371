"""Writes values.schema.json from values.yaml: every key that is ours, and no other; run it after a change."""

import argparse
import json
import sys

import yaml

from chart_readme import CHART, comments

# Maps and lists whose contents are Kubernetes' own or the user's.
FREE_MAPS = {
    "commonLabels", "resources", "nodeSelector", "affinity", "deploymentAnnotations", "podAnnotations", "podLabels", "strategy",
    "podSecurityContext", "securityContext", "health.livenessProbe", "health.readinessProbe", "serviceAccount.annotations",
    "metrics.serviceMonitor.labels", "metrics.podMonitor.labels", "metrics.prometheusRule.labels", "dashboards.annotations",
    "gangScheduling.volcano.queues",
}
SCHEDULERS = {"items": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"}, "uniqueItems": True}
# A pod's selectors and what tells Helm's objects from others must be what the chart says.
OTHER_LABELS = {
    "propertyNames": {
        "not": {"pattern": "^(app[.]kubernetes[.]io/(name|instance|component|version|part-of|managed-by)|helm[.]sh/chart)$"}
    },
    "additionalProperties": {"type": "string"},
}
DURATION = {"pattern": "^([0-9]+(ms|s|m|h))+$"}
REFINED = {
    "commonLabels": OTHER_LABELS,
    "podLabels": OTHER_LABELS,
    "revisionHistoryLimit": {"minimum": 0},
    "networkPolicy.dnsPorts": {"items": {"type": "integer", "minimum": 1, "maximum": 65535}, "minItems": 1},
    "metrics.serviceMonitor.interval": DURATION,
    "metrics.podMonitor.interval": DURATION,
    "metrics.serviceMonitor.scrapeTimeout": {"pattern": "^([0-9]+(ms|s|m|h))*$"},
    "metrics.podMonitor.scrapeTimeout": {"pattern": "^([0-9]+(ms|s|m|h))*$"},
    "tests.image.digest": {"pattern": "^(sha256:[0-9a-f]{64})?$"},
    "image.pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "image.digest": {"pattern": "^(sha256:[0-9a-f]{64})?$"},
    "replicaCount": {"minimum": 0, "maximum": 9},
    "controller.workers": {"minimum": 1, "maximum": 64},
    "controller.logFormat": {"enum": ["json", "console"]},
    "controller.logLevel": {"enum": ["debug", "info", "warning", "error"]},
    "controller.progress": {"enum": ["pod-ip", "off"]},
    "controller.watchNamespaces": {"items": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"}, "uniqueItems": True},
    "gangScheduling.coscheduling.schedulerNames": SCHEDULERS,
    "gangScheduling.volcano.schedulerNames": SCHEDULERS,
    "gangScheduling.volcano.queues": {
        "propertyNames": {"pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?|[*])$"},
        "additionalProperties": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    },
    "controller.extraArgs": {"items": {"type": "string"}},
    "jobs.podMetadata.allowedKeys": {
        "items": {
            "type": "string",
            "maxLength": 317,
            "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?"
            "([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?|[*])$",
            # The operator's own, which the controller refuses, too.
            "not": {"pattern": "^([^/]*[.])?gnn[.]dev/|^[*]$|^app[.]kubernetes[.]io/(name|instance|component|managed-by)$"},
        },
        "uniqueItems": True,
    },
    "networkPolicy.apiServer.cidrs": {"items": {"type": "string", "pattern": "^[0-9a-fA-F.:]+/[0-9]+$"}},
    "networkPolicy.apiServer.ports": {"items": {"type": "integer", "minimum": 1, "maximum": 65535}, "minItems": 1},
    "metrics.prometheusRule.runbookUrl": {"pattern": "^(https?://[^#\\s]+)?$"},
    "health.port": {"minimum": 1, "maximum": 65535},
    "metrics.port": {"minimum": 1, "maximum": 65535},
    "terminationGracePeriodSeconds": {"minimum": 1},
    "tests.timeoutSeconds": {"minimum": 10},
}


def schema_of(value, notes, path=""):
    if isinstance(value, dict) and path not in FREE_MAPS:
        made = {
            "type": "object",
            "additionalProperties": False,
            "properties": {key: schema_of(item, notes, f"{path}.{key}" if path else key) for key, item in value.items()},
        }
    elif isinstance(value, dict):
        made = {"type": "object"}
    elif isinstance(value, bool):
        made = {"type": "boolean"}
    elif isinstance(value, int):
        made = {"type": "integer"}
    elif isinstance(value, list):
        made = {"type": "array"}
    else:
        made = {"type": "string"}
    described = {"description": notes[path]} if path in notes else {}
    return {**described, **made, **REFINED.get(path, {})}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if the file is out of date")
    check = parser.parse_args().check
    source = (CHART / "values.yaml").read_text(encoding="utf-8")
    of_values = schema_of(yaml.safe_load(source), comments(source))
    made = {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of gnn-operator", **of_values}
    made["properties"]["global"] = {"type": "object", "description": "Helm's own, for parent charts"}
    made["properties"]["enabled"] = {"type": "boolean", "description": "For the condition of a parent chart; not read here"}
    text = json.dumps(made, indent=2) + "\n"
    file = CHART / "values.schema.json"
    if check:
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            print("values.schema.json is out of date: run tools/generate/chart_schema.py", file=sys.stderr)
            return 1
        return 0
    file.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())

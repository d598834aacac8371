"""The dashboards and rules as files: dashboard-linter's rules that apply, and every metric is a declared one."""

import json
import re
import subprocess
import unittest

import promql_parser
import yaml

from chart import CHART, ROOT

DASHBOARDS = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted((CHART / "dashboards").glob("*.json"))}
RULES = yaml.safe_load((CHART / "files/rules.yaml").read_text(encoding="utf-8"))
# Units of Grafana's value formats that we use.
UNITS = {"short", "s", "ops", "reqps", "bytes", "Bps", "percentunit"}
VARIABLES = {"$__rate_interval": "5m", "$__range": "1h", "$namespace": ".+", "$job": ".+", "$instance": ".+"}


def expanded(expression):
    for name, value in VARIABLES.items():
        expression = expression.replace(name, value)
    return expression


def declared_metrics():
    """Names in docs/metrics.md."""
    page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    return set(re.findall(r"`([a-z][a-z0-9_]+)`", page))


def metrics_of(expression):
    """Names of series in a query; recording rules (with a colon) are left out."""
    prefixes = "gnn|gnnjob|workqueue|rest_client|controller_runtime|leader_election|process"
    return set(re.findall(rf"(?<![\w:])((?:{prefixes})_[a-z0-9_]+)(?![\w:])", expression))


def base_name(name):
    return re.sub(r"_bucket$", "", name)


class Dashboards(unittest.TestCase):
    def panels(self):
        for name, dashboard in DASHBOARDS.items():
            for panel in dashboard["panels"]:
                yield name, panel

    def test_there_are_four_with_stable_unique_uids(self):
        uids = [dashboard["uid"] for dashboard in DASHBOARDS.values()]
        self.assertEqual(len(uids), 4)
        self.assertEqual(len(set(uids)), 4)
        for uid in uids:
            self.assertLessEqual(len(uid), 40)

    def test_have_a_data_source_variable_and_are_not_editable(self):
        for name, dashboard in DASHBOARDS.items():
            first = dashboard["templating"]["list"][0]
            self.assertEqual((first["name"], first["type"], first["label"]), ("datasource", "datasource", "Data source"), name)
            self.assertFalse(dashboard["editable"], name)
            self.assertNotIn("__inputs", dashboard, name)

    def test_job_and_instance_variables_are_multi(self):
        for name, dashboard in DASHBOARDS.items():
            variables = {item["name"]: item for item in dashboard["templating"]["list"]}
            for variable in ("job", "instance"):
                self.assertTrue(variables[variable]["multi"], name)
                self.assertEqual(variables[variable]["allValue"], ".+", name)
                self.assertEqual(variables[variable]["refresh"], 2, name)

    def test_panels_have_title_description_unit_and_targets(self):
        for name, panel in self.panels():
            where = f"{name}: {panel['title']}"
            self.assertTrue(panel["title"] and panel["description"] and panel["targets"], where)
            self.assertIn(panel["fieldConfig"]["defaults"]["unit"], UNITS, where)
            for target in panel["targets"]:
                self.assertTrue(target["legendFormat"], where)

    def test_panels_lie_inside_the_grid_and_do_not_overlap(self):
        for name, dashboard in DASHBOARDS.items():
            cells = set()
            self.assertEqual(len({panel["id"] for panel in dashboard["panels"]}), len(dashboard["panels"]))
            for panel in dashboard["panels"]:
                grid = panel["gridPos"]
                self.assertLessEqual(grid["x"] + grid["w"], 24)
                for x in range(grid["x"], grid["x"] + grid["w"]):
                    self.assertNotIn((x, grid["y"]), cells, f"{name}: {panel['title']}")
                    cells.add((x, grid["y"]))

    def test_queries_parse_and_select_job_and_instance(self):
        for name, panel in self.panels():
            for target in panel["targets"]:
                promql_parser.parse(expanded(target["expr"]))
                for selector in re.findall(r"\{([^}]*)\}", target["expr"]):
                    self.assertRegex(selector, r'job=~"', f"{name}: {panel['title']}")
                    self.assertRegex(selector, r'instance=~"', f"{name}: {panel['title']}")

    def test_counters_are_rated_over_the_rate_interval(self):
        for name, panel in self.panels():
            for target in panel["targets"]:
                for counter, tail in re.findall(r"\b([a-z_]+_total)\{[^}]*\}(\S*)", target["expr"]):
                    self.assertRegex(tail, r"^\[\$__(rate_interval|range)\]", f"{name}: {panel['title']}: {counter}")

    def test_variables_in_queries_are_declared(self):
        for name, dashboard in DASHBOARDS.items():
            declared = {item["name"] for item in dashboard["templating"]["list"]}
            for panel in dashboard["panels"]:
                for target in panel["targets"]:
                    used = set(re.findall(r"\$([a-z]+)\b", target["expr"]))
                    self.assertLessEqual(used, declared, f"{name}: {panel['title']}")

    def test_every_metric_is_declared(self):
        declared = declared_metrics()
        for name, panel in self.panels():
            for target in panel["targets"]:
                for metric in metrics_of(target["expr"]):
                    self.assertIn(base_name(metric), declared, f"{name}: {panel['title']}")


class Rules(unittest.TestCase):
    def alerts(self):
        return [rule for group in RULES["groups"] for rule in group["rules"] if "alert" in rule]

    def test_alerts_share_a_prefix_and_carry_what_people_need(self):
        page = (ROOT / "docs/runbooks.md").read_text(encoding="utf-8")
        for rule in self.alerts():
            self.assertRegex(rule["alert"], r"^GNN(Job|Operator)[A-Z]")
            self.assertIn(rule["labels"]["severity"], ("critical", "warning", "info"))
            for annotation in ("summary", "description", "runbook_url"):
                self.assertTrue(rule["annotations"][annotation])
            self.assertTrue(rule["annotations"]["runbook_url"].endswith("#" + rule["alert"].lower()))
            self.assertIn(f"\n## {rule['alert']}\n", page)

    def test_every_runbook_belongs_to_an_alert(self):
        page = (ROOT / "docs/runbooks.md").read_text(encoding="utf-8")
        self.assertEqual(set(re.findall(r"^## (\w+)", page, re.MULTILINE)), {rule["alert"] for rule in self.alerts()})

    def test_every_metric_is_declared(self):
        declared = declared_metrics()
        for group in RULES["groups"]:
            for rule in group["rules"]:
                for metric in metrics_of(rule["expr"]):
                    self.assertIn(base_name(metric), declared, rule.get("alert") or rule["record"])

    def test_promtool_accepts_the_rules_and_their_tests_pass(self):
        for arguments in (["check", "rules", CHART / "files/rules.yaml"], ["test", "rules", ROOT / "tests/charts/rules_test.yaml"]):
            ran = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, check=False)
            self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_every_alert_has_a_rule_test_that_fires_and_one_that_does_not(self):
        tests = yaml.safe_load((ROOT / "tests/charts/rules_test.yaml").read_text(encoding="utf-8"))
        fires, silent = set(), set()
        for test in tests["tests"]:
            for item in test.get("alert_rule_test", []):
                (fires if item.get("exp_alerts") else silent).add(item["alertname"])
        names = {rule["alert"] for rule in self.alerts()}
        self.assertEqual(fires, names)
        self.assertEqual(silent, names)


if __name__ == "__main__":
    unittest.main()

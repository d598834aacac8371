"""The dashboards and rules as files: dashboard-linter's rules that apply, and every metric is a declared one."""

import json
import re
import subprocess
import unittest
from typing import NamedTuple

import promql_parser
import yaml

from chart import CHART, ROOT

DASHBOARDS = {file.stem: json.loads(file.read_text(encoding="utf-8")) for file in sorted((CHART / "dashboards").glob("*.json"))}
RULES = yaml.safe_load((CHART / "files/rules.yaml").read_text(encoding="utf-8"))
# Units of Grafana's value formats that we use.
UNITS = {"short", "s", "ops", "reqps", "bytes", "Bps", "percentunit"}
# What Grafana's intervals are while a query is parsed, in seconds: lengths that nobody writes.
INTERVALS = {"$__rate_interval": 307, "$__range": 3607}
# Series that no variable of their dashboard selects, and why that is right.
UNSELECTED = {
    ("jobs", "gnnjob_queue_duration_seconds_bucket"): "one histogram over all jobs; the controller's instance is no variable there",
}


class Series(NamedTuple):
    """One selector of a query."""

    name: str
    matchers: dict  # label -> operator and value, as written
    function: str  # around it, if it has a range
    seconds: float  # of the range, or 0


def series_of(expression):
    for name, seconds in INTERVALS.items():
        expression = expression.replace(f"[{name}]", f"[{seconds}s]")
    return list(selectors(promql_parser.parse(expression), ""))


def selectors(node, function, seconds=0.0):
    if isinstance(node, promql_parser.VectorSelector):
        matchers = {each.name: f"{operator(each.op)}{each.value}" for each in node.matchers.matchers}
        yield Series(node.name, matchers, function if seconds else "", seconds)
    elif isinstance(node, promql_parser.MatrixSelector):
        yield from selectors(node.vector_selector, function, node.range.total_seconds())
    elif isinstance(node, promql_parser.Call):
        for argument in node.args:
            yield from selectors(argument, node.func.name)
    else:
        for part in ("lhs", "rhs", "expr", "param"):
            if (child := getattr(node, part, None)) is not None:
                yield from selectors(child, "")


def operator(match):
    known = ((promql_parser.MatchOp.Equal, "="), (promql_parser.MatchOp.NotEqual, "!="), (promql_parser.MatchOp.Re, "=~"))
    return next((text for each, text in known if each == match), "!~")


def is_cumulative(name):
    """Counters, and the parts of histograms: what they are worth is how they grow."""
    return name.endswith(("_total", "_bucket", "_sum", "_count"))


def base_name(name):
    return re.sub(r"_(bucket|sum|count)$", "", name)


def declared_metrics(section=""):
    """Names in docs/metrics.md, or under one of its headings."""
    page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    if section:
        page = page.partition(f"\n## {section}")[2].partition("\n## ")[0]
    return set(re.findall(r"`([a-z][a-z0-9_]+)`", page))


def metrics_about_jobs():
    """Those with a label `job` of their own, the name of a GNNJob; of others Prometheus sets it to the scrape job."""
    page = (ROOT / "docs/metrics.md").read_text(encoding="utf-8")
    found = declared_metrics("Agent (") | declared_metrics("Sampling server (")
    for names, _, what in re.findall(r"^\| (`gnnjob_.*?) \| (.*?) \| (.*) \|$", page, re.MULTILINE):
        if "`job`" in what:
            found.update(re.findall(r"`(\w+)`", names))
    return found


def choices(dashboard):
    """The variables of a dashboard: name -> the metric whose labels they list."""
    listed = dashboard["templating"]["list"]
    return {item["name"]: re.match(r"label_values\((\w+)", item["query"]["query"])[1] for item in listed if item["type"] == "query"}


def selecting_labels(metric, variables):
    """The labels by which a dashboard's variables select this metric: where label and variable mean the same."""
    agents, about_jobs = declared_metrics("Agent ("), metrics_about_jobs()
    labels = set()
    if (metric in about_jobs) == (variables["job"] in about_jobs):
        labels.add("job")
    if (metric in agents) == (variables["instance"] in agents):
        labels.add("instance")
    if "namespace" in variables and metric in about_jobs:
        labels.add("namespace")
    return labels


class Dashboards(unittest.TestCase):
    def panels(self):
        for name, dashboard in DASHBOARDS.items():
            for panel in dashboard["panels"]:
                yield name, panel

    def targets(self):
        """Each query's dashboard, place in words, and selectors."""
        for name, panel in self.panels():
            for target in panel["targets"]:
                yield name, f"{name}: {panel['title']}: {target['expr']}", series_of(target["expr"])

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
                self.assertGreaterEqual(min(grid["x"], grid["y"], grid["w"] - 1, grid["h"] - 1), 0)
                own = {(x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])}
                self.assertFalse(own & cells, f"{name}: {panel['title']}")
                cells |= own

    def test_the_reader_of_queries_sees_every_series(self):
        found = series_of(
            'a_total / 2 > on (x) (rate(b_total{job=~"$job"}[$__range]) or max(c{x="y", z!="u"}) by (x)) - '
            "histogram_quantile(0.5, sum by (le) (increase(d_bucket[5m]))) + abs(e_count)"
        )
        self.assertEqual(found, [
            Series("a_total", {}, "", 0), Series("b_total", {"job": "=~$job"}, "rate", INTERVALS["$__range"]),
            Series("c", {"x": "=y", "z": "!=u"}, "", 0), Series("d_bucket", {}, "increase", 300), Series("e_count", {}, "", 0),
        ])

    def test_series_about_jobs_are_known_from_those_of_a_scrape_job(self):
        about_jobs = metrics_about_jobs()
        for metric in ("gnn_train_loss", "gnnjob_condition", "gnnjob_restarts_total", "gnnjob_epochs"):
            self.assertIn(metric, about_jobs)
        for metric in ("gnnjob_queue_duration_seconds", "gnn_operator_build_info", "workqueue_depth"):
            self.assertIn(metric, declared_metrics())
            self.assertNotIn(metric, about_jobs)

    def test_queries_select_by_the_variables_that_mean_the_same_as_the_label(self):
        """`job` is the GNNJob in series about jobs and the scrape job in others, `instance` a pod of it or a controller."""
        unselected = set()
        for name, where, found in self.targets():
            variables = choices(DASHBOARDS[name])
            for series in found:
                wanted = selecting_labels(base_name(series.name), variables)
                matched = {label: how for label, how in series.matchers.items() if label in ("namespace", "job", "instance")}
                self.assertEqual(matched, {label: f"=~${label}" for label in wanted}, f"{where}: {series.name}")
                if not wanted:
                    unselected.add((name, series.name))
            if not any((name, series.name) in UNSELECTED for series in found):
                self.assertTrue(any("job" in series.matchers for series in found), f"{where}: $job changes nothing")
        self.assertEqual(unselected, set(UNSELECTED))

    def test_counters_and_histograms_are_shown_by_their_growth_in_an_interval_of_grafana(self):
        for _, where, found in self.targets():
            for series in found:
                if is_cumulative(series.name):
                    self.assertIn(series.function, ("rate", "increase"), f"{where}: {series.name}")
                    self.assertIn(series.seconds, INTERVALS.values(), f"{where}: {series.name}")
                else:
                    self.assertNotIn(series.function, ("rate", "irate", "increase"), f"{where}: {series.name}")

    def test_variables_in_queries_are_declared(self):
        for name, dashboard in DASHBOARDS.items():
            declared = {item["name"] for item in dashboard["templating"]["list"]}
            for panel in dashboard["panels"]:
                for target in panel["targets"]:
                    used = set(re.findall(r"\$([a-z]+)\b", target["expr"]))
                    self.assertLessEqual(used, declared, f"{name}: {panel['title']}")

    def test_every_metric_is_declared(self):
        declared = declared_metrics()
        for _, where, found in self.targets():
            for series in found:
                self.assertIn(base_name(series.name), declared, where)


class Rules(unittest.TestCase):
    def alerts(self):
        return [rule for rule in self.rules() if "alert" in rule]

    @staticmethod
    def rules():
        return [rule for group in RULES["groups"] for rule in group["rules"]]

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
        declared = declared_metrics() | {rule["record"] for rule in self.rules() if "record" in rule}
        for rule in self.rules():
            for series in series_of(rule["expr"]):
                self.assertIn(base_name(series.name), declared, rule.get("alert") or rule["record"])

    def test_counters_and_histograms_are_judged_by_their_growth(self):
        for rule in self.rules():
            for series in series_of(rule["expr"]):
                grows = series.function in ("rate", "increase")
                self.assertEqual(grows, is_cumulative(series.name), rule.get("alert") or rule["record"])

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

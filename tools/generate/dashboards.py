"""Writes the Grafana dashboards of the chart; run it after a change. A test holds the files up to date.

usage: dashboards.py [--check]
"""

import json
import sys
from pathlib import Path

OUT = Path(__file__).resolve().parents[2] / "charts/gnn-operator/dashboards"
SELECT = 'job=~"$job", instance=~"$instance"'
JOB = f'namespace=~"$namespace", {SELECT}'


def variable(name, label, query, multi=True):
    return {
        "name": name, "label": label, "type": "query", "datasource": {"type": "prometheus", "uid": "$datasource"},
        "query": {"query": query, "refId": name}, "definition": query, "refresh": 2, "multi": multi,
        "includeAll": multi, "allValue": ".+" if multi else None, "sort": 1,
        "current": {"text": "All", "value": "$__all"} if multi else {},
    }


def panel(title, description, unit, *targets, kind="timeseries", width=8, decimals=None):
    """targets: (PromQL, legend)."""
    defaults = {"unit": unit}
    if decimals is not None:
        defaults["decimals"] = decimals
    options = {
        "timeseries": {"legend": {"displayMode": "list", "placement": "bottom"}, "tooltip": {"mode": "multi"}},
        "stat": {"reduceOptions": {"calcs": ["lastNotNull"]}, "colorMode": "value", "graphMode": "area"},
        "heatmap": {"calculate": False, "color": {"mode": "scheme", "scheme": "Oranges"}},
        "table": {"showHeader": True},
    }[kind]
    return {
        "title": title, "description": description, "type": kind, "_width": width,
        "datasource": {"type": "prometheus", "uid": "$datasource"},
        "fieldConfig": {"defaults": defaults, "overrides": []}, "options": options,
        "targets": [
            {
                "refId": chr(ord("A") + index), "expr": expression, "legendFormat": legend,
                "datasource": {"type": "prometheus", "uid": "$datasource"},
                **({"format": "heatmap"} if kind == "heatmap" else {}),
                **({"format": "table", "instant": True} if kind == "table" else {}),
            }
            for index, (expression, legend) in enumerate(targets)
        ],
    }


def dashboard(uid, title, description, variables, panels):
    x = y = 0
    for number, item in enumerate(panels, start=1):
        width = item.pop("_width")
        if x + width > 24:
            x, y = 0, y + 8
        item["id"] = number
        item["gridPos"] = {"x": x, "y": y, "w": width, "h": 8}
        x += width
    return {
        "uid": uid, "title": title, "description": description, "tags": ["gnn-operator"], "editable": False,
        "schemaVersion": 39, "version": 1, "timezone": "utc", "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"}, "graphTooltip": 1, "annotations": {"list": []}, "links": [],
        "templating": {
            "list": [
                {"name": "datasource", "label": "Data source", "type": "datasource", "query": "prometheus", "current": {}},
                *variables,
            ]
        },
        "panels": panels,
    }


def quantile(q, metric, by, select):
    return f"histogram_quantile({q}, sum by (le, {by}) (rate({metric}_bucket{{{select}}}[$__rate_interval])))"


def quantile_of_range(q, metric, by, select=""):
    """Of what happens seldom: over the whole time shown, since a rate interval may hold none."""
    selector = f"{{{select}}}" if select else ""
    return f"histogram_quantile({q}, sum by ({by}) (increase({metric}_bucket{selector}[$__range])))"


def operator():
    # The `job` of series about GNNJobs is the GNNJob: their scrape job is that of the controller that shows them.
    conditions = f'gnnjob_condition{{instance=~"$instance", status="True"}} and on (instance) gnn_operator_build_info{{{SELECT}}}'
    rate = "rate({}{{" + SELECT + "}}[$__rate_interval])"
    return dashboard(
        "gnn-operator", "GNN operator", "The controllers: health, speed, errors.",
        [
            variable("job", "Scrape job", "label_values(gnn_operator_build_info, job)"),
            variable("instance", "Instance", 'label_values(gnn_operator_build_info{job=~"$job"}, instance)'),
        ],
        [
            panel("Leader", "1 for the controller that holds the Lease. Exactly one should.", "short",
                  (f"sum by (instance) (leader_election_master_status{{{SELECT}}})", "{{instance}}"), kind="stat"),
            panel("GNNJobs", "Number of GNNJobs by condition that is True.", "short",
                  (f"sum by (condition) ({conditions})", "{{condition}}")),
            panel("Version", "Version of each controller.", "short",
                  (f"gnn_operator_build_info{{{SELECT}}}", "{{version}}"), kind="table"),
            panel("Reconciles", "Finished reconciles per second, by result.", "ops",
                  (f"sum by (result) ({rate.format('controller_runtime_reconcile_total')})", "{{result}}")),
            panel("Reconcile time", "Median and 99th percentile.", "s",
                  (quantile(0.5, "controller_runtime_reconcile_time_seconds", "controller", SELECT), "p50"),
                  (quantile(0.99, "controller_runtime_reconcile_time_seconds", "controller", SELECT), "p99")),
            panel("Errors", "Failed reconciles per second; terminal errors are not retried.", "ops",
                  (f"sum({rate.format('controller_runtime_reconcile_errors_total')})", "errors"),
                  (f"sum({rate.format('controller_runtime_terminal_reconcile_errors_total')})", "terminal")),
            panel("Queue depth", "Keys waiting for a worker.", "short",
                  (f"sum by (name) (workqueue_depth{{{SELECT}}})", "{{name}}")),
            panel("Time in queue", "99th percentile.", "s",
                  (quantile(0.99, "workqueue_queue_duration_seconds", "name", SELECT), "{{name}}")),
            panel("Longest running reconcile", "Grows steadily if a reconcile hangs.", "s",
                  (f"max by (instance) (workqueue_longest_running_processor_seconds{{{SELECT}}})", "{{instance}}")),
            panel("API requests", "Requests to the API server per second, by method and status code.", "reqps",
                  (f"sum by (code, method) ({rate.format('rest_client_requests_total')})", "{{method}} {{code}}")),
            panel("API latency", "99th percentile, by verb.", "s",
                  (quantile(0.99, "rest_client_request_duration_seconds", "verb", SELECT), "{{verb}}")),
            panel("Watch age", "Time since the last event or bookmark of each watch.", "s",
                  (f"time() - max by (resource) (gnn_operator_watch_last_event_timestamp_seconds{{{SELECT}}})", "{{resource}}")),
            panel("Objects in cache", "Objects that the controllers hold in memory, by resource.", "short",
                  (f"sum by (resource) (gnn_operator_cache_objects{{{SELECT}}})", "{{resource}}")),
            panel("Memory", "Resident memory of each controller.", "bytes",
                  (f"process_resident_memory_bytes{{{SELECT}}}", "{{instance}}")),
            panel("CPU", "Cores used by each controller.", "short",
                  (f"sum by (instance) ({rate.format('process_cpu_seconds_total')})", "{{instance}}")),
        ],
    )


def job_variables():
    return [
        variable("namespace", "Namespace", "label_values(gnn_agent_info, namespace)"),
        variable("job", "GNNJob", 'label_values(gnn_agent_info{namespace=~"$namespace"}, job)'),
        variable("instance", "Pod", 'label_values(gnn_agent_info{namespace=~"$namespace", job=~"$job"}, instance)'),
    ]


def jobs():
    controller = 'namespace=~"$namespace", job=~"$job"'  # $instance is a pod of the job, not the controller's
    return dashboard(
        "gnn-jobs", "GNN jobs overview", "All GNNJobs: conditions, progress, speed, restarts.", job_variables(),
        [
            panel("Conditions", "Conditions of each job that are True.", "short",
                  (f'max by (namespace, job, condition) (gnnjob_condition{{{controller}, status="True"}}) == 1', "{{namespace}}/{{job}} {{condition}}"),
                  kind="table", width=12),
            panel("Nodes", "Pods of each job, by state.", "short",
                  (f"max by (namespace, job, state) (gnnjob_nodes{{{controller}}})", "{{namespace}}/{{job}} {{state}}"), width=12),
            panel("Sampling servers", "Servers of jobs that have some: desired, ready.", "short",
                  (f"max by (namespace, job, state) (gnnjob_servers{{{controller}}})", "{{namespace}}/{{job}} {{state}}")),
            panel("Replaced servers", "Pods of servers that replaced lost ones within the time range. Jobs without are omitted.", "short",
                  (f"round(max by (namespace, job) (increase(gnnjob_server_restarts_total{{{controller}}}[$__range]))) > 0", "{{namespace}}/{{job}}")),
            panel("Progress", "Current epoch as a share of all epochs.", "percentunit",
                  (f"max by (namespace, job) (gnn_train_epoch{{{JOB}}}) / max by (namespace, job) (gnn_train_epochs{{{JOB}}})", "{{namespace}}/{{job}}")),
            panel("Loss", "Loss of the last step, over all ranks.", "short",
                  (f"max by (namespace, job) (gnn_train_loss{{{JOB}}})", "{{namespace}}/{{job}}"), decimals=4),
            panel("Validation metric", "From the last evaluation: accuracy, AUC or what the job names.", "percentunit",
                  (f'max by (namespace, job, metric) (gnn_train_metric{{{JOB}, split="validation"}})',
                   "{{namespace}}/{{job}} {{metric}}")),
            panel("Samples", "Trained seeds (or graphs) per second, all ranks.", "ops",
                  (f"sum by (namespace, job) (rate(gnn_train_samples_total{{{JOB}}}[$__rate_interval]))", "{{namespace}}/{{job}}")),
            panel("Restarts", "Restarts charged to maxRestarts within the time range, by reason. Jobs without restarts are omitted.", "short",
                  (f"round(sum by (namespace, job, reason) (increase(gnnjob_restarts_total{{{controller}}}[$__range]))) > 0", "{{namespace}}/{{job}} {{reason}}")),
            panel("Preparation", "Of pods that prepare data: how much of the present task is done.", "percentunit",
                  (f"max by (namespace, job) (gnn_prepare_ratio{{{JOB}}})", "{{namespace}}/{{job}}")),
            panel("Time to schedule", "From creation until all pods are scheduled: median and 99th percentile of all jobs in the time range, regardless of the selection above.", "s",
                  (quantile_of_range(0.5, "gnnjob_queue_duration_seconds", "le"), "p50"),
                  (quantile_of_range(0.99, "gnnjob_queue_duration_seconds", "le"), "p99")),
        ],
    )


def remote_data():
    """Panels of jobs whose nodes read data from each other; others have none of these series."""
    def rate(metric, by, more=""):
        return f"sum by ({by}) (rate({metric}{{{JOB}{more}}}[$__rate_interval]))"

    def rows(origins):
        return rate("gnn_feature_rows_total", "job", f', use="training", origin=~"{origins}"')

    def growth(metric):
        return f"round(sum by (job) (increase({metric}{{{JOB}}}[$__range])))"

    return [
        panel("Remote data", "Bytes per second that ranks receive from other nodes, by kind, and that each node sends.", "Bps",
              (rate("gnn_remote_received_bytes_total", "kind"), "received {{kind}}"),
              (rate("gnn_remote_served_bytes_total", "node"), "sent by node {{node}}")),
        panel("Feature rows by origin", "Rows per second of training batches, by where they come from.", "ops",
              (rate("gnn_feature_rows_total", "origin", ', use="training"'), "{{origin}}")),
        panel("Cache hit rate", "Of the rows of training batches that are not the node's own, the share in its cache, beside what was expected for the job's fan-outs and cache size.",
              "percentunit",
              (f"{rows('cache')} / {rows('cache|remote')}", "measured"),
              (f"avg by (job) (gnn_feature_cache_expected_hit_ratio{{{JOB}}})", "expected")),
        panel("Time of remote calls", "From a question to another node to its answer: median and 99th percentile, by kind.", "s",
              (quantile(0.5, "gnn_remote_call_duration_seconds", "kind", JOB), "{{kind}} p50"),
              (quantile(0.99, "gnn_remote_call_duration_seconds", "kind", JOB), "{{kind}} p99")),
        panel("Remote calls under way", "Questions that wait for an answer, by rank.", "short",
              (f"sum by (node, rank) (gnn_remote_calls_under_way{{{JOB}}})", "node {{node}} rank {{rank}}")),
        panel("Refused and lost connections", "Within the time range: connections that data ports have refused, and connections between nodes that broke or fell silent.",
              "short",
              (growth("gnn_remote_connections_refused_total"), "refused"),
              (growth("gnn_remote_peers_lost_total"), "lost")),
    ]


def servers():
    """Panels of jobs with sampling servers; others have none of these series."""
    of_servers = 'namespace=~"$namespace", job=~"$job"'  # $instance is an agent's pod

    def rate(metric, by):
        return f"sum by ({by}) (rate({metric}{{{of_servers}}}[$__rate_interval]))"

    def stages(metric, total, select):
        return f"sum by (stage) (rate({metric}{{{select}}}[$__rate_interval])) / ignoring (stage) group_left () sum(rate({total}{{{select}}}[$__rate_interval]))"

    return [
        panel("Batches made by servers", "Batches per second, by server.", "ops",
              (rate("gnn_server_batches_total", "server"), "server {{server}}")),
        panel("Sent by servers", "Bytes per second of batches and of what other servers ask for, by server.", "Bps",
              (rate("gnn_server_bytes_total", "server"), "server {{server}}")),
        panel("Busy share of servers", "Of the time of a server's threads, the share in which they make batches.", "percentunit",
              (f"{rate('gnn_server_busy_seconds_total', 'server')} / max by (server) (gnn_server_threads{{{of_servers}}})", "server {{server}}")),
        panel("Queues of servers", "Requests that wait for a thread, or whose batch is under way.", "short",
              (f"max by (server) (gnn_server_queue_length{{{of_servers}}})", "server {{server}}")),
        panel("A batch's time at the servers", "Mean seconds per batch in each stage, as servers measure it.", "s",
              (stages("gnn_server_batch_seconds_total", "gnn_server_batches_total", of_servers), "{{stage}}")),
        panel("A batch's time for the workers", "Mean seconds from a worker's question to the whole batch, by where they went.", "s",
              (stages("gnn_served_batch_seconds_total", "gnn_served_batches_total", JOB), "{{stage}}")),
        panel("Ready servers", "Servers that have opened their data and listen, and those that node 0 names to the workers.", "short",
              (f"sum by (job) (gnn_server_ready{{{of_servers}}})", "ready"),
              (f"max by (job) (gnn_agent_servers{{{JOB}}})", "named by node 0")),
        panel("Memory of servers", "Resident memory, which includes what was read of the mapped data.", "bytes",
              (f"max by (server) (gnn_server_memory_bytes{{{of_servers}}})", "server {{server}}")),
        panel("Failovers", "Within the time range: batches that were asked of another server because the first one was lost, by rank.", "short",
              (f"round(sum by (node, rank) (increase(gnn_served_failovers_total{{{JOB}}}[$__range])))", "node {{node}} rank {{rank}}")),
    ]


def job():
    phase = f"rate(gnn_train_phase_seconds_total{{{JOB}}}[$__rate_interval])"
    return dashboard(
        "gnn-job", "GNN job detail", "One job: loss, time per phase of each rank, checkpoints, memory.", job_variables(),
        [
            panel("Epoch", "Current epoch.", "short", (f"max by (job) (gnn_train_epoch{{{JOB}}})", "epoch"), kind="stat", width=4),
            panel("Loss", "Loss of the last step, over all ranks.", "short",
                  (f"max by (job) (gnn_train_loss{{{JOB}}})", "{{job}}"), width=10, decimals=4),
            panel("Metric", "By split; train is measured in training mode, the others are evaluated.", "percentunit",
                  (f"max by (job, split, metric) (gnn_train_metric{{{JOB}}})", "{{split}} {{metric}}"), width=10),
            panel("Step phases per rank", "Share of time in each phase.", "percentunit",
                  (f"sum by (node, rank, phase) ({phase})", "node {{node}} rank {{rank}} {{phase}}"), width=12),
            panel("Step time per rank", "Median.", "s",
                  (quantile(0.5, "gnn_train_step_duration_seconds", "node, rank", JOB), "node {{node}} rank {{rank}}"), width=12),
            panel("Step time heat map", "Steps per second by duration, all ranks.", "s",
                  (f"sum by (le) (rate(gnn_train_step_duration_seconds_bucket{{{JOB}}}[$__rate_interval]))", "{{le}}"),
                  kind="heatmap", width=12),
            panel("Waiting in the reduction", "Share of time that a rank waits for the others. A rank that never waits is the slow one.", "percentunit",
                  (f'sum by (node, rank) (rate(gnn_train_phase_seconds_total{{{JOB}, phase="reduce"}}[$__rate_interval]))', "node {{node}} rank {{rank}}"), width=12),
            panel("Phase of each agent", "Current phase of each node.", "short",
                  (f"max by (node, phase) (gnn_agent_phase{{{JOB}}}) == 1", "node {{node}} {{phase}}"), kind="table"),
            panel("Restarts in place", "New rounds within the time range.", "short",
                  (f"round(max by (node) (increase(gnn_agent_rounds_total{{{JOB}}}[$__range])))", "node {{node}}")),
            panel("Time since last report", "By rank.", "s",
                  (f"time() - max by (node, rank) (gnn_agent_rank_last_report_timestamp_seconds{{{JOB}}})", "node {{node}} rank {{rank}}")),
            panel("Age of the newest checkpoint", "The work that a crash would lose.", "s",
                  (f"time() - max by (job) (gnn_checkpoint_last_success_timestamp_seconds{{{JOB}}})", "{{job}}")),
            panel("Checkpoint time", "Median of the checkpoints written within the time range.", "s",
                  (quantile_of_range(0.5, "gnn_checkpoint_duration_seconds", "le, job", JOB), "{{job}}")),
            panel("Memory by owner", "Resident memory of the ranks.", "bytes",
                  (f"sum by (node, rank, owner) (gnn_memory_bytes{{{JOB}}})", "node {{node}} rank {{rank}} {{owner}}")),
            *remote_data(),
            *servers(),
        ],
    )


def sampler():
    def rate(metric, by="node, rank"):
        return f"sum by ({by}) (rate({metric}{{{JOB}}}[$__rate_interval]))"

    return dashboard(
        "gnn-sampler", "GNN sampler and features", "The data path of a job: its rates, and whether training waits for batches.", job_variables(),
        [
            panel("Sampled edges", "Edges per second, by rank.", "ops", (rate("gnn_sampler_edges_total"), "node {{node}} rank {{rank}}")),
            panel("Input nodes", "Nodes per second whose features batches need, by rank.", "ops", (rate("gnn_sampler_nodes_total"), "node {{node}} rank {{rank}}")),
            panel("Features gathered", "Bytes per second, by rank.", "Bps", (rate("gnn_feature_bytes_total"), "node {{node}} rank {{rank}}")),
            panel("Edges per step", "Average size of the sampled graphs.", "short",
                  (f"sum by (job) (rate(gnn_sampler_edges_total{{{JOB}}}[$__rate_interval])) / sum by (job) (rate(gnn_train_steps_total{{{JOB}}}[$__rate_interval]))", "{{job}}")),
            panel("Stall by stage", "Share of time that each stage of the data path waits.", "percentunit",
                  (rate("gnn_loader_stall_seconds_total", "node, rank, stage"), "node {{node}} rank {{rank}} {{stage}}"), width=16),
            panel("Training waits for batches", "Share of time without a batch: the part of sampling that does not overlap with compute.", "percentunit",
                  (f'sum by (node, rank) (rate(gnn_train_phase_seconds_total{{{JOB}, phase="wait"}}[$__rate_interval]))', "node {{node}} rank {{rank}}"), width=24),
        ],
    )


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        print(__doc__, file=sys.stderr)
        return 2
    stale = []
    for name, made in {"operator": operator(), "jobs": jobs(), "job": job(), "sampler": sampler()}.items():
        file = OUT / f"{name}.json"
        text = json.dumps(made, indent=2) + "\n"
        if check:
            if not file.is_file() or file.read_text(encoding="utf-8") != text:
                stale.append(file.name)
        else:
            OUT.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
    if stale:
        print(f"out of date: {', '.join(stale)}: run tools/generate/dashboards.py", file=sys.stderr)
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())

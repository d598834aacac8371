"""Fails on a source file of the product that has no test at the mirrored path, unless the table below says which test covers it.

The test of worker/data/split.h and split.cpp is tests/worker/data/split_test.cpp. A line of the table that is no longer
true fails as well: one for a file that is gone or has a test of its own by now, or that names a test that is gone.
"""

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("common/", "controller/", "worker/")
SUFFIXES = {".h", ".cpp", ".cu", ".cuh"}

# Test that covers several files -> those files, without their suffixes.
COVERED = {
    "tests/common/api/codec_test.cpp": ["common/api/gnn_job"],
    "tests/common/api/crd_test.cpp": ["common/api/enums", "common/api/fields"],
    "tests/worker/app/report_run_test.cpp": ["worker/app/report_command"],
    "tests/worker/report/page_test.cpp": ["worker/report/assets"],
    "tests/worker/agent/agent_options_test.cpp": ["common/api/environment", "worker/agent/server_options"],
    "tests/worker/agent/servers_fault_test.cpp": ["worker/app/job_options", "worker/app/server_command", "worker/main/hold_stop_signals"],
    "tests/worker/agent/server_pod_test.cpp": ["worker/agent/server_progress", "worker/rendezvous/local_address"],
    "tests/worker/agent/node_progress_test.cpp": ["worker/progress/meter", "worker/progress/served_data", "worker/progress/tracking_data"],
    "tests/worker/sampling/core/id_map_test.cpp": ["common/page_buffer"],
    "tests/common/ordered_prefetcher_test.cpp": ["common/executor"],
    "tests/worker/sampling/neighbor_test.cpp": [
        "common/recycler", "worker/graph/block", "worker/sampling/async_sampler", "worker/sampling/sample_parts",
        "worker/sampling/subgraph",
    ],
    "tests/worker/loader/loader_on_gpu_test.cpp": ["worker/loader/gpu_row_device", "worker/loader/on_host"],
    "tests/worker/sampling/device/device_sampler_test.cpp": [
        "worker/sampling/device/device_errors", "worker/sampling/device/sampling_device",
    ],
    "tests/worker/servers/batch_request_test.cpp": ["worker/servers/hello"],
    "tests/worker/servers/served_batches_test.cpp": ["worker/servers/batch_maker"],
    "tests/worker/shards/remote_sampler_test.cpp": [
        "worker/sampling/core/drawn_lists", "worker/sampling/core/hop_draw", "worker/sampling/hop_sampler",
        "worker/shards/part_sampler", "worker/shards/peer", "worker/shards/rpc_peer", "worker/shards/shards",
    ],
    "tests/worker/shards/row_fetcher_test.cpp": ["worker/shards/row_cache"],
    "tests/worker/shards/service_test.cpp": ["worker/shards/messages"],
    "tests/worker/tasks/partitioned_training_test.cpp": [
        "worker/tasks/link_batches", "worker/tasks/node_batches", "worker/tasks/row_type", "worker/tasks/task_batches",
    ],
    "tests/worker/training/trainer_test.cpp": [
        "common/stop_token", "worker/training/optimizer", "worker/training/parameters_hash", "worker/training/step_runner",
        "worker/training/workload",
    ],
    # The controller as a process, against a real API server.
    "tests/integration/controller/jobs_test.cpp": [
        "controller/app/connection", "controller/app/operator",
        "controller/app/process_metrics", "controller/app/release_command", "controller/app/version", "controller/main/main",
    ],
    "tests/controller/app/executor_test.cpp": ["controller/app/data_key"],
    "tests/controller/app/caches_test.cpp": ["controller/app/gnn_job_resource"],
    "tests/controller/runtime/watcher_test.cpp": ["common/overloaded"],
    "tests/controller/client/api_client_test.cpp": ["controller/client/api_error"],
    "tests/controller/client/cpprest_transport_test.cpp": ["controller/client/http_transport"],
    "tests/controller/objects/objects_test.cpp": [
        "controller/objects/footprint",
        "controller/objects/config_map", "controller/objects/event", "controller/objects/lease", "controller/objects/network_policy",
        "controller/objects/pod", "controller/objects/pod_group", "controller/objects/service",
    ],
    "tests/controller/reconcile/desired_test.cpp": ["controller/reconcile/config"],
    "tests/controller/reconcile/plan_test.cpp": [
        "controller/reconcile/action", "controller/reconcile/observed", "controller/reconcile/pass",
    ],
    "tests/controller/reconcile/restart_backoff_test.cpp": ["controller/reconcile/doubling"],
    "tests/controller/reconcile/state_machine_test.cpp": ["controller/reconcile/conditions"],
    "tests/controller/runtime/work_queue_test.cpp": ["controller/runtime/key_backoff"],
    "tests/worker/agent/rank_process_test.cpp": ["worker/agent/unique_fd"],
    "tests/worker/app/data_command_test.cpp": [
        "worker/app/command", "worker/app/data_output", "worker/app/generate_data", "worker/app/import_data", "worker/app/inspect_data",
        "worker/app/partition_data", "worker/app/partition_links",
    ],
    "tests/worker/app/job_file_test.cpp": [
        "worker/tasks/graph_classification", "worker/tasks/link_prediction", "worker/tasks/node_classification",
    ],
    "tests/worker/app/run_rank_test.cpp": [
        "worker/tasks/node_inference", "worker/tasks/node_predictions", "worker/tasks/task",
    ],
    "tests/worker/app/run_tracked_test.cpp": ["worker/tracking/tracking"],
    "tests/worker/tracking/tracker_thread_test.cpp": ["worker/tracking/record", "worker/tracking/tracker"],
    "tests/worker/app/tutorials_test.cpp": ["worker/app/store_connector"],
    # The images on a cluster; wait_command is what `helm test` runs.
    "tests/e2e/e2e_test.py": [
        "controller/app/wait_command", "worker/app/agent_command", "worker/app/console", "worker/app/prepare_command",
        "worker/app/rank_command", "worker/main/main",
    ],
    "tests/worker/checkpoint/checkpoint_test.cpp": [
        "worker/checkpoint/checkpoint_state", "worker/checkpoint/file_ops",
    ],
    "tests/worker/comm/communicator_test.cpp": ["worker/comm/c10d_communicator", "worker/progress/collective_activity"],
    "tests/worker/comm/process_groups_test.cpp": ["worker/comm/gloo/gloo_backend", "worker/comm/rank_groups"],
    "tests/worker/data/csc_builder_test.cpp": [
        "worker/data/counter_random", "worker/data/csc_lists", "worker/data/dataset_arrays", "worker/data/edge_buckets",
        "worker/data/scratch_storage", "worker/data/transforms",
    ],
    "tests/worker/data/generate_bipartite_test.cpp": ["worker/data/communities"],
    "tests/worker/data/io/npz_writer_test.cpp": ["worker/data/io/zip_format"],
    "tests/worker/data/mapped_pages_test.cpp": ["worker/data/memory_plan"],
    "tests/worker/partition/partition_test.cpp": [
        "worker/partition/assign", "worker/partition/assign_by_hotness", "worker/partition/assign_by_metis",
        "worker/partition/assign_ldg", "worker/partition/order", "worker/partition/rewrite",
    ],
    "tests/worker/partition/hotness_test.cpp": ["worker/partition/seeds"],
    "tests/worker/partition/report_test.cpp": ["worker/partition/picture"],
    "tests/worker/data/native_test.cpp": [
        "worker/data/array", "worker/data/digest", "worker/data/manifest", "worker/data/mapped_file", "worker/data/native_writer",
        "worker/data/number_text", "worker/data/output_lock",
    ],
    "tests/worker/data/partitions_test.cpp": ["worker/data/link_split"],
    "tests/worker/data/readers/edge_list_test.cpp": [
        "worker/data/io/byte_source", "worker/data/readers/npy_arrays", "worker/data/readers/plain_files",
    ],
    "tests/worker/data/readers/package_index_test.cpp": ["worker/data/readers/package_list"],
    "tests/worker/data/readers/taobao_test.cpp": ["worker/data/link_dataset"],
    "tests/worker/graph/dataset_test.cpp": ["worker/graph/feature_store", "worker/graph/share"],
    "tests/worker/loader/device_rows_test.cpp": ["worker/gpu/kernels/gather_steps", "worker/loader/row_device"],
    "tests/worker/loader/link_loader_test.cpp": ["worker/loader/link_batch_maker"],
    "tests/worker/loader/node_loader_test.cpp": [
        "worker/loader/batch_pipeline", "worker/loader/checks", "worker/loader/device_copy", "worker/loader/feature_fetcher",
        "worker/loader/batch_source", "worker/loader/epoch", "worker/loader/loader_stats", "worker/loader/mini_batch",
        "worker/loader/node_batch_maker",
    ],
    "tests/worker/gpu/kernels/sampler_memory_test.cpp": ["worker/gpu/kernels/largest_batch"],
    "tests/worker/tasks/device_plan_test.cpp": ["worker/sampling/device/sampler_memory", "worker/tasks/sampled_shape"],
    "tests/worker/gpu/kernels/emulator_test.cpp": ["worker/gpu/kernels/block_scan"],
    "tests/worker/gpu/kernels/neighbor_steps_test.cpp": [
        "worker/gpu/kernels/batch_counters", "worker/gpu/kernels/device_array", "worker/gpu/kernels/draw_edges",
        "worker/gpu/kernels/exclude_edges", "worker/gpu/kernels/host_device", "worker/gpu/kernels/launch_shape",
        "worker/gpu/kernels/relabel", "worker/gpu/kernels/sampled_batch",
    ],
    "tests/worker/gpu/neighbor_sampler_test.cpp": [
        "worker/gpu/cuda_error", "worker/gpu/device_stream", "worker/gpu/device_thread", "worker/gpu/stream",
    ],
    "tests/worker/nn/conv/conv_test.cpp": [
        "worker/nn/conv/gcn", "worker/nn/conv/gin", "worker/nn/conv/message_passing", "worker/nn/conv/sage",
        "worker/nn/pool/graph_pool",
    ],
    "tests/worker/nn/functional/aggregate_test.cpp": ["worker/nn/functional/linear_aggregate"],
    "tests/worker/nn/functional/relu_dropout_test.cpp": ["worker/nn/cpu/relu_dropout"],
    "tests/worker/nn/functional/spmm_test.cpp": [
        "common/instruction_sets", "worker/nn/cpu/index_checks", "worker/nn/cpu/simd", "worker/nn/cpu/spmm", "worker/nn/cpu/transpose",
        "worker/nn/functional/csr", "worker/nn/sparse/csr", "worker/nn/sparse/spmm_arguments", "worker/nn/sparse/spmm_options",
    ],
    "tests/worker/nn/models/graph_sage_link_test.cpp": ["worker/nn/models/edge_decoder", "worker/nn/models/link_model"],
    "tests/worker/nn/models/models_test.cpp": [
        "worker/nn/models/gcn", "worker/nn/models/gin", "worker/nn/models/graph_sage", "worker/nn/models/layers", "worker/nn/models/model",
    ],
    "tests/worker/embedding/embeddings_test.cpp": ["worker/embedding/state_names"],
    "tests/worker/training/model_export_test.cpp": ["worker/training/agreement", "worker/training/model_file"],
    "tests/worker/app/model_files_test.cpp": [
        "worker/app/model_command", "worker/tasks/exported_model", "worker/tasks/model_widths",
    ],
    "tests/worker/progress/console_sink_test.cpp": ["worker/progress/remote_data"],
    "tests/worker/rpc/client_test.cpp": [
        "common/latency_histogram", "worker/rpc/connection", "worker/rpc/event_loop", "worker/rpc/identity", "worker/rpc/loop_context",
        "worker/rpc/stats",
    ],
    "tests/worker/rpc/frame_test.cpp": ["worker/rpc/wire"],
    "tests/worker/rpc/server_test.cpp": ["worker/rpc/budget", "worker/rpc/deadline", "worker/rpc/session"],
    "tests/worker/sampling/core/neighbor_kernel_test.cpp": [
        "worker/sampling/core/chunk_filler", "worker/sampling/core/relation_view", "worker/sampling/core/sampling_rule",
    ],
    "tests/worker/tasks/served_training_test.cpp": [
        "worker/tasks/job_servers", "worker/tasks/link_data", "worker/tasks/node_data", "worker/tasks/serve",
    ],
    "tests/worker/tasks/evaluation_test.cpp": ["worker/tasks/node_workload", "worker/tasks/sampler_options"],
    "tests/worker/tasks/graph_workload_test.cpp": ["worker/tasks/data_path"],
    "tests/worker/tasks/link_split_test.cpp": ["worker/tasks/values"],
    "tests/worker/training/predictions_test.cpp": ["worker/training/kept_layers"],
    "tests/worker/training/evaluator_test.cpp": ["worker/training/scores"],
}

# File -> why no test covers it.
UNTESTED = {
    "worker/app/local_job": "behind `gnn-worker run`, which only benchmarks start",
    "worker/app/run_command": "`gnn-worker run`, which only benchmarks start",
    "worker/comm/nccl/nccl_backend": "needs two GPUs",
    "worker/comm/nccl/unavailable": "the stand-in of a build without NCCL",
    "worker/main/passive_openmp": "starts the program again before main()",
    "worker/gpu/unavailable": "the stand-in of a build without CUDA",
    "worker/nn/cuda/unavailable": "the stand-in of a build without CUDA",
}


def problems(names, covered, untested):
    """`names`: all files of the tree."""
    sources = [Path(name) for name in names if name.startswith(FOLDERS)]
    units = {source.with_suffix("").as_posix() for source in sources if source.suffix in SUFFIXES}
    tests = {name for name in names if name.startswith("tests/") and Path(name).stem.endswith("_test")}
    listed = [(unit, test) for test, of_test in covered.items() for unit in of_test] + [(unit, None) for unit in untested]
    found = [f"{test}: the table of tools/lint/mirror.py names it, and it is gone" for test in covered if test not in tests]
    seen = set()
    for unit, _ in listed:
        if unit in seen:
            found.append(f"{unit}: is in the table of tools/lint/mirror.py twice")
        elif unit not in units:
            found.append(f"{unit}: is in the table of tools/lint/mirror.py, and there is no such source file")
        elif f"tests/{unit}_test.cpp" in tests:
            found.append(f"{unit}: has a test of its own; drop its line in tools/lint/mirror.py")
        seen.add(unit)
    missing = [unit for unit in sorted(units - seen) if f"tests/{unit}_test.cpp" not in tests]
    how = "write it, or name the test that covers it in tools/lint/mirror.py"
    return found + [f"{unit}: tests/{unit}_test.cpp is missing; {how}" for unit in missing]


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True
    ).stdout.splitlines()
    found = problems([name for name in listed if (ROOT / name).is_file()], COVERED, UNTESTED)
    for problem in found:
        print(problem)
    print(f"mirror: {sum(map(len, COVERED.values()))} files share a test, {len(UNTESTED)} have none, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Fails on GPU code that the emulator could not run.

What a thread of a GPU does is a body: a function for CPU and GPU alike, to which its thread is an argument. Tests run it
on the CPU in any order of threads (tests/support/gpu_emulator.h). So the words that only a GPU knows are in the files that
make such a thread and launch bodies, and the one kernel there makes a thread and calls the body. Atomics are on whole
numbers: sums of floating point in the order of arrival have other bits each time.
"""

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

THREAD = "worker/gpu/device_thread.cuh"
LAUNCH = "worker/gpu/device_stream.cuh"
MARK = "worker/gpu/kernels/host_device.h"

# What may be said -> the only file that may say it.
WORDS = [
    (re.compile(r"__global__|__shared__|__constant__|__managed__"), THREAD),
    (re.compile(r"\b(threadIdx|blockIdx|blockDim|gridDim|warpSize)\b"), THREAD),
    (re.compile(r"\b__(syncthreads|syncwarp|threadfence|shfl|ballot|any|all|match|reduce|activemask)\w*"), THREAD),
    (re.compile(r"\batomic(Add|Sub|Exch|Min|Max|Inc|Dec|CAS|And|Or|Xor)\w*\s*\("), THREAD),
    (re.compile(r"<<<|\bcudaLaunch\w*|\bcuLaunch\w*"), LAUNCH),
    (re.compile(r"\b(cub|thrust|cooperative_groups)\s*::|#\s*include\s*<(cub|thrust|cooperative_groups|cuda)/"), None),
    (re.compile(r"\b(asm|__asm__)\b"), None),
    (re.compile(r"__device__"), MARK),
]
KERNEL = re.compile(r"__global__\s+void\s+\w+\(const Body body\)\s*\{(?P<body>[^{}]*)\}")
CALLS_THE_BODY = ["DeviceThread thread;", "body(thread);"]
ATOMIC = re.compile(r"\b(atomic_\w+)\(([^)]*)\)\s*const")
CALLED_ATOMIC = re.compile(r"\batomic[A-Z]\w*\s*\(")
WHOLE_NUMBERS = re.compile(r"^u?int(32|64)_t\*?$")
COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"', re.DOTALL)


def code_of(text):
    """Without comments and texts; lines stay where they are."""
    return COMMENT_OR_TEXT.sub(lambda match: "\n" * match.group().count("\n"), text)


def thread_problems(code):
    """What is wrong with the file that makes a GPU's thread."""
    found = []
    kernels = KERNEL.findall(code)
    if code.count("__global__") != 1 or len(kernels) != 1:
        found.append(f"{THREAD}: there is one kernel, a template over the body that it runs")
    found += [
        f"{THREAD}: the kernel makes a thread and calls the body, and does nothing else"
        for body in kernels
        if [line.strip() for line in body.splitlines() if line.strip()] != CALLS_THE_BODY
    ]
    if len(CALLED_ATOMIC.findall(code)) > len(ATOMIC.findall(code)):
        found.append(f"{THREAD}: CUDA's atomics are called by functions atomic_*() alone, one by each, whose arguments are looked at")
    found += [
        f"{THREAD}: {name}: atomics are on whole numbers, found {parameter.strip()}"
        for name, parameters in ATOMIC.findall(code)
        for parameter in parameters.replace("[[maybe_unused]]", "").split(",")
        if not WHOLE_NUMBERS.match(" ".join(parameter.split()[:-1]))
    ]
    return found


def problems_in(name, text):
    found = []
    code = code_of(text)
    for pattern, only in WORDS:
        for match in pattern.finditer(code):
            # The thread's functions are for the GPU too, and say so themselves.
            if name == only or (only == MARK and name == THREAD):
                continue
            line = code.count("\n", 0, match.start()) + 1
            where = f"belongs into {only}" if only else "is not for bodies"
            found.append(f"{name}:{line}: {match.group().strip()} {where}: write a body, which the emulator runs too")
    if name == THREAD:
        found += thread_problems(code)
    return found


def main():
    argparse.ArgumentParser(description=__doc__).parse_args()
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "*.h", "*.cpp", "*.cu", "*.cuh"],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True,
    ).stdout.splitlines()
    names = [name for name in listed if (ROOT / name).is_file()]
    found = [problem for name in names for problem in problems_in(name, (ROOT / name).read_text(encoding="utf-8"))]
    if THREAD not in names:
        found.append(f"{THREAD} is gone: tools/lint/kernels.py looks for the kernel there")
    for problem in found:
        print(problem)
    print(f"kernels: {len(names)} files, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs a program, and says what it took."""

import os
import subprocess
import sys
import tempfile
import time


def run(command):
    """The command's output; its seconds, CPU seconds and peak memory in MiB. Ends this program if it fails."""
    with tempfile.TemporaryFile() as errors:
        start = time.monotonic()
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors)
        output = process.stdout.read()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode != 0:
            errors.seek(0)
            sys.exit(f"{' '.join(command)}: exit code {process.returncode}\n{errors.read().decode()[-2000:]}")
    return output.decode(), {
        "seconds": round(seconds, 1),
        "cpuSeconds": round(usage.ru_utime + usage.ru_stime, 1),
        "peakMiB": round(usage.ru_maxrss / 1024),
    }

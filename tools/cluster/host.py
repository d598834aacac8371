"""What the cluster needs of this machine: checks before, processes, namespaces and cgroups while, removal after."""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

from layout import MARK, PART, UserError

CGROUPS = Path("/sys/fs/cgroup")
CNI_FOLDERS = ("/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni")
NEEDED_COMMANDS = {
    "openssl": "openssl",
    "ip": "iproute2",
    "nft": "nftables",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "mount": "mount",
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
}


def run(arguments, *, check=True, text=None, env=None, timeout=120):
    """Runs a program to its end and returns its stdout."""
    done = subprocess.run(
        [str(a) for a in arguments], input=text, capture_output=True, text=True, check=False, env=env, timeout=timeout
    )
    if check and done.returncode != 0:
        raise RuntimeError(f"{' '.join(str(a) for a in arguments)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout


# --- Checks ----------------------------------------------------------------------------------------------------


def cni_folder():
    for folder in CNI_FOLDERS:
        if os.access(f"{folder}/ptp", os.X_OK) and os.access(f"{folder}/host-local", os.X_OK):
            return folder
    raise UserError("CNI plugins 'ptp' and 'host-local' are missing: apt-get install containernetworking-plugins")


def available_memory_mib():
    for line in Path("/proc/meminfo").read_text().splitlines():
        if line.startswith("MemAvailable:"):
            return int(line.split()[1]) // 1024
    raise UserError("/proc/meminfo has no MemAvailable: this needs Linux 3.14 or newer")


def check_memory(nodes):
    needed = 1000 + 300 * nodes
    available = available_memory_mib()
    if available < needed:
        raise UserError(
            f"{available} MiB of memory are available and {nodes} nodes need {needed}: "
            "free some, or ask for fewer nodes with --nodes"
        )


def check_commands(names):
    for name in names:
        if shutil.which(name) is None:
            raise UserError(f"the command '{name}' is missing: apt-get install {NEEDED_COMMANDS[name]}")


def _probe(what, remedy, script, *unshare):
    done = subprocess.run(["unshare", *unshare, "sh", "-ec", script], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UserError(f"this kernel or container does not allow {what} ({reason}): {remedy}")


def check_kernel(directory):
    """Tries each feature in namespaces that vanish with the try."""
    remedy = "load the module, or run on a machine (or with a privileged container) that has it"
    _probe("network namespaces", remedy, "true", "--net")
    _probe("veth pairs", remedy, "ip link add name probe0 type veth peer name probe1", "--net")
    _probe("bridges", remedy, "ip link add name probe0 type bridge", "--net")
    _probe("nftables", remedy, "nft add table inet probe && nft add chain inet probe c "
           "'{ type filter hook forward priority 0; }' && nft add rule inet probe c ct state established accept", "--net")
    _probe("IPv4 forwarding", remedy, "echo 1 > /proc/sys/net/ipv4/ip_forward", "--net")
    with tempfile.TemporaryDirectory(dir=directory, prefix=".probe-") as probe:
        for name in ("lower", "upper", "work", "merged"):
            os.mkdir(f"{probe}/{name}")
        _probe(
            f"overlayfs on {directory}", "use a machine whose /var/tmp is on an ordinary disk file system",
            f"cd {probe} && mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged", "--mount",
        )
    hierarchies()


def hierarchies():
    """The cgroup folders that hold the controllers a kubelet needs: several with version 1, one with version 2."""
    remedy = "mount the cgroup file systems (systemd does; in a container run it privileged)"
    if (CGROUPS / "cgroup.controllers").exists():
        offered = (CGROUPS / "cgroup.controllers").read_text().split()
        found = [CGROUPS]
    else:
        found = [p for p in CGROUPS.iterdir() if p.is_dir() and (p / "cgroup.procs").exists()] if CGROUPS.is_dir() else []
        offered = [p.name for p in found] + [name for p in found for name in p.name.split(",")]
    for controller in ("cpu", "memory", "pids"):
        if controller not in offered:
            raise UserError(f"the cgroup controller '{controller}' is missing under {CGROUPS}: {remedy}")
    return found


# --- Processes -------------------------------------------------------------------------------------------------


def start(command, *, directory, part, log, enter=None):
    """Starts a daemon of the cluster in `directory`; `enter` is a prefix as enter() makes it."""
    environment = {
        "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        "HOME": str(directory),
        "PYTHONDONTWRITEBYTECODE": "1",
        MARK: str(directory),
        PART: part,
    }
    with open(log, "ab") as output:
        return subprocess.Popen(
            [*(enter or []), *(str(c) for c in command)],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment, start_new_session=True, cwd="/",
        )


def _environment(pid):
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return {}
    pairs = (entry.split(b"=", 1) for entry in raw.split(b"\0") if b"=" in entry)
    return {key.decode(errors="replace"): value.decode(errors="replace") for key, value in pairs}


def processes(directory):
    """The cluster's processes: id to part. Containers' processes are not among them; see cgroup_processes()."""
    found = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        environment = _environment(entry)
        if environment.get(MARK) == str(directory):
            found[int(entry)] = environment.get(PART, "?")
    return found


def main_processes(directory):
    """Part to process id, of the daemons alone: what they start inherits the mark, but not the session."""
    found = {}
    for pid, part in sorted(processes(directory).items(), reverse=True):
        try:
            if os.getsid(pid) == pid:
                found[part] = pid
        except ProcessLookupError:
            pass  # ended meanwhile
    return found


def kill_and_wait(pid):
    """Returns when the process has let go of its ports and files, which is later than when its memory is gone."""
    process = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(process, signal.SIGKILL)
        if not select.select([process], [], [], 30)[0]:
            raise UserError(f"process {pid} does not end")
    finally:
        os.close(process)


def _cgroup_folders(prefix):
    if not CGROUPS.is_dir():
        return []
    parents = [CGROUPS] + [p for p in CGROUPS.iterdir() if p.is_dir() and not p.is_symlink()]
    return [p / name for p in parents for name in os.listdir(p) if name.startswith(prefix) and (p / name).is_dir()]


def cgroup_processes(prefix):
    found = set()
    for top in _cgroup_folders(prefix):
        for folder, _, files in os.walk(top):
            if "cgroup.procs" not in files:
                continue
            with contextlib.suppress(OSError):  # removed meanwhile
                found.update(int(pid) for pid in Path(folder, "cgroup.procs").read_text().split())
    return found


def create_cgroup(name):
    for hierarchy in hierarchies():
        folder = hierarchy / name
        if (hierarchy / "cgroup.subtree_control").exists():
            # Beside those of version 1 it has what they have left, often nothing.
            offered = (hierarchy / "cgroup.controllers").read_text().split()
            for controller in {"cpu", "cpuset", "io", "memory", "pids", "hugetlb"}.intersection(offered):
                try:
                    (hierarchy / "cgroup.subtree_control").write_text(f"+{controller}")
                except OSError as error:
                    if controller in ("cpu", "memory", "pids"):
                        # In a container with cgroups of its own, its processes sit where the nodes' cgroups would be made.
                        raise UserError(
                            f"the cgroup controller '{controller}' can't be given to {hierarchy}'s children ({error.strerror}):"
                            f" in a container, move its processes to a child of {hierarchy} first, or use --cgroupns=host"
                        ) from None
        folder.mkdir(exist_ok=True)
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (folder / setting).exists() and not (hierarchy / "cgroup.controllers").exists():
                (folder / setting).write_text((hierarchy / setting).read_text())


def _signal(pids, number):
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def kill_everything(directory, cgroup_prefix, timeout=30):
    """Kills until nothing is left: what a shim or a kubelet starts meanwhile is found in the next round."""
    deadline = time.monotonic() + timeout
    rounds_without = 0
    while rounds_without < 2:
        marked = processes(directory)
        found = set(marked) | cgroup_processes(cgroup_prefix)
        found.discard(os.getpid())
        if not found:
            rounds_without += 1
            continue
        rounds_without = 0
        if time.monotonic() > deadline:
            raise UserError(f"processes {sorted(found)} survive SIGKILL: /proc/<pid>/stack shows what they wait for")
        # Kubelets first: they would start again what is killed after.
        _signal([pid for pid, part in marked.items() if "kubelet" in part], signal.SIGKILL)
        _signal(found, signal.SIGKILL)
        time.sleep(0.05)


def remove_cgroups(prefix, timeout=10):
    deadline = time.monotonic() + timeout
    while True:
        folders = _cgroup_folders(prefix)
        if not folders:
            return
        for top in folders:
            for folder, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):  # the kernel may need a moment after the last process
                    os.rmdir(folder)
        if time.monotonic() > deadline:
            raise UserError(f"cgroups {[str(f) for f in _cgroup_folders(prefix)]} cannot be removed: processes in them remain")
        time.sleep(0.02)


def mounts_below(directory):
    """Newest first. A cluster makes none outside its nodes' own mount namespaces; this finds what a user added."""
    found = []
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split()[4].encode().decode("unicode_escape")
        if point == str(directory) or point.startswith(f"{directory}/"):
            found.append(point)
    return found[::-1]


def remove_tree(directory):
    for point in mounts_below(directory):
        run(["umount", point], check=False)
    if not os.path.lexists(directory):
        return
    if mounts_below(directory):
        raise UserError(f"{mounts_below(directory)[0]} is still mounted: unmount it, then run down again")
    shutil.rmtree(directory)


# --- Namespaces ------------------------------------------------------------------------------------------------

# Namespaces live as long as a process in them: no names or mounts outside, hence nothing that could stay behind.


def enter(pid, *, mount=False):
    return ["nsenter", f"--net=/proc/{pid}/ns/net", *([f"--mount=/proc/{pid}/ns/mnt"] if mount else []), "--"]

"""Images: the few small ones the cluster brings itself, and loading the user's into the nodes."""

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from host import run
from layout import MARK, SOURCE, UserError, cache_directory

PAUSE = "localhost/gnn-cluster/pause:1"
BUSYBOX = "localhost/gnn-cluster/busybox:1"
PROMETHEUS = "localhost/gnn-cluster/prometheus:1"
KUEUE = "localhost/gnn-cluster/kueue:1"

# buildah without a daemon, and without kernel features beyond root's.
BUILDAH = ["buildah", "--storage-driver", "vfs"]


def _add_file(archive, name, data, mode=0o644):
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), mode
    archive.addfile(entry, io.BytesIO(data))


def _write_image(path, reference, files, config, links=None, folders=None):
    """A docker-archive of one layer; the same content gives the same bytes. `files` maps a path to content or a file."""
    layer = io.BytesIO()
    with tarfile.open(fileobj=layer, mode="w") as archive:
        for name in sorted([*files, *(links or {})]):
            for parent in reversed(Path(name).parents[:-1]):
                folders = {**(folders or {}), str(parent): (folders or {}).get(str(parent), 0o755)}
        for name in sorted(folders or {}):
            entry = tarfile.TarInfo(name)
            entry.type, entry.mode = tarfile.DIRTYPE, folders[name]
            archive.addfile(entry)
        for name in sorted(files):
            content = files[name]
            data = content if isinstance(content, bytes) else Path(content).read_bytes()
            _add_file(archive, name, data, 0o644 if isinstance(content, bytes) else 0o755)
        for name in sorted(links or {}):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, links[name]
            archive.addfile(entry)
    layer_digest = hashlib.sha256(layer.getvalue()).hexdigest()
    image = json.dumps({
        "architecture": "amd64", "os": "linux", "config": config,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer_digest}"]},
    }).encode()
    config_name = hashlib.sha256(image).hexdigest() + ".json"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [reference], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(path, "w") as archive:
        _add_file(archive, config_name, image)
        _add_file(archive, "layer.tar", layer.getvalue())
        _add_file(archive, "manifest.json", manifest)


def _cached(name, key_files, make):
    """`make(path)` once for each content of `key_files`; the result appears whole or not at all."""
    digest = hashlib.sha256()
    for file in [Path(__file__), *key_files]:
        digest.update(Path(file).read_bytes())
    folder = cache_directory() / "cluster-images"
    final = folder / f"{name}-{digest.hexdigest()[:16]}.tar"
    if not final.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as work:
            make(Path(work) / "image.tar", Path(work))
            os.replace(Path(work) / "image.tar", final)
    return final


def pause_archive():
    source = SOURCE / "images" / "pause.c"

    def make(path, work):
        if shutil.which("cc") is None:
            raise UserError("a C compiler is missing: apt-get install gcc libc6-dev")
        run(["cc", "-static", "-Os", "-s", "-o", work / "pause", source])
        _write_image(path, PAUSE, {"pause": work / "pause"}, {"Entrypoint": ["/pause"], "User": "65535"})

    return _cached("pause", [source], make)


def _with_libraries(program):
    """A program and the libraries it is linked to, each under its own path."""
    libraries = re.findall(r"(/\S+\.so\S*)", run(["ldd", program]))
    return {str(file).lstrip("/"): Path(file) for file in [program, *libraries]}


def busybox_archive():
    """A shell with the usual small tools, for pods of tests and for looking around; curl and getent know host names,
    which the statically linked busybox does not."""
    programs = {"busybox": "busybox-static", "curl": "curl", "getent": "libc-bin"}
    for name, package in programs.items():
        if shutil.which(name) is None:
            raise UserError(f"{name} is missing: apt-get install {package}")
    busybox, curl, getent = (Path(shutil.which(name)) for name in programs)

    def make(path, _):
        links = {f"bin/{name}": "/bin/busybox" for name in run([busybox, "--list"]).split() if name != "busybox"}
        files = {
            "bin/busybox": busybox,
            **_with_libraries(curl),
            **_with_libraries(getent),
            "etc/passwd": b"root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n",
            "etc/group": b"root:x:0:\nnogroup:x:65534:\n",
            "etc/nsswitch.conf": b"hosts: files dns\n",
        }
        config = {"Cmd": ["/bin/sh"], "Env": ["PATH=/bin:/usr/bin"]}
        _write_image(path, BUSYBOX, files, config, links, {"tmp": 0o1777})

    return _cached("busybox", [busybox, curl], make)


def prometheus_archive():
    """Debian's Prometheus with the libraries it is linked to."""
    found = shutil.which("prometheus")
    if found is None:
        raise UserError("prometheus is missing: apt-get install prometheus")
    program = Path(found)

    def make(path, _):
        config = {"Entrypoint": [str(program)], "User": "65534"}
        _write_image(path, PROMETHEUS, _with_libraries(program), config, {}, {"tmp": 0o1777})

    return _cached("prometheus", [program], make)


def kueue_archive(program):
    """Kueue's manager, whose path and user its Deployment expects."""

    def make(path, _):
        config = {"Entrypoint": ["/manager"], "User": "65532:65532"}
        _write_image(path, KUEUE, {"manager": program}, config, {}, {"tmp": 0o1777})

    return _cached("kueue", [program], make)


def import_archive(node, archive):
    """Into one node's containerd."""
    # Marked as the cluster's, so that `down` ends it if we are killed meanwhile.
    run(["ctr", "--address", node.socket, "--namespace", "k8s.io", "images", "import", "--no-unpack", archive],
        env={**os.environ, MARK: str(node.cluster.directory)}, timeout=600)


def export(image, work):
    """A docker-archive of an image in buildah's storage, or the archive itself if a file is named."""
    if image.endswith(".tar") and Path(image).is_file():
        return Path(image)
    if shutil.which("buildah") is None:
        raise UserError("buildah is missing: apt-get install buildah")
    found = subprocess.run([*BUILDAH, "inspect", "--type", "image", image], capture_output=True, text=True, check=False)
    if found.returncode != 0:
        raise UserError(f"image {image} is not in buildah's storage: build it ({' '.join(BUILDAH)} build -t {image} ...)")
    archive = Path(work) / "image.tar"
    archive.unlink(missing_ok=True)
    name = image if re.search(r":[^/]*$", image) else f"{image}:latest"
    run([*BUILDAH, "push", "--quiet", image, f"docker-archive:{archive}:{name}"], timeout=600)
    return archive

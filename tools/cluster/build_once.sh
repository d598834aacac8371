#!/usr/bin/env bash
# Sourced by the build scripts of programs that stand beside those of tools/cluster/go. They have a function: fill FOLDER
# OTHERS, which builds into the folder, with OTHERS the folder of the test cluster's programs.
set -euo pipefail

cluster=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

die() {
  echo "$0: $*" >&2
  exit 1
}

# Without a Go of this minor version, the pinned one that scripts/setup --cluster unpacked.
need_go() {
  local version pinned
  version=$({ go env GOVERSION 2>/dev/null || echo none; } | sed -n 's/^go1\.\([0-9]*\).*/\1/p')
  [ "${version:-0}" -ge "$1" ] && return
  pinned=$("$cluster/../../scripts/setup" --print-dir go 2>/dev/null) ||
    die "no Go 1.$1 or newer in PATH; install it, or run scripts/setup --cluster"
  PATH=$pinned/go/bin:$PATH
}

# NAME FILE...: calls fill unless that was done before, and prints the folder. Its name is a hash of everything that
# decides its content: of the files in tools/cluster/NAME, beside the version of Go and the other programs.
build_once() {
  local name=$1 cache=${XDG_CACHE_HOME:-$HOME/.cache}/gnn-operator/cluster-tools others key out staging
  shift
  others=$("$cluster/go/build")
  cd "$cluster/$name" || die "no such folder"
  export GOTOOLCHAIN=local GOWORK=off CGO_ENABLED=0
  key=$({
    go env GOVERSION
    echo "$others"
    cat ../build_once.sh "$@"
  } | sha256sum | cut -c1-16)
  out=$cache/$name-$key
  mkdir -p "$cache"
  exec 9>"$out.lock"
  flock 9
  if [ ! -e "$out/complete" ]; then
    staging=$(mktemp -d "$out.tmp.XXXXXX")
    # shellcheck disable=SC2064 # its name of now
    trap "chmod -R u+w '$staging' 2>/dev/null; rm -rf '$staging'" EXIT
    fill "$staging" "$others"
    touch "$staging/complete"
    chmod 755 "$staging"
    rm -rf "$out" # an earlier one without its `complete` file
    mv -T "$staging" "$out"
    trap - EXIT
  fi
  echo "$out"
}

# FOLDER LDFLAGS PACKAGE...: builds the packages' programs into the folder.
go_build() {
  local folder=$1 ldflags=$2
  shift 2
  go build -mod=readonly -trimpath -buildvcs=false -gcflags all=-dwarf=false -ldflags "-s -w $ldflags" -o "$folder/" \
    "$@" >&2 || die "the Go build failed (see above); the module proxy must be reachable for a first build"
}

# VERSION, as in 1.34.4: what Kubernetes' programs say it is.
kubernetes_ldflags() {
  local version=k8s.io/component-base/version minor=${1#*.}
  echo "-X $version.gitVersion=v$1 -X $version.gitMajor=${1%%.*} -X $version.gitMinor=${minor%%.*}" \
    "-X $version.gitTreeState=clean"
}

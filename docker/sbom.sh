#!/bin/sh
# Prints an SPDX 2.3 document: the image's Debian packages and, from the second argument, the Python wheels
# whose libraries it holds. Runs inside the image while it is built; needs sh, dpkg-query and awk.
# usage: sbom.sh NAME [WHEELS-FILE]
set -eu

name=$1
wheels=${2:-/dev/null}
{
  dpkg-query -W -f 'deb\t${Package}\t${Version}\n'
  sed -n 's/^\([A-Za-z0-9._-]*\)==\([^ ]*\).*/pypi\t\1\t\2/p' "$wheels"
} | awk -F '\t' -v name="$name" '
BEGIN {
  printf "{\"spdxVersion\":\"SPDX-2.3\",\"dataLicense\":\"CC0-1.0\",\"SPDXID\":\"SPDXRef-DOCUMENT\","
  printf "\"name\":\"%s\",\"documentNamespace\":\"https://gnn.dev/spdx/%s\",", name, name
  printf "\"creationInfo\":{\"created\":\"1970-01-01T00:00:00Z\",\"creators\":[\"Tool: sbom.sh\"]},\"packages\":["
}
{
  id = $2; gsub(/[^A-Za-z0-9.-]/, "-", id)
  type = $1; package = $2; version = $3
  purl = (type == "deb") ? "pkg:deb/debian/" package "@" version : "pkg:pypi/" package "@" version
  printf "%s{\"SPDXID\":\"SPDXRef-%s-%s\",\"name\":\"%s\",\"versionInfo\":\"%s\",", (NR > 1 ? "," : ""), type, id, package, version
  printf "\"downloadLocation\":\"NOASSERTION\",\"filesAnalyzed\":false,\"externalRefs\":[{\"referenceCategory\":"
  printf "\"PACKAGE-MANAGER\",\"referenceType\":\"purl\",\"referenceLocator\":\"%s\"}]}", purl
}
END { print "]}" }'

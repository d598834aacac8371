#!/bin/sh
# Prints an SPDX 2.3 document in JSON: the image's program, its Debian packages and the Python wheels whose libraries it
# contains (last argument). Images with the same content, and only those, get the same document and namespace. Runs inside the
# image while it is built, with the tools of every Debian.
# usage: sbom.sh NAME VERSION PROGRAM [WHEELS-FILE]
set -eu
export LC_ALL=C

name=$1 version=$2 program=$3 wheels=${4:-/dev/null}
digest=$(sha256sum "$program")
digest=${digest%% *}
# Skips packages that were removed and left only their configuration.
packages=$(dpkg-query -W -f '${db:Status-Status}\tdeb\t${Package}\t${Version}\n')
contents=$(
  printf '%s\n' "$packages" | sed -n 's/^installed\t//p' | sort
  sed -n 's/^\([A-Za-z0-9._-]*\)==\([^ ]*\).*/pypi\t\1\t\2/p' "$wheels" | sort
)
key=$(printf '%s\n' "$name" "$version" "$digest" "$contents" | sha256sum)

printf '%s\n' "$contents" | awk -F '\t' -v name="$name" -v version="$version" -v digest="$digest" -v key="${key%% *}" '
function encoded(text) { gsub(/\+/, "%2B", text); return text }
function relation(from, type, to) {
  return "{\"spdxElementId\":\"" from "\",\"relationshipType\":\"" type "\",\"relatedSpdxElement\":\"" to "\"}"
}
# One element of `packages`; `more` has the fields that only some have.
function element(id, name, version, more) {
  return "{\"SPDXID\":\"" id "\",\"name\":\"" name "\",\"versionInfo\":\"" version "\"," \
    "\"downloadLocation\":\"NOASSERTION\",\"filesAnalyzed\":false," more "}"
}
BEGIN {
  image = "SPDXRef-image"; program = "SPDXRef-program"
  printf "{\"spdxVersion\":\"SPDX-2.3\",\"dataLicense\":\"CC0-1.0\",\"SPDXID\":\"SPDXRef-DOCUMENT\","
  printf "\"name\":\"%s-%s\",\"documentNamespace\":\"https://gnn.dev/spdx/%s-%s-%s\",", name, version, name, version, key
  printf "\"creationInfo\":{\"created\":\"1970-01-01T00:00:00Z\",\"creators\":[\"Tool: sbom.sh-%s\"]},\"packages\":[", version
  printf "%s,", element(image, name " image", version, "\"primaryPackagePurpose\":\"CONTAINER\"")
  printf "%s", element(program, name, version, "\"licenseDeclared\":\"Apache-2.0\",\"primaryPackagePurpose\":\"APPLICATION\"," \
    "\"checksums\":[{\"algorithm\":\"SHA256\",\"checksumValue\":\"" digest "\"}]")
  relations = relation("SPDXRef-DOCUMENT", "DESCRIBES", image) "," relation(image, "CONTAINS", program)
}
NF == 3 {
  # Identifiers may contain only letters, digits, dots and dashes.
  id = $2; gsub(/\+/, "plus", id); gsub(/_/, "-", id); id = "SPDXRef-" $1 "-" id
  purl = (($1 == "deb") ? "pkg:deb/debian/" : "pkg:pypi/") encoded($2) "@" encoded($3)
  printf ",%s", element(id, $2, $3, "\"externalRefs\":[{\"referenceCategory\":\"PACKAGE-MANAGER\"," \
    "\"referenceType\":\"purl\",\"referenceLocator\":\"" purl "\"}]")
  relations = relations "," relation(image, "CONTAINS", id)
}
END { print "],\"relationships\":[" relations "]}" }'

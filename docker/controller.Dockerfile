# The controller's image. Its context is the installed component `controller`, which `scripts/images` stages.
ARG BASE=debian:bookworm-slim

FROM ${BASE}
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="gnn-controller" \
      org.opencontainers.image.description="Runs GNNJobs: gangs of pods that train graph neural networks" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
RUN apt-get update -q \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
        ca-certificates libstdc++6 libcpprest2.10 libyaml-cpp0.7 libspdlog1.10 libfmt9 \
        libprometheus-cpp-core1.0 libcpp-httplib0.11 libxxhash0 libssl3 zlib1g \
    && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/*
COPY sbom.sh /tmp/sbom.sh
COPY bin/gnn-controller /usr/local/bin/gnn-controller
RUN sh /tmp/sbom.sh gnn-controller "${VERSION}" /usr/local/bin/gnn-controller > /usr/share/doc/gnn-controller.spdx.json \
    && rm /tmp/sbom.sh
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/gnn-controller"]

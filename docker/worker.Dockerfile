# The worker image. Targets: cpu, cuda. The context is what `scripts/images` stages: the installed component
# `worker` (bin/gnn-worker and the libraries of LibTorch that it loads), made from this checkout.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS runtime
# Debian's part of what gnn-worker loads; no package manager cache stays behind.
RUN apt-get update -q \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
        ca-certificates libstdc++6 libyaml-cpp0.7 libspdlog1.10 libfmt9 libprometheus-cpp-core1.0 \
        libcpp-httplib0.11 libxxhash0 zlib1g libssl3 \
    && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/*
COPY sbom.sh /tmp/sbom.sh
COPY wheels.txt /tmp/wheels.txt
RUN sh /tmp/sbom.sh gnn-worker /tmp/wheels.txt > /usr/share/doc/gnn-worker.spdx.json \
    && rm /tmp/sbom.sh /tmp/wheels.txt

FROM runtime AS cpu
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="gnn-worker" \
      org.opencontainers.image.description="Trains graph neural networks in the pods of a GNNJob" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY lib/ /usr/local/lib/gnn/
COPY bin/gnn-worker /usr/local/bin/gnn-worker
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/gnn-worker"]
CMD ["agent"]

FROM cpu AS cuda
# The driver's libcuda.so comes from the node through the container runtime; these ask it for compute alone.
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY cuda-lib/ /usr/local/lib/gnn/

# The worker's image, with the targets cpu and cuda. Its context is the installed component `worker`, which `scripts/images`
# stages: bin/gnn-worker and the libraries of LibTorch that it loads.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS runtime
# Debian's libraries that gnn-worker loads.
RUN apt-get update -q \
    && DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends \
        ca-certificates libstdc++6 libyaml-cpp0.7 libspdlog1.10 libfmt9 libprometheus-cpp-core1.0 \
        libcpp-httplib0.11 libxxhash0 zlib1g libssl3 libmetis5 \
    && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/*

# The program and the bill of materials, so that one small layer adds both.
FROM runtime AS program
ARG VERSION=0.0.0
COPY bin/gnn-worker sbom.sh wheels.txt /tmp/
RUN mkdir -p /program/usr/local/bin /program/usr/share/doc \
    && cp /tmp/gnn-worker /program/usr/local/bin/ \
    && sh /tmp/sbom.sh gnn-worker "${VERSION}" /tmp/gnn-worker /tmp/wheels.txt > /program/usr/share/doc/gnn-worker.spdx.json

FROM runtime AS cpu
# Copied before what changes with each commit, so that this layer, most of the image, is built once.
COPY lib/ /usr/local/lib/gnn/
ARG VERSION=0.0.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="gnn-worker" \
      org.opencontainers.image.description="Trains graph neural networks in the pods of a GNNJob" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=program /program/ /
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/gnn-worker"]
CMD ["agent"]

FROM cpu AS cuda
# The container runtime adds the driver's libcuda.so from the machine: the parts for compute alone. Which GPUs the container
# gets is not for its image to say, so NVIDIA_VISIBLE_DEVICES is not set: a pod that requests none would get all.
ENV NVIDIA_DRIVER_CAPABILITIES=compute,utility
COPY cuda-lib/ /usr/local/lib/gnn/

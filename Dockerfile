# SPDX-License-Identifier: Apache-2.0
# Container images of vicinal-server without a shell or a package manager. docs/containers.md describes them.
#   docker build -t vicinal:0.1.0 .                                          for the CPU
#   docker build -t vicinal:0.1.0-cuda --target cuda \
#     --build-context toolkit=/usr/local/cuda .                              with the CUDA backend, for a CUDA 13 toolkit of this machine
#   docker build -t vicinal:0.1.0-cuda-full --target cuda-full \
#     --build-context toolkit=/usr/local/cuda .                              and with NVIDIA's cuBLAS, cuSPARSE and NVRTC
#   deploy/image.sh build/release build/image && docker build --build-context image=build/image .   from a build that is there
#   docker run --rm --read-only -p 127.0.0.1:8500:8500 -p 127.0.0.1:8502:8502 -v vicinal-state:/var/lib/vicinal \
#     -v "$PWD/admin.token:/run/secrets/admin.token:ro" vicinal:0.1.0 --state_dir=/var/lib/vicinal [--flag=value ...]
# buildah takes the same arguments; `buildah build --format docker` keeps the health check. The token's file must be readable by group
# 65532, in which the server runs: chgrp 65532 and chmod 440. Flags after the image's name come after those below; of a flag that stands
# twice the last counts. Without --state_dir graphs live in memory: a container that stops forgets them.

# A CUDA toolkit, if --build-context names one. Without it the backend is not built, and only the target cpu is there.
FROM scratch AS toolkit

FROM debian:12-slim AS build
WORKDIR /src
COPY deploy/packages.sh deploy/packages.sh
RUN deploy/packages.sh build
COPY . .
# `--build-arg CUDA_ARCHITECTURES=all` compiles for every supported GPU (docs/gpus.md).
ARG CUDA_ARCHITECTURES=
RUN --mount=type=cache,target=/ccache --mount=type=bind,from=toolkit,target=/usr/local/cuda \
    export CCACHE_DIR=/ccache PATH="$PATH:/usr/local/cuda/bin" && \
    cmake --preset run ${CUDA_ARCHITECTURES:+-DVICINAL_CUDA_ARCHITECTURES="$CUDA_ARCHITECTURES"} && \
    cmake --build build/run && deploy/image.sh build/run /image

# One folder per layer. `--build-context image=FOLDER` puts a folder of deploy/image.sh in the place of this stage.
FROM scratch AS image
COPY --from=build /image /

FROM scratch AS cpu
COPY --from=image /cpu /
# A new volume takes its owner from here.
COPY --from=image --chown=65532:65532 /state /var/lib/vicinal
LABEL org.opencontainers.image.title="vicinal" \
      org.opencontainers.image.description="Graph neural network inference over gRPC" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.base.name="scratch"
ENV PATH=/opt/vicinal/bin
# A number, so that Kubernetes can tell that it is not root (runAsNonRoot).
USER 65532:65532
WORKDIR /var/lib/vicinal
EXPOSE 8500 8501 8502
STOPSIGNAL SIGTERM
# Health has a port of its own, which stays in plain text when --tls_cert_file encrypts the API.
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["/opt/vicinal/bin/vicinal", "health", "--server", "127.0.0.1:8501", "--timeout", "3"]
# Inside a container, loopback would be nobody's: listen on all addresses. Admin methods need the token of this file; it
# travels in plain text, so let only a trusted network, or a proxy with TLS, reach the port. All of this is in the entry
# point and not in CMD, so that a flag given to `docker run` adds to it and does not take its place.
ENTRYPOINT ["/opt/vicinal/bin/vicinal-server", \
            "--grpc_listen=0.0.0.0:8500", "--health_listen=0.0.0.0:8501", "--metrics_listen=0.0.0.0:8502", \
            "--admin_token_file=/run/secrets/admin.token", "--allow_plaintext_tokens"]

# The driver comes from the host (NVIDIA container toolkit, device plugin).
FROM cpu AS cuda
COPY --from=image /cuda /
ENV NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility

FROM cuda AS cuda-full
COPY --from=image /cuda-full /

# What `docker build` makes without --target.
FROM cpu

# SPDX-License-Identifier: Apache-2.0
# vicinal-server for the CPU. Two stages: the first compiles, the second holds the programs and the libraries they load.
#   docker build -t vicinal:0.1.0 .
#   docker run --rm -p 127.0.0.1:8500:8500 -p 127.0.0.1:8502:8502 \
#     -v "$PWD/admin.token:/run/secrets/admin.token:ro" vicinal:0.1.0 [--flag=value ...]
# The token's file must be readable by group 65532, in which the server runs: chgrp 65532 and chmod 440. Flags after the
# image's name come after those below; of a flag that stands twice the last counts.
# There is no HEALTHCHECK: the health service is gRPC, and orchestrators probe it themselves (deploy/kubernetes/).
# Graphs live in memory: a container that stops forgets them.

FROM debian:12-slim AS build
WORKDIR /src
COPY deploy/packages.sh deploy/packages.sh
RUN deploy/packages.sh build
COPY . .
RUN cmake --preset run && cmake --build build/run && cmake --install build/run --prefix /opt/vicinal --strip

FROM debian:12-slim
COPY deploy/packages.sh /tmp/packages.sh
RUN /tmp/packages.sh runtime && rm -rf /tmp/packages.sh /var/lib/apt/lists/* /var/cache/apt /var/log/apt /var/log/dpkg.log
COPY --from=build /opt/vicinal /opt/vicinal
COPY LICENSE /opt/vicinal/LICENSE
ENV PATH=/opt/vicinal/bin:$PATH
# A number, so that Kubernetes can tell that it is not root (runAsNonRoot).
USER 65532:65532
EXPOSE 8500 8502
STOPSIGNAL SIGTERM
# Inside a container, loopback would be nobody's: listen on all addresses. Admin methods need the token of this file; it
# travels in plain text, so let only a trusted network, or a proxy with TLS, reach the port. All of this is in the entry
# point and not in CMD, so that a flag given to `docker run` adds to it and does not take its place.
ENTRYPOINT ["/opt/vicinal/bin/vicinal-server", \
            "--grpc_listen=0.0.0.0:8500", "--metrics_listen=0.0.0.0:8502", \
            "--admin_token_file=/run/secrets/admin.token", "--allow_plaintext_tokens"]

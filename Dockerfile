# syntax=docker/dockerfile:1
# The patchwright binary with the certificates of the usual authorities, and nothing else: it needs no
# git, no shell and no language runtime. It starts its sandboxes through Docker's socket:
#
#   docker run --rm -v /var/run/docker.sock:/var/run/docker.sock \
#     --user "$(id -u)" --group-add "$(stat -c %g /var/run/docker.sock)" \
#     -e GITHUB_TOKEN -e OPENAI_API_KEY patchwright issue acme/app#7
#
# Whoever may use that socket is root on the machine, with or without a user in this image: run it
# where nothing else is. The sandboxes themselves never see the socket.

FROM rust:1-bookworm AS build
WORKDIR /src
COPY . .
# What `patchwright --version --json` names as the commit.
ARG PATCHWRIGHT_COMMIT=
# The toolchain's static C library comes with libc6-dev, which this image has.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --profile dist --locked --bin patchwright \
 && install -D target/dist/patchwright /out/patchwright

FROM debian:bookworm-slim
RUN apt-get update \
 && apt-get install --yes --no-install-recommends ca-certificates \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --uid 10001 --create-home --home-dir /home/patchwright patchwright
COPY --from=build /out/patchwright /usr/local/bin/patchwright
USER patchwright
ENV XDG_STATE_HOME=/home/patchwright/state
WORKDIR /home/patchwright
ENTRYPOINT ["/usr/local/bin/patchwright"]
CMD ["--help"]

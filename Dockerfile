# The patchwright binary, the libraries that it is linked with and the certificates of the usual authorities,
# and nothing else: no shell, no git, no language runtime. It starts its sandboxes through Docker's socket:
#
#   docker run --rm -v /var/run/docker.sock:/var/run/docker.sock \
#     --user "$(id -u)" --group-add "$(stat -c %g /var/run/docker.sock)" \
#     -e GITHUB_TOKEN -e OPENAI_API_KEY patchwright issue acme/app#7
#
# Whoever may use that socket is root on the machine, with or without a user in this image: run it
# where nothing else is. The sandboxes themselves never see the socket.
#
# Built by BuildKit and by Docker's classic builder alike.

# Any image with Rust, a C compiler, the C library's static half (libc6-dev) and ca-certificates.
ARG RUST_IMAGE=rust:1-bookworm
FROM ${RUST_IMAGE} AS build
WORKDIR /src
COPY . .
# What `patchwright --version --json` names as the commit.
ARG PATCHWRIGHT_COMMIT=
RUN cargo build --profile dist --locked --bin patchwright
# The root of the image to be. Whoever runs it as another user (`--user`) has a home there, too.
RUN set -eu; \
    install -D target/dist/patchwright /root-of-image/usr/local/bin/patchwright; \
    for library in $(ldd target/dist/patchwright | grep -o '/[^ ]*'); do \
      mkdir -p "/root-of-image$(dirname "$library")"; \
      cp -L "$library" "/root-of-image$library"; \
    done; \
    install -D -m 644 /etc/ssl/certs/ca-certificates.crt /root-of-image/etc/ssl/certs/ca-certificates.crt; \
    printf 'root:x:0:0::/:/bin/false\npatchwright:x:10001:10001::/home/patchwright:/bin/false\n' \
      >/root-of-image/etc/passwd; \
    printf 'root:x:0:\npatchwright:x:10001:\n' >/root-of-image/etc/group; \
    mkdir -p -m 1777 /root-of-image/tmp /root-of-image/home/patchwright

FROM scratch
COPY --from=build /root-of-image/ /
USER 10001:10001
ENV HOME=/home/patchwright \
    XDG_STATE_HOME=/home/patchwright/state
WORKDIR /home/patchwright
# No HEALTHCHECK here: it would call every container unwell in which nothing listens. Where `serve` runs, the check is
# `patchwright health`, which needs neither a shell nor curl (docs/compose.yml).
ENTRYPOINT ["/usr/local/bin/patchwright"]
CMD ["--help"]

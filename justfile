# `just` lists the recipes.

set shell := ["bash", "-euo", "pipefail", "-c"]

[private]
default:
    @just --list --unsorted

# What CI runs: everything.
[group('check')]
ci:
    .ci/run

# Formatting, lints and tests.
[group('check')]
check: ci

# Tests only; arguments go to the test runner.
[group('check')]
test *arguments:
    ./test --fast -- {{ arguments }}

# Write the generated parts of the documents anew.
[group('check')]
docs:
    UPDATE=1 cargo test --test main docs

# The documentation site, in target/site.
[group('build')]
docs-site:
    .ci/docs

# Fuzz one parser of what others write; `just fuzz ''` prints the names.
[group('check')]
fuzz name seconds='3600':
    fuzz/run {{ name }} {{ seconds }}

# Measure; see docs/performance.md.
[group('check')]
bench name:
    cargo bench --bench {{ name }}

# The static program that runs inside the sandbox.
[group('build')]
guest:
    cargo rustc --package patchwright-guest-program --profile guest --bin patchwright-guest -- -C target-feature=+crt-static

# The container image.
[group('build')]
image tag='patchwright:dev':
    docker build --tag {{ tag }} .
    docker run --rm {{ tag }} --help

# The offline tour: from an issue to a pull request in a local folder.
[group('run')]
demo:
    cargo run -- demo

# Everything of a release, in target/release-VERSION.
[group('build')]
release *arguments:
    .ci/release {{ arguments }}

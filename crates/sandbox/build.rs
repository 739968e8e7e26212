//! Builds the guest, static, and leaves it in `OUT_DIR` for `include_bytes!`.
//!
//! The nested build has a target folder of its own, so that the two builds never wait for each
//! other's lock. `PATCHWRIGHT_GUEST_BIN` names a finished guest instead (other architectures, CI
//! caches, editors).
#![expect(
    clippy::disallowed_methods,
    clippy::print_stderr,
    reason = "a build script talks to cargo through its environment and its output"
)]

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// Everything that goes into the guest, from the folder of this package. A change elsewhere must not
/// rebuild it.
const SOURCES: &[&str] = &["../guest", "../guest-program", "../../Cargo.toml", "../../Cargo.lock"];

/// Settings of the outer build that must not reach the nested one: the flag for a static binary
/// goes to the last crate only, and a wrapper such as clippy's produces no binary.
const FOREIGN: &[&str] = &[
    "RUSTFLAGS",
    "CARGO_ENCODED_RUSTFLAGS",
    "CARGO_BUILD_RUSTFLAGS",
    "CARGO_BUILD_TARGET",
    "CARGO_BUILD_TARGET_DIR",
    "CARGO_TARGET_DIR",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "CARGO_BUILD_RUSTC_WRAPPER",
    "CARGO_BUILD_RUSTC_WORKSPACE_WRAPPER",
];

fn main() {
    for source in SOURCES {
        println!("cargo:rerun-if-changed={source}");
    }
    println!("cargo:rerun-if-env-changed=PATCHWRIGHT_GUEST_BIN");
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let guest = match env::var_os("PATCHWRIGHT_GUEST_BIN").filter(|path| !path.is_empty()) {
        Some(path) => PathBuf::from(path),
        None => build(&out),
    };
    let embedded = out.join("patchwright-guest");
    fs::copy(&guest, &embedded)
        .unwrap_or_else(|err| panic!("cannot copy the guest from `{}`: {err}", guest.display()));
    println!("cargo:rustc-env=GUEST_VERSION={}", version(&embedded));
}

/// Tells this guest from others, for the name of its folder. Computed here, because hashing megabytes
/// at each start costs as much as the rest of the start.
fn version(guest: &Path) -> String {
    let binary = fs::read(guest)
        .unwrap_or_else(|err| panic!("cannot read the guest at `{}`: {err}", guest.display()));
    let mut hasher = DefaultHasher::new();
    binary.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

/// Runs the nested build; returns the path of the binary.
fn build(out: &Path) -> PathBuf {
    let manifest = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let profile = if env::var("PROFILE").is_ok_and(|profile| profile == "debug") {
        "guest-dev"
    } else {
        "guest"
    };
    let target = out.join("guest");
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo sets CARGO"));
    cargo
        .arg("rustc")
        .arg("--manifest-path")
        .arg(manifest.join("../../Cargo.toml"))
        .args(["--package", "patchwright-guest-program", "--bin", "patchwright-guest", "--locked"])
        .args(["--profile", profile, "--target-dir"])
        .arg(&target)
        .args(["--", "-C", "target-feature=+crt-static"]);
    for name in FOREIGN {
        cargo.env_remove(name);
    }
    let output = cargo.output().expect("cargo can be started");
    if !output.status.success() {
        let text = String::from_utf8_lossy(&output.stderr);
        eprintln!("{text}");
        let hint = if text.contains("-lc") || text.contains("libc.a") {
            "\nhint: the guest is linked statically and needs `libc.a`: install `libc6-dev` \
             (Debian, Ubuntu), `glibc-static` (Fedora) or `musl-dev` (Alpine)"
        } else {
            ""
        };
        panic!("the guest does not build; see cargo's messages above{hint}");
    }
    target.join(profile).join("patchwright-guest")
}

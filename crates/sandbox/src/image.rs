//! Which image a run gets: names, the table of repository kinds, and the key of cached setups. Pure;
//! Docker is asked by [`super::docker`].

use sha2::{Digest, Sha256};

use super::{ImageSpec, SandboxError};

/// Files in the root folder that tell the kind of a repository, first match wins, and the official
/// image with that toolchain.
pub const KINDS: &[(&[&str], &str)] = &[
    (&["Cargo.toml"], "rust:1-bookworm"),
    (&["go.mod"], "golang:1-bookworm"),
    (
        &["pyproject.toml", "setup.py", "setup.cfg", "requirements.txt", "Pipfile"],
        "python:3.13-bookworm",
    ),
    (&["package.json"], "node:22-bookworm"),
    (&["pom.xml"], "maven:3-eclipse-temurin-21"),
    (
        &["build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts"],
        "gradle:8-jdk21",
    ),
    (&["Gemfile"], "ruby:3.4-bookworm"),
    (&["composer.json"], "composer:2"),
    (&["mix.exs"], "elixir:1.18"),
    (&["Package.swift"], "swift:6.0-bookworm"),
    (&["stack.yaml", "cabal.project"], "haskell:9-bookworm"),
];

/// For repositories of no known kind: compilers and usual libraries, no language runtime.
pub const OTHER: &str = "buildpack-deps:bookworm";

/// Registries that anybody can reach, from which a repository may take its image when the operator has
/// not listed any. Source: what their operators publish as the host of public images.
pub const PUBLIC: &[&str] = &[
    "docker.io/**",
    "ghcr.io/**",
    "quay.io/**",
    "mcr.microsoft.com/**",
    "public.ecr.aws/**",
    "registry.gitlab.com/**",
];

/// Who names the image of a run, and what follows from that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NamedBy {
    /// The operator, or our own table: whatever the engine has or can get.
    #[default]
    Operator,
    /// The only repository that this machine works for, or one whose image the operator has listed: what
    /// the engine has is taken.
    Repository,
    /// One of many: what the engine has may be another one's, so the registry has to give it to anybody.
    OneOfMany,
}

/// Why a repository may not name an image; `None` when it may. `allowed` are the operator's globs;
/// without any, [`PUBLIC`] counts. A glob is about the name as it is written, or the whole one
/// (`docker.io/library/python:3.13`), with or without tag and digest.
pub fn refusal(name: &str, allowed: &[String]) -> Option<String> {
    if check_name(name).is_err() {
        return Some("is not the name of an image".to_owned());
    }
    let whole = whole(name);
    if name.starts_with("sha256:") || whole.starts_with("docker.io/library/sha256:") {
        return Some("is the id of an image on this machine".to_owned());
    }
    let public: Vec<String> = PUBLIC.iter().map(|glob| (*glob).to_owned()).collect();
    let globs = if allowed.is_empty() { &public } else { allowed };
    let without_digest = whole.split('@').next().unwrap_or_default();
    let names = [name, &whole, without_digest, split(without_digest).0];
    let fits = |glob: &String| {
        let glob = globset::GlobBuilder::new(glob).literal_separator(true).build();
        glob.is_ok_and(|glob| {
            let glob = glob.compile_matcher();
            names.iter().any(|name| glob.is_match(name))
        })
    };
    if globs.iter().any(fits) {
        return None;
    }
    Some(if allowed.is_empty() {
        "is of no registry that everybody can reach".to_owned()
    } else {
        "is none of the images that the operator allows".to_owned()
    })
}

/// The operator has listed it by name, so what the engine has of it is meant.
pub fn is_listed(name: &str, allowed: &[String]) -> bool {
    !allowed.is_empty() && refusal(name, allowed).is_none()
}

/// The name with registry and owner, as Docker understands it: the first part is a registry when it has
/// a dot or a colon, or is `localhost`. Unlike the short form it can never mean the id of an image.
pub fn whole(name: &str) -> String {
    let (first, rest) = name.split_once('/').unwrap_or(("", name));
    let is_registry = first.contains(['.', ':']) || first == "localhost";
    match (first, is_registry) {
        ("index.docker.io" | "docker.io" | "registry-1.docker.io", _) if rest.contains('/') => {
            format!("docker.io/{rest}")
        }
        ("index.docker.io" | "docker.io" | "registry-1.docker.io", _) => {
            format!("docker.io/library/{rest}")
        }
        (_, true) => name.to_owned(),
        ("", _) => format!("docker.io/library/{name}"),
        (_, false) => format!("docker.io/{name}"),
    }
}

/// The image to use: as configured, or by what is in the root folder.
///
/// # Errors
/// [`SandboxError::NoImage`] when the configured name is not an image name.
pub fn choose(configured: Option<&str>, root_files: &[String]) -> Result<String, SandboxError> {
    if let Some(name) = configured {
        check_name(name)?;
        return Ok(name.to_owned());
    }
    let has = |name: &&str| root_files.iter().any(|file| file == name);
    let kind = KINDS.iter().find(|(files, _)| files.iter().any(has));
    Ok(kind.map_or(OTHER, |(_, image)| image).to_owned())
}

/// Refuses what is not an image name or id. The name becomes part of an API path, so this is also
/// what keeps it there.
///
/// # Errors
/// [`SandboxError::NoImage`].
pub fn check_name(name: &str) -> Result<(), SandboxError> {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ':' | '@');
    let starts_well = name.starts_with(|c: char| c.is_ascii_alphanumeric());
    let has_odd_segment = name.split('/').any(|segment| matches!(segment, "" | "." | ".."));
    if starts_well && name.len() <= 512 && name.chars().all(is_plain) && !has_odd_segment {
        return Ok(());
    }
    let image = name.chars().filter(|c| !c.is_control()).take(100).collect();
    Err(SandboxError::NoImage { image, message: "this is not the name of an image".to_owned() })
}

/// Splits a name for a pull: repository and tag. A digest stays with the repository; a name with
/// neither means `latest`, not every tag.
pub fn split(name: &str) -> (&str, Option<&str>) {
    if name.contains('@') {
        return (name, None);
    }
    match name.rsplit_once(':') {
        // A colon before a slash belongs to the registry's port.
        Some((repository, tag)) if !tag.contains('/') => (repository, Some(tag)),
        Some(_) | None => (name, Some("latest")),
    }
}

/// The key of a cached setup: what decides its result. The tree does too, as it is there when the
/// commands run; with all of it in the key nothing would be set up only once, so the repository
/// stands for it.
pub fn setup_key(base_id: &str, spec: &ImageSpec<'_>) -> String {
    let mut hash = Sha256::new();
    let mut part = |bytes: &[u8]| {
        hash.update((bytes.len() as u64).to_be_bytes());
        hash.update(bytes);
    };
    part(b"4");
    part(spec.repository.as_bytes());
    part(base_id.as_bytes());
    for list in [spec.setup, spec.setup_hosts] {
        part(&(list.len() as u64).to_be_bytes());
        for line in list {
            part(line.as_bytes());
        }
    }
    for (path, content) in spec.lock_files {
        part(path.as_bytes());
        part(content);
    }
    hex::encode(&hash.finalize()[..16])
}

/// What engines say of a registry that does not answer, or gives us nothing for a while.
const OUT: &[&str] = &[
    "toomanyrequests",
    "too many requests",
    "no such host",
    "server misbehaving",
    "temporary failure in name resolution",
    "dial tcp",
    "connection refused",
    "connection reset",
    "network is unreachable",
    "no route to host",
    "timeout",
    "deadline exceeded",
    "no answer within",
    "unexpected http status: 5",
    "internal server error",
    "bad gateway",
    "service unavailable",
    "unexpected eof",
];

/// Whether a pull failed for its registry, or for the way there, and not for the image.
pub(crate) fn is_out(message: &str) -> bool {
    let message = message.to_lowercase();
    OUT.iter().any(|words| message.contains(words))
}

#[cfg(test)]
mod tests {
    use crate::image::*;

    #[test]
    fn a_registry_that_is_away_is_told_from_an_image_that_is_not_there() {
        for said in [
            "Get \"https://registry-1.docker.io/v2/\": dial tcp: lookup registry-1.docker.io: no such host",
            "toomanyrequests: You have reached your pull rate limit.",
            "received unexpected HTTP status: 503 Service Unavailable",
            "no answer within 900 s",
            "net/http: request canceled while waiting for connection (Client.Timeout exceeded while awaiting headers)",
        ] {
            assert!(is_out(said), "{said}");
        }
        for said in [
            "manifest for python:3.99 not found: manifest unknown: manifest unknown",
            "pull access denied for nobody/nothing, repository does not exist or may require 'docker login'",
            "it is for arm64, and the guest for amd64",
            "an image id cannot be pulled",
        ] {
            assert!(!is_out(said), "{said}");
        }
    }

    #[test]
    fn chooses_by_kind_unless_configured() {
        for (configured, files, expected) in [
            (None, &["Cargo.toml", "package.json"][..], "rust:1-bookworm"),
            (None, &["package.json"], "node:22-bookworm"),
            (None, &["setup.py", "README.md"], "python:3.13-bookworm"),
            (None, &["package.json", "requirements.txt"], "python:3.13-bookworm"),
            (None, &["build.gradle.kts"], "gradle:8-jdk21"),
            (None, &["README.md"], "buildpack-deps:bookworm"),
            (None, &[], "buildpack-deps:bookworm"),
            (Some("ghcr.io/acme/ci@sha256:00"), &["Cargo.toml"], "ghcr.io/acme/ci@sha256:00"),
        ] {
            let files: Vec<String> = files.iter().map(|&file| file.to_owned()).collect();
            assert_eq!(choose(configured, &files).unwrap(), expected, "{configured:?} {files:?}");
        }
    }

    #[test]
    fn a_repository_names_public_images_unless_the_operator_says_which() {
        let refused = |name: &str, allowed: &[&str]| {
            let allowed: Vec<String> = allowed.iter().map(|&glob| glob.to_owned()).collect();
            refusal(name, &allowed).is_some()
        };
        for name in [
            "python:3.12",
            "python",
            "acme/ci:1",
            "docker.io/library/python:3.12",
            "ghcr.io/acme/ci@sha256:00",
            "quay.io/acme/a/b:1",
        ] {
            assert!(!refused(name, &[]), "{name}");
            assert!(refused(name, &["ghcr.io/other/*"]), "{name}");
        }
        for name in [
            "registry.internal:5000/x",
            "localhost/x",
            "localhost:5000/x",
            "10.0.0.1/x",
            "ghcr.io:444/acme/ci",
            "ghcr.io.evil.test/acme/ci",
            "sha256:00ff",
            "../x",
            "",
        ] {
            assert!(refused(name, &[]), "{name}");
        }
        for (name, glob) in [
            ("python:3.12", "python:*"),
            ("python:3.12", "docker.io/library/*"),
            ("acme/ci:1", "acme/*"),
            ("registry.internal:5000/x:1", "registry.internal:5000/*"),
            ("ghcr.io/acme/ci:1@sha256:00", "ghcr.io/acme/*"),
            ("local-only:1", "local-only:1"),
        ] {
            assert!(!refused(name, &[glob]), "{name} {glob}");
            assert!(is_listed(name, &[glob.to_owned()]) && !is_listed(name, &[]), "{name}");
        }
        assert!(refused("sha256:00ff", &["**"]), "an id is no name");
    }

    #[test]
    fn a_whole_name_is_never_short_for_an_id() {
        for (name, expected) in [
            ("python", "docker.io/library/python"),
            ("3f2a1b", "docker.io/library/3f2a1b"),
            ("acme/ci:1", "docker.io/acme/ci:1"),
            ("docker.io/python:1", "docker.io/library/python:1"),
            ("index.docker.io/acme/ci", "docker.io/acme/ci"),
            ("ghcr.io/acme/ci@sha256:00", "ghcr.io/acme/ci@sha256:00"),
            ("localhost:5000/a/b:c", "localhost:5000/a/b:c"),
        ] {
            assert_eq!(whole(name), expected);
        }
    }

    #[test]
    fn a_setup_belongs_to_one_repository() {
        let key_of = |repository: &str, setup: &[String]| {
            let spec = ImageSpec { setup, ..ImageSpec::plain(repository.to_owned(), None, "r1") };
            setup_key("sha256:00", &spec)
        };
        let (make, other) = (["make".to_owned()], ["true".to_owned()]);
        assert_eq!(key_of("acme/a", &make), key_of("acme/a", &make));
        assert_ne!(key_of("acme/a", &make), key_of("acme/b", &make));
        assert_ne!(key_of("acme/a", &make), key_of("acme/a", &other));
    }

    #[test]
    fn refuses_names_that_leave_the_api_path() {
        for name in
            ["", "../x", "a/../../containers/x", "a b", "-x", "a?b=c", "a\nb", "a//b", "a%2f"]
        {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        for name in ["rust:1", "localhost:5000/a/b:c", "sha256:00ff", "a@sha256:00"] {
            assert!(check_name(name).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn splits_names() {
        for (name, expected) in [
            ("rust", ("rust", Some("latest"))),
            ("rust:1", ("rust", Some("1"))),
            ("localhost:5000/a", ("localhost:5000/a", Some("latest"))),
            ("localhost:5000/a:b", ("localhost:5000/a", Some("b"))),
            ("a:b@sha256:00", ("a:b@sha256:00", None)),
        ] {
            assert_eq!(split(name), expected);
        }
    }
}

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
    part(b"3");
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

#[cfg(test)]
mod tests {
    use super::*;

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

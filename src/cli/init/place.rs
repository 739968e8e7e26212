//! Where a workflow file goes. A repository's own links must not lead a write out of it, nor into `.git`.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::shown;
use patchwright_base::error::{Failure, Result};

/// Bytes of a changed workflow that are looked at; GitHub reads no more of one either.
const MOST_READ: u64 = 512 << 10;

/// The folder `.github/workflows` of a repository.
pub(super) struct Workflows {
    /// The repository's root, without links.
    root: PathBuf,
    /// The folder, without links.
    folder: PathBuf,
}

/// The place of one file.
pub(super) struct TargetFile {
    root: PathBuf,
    path: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Absent,
    Same,
    Differs,
}

/// Finds the repository that `here` is in, and its workflows.
pub(super) fn workflows_of(here: &Path) -> Result<Workflows> {
    let here = fs_err::canonicalize(here)
        .map_err(|err| Failure::machine("cannot read the current folder").caused_by(err))?;
    let root = here.ancestors().find(|folder| is_repository(folder)).ok_or_else(|| {
        if here.ancestors().any(is_bare) {
            let message =
                format!("`{}` is in a bare repository, which has no files", here.display());
            return Failure::usage(message).hint("change to a clone of it that has files");
        }
        Failure::usage(format!("`{}` is not in a git repository", here.display())).hint(
            "change to the repository that Patchwright is to work for, or make one: `git init`",
        )
    })?;
    let mut folder = root.to_owned();
    for part in [".github", "workflows"] {
        folder = resolved(root, &folder.join(part))?;
    }
    Ok(Workflows { root: root.to_owned(), folder })
}

/// `.git` is a file in worktrees and submodules.
fn is_repository(folder: &Path) -> bool {
    let git = folder.join(".git");
    git.is_file() || git.join("HEAD").is_file()
}

/// What `.git` is elsewhere, as a repository of its own.
fn is_bare(folder: &Path) -> bool {
    folder.join("HEAD").is_file() && folder.join("objects").is_dir() && folder.join("refs").is_dir()
}

/// The folder that a path leads to, which may be absent but not elsewhere.
fn resolved(root: &Path, path: &Path) -> Result<PathBuf> {
    let name = shown(root, path);
    match fs_err::symlink_metadata(path) {
        Err(err) if err.kind() == ErrorKind::NotFound => return Ok(path.to_owned()),
        Err(err) => return Err(Failure::machine(format!("cannot look at `{name}`")).caused_by(err)),
        Ok(_) => {}
    }
    // A link to nothing ends here as well: what is made in its place later might be anywhere.
    let target = fs_err::canonicalize(path)
        .map_err(|err| Failure::refused(format!("`{name}` leads nowhere")).caused_by(err))?;
    if !target.starts_with(root) || target.starts_with(root.join(".git")) {
        return Err(Failure::refused(format!("`{name}` leads out of the repository"))
            .hint("replace the symbolic link by a folder"));
    }
    if fs_err::symlink_metadata(path).is_ok_and(|it| it.is_symlink()) {
        return Err(Failure::refused(format!("`{name}` is a symbolic link"))
            .hint("replace it by a folder; GitHub reads no workflow through it"));
    }
    if !target.is_dir() {
        return Err(Failure::usage(format!("`{name}` is not a folder")).hint("move it away"));
    }
    Ok(target)
}

impl Workflows {
    pub(super) fn place(&self, file: &str) -> Result<TargetFile> {
        let place = TargetFile { root: self.root.clone(), path: self.folder.join(file) };
        let is_other = |it: std::fs::Metadata| -> bool { !it.file_type().is_file() };
        // Of a link, what it leads to would be read, and the link itself replaced.
        if fs_err::symlink_metadata(&place.path).is_ok_and(is_other) {
            return Err(Failure::refused(format!("`{}` is not an ordinary file", place.name()))
                .hint("move it away; GitHub reads no workflow from it"));
        }
        Ok(place)
    }

    /// Where a workflow that people have moved is now: another file that runs Patchwright under the same `name`.
    pub(super) fn moved(&self, file: &str, content: &str) -> Result<Option<TargetFile>> {
        let entries = match fs_err::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(err) if err.kind() == ErrorKind::NotFound => return Ok(None),
            Err(err) => {
                let name = shown(&self.root, &self.folder);
                return Err(Failure::machine(format!("cannot read `{name}`")).caused_by(err));
            }
        };
        let mut files: Vec<String> = entries
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| name != file && is_workflow(name))
            .collect();
        files.sort();
        for other in files {
            // What is no ordinary file is no workflow.
            let Ok(place) = self.place(&other) else { continue };
            let text = place.text()?;
            let is_ours = text.to_lowercase().contains("patchwright");
            if is_ours && workflow_name(&text) == workflow_name(content) {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }
}

/// As GitHub takes files for workflows.
fn is_workflow(name: &str) -> bool {
    matches!(Path::new(name).extension().and_then(|it| it.to_str()), Some("yml" | "yaml"))
}

/// What GitHub shows a workflow as.
fn workflow_name(text: &str) -> Option<&str> {
    let name = text.lines().find_map(|line| line.strip_prefix("name:"))?;
    let name = name.split(" #").next().unwrap_or(name);
    Some(name.trim().trim_matches(['"', '\'']))
}

impl TargetFile {
    /// The path from the repository's root.
    pub(super) fn name(&self) -> String {
        shown(&self.root, &self.path)
    }

    pub(super) fn state(&self, content: &str) -> Result<State> {
        let file = match fs_err::File::open(&self.path) {
            Ok(file) => file,
            Err(err) if err.kind() == ErrorKind::NotFound => return Ok(State::Absent),
            Err(err) => return Err(self.failed("read", err)),
        };
        let mut text = Vec::new();
        // With a carriage return in each line it is twice as long at most; more differs whatever it says.
        let most = 2 * content.len() as u64 + 1;
        file.take(most).read_to_end(&mut text).map_err(|err| self.failed("read", err))?;
        // A checkout on Windows has other ends of lines.
        let text = String::from_utf8_lossy(&text).replace("\r\n", "\n");
        Ok(if text == content { State::Same } else { State::Differs })
    }

    /// What people have written there, as far as a workflow is long.
    pub(super) fn text(&self) -> Result<String> {
        let file = fs_err::File::open(&self.path).map_err(|err| self.failed("read", err))?;
        let mut text = Vec::new();
        file.take(MOST_READ).read_to_end(&mut text).map_err(|err| self.failed("read", err))?;
        Ok(String::from_utf8_lossy(&text).into_owned())
    }

    /// Writes a file that is not there. One that has come in the meantime is kept.
    pub(super) fn create(&self, content: &str) -> Result<()> {
        let written = self.written(content)?;
        written.persist_noclobber(&self.path).map_err(|err| self.failed("write", err.error))?;
        Ok(())
    }

    /// Writes over the file that is there.
    pub(super) fn replace(&self, content: &str) -> Result<()> {
        let written = self.written(content)?;
        written.persist(&self.path).map_err(|err| self.failed("write", err.error))?;
        Ok(())
    }

    /// The content, whole, in a file beside the place: a full disk leaves no half of a workflow.
    fn written(&self, content: &str) -> Result<tempfile::NamedTempFile> {
        let folder = self.path.parent().unwrap_or(&self.root);
        let write = || -> std::io::Result<tempfile::NamedTempFile> {
            fs_err::create_dir_all(folder)?;
            // As the umask leaves it, like any file of a checkout.
            let readable = std::fs::Permissions::from_mode(0o666);
            let mut file = tempfile::Builder::new().permissions(readable).tempfile_in(folder)?;
            file.write_all(content.as_bytes())?;
            file.as_file().sync_all()?;
            Ok(file)
        };
        write().map_err(|err| self.failed("write", err))
    }

    fn failed(&self, what: &str, err: std::io::Error) -> Failure {
        Failure::usage(format!("cannot {what} `{}`", self.name())).caused_by(err)
    }
}

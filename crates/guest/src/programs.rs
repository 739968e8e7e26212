//! Programs of ours that commands of the model find: `apply_patch`, which models know from elsewhere and
//! call in the middle of scripts, `rg`, with which they search, and `no-editor`, which fails and says that nobody can edit.
//!
//! They are links to this binary in the folder [`FOLDER`] beside it, made by whoever put it there. The
//! folder is the last one of `PATH`, so that a program of the image or the repository comes first, and
//! only commands of tools have it: setup, checks and hooks do not. A login shell makes `PATH` anew; a
//! profile in the sandbox's own home folder puts back what was in it, and adds the folder again.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::{Deserialize, Serialize};

use super::environment::DEFAULT_PATH;
use super::{no_editor, rg, view};
use crate::tools::apply_patch::program::{self, ProgramContext};

/// The names of the program that applies patches.
use crate::tools::apply_patch::NAMES as PATCH_NAMES;

/// The names of all programs.
pub const NAMES: [&str; 4] = [PATCH_NAMES[0], PATCH_NAMES[1], rg::NAME, no_editor::NAME];

/// The folder with the links, beside the binary.
pub const FOLDER: &str = "bin";

/// Tells the program which folder it must not leave.
const WORKSPACE: &str = "APPLY_PATCH_WORKSPACE";
/// Set when the program must not apply anything; says why.
const CLOSED: &str = "APPLY_PATCH_CLOSED";
/// The tool is switched off.
const OFF: &str = "off";
/// The exit code of a program that is not there, as shells have it.
const NOT_FOUND: u8 = 127;
/// The folder of the programs, for login shells.
const PATH: &str = "APPLY_PATCH_PATH";

/// Files of a home folder that login shells read; the first one that is there.
const PROFILES: [&str; 3] = [".bash_profile", ".bash_login", ".profile"];
/// The first line of ours, by which it is known again.
const OURS: &str = "# Login shells find the programs of the sandbox too.\n";
const PROFILE: &str = "\
if [ -n \"${APPLY_PATCH_PATH-}\" ]; then PATH=\"$PATH:$APPLY_PATCH_PATH\"; fi
if [ -n \"${USUAL_NAMES_PATH-}\" ]; then PATH=\"$PATH:$USUAL_NAMES_PATH\"; fi
";

/// Which patches in the commands of the model are applied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Patches {
    /// All.
    #[default]
    Anywhere,
    /// Those that are the whole command, because the host has rules and sees only them.
    Whole,
    /// None: the tool is switched off.
    Nowhere,
}

/// The programs that are there.
#[derive(Debug, Default)]
pub struct Programs {
    folder: Option<String>,
}

impl Programs {
    /// Those beside this binary, if any. In a tree of its own the binary has another place than the one that
    /// it was started from.
    pub fn find() -> Programs {
        let started = fs_err::read_link("/proc/self/exe").ok();
        let mut places = started.into_iter().chain([PathBuf::from(view::GUEST)]);
        let is_ours = |folder: &PathBuf| NAMES.iter().all(|name| folder.join(name).is_file());
        let folder = places.find_map(|place| Some(place.parent()?.join(FOLDER)).filter(is_ours));
        let folder = folder.and_then(|folder| folder.into_os_string().into_string().ok());
        // `PATH` has no way to write a colon.
        Programs { folder: folder.filter(|folder| !folder.contains(':')) }
    }

    /// Sees to it that login shells have the `PATH` of all commands. Where there are programs of ours, the
    /// home folder is the sandbox's and nobody else's.
    pub fn tell_login_shells(&self, env: &BTreeMap<String, String>) {
        let home = env.get("HOME").map(Path::new).filter(|home| home.is_absolute());
        if let Some(home) = home.filter(|_| self.folder.is_some()) {
            write_profile(home, env.get("PATH").map_or(DEFAULT_PATH, String::as_str));
        }
    }

    /// What a command gets besides `env`, the environment of all commands.
    pub fn env(
        &self,
        env: &BTreeMap<String, String>,
        workspace: &Path,
        patches: Patches,
    ) -> BTreeMap<String, String> {
        let (Some(folder), Some(workspace)) = (self.folder.as_deref(), workspace.to_str()) else {
            return BTreeMap::new();
        };
        let path = env.get("PATH").filter(|path| !path.is_empty());
        let path = path.map_or(DEFAULT_PATH, String::as_str);
        let mut more = BTreeMap::from([
            ("PATH".to_owned(), format!("{path}:{folder}")),
            (PATH.to_owned(), folder.to_owned()),
            (WORKSPACE.to_owned(), workspace.to_owned()),
        ]);
        let closed = match patches {
            Patches::Anywhere => None,
            Patches::Whole => Some("rules"),
            Patches::Nowhere => Some(OFF),
        };
        more.extend(closed.map(|why| (CLOSED.to_owned(), why.to_owned())));
        more
    }
}

/// Writes the profile, unless the home folder has one of its own.
fn write_profile(home: &Path, path: &str) {
    let is_there = |name: &&&str| home.join(name).symlink_metadata().is_ok();
    if let Some(found) = PROFILES.iter().find(is_there) {
        let text = fs_err::read_to_string(home.join(found)).unwrap_or_default();
        // Of another sandbox, when setup keeps its home folder.
        if !text.starts_with(OURS) || fs_err::remove_file(home.join(found)).is_err() {
            return;
        }
    }
    let text = format!("{OURS}PATH='{}':\"$PATH\"\n{PROFILE}", path.replace('\'', r"'\''"));
    let made = std::fs::File::create_new(home.join(".profile"));
    // Without it login shells do not find the programs, and nothing else is wrong.
    let _ = made.and_then(|mut file| file.write_all(text.as_bytes()));
}

/// Runs the program that this binary was started as; `None` when that is the guest itself.
pub fn run(args: &[OsString]) -> Option<ExitCode> {
    let (name, args) = args.split_first()?;
    let name = Path::new(name).file_name()?;
    if name == OsStr::new(rg::NAME) {
        let mut stdout = std::io::BufWriter::new(std::io::stdout().lock());
        let code = rg::run(args, &mut stdout, &mut std::io::stderr().lock());
        // Where nobody reads any more, nothing is lost.
        let _ = stdout.flush();
        return Some(ExitCode::from(code));
    }
    if name == OsStr::new(no_editor::NAME) {
        return Some(no_editor::run(&mut std::io::stderr().lock()));
    }
    PATCH_NAMES.iter().any(|known| OsStr::new(known) == name).then(|| apply_patch(args))
}

#[expect(clippy::disallowed_methods, reason = "the program learns from its command where it is")]
fn apply_patch(args: &[OsString]) -> ExitCode {
    let (mut stdin, mut stdout) = (std::io::stdin().lock(), std::io::stdout().lock());
    let mut stderr = std::io::stderr().lock();
    let cwd = match std::env::current_dir() {
        Ok(cwd) => cwd,
        Err(err) => {
            let _ = writeln!(stderr, "Error: there is no current folder: {err}");
            return ExitCode::FAILURE;
        }
    };
    let workspace = std::env::var_os(WORKSPACE).map(PathBuf::from);
    let closed = std::env::var_os(CLOSED);
    if closed.as_deref() == Some(OsStr::new(OFF)) {
        let _ =
            writeln!(stderr, "apply_patch: nothing was changed. It is switched off in this run");
        return ExitCode::from(NOT_FOUND);
    }
    let is_closed = closed.is_some();
    let place =
        ProgramContext { workspace: workspace.filter(|it| it.is_absolute()), cwd, is_closed };
    ExitCode::from(program::run(args, &place, &mut stdin, &mut stdout, &mut stderr))
}

//! Programs under the names that people's commands have for them. `setup-python` and the machines of CI have `python` and
//! `pip`; Debian and Ubuntu have `python3` alone. Where a command would find only the second name, it finds the first one
//! as well: as a link in a folder that is the last one of `PATH`, so that whatever the image or an environment has comes
//! first. The folder is below the one for temporary files, which every sandbox has, and which setup leaves nothing in.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode};

use super::environment::{DEFAULT_PATH, find};

/// The usual name, and that of the same program where it is not there.
const NAMES: [(&str, &str); 2] = [("python", "python3"), ("pip", "pip3")];

/// The folder below that for temporary files.
const FOLDER: &str = "names";

/// Where the folder is, for login shells, which make `PATH` anew.
const VARIABLE: &str = "USUAL_NAMES_PATH";

/// Where the links are.
#[derive(Debug)]
pub(super) struct UsualNames {
    folder: PathBuf,
}

impl UsualNames {
    /// Below the folder for temporary files; `None` where that is in the workspace.
    pub(super) fn below(tmp: &Path, workspace: &Path) -> Option<UsualNames> {
        // `PATH` has no way to write a colon.
        let is_fit = tmp.to_str().is_some_and(|tmp| !tmp.contains(':'));
        (is_fit && tmp.is_absolute() && !tmp.starts_with(workspace))
            .then(|| UsualNames { folder: tmp.join(FOLDER) })
    }

    /// Adds the folder to the environment of a command that would not find a usual name in it. A command may have removed
    /// or replaced what was made before: that counts for its own sandbox, in which it could do the same by other means.
    pub(super) fn add(&self, env: &mut BTreeMap<String, String>) {
        let absent = NAMES.iter().filter(|(usual, _)| find(env, usual).is_none());
        let made = absent.filter_map(|(usual, real)| self.link(usual, &find(env, real)?)).count();
        let Some(folder) = self.folder.to_str().filter(|_| made > 0) else { return };
        let path = env.entry("PATH".to_owned()).or_insert_with(|| DEFAULT_PATH.to_owned());
        path.push(':');
        path.push_str(folder);
        env.insert(VARIABLE.to_owned(), folder.to_owned());
    }

    /// Makes the link, unless it is there. Where that cannot be, the name is not found, as it would be without us.
    fn link(&self, usual: &str, program: &Path) -> Option<()> {
        let link = self.folder.join(usual);
        let is_there = || fs_err::read_link(&link).is_ok_and(|target| target == program);
        if is_there() {
            return Some(());
        }
        let _ = rustix::fs::mkdirat(CWD, &self.folder, Mode::RWXU);
        let _ = fs_err::remove_file(&link);
        // Another command may have made it by now.
        (symlink(program, &link).is_ok() || is_there()).then_some(())
    }
}

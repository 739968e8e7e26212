//! By which shell a forge runs a script, and what its lines leave to those after them.

use crate::files;

/// Words of bash that `sh` does not have.
const BASH_WORDS: &[&str] = &[
    "[[", "<(", "<<<", "((", "=(", "$'", " == ", "source ", "pipefail", "shopt ", "pushd ", "|&",
    "&>",
];
/// Names of the root of the tree in scripts.
const ROOTS: &[&str] =
    &["$CI_PROJECT_DIR", "${CI_PROJECT_DIR}", "$TRAVIS_BUILD_DIR", "${TRAVIS_BUILD_DIR}"];
/// Most bytes of variables that are set for later lines.
const MAX_BEFORE: usize = 1_000;

/// What starts the shell of a GitHub step for this command; `None` where `sh -c` comes to the same.
///
/// From "Workflow syntax", `jobs.<job_id>.steps[*].shell`: none is `bash -e {0}`, or `sh` where there is no bash; `bash` is
/// `bash --noprofile --norc -eo pipefail {0}`, `sh` is `sh -e {0}`; anything else is such a line itself.
///
/// # Errors
/// Why a step of this shell cannot be run here.
pub(super) fn of_workflow(shell: Option<&str>, command: &str) -> Result<Option<String>, String> {
    let words: Vec<&str> = shell.map(|it| it.split_whitespace().collect()).unwrap_or_default();
    let start = match words.as_slice() {
        // An image without bash has the runner take `sh`, and on one line of plain words they agree.
        [] if !is_bash(command) && !command.trim_end().contains('\n') => "sh -e",
        [] => "bash -e",
        ["bash"] => "bash -eo pipefail",
        ["sh"] => "sh -e",
        // A login shell or one that does not stop is meant, whatever the command looks like.
        [program @ ("bash" | "sh"), options @ .., "{0}"] if options.iter().all(is_option) => {
            return Ok(Some([&[*program], options].concat().join(" ")));
        }
        _ => {
            let shell = patchwright_base::text::cut(shell.unwrap_or_default(), 30);
            return Err(format!("is for the shell `{shell}`"));
        }
    };
    Ok(needs_shell(command).then(|| start.to_owned()))
}

fn is_option(word: &&str) -> bool {
    word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '+')
}

/// What starts the shell of an item of GitLab's script, which is run with `set -eo pipefail` by bash where the image
/// has it, else by `sh`.
pub(super) fn of_gitlab(command: &str) -> Option<String> {
    let start =
        if is_bash(command) || command.contains('|') { "bash -eo pipefail" } else { "sh -e" };
    needs_shell(command).then(|| start.to_owned())
}

/// What starts the shell of an item of Travis's script: bash, which does not stop at what fails inside of it.
pub(super) fn of_travis(command: &str) -> Option<String> {
    is_bash(command).then(|| "bash".to_owned())
}

/// Where a command has parts, it depends on the shell which of them decides.
fn needs_shell(command: &str) -> bool {
    command.trim_end().contains(['\n', ';', '|']) || is_bash(command)
}

fn is_bash(command: &str) -> bool {
    // `{a,b}` is a list for bash alone; `${a}` is a variable for all of them.
    BASH_WORDS.iter().any(|word| command.contains(word)) || command.replace("${", "").contains('{')
}

/// The folder that a command goes to first, and the command from there.
pub(super) fn into_folder(folder: String, command: &str) -> (String, String) {
    let moved = || {
        let rest = command.trim_start().strip_prefix("cd ")?;
        let end = [rest.find("&&").map(|at| (at, 2)), rest.find('\n').map(|at| (at, 1))];
        let (at, length) = end.into_iter().flatten().min()?;
        let (target, rest) = (rest.get(..at)?.trim(), rest.get(at + length..)?.trim());
        let inside = files::resolve(&folder, plain(target)?)?;
        (!rest.is_empty()).then(|| (inside, rest.to_owned()))
    };
    moved().unwrap_or_else(|| (folder, command.to_owned()))
}

/// A path that is one plain word, without its quotes.
fn plain(word: &str) -> Option<&str> {
    let word = word.trim_matches(['"', '\'']);
    let is_path = |c: char| c.is_ascii_alphanumeric() || "-_./@+".contains(c);
    (!word.is_empty() && !word.starts_with('-') && word.chars().all(is_path)).then_some(word)
}

/// What the items of a script leave to those after them: they are lines of one shell.
pub(super) struct Session {
    /// `None` after they went to a folder that is not known.
    pub folder: Option<String>,
    /// Variables that they set, as they are written.
    pub before: String,
}

impl Session {
    pub(super) fn new() -> Session {
        Session { folder: Some(String::new()), before: String::new() }
    }

    /// Reads an item that has run.
    pub(super) fn follow(&mut self, item: &str) {
        for part in item.split(['\n', ';']).flat_map(|line| line.split("&&")).map(str::trim) {
            if let Some(target) = part.strip_prefix("cd ") {
                self.folder = self.went_to(target.trim());
            } else if is_variable(part) && self.before.len() + part.len() < MAX_BEFORE {
                self.before.push_str(part);
                self.before.push('\n');
            }
        }
    }

    fn went_to(&self, target: &str) -> Option<String> {
        let target = target.trim_matches(['"', '\'']);
        let below = ROOTS.iter().find_map(|root| target.strip_prefix(root));
        match below {
            Some("") => Some(String::new()),
            Some(below) => files::resolve("", plain(below.strip_prefix('/')?)?),
            None => files::resolve(self.folder.as_deref()?, plain(target)?),
        }
    }
}

/// The variables that a step of a workflow leaves to those after it: `echo NAME=value >> $GITHUB_ENV`, with plain values.
pub(super) fn left_in_environment(command: &str) -> Vec<(String, String)> {
    let is_name = |name: &str| {
        name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            && !name.starts_with(|c: char| c.is_ascii_digit())
    };
    left_in("GITHUB_ENV", command, is_name)
}

/// The variable that names a file whose commands the shell reads first: `source $VENV`. Without it nothing else works.
pub(super) fn reads_file_of(command: &str) -> Option<String> {
    let mut parts = command.lines().flat_map(|line| line.split("&&")).map(str::trim);
    parts.find_map(|part| {
        let file = part.strip_prefix("source ").or_else(|| part.strip_prefix(". "))?;
        let name = file.trim().trim_start_matches(['"', '\'']).strip_prefix('$')?;
        let name = name.strip_prefix('{').unwrap_or(name);
        let end = name.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(name.len());
        Some(name[..end].to_owned()).filter(|name| !matches!(name.as_str(), "" | "HOME" | "PWD"))
    })
}

/// What a step of a workflow says to those after it: `echo name=value >> $GITHUB_OUTPUT`, with plain values. Nothing of
/// what it says twice: which of the two it is depends on the run.
pub(super) fn outputs(command: &str) -> Vec<(String, String)> {
    let is_name = |name: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c));
    let all = left_in("GITHUB_OUTPUT", command, is_name);
    let is_once = |name: &str| all.iter().filter(|(other, _)| other == name).count() == 1;
    all.iter().filter(|(name, _)| is_once(name)).cloned().collect()
}

/// Names and plain values that lines append to a file of the runner's.
fn left_in(file: &str, command: &str, is_name: impl Fn(&str) -> bool) -> Vec<(String, String)> {
    let files = [format!("${file}"), format!("${{{file}}}")];
    let left = command.lines().take(100).filter_map(|line| {
        let (echo, target) = line.trim().strip_prefix("echo ")?.split_once(">>")?;
        let target = target.trim().trim_matches('"');
        let is_it = files.iter().any(|file| file == target);
        let (name, value) = echo.trim().trim_matches(['"', '\'']).split_once('=')?;
        let is_plain = value.len() < 2_000 && !value.contains(['$', '`', '"', '\'', '\\']);
        let is_known = is_it && !name.is_empty() && is_name(name) && is_plain;
        is_known.then(|| (name.to_owned(), value.to_owned()))
    });
    left.collect()
}

/// `export NAME=value` or `NAME=value` alone, without a command in it.
fn is_variable(part: &str) -> bool {
    let (assigned, may_be_many) = match part.strip_prefix("export ") {
        Some(rest) => (rest.trim_start(), true),
        None => (part, false),
    };
    let Some((name, value)) = assigned.split_once('=') else { return false };
    let is_name = !name.is_empty()
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !name.starts_with(|c: char| c.is_ascii_digit());
    let is_whole = |quote: char| value.matches(quote).count().is_multiple_of(2);
    let is_one = may_be_many || value.starts_with(['"', '\'']) || !value.contains(' ');
    is_name && is_one && is_whole('"') && is_whole('\'') && !value.contains(['`', '|', '('])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workflow_names_its_shell_or_has_bash() {
        let rows = [
            (None, "pytest", Ok(None)),
            (None, "make && make check", Ok(None)),
            (None, "pytest | tee log", Ok(Some("sh -e"))),
            (None, "pytest; echo done", Ok(Some("sh -e"))),
            (None, "pytest\necho done", Ok(Some("bash -e"))),
            (None, "pytest tests/{a,b}", Ok(Some("bash -e"))),
            (None, "pytest ${ARGS}", Ok(None)),
            (Some("bash"), "pytest | tee log", Ok(Some("bash -eo pipefail"))),
            (Some("bash"), "pytest", Ok(None)),
            (Some("sh"), "a\nb", Ok(Some("sh -e"))),
            (Some("bash -el {0}"), "pytest", Ok(Some("bash -el"))),
            (Some("bash {0}"), "a\nb", Ok(Some("bash"))),
            (Some("pwsh"), "pytest", Err(())),
            (Some("bash -c 'x' {0}"), "pytest", Err(())),
        ];
        for (shell, command, expected) in rows {
            let found = of_workflow(shell, command).map_err(|_| ());
            assert_eq!(found, expected.map(|it| it.map(str::to_owned)), "{shell:?} {command}");
        }
    }

    #[test]
    fn lines_of_one_shell_leave_folder_and_variables() {
        let mut session = Session::new();
        for item in ["cd app && pip install .", "export A=1 B=$A; C=\"x y\"", "D=1 make", "E=$(f)"]
        {
            session.follow(item);
        }
        assert_eq!(session.folder.as_deref(), Some("app"));
        assert_eq!(session.before, "export A=1 B=$A\nC=\"x y\"\n");
        for (item, expected) in [
            ("(cd x && y)", Some("app")),
            ("cd ../lib", Some("lib")),
            ("cd $HOME", None),
            ("cd web", None),
            ("cd \"$CI_PROJECT_DIR/web\"", Some("web")),
            ("cd -", None),
            ("cd $CI_PROJECT_DIR", Some("")),
        ] {
            session.follow(item);
            assert_eq!(session.folder.as_deref(), expected, "{item}");
        }
    }

    #[test]
    fn what_a_step_leaves_in_the_environment_is_known_where_it_is_plain() {
        let rows = [
            ("echo MODE=ci >> $GITHUB_ENV", Some(("MODE", "ci"))),
            ("echo \"A_B=x y\" >> \"$GITHUB_ENV\"", Some(("A_B", "x y"))),
            ("echo \"A=$(date)\" >> $GITHUB_ENV", None),
            ("echo A=1 >> $GITHUB_OUTPUT", None),
            ("echo A=1 > log", None),
        ];
        for (command, expected) in rows {
            let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
            assert_eq!(left_in_environment(command), Vec::from_iter(expected), "{command}");
        }
    }

    #[test]
    fn a_command_that_goes_elsewhere_first_is_one_of_that_folder() {
        for (command, folder, rest) in [
            ("cd backend && python3 -m unittest -v", "a/backend", "python3 -m unittest -v"),
            ("cd ./b\npytest\n", "a/b", "pytest"),
            ("cd $X && pytest", "a", "cd $X && pytest"),
            ("cd b", "a", "cd b"),
        ] {
            let found = into_folder("a".to_owned(), command);
            assert_eq!(found, (folder.to_owned(), rest.to_owned()), "{command}");
        }
    }
}

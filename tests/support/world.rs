//! The whole product as people run it: the real program, as a process of its own, with a cleared
//! environment, against GitHub and a model that we own, with its state in a temporary folder.
#![expect(clippy::disallowed_methods, reason = "starts the program under test")]
#![allow(dead_code, reason = "each test file uses its own part")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::json;

use crate::support::github::{GitHub, Server};
use crate::support::model::{ModelServer, Turn, call, custom, say};

/// The model's key in these tests. It looks like no real key.
pub(crate) const KEY: &str = "test-model-key-7d1f03c55ab94e06";

/// A small project whose check fails until `add` adds.
pub(crate) const FILES: &[(&str, &str)] = &[
    ("calc.sh", "add() {\n  echo $(($1 - $2))\n}\n"),
    ("test.sh", "#!/bin/sh\n. ./calc.sh\n[ \"$(add 2 2)\" = 4 ] || { echo wrong; exit 1; }\n"),
    ("README.md", "# calc\n"),
];

/// What repairs it.
pub(crate) const PATCH: &str = "*** Begin Patch\n*** Update File: calc.sh\n@@ add() {\n-  echo $(($1 - $2))\n+  echo $(($1 + $2))\n*** End Patch\n";

/// GitHub with the project and an issue about it.
pub(crate) fn github() -> GitHub {
    github_with(FILES)
}

/// GitHub with an issue about other files.
pub(crate) fn github_with(files: &[(&str, &str)]) -> GitHub {
    GitHub::new()
        .repository("acme/app", files)
        .issue("acme/app", 7, "add subtracts", "`add 2 2` prints 0.")
        .by("rita")
}

/// The whole job in five replies.
pub(crate) fn fix() -> Vec<Turn> {
    vec![
        call("update_plan", plan(["in_progress", "pending"]))
            .and(call("shell_command", json!({"command": "sh test.sh"}))),
        custom("apply_patch", PATCH),
        call("shell_command", json!({"command": "sh test.sh"})),
        call("update_plan", plan(["completed", "completed"])),
        say("Add instead of subtracting\n\nThe sign in `calc.sh` was wrong."),
    ]
}

fn plan(states: [&str; 2]) -> serde_json::Value {
    let steps = ["Find the bug", "Fix it"].into_iter().zip(states);
    let steps: Vec<_> =
        steps.map(|(step, status)| json!({"step": step, "status": status})).collect();
    json!({"plan": steps})
}

/// One call that writes a file through the shell, and the last words.
pub(crate) fn write(path: &str, content: &str, last: &str) -> Vec<Turn> {
    let command =
        format!("mkdir -p \"$(dirname {path})\" && cat > {path} <<'EOF'\n{content}\nEOF\n");
    vec![call("shell_command", json!({"command": command})), say(last)]
}

/// Everything around the process.
pub(crate) struct TestWorld {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) github: Server,
    pub(crate) model: ModelServer,
    env: BTreeMap<String, String>,
}

/// A process that has ended.
pub(crate) struct Output {
    /// 128 and the signal's number when a signal ended it.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    names: Vec<(String, &'static str)>,
}

impl TestWorld {
    /// A world in which commands run in the local sandbox.
    pub(crate) fn new(github: GitHub, turns: impl IntoIterator<Item = Turn>) -> TestWorld {
        TestWorld::asking(github, ModelServer::start(turns))
    }

    /// A world with a model server of its own.
    pub(crate) fn asking(github: GitHub, model: ModelServer) -> TestWorld {
        let folder = tempfile::tempdir().unwrap();
        let github = github.start();
        let state = folder.path().join("state").display().to_string();
        let home = folder.path().join("home");
        fs_err::create_dir(&home).unwrap();
        let env = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("HOME", home.display().to_string()),
            ("GITHUB_API_URL", github.api_url()),
            ("GITHUB_SERVER_URL", github.server_url()),
            ("GITHUB_TOKEN", github.token().to_owned()),
            ("OPENAI_BASE_URL", model.url()),
            ("OPENAI_API_KEY", KEY.to_owned()),
            ("PATCHWRIGHT_STATE_DIR", state),
            ("PATCHWRIGHT_SANDBOX", "local".to_owned()),
            // Conversations end where the tests say, but in those about the second look.
            ("PATCHWRIGHT_SECOND_LOOK", "false".to_owned()),
            ("INPUT_SECOND_LOOK", "false".to_owned()),
            ("PATCHWRIGHT_NOW", "2026-11-20T12:00:00Z".to_owned()),
            ("PATCHWRIGHT_TIME_SCALE", "0.01".to_owned()),
        ];
        let env = env.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        github.set_clock("2026-11-20T12:00:00Z".parse().ok());
        // State, home and the repositories of the command line are all below it. The program's own
        // temporary folders have names like its.
        github.keep_private(folder.path());
        github.keep_private(Path::new("/tmp/.tmp"));
        TestWorld { folder, github, model, env }
    }

    /// A world without GitHub's part in it, for commands that have no forge.
    pub(crate) fn local(turns: impl IntoIterator<Item = Turn>) -> TestWorld {
        TestWorld::new(GitHub::new(), turns).unset("GITHUB_TOKEN")
    }

    pub(crate) fn set(mut self, name: &str, value: impl Into<String>) -> TestWorld {
        let value = value.into();
        if name == "PATCHWRIGHT_NOW" {
            self.github.set_clock(value.parse().ok());
        }
        self.env.insert(name.to_owned(), value);
        self
    }

    /// As the App that is installed in this GitHub, without a token.
    pub(crate) fn with_app_credentials(self) -> TestWorld {
        // What an App signs is dated by the real clock.
        self.github.set_clock(None);
        let (id, key) = (self.github.app().id.to_string(), self.github.app_key());
        self.unset("GITHUB_TOKEN")
            .set("PATCHWRIGHT_APP_ID", id)
            .set("PATCHWRIGHT_APP_PRIVATE_KEY", key)
    }

    pub(crate) fn unset(mut self, name: &str) -> TestWorld {
        if name == "PATCHWRIGHT_NOW" {
            self.github.set_clock(None);
        }
        self.env.remove(name);
        self
    }

    /// In real containers of the test image.
    pub(crate) fn in_docker(self) -> TestWorld {
        self.set("PATCHWRIGHT_SANDBOX", "docker")
            .set("PATCHWRIGHT_IMAGE", crate::support::docker::IMAGE)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// The program with nothing of this process's environment.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_patchwright"));
        command
            .args(args)
            .current_dir(self.folder.path())
            .env_clear()
            .envs(&self.env)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    pub(crate) fn spawn(&self, args: &[&str]) -> Child {
        self.command(args).spawn().unwrap()
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.wait(self.spawn(args))
    }

    /// Works on the issue.
    pub(crate) fn issue(&self) -> Output {
        self.run(&["issue", "acme/app#7"])
    }

    pub(crate) fn wait(&self, child: Child) -> Output {
        let output = child.wait_with_output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        self.output(output.status, stdout, String::from_utf8(output.stderr).unwrap())
    }

    pub(crate) fn output(&self, status: ExitStatus, stdout: String, stderr: String) -> Output {
        use std::os::unix::process::ExitStatusExt;
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default());
        Output { code, stdout, stderr, names: self.names() }
    }

    /// The folders of all runs, oldest first by id.
    pub(crate) fn runs(&self) -> Vec<PathBuf> {
        folders(&self.path("state/runs"))
    }

    /// A file of the only run.
    pub(crate) fn result(&self, name: &str) -> String {
        let runs = self.runs();
        assert_eq!(runs.len(), 1, "one run: {runs:?}");
        fs_err::read_to_string(runs[0].join(name)).unwrap_or_default()
    }

    /// A file of the run's folder, as bytes.
    pub(crate) fn result_bytes(&self, name: &str) -> Vec<u8> {
        fs_err::read(self.runs()[0].join(name)).unwrap()
    }

    /// The text of everything that the model was ever sent.
    pub(crate) fn told(&self) -> String {
        let requests = self.model.requests();
        requests.iter().map(|asked| String::from_utf8_lossy(&asked.raw).into_owned()).collect()
    }

    /// Whether some file below the folder, or GitHub, or the model has ever seen a text.
    pub(crate) fn holds(&self, text: &str) -> Vec<PathBuf> {
        let mut found = Vec::new();
        search(&self.path("state/runs"), text.as_bytes(), &mut found);
        found
    }

    /// A text with what differs from run to run replaced.
    pub(crate) fn tidy(&self, text: &str) -> String {
        tidy(text, &self.names())
    }

    fn names(&self) -> Vec<(String, &'static str)> {
        vec![
            (self.folder.path().display().to_string(), "DIR"),
            (self.model.url(), "MODEL"),
            (self.github.server_url(), "GITHUB"),
            (self.github.server_url().replace("http://", ""), "GITHUB"),
        ]
    }
}

impl Output {
    /// Exit code and both streams, with what differs from run to run replaced.
    pub(crate) fn text(&self) -> String {
        let streams = [("stdout", &self.stdout), ("stderr", &self.stderr)];
        let mut text = format!("exit {}\n", self.code);
        for (name, stream) in streams {
            if !stream.is_empty() {
                text.push_str(&format!("--- {name}\n{}", tidy(stream, &self.names)));
            }
        }
        text
    }

    /// Fails with everything that was printed unless the exit code is this one.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Output {
        assert_eq!(self.code, code, "{}", self.text());
        self
    }
}

fn folders(path: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs_err::read_dir(path) else { return Vec::new() };
    let mut folders: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders
}

fn search(path: &Path, text: &[u8], found: &mut Vec<PathBuf>) {
    for entry in folders(path) {
        if entry.is_dir() {
            search(&entry, text, found);
        } else if fs_err::read(&entry).unwrap().windows(text.len()).any(|part| part == text) {
            found.push(entry);
        }
    }
}

/// Replaces names, run ids, object ids, durations, and what this kernel lets the sandbox enforce.
fn tidy(text: &str, names: &[(String, &'static str)]) -> String {
    let mut text: String = text
        .split_inclusive('\n')
        .map(|line| match line {
            line if line.starts_with("- Enforced: `") => "- Enforced: WALLS\n",
            line if line.starts_with("<!-- patchwright:written ") => {
                "<!-- patchwright:written DIGESTS -->\n"
            }
            line if line.starts_with("<!-- patchwright:seal n=") => {
                "<!-- patchwright:seal SEAL -->\n"
            }
            line => line,
        })
        .collect();
    for (name, word) in names {
        text = text.replace(name, word);
    }
    let mut out = String::new();
    let mut rest = text.as_str();
    while let Some(first) = rest.chars().next() {
        let in_word = out.chars().next_back().is_some_and(char::is_alphanumeric);
        let token = if in_word { None } else { token(rest) };
        if let Some((length, word)) = token {
            out.push_str(word);
            rest = &rest[length..];
        } else {
            out.push(first);
            rest = &rest[first.len_utf8()..];
        }
    }
    out
}

/// A token at the beginning that differs from run to run: its length, and what stands for it.
fn token(text: &str) -> Option<(usize, &'static str)> {
    let shape: String = text
        .chars()
        .take(41)
        .map(|c| match c {
            '0'..='9' => 'd',
            'a'..='f' => 'x',
            other => other,
        })
        .collect();
    let hex = |from: usize, to: usize| {
        shape.len() >= to && shape[from..].chars().take(to - from).all(|c| matches!(c, 'd' | 'x'))
    };
    let ends_at =
        |at: usize| !text[at..].chars().next().is_some_and(|c| c.is_alphanumeric() || c == '.');
    if shape.starts_with("dddddddd-dddddd-") && hex(16, 24) {
        return Some((24, "RUN"));
    }
    if shape.is_ascii() && hex(0, 40) && ends_at(40) {
        return Some((40, "SHA"));
    }
    let digits = text.chars().take_while(|c| c.is_ascii_digit() || *c == '.').count();
    for unit in [" ms", " s", "s", "ms"] {
        let end = digits + unit.len();
        if digits > 0 && text[digits..].starts_with(unit) && ends_at(end) {
            return Some((end, "TIME"));
        }
    }
    None
}

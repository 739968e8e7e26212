//! The Action's own steps, run in a simulated runner: what the first one installs, from where and after which checks, and
//! how the second one starts it. Runners are with and without `gh`, hosted, one's own, containers of jobs, and servers of
//! GitHub Enterprise. A release is served by a real HTTP server or by a `gh` of ours.

use std::collections::BTreeMap;
use std::fs::FileTimes;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use super::server::{Answer, Server};
use super::{run, said, yaml};

/// A runner with a `gh` and a `cargo` of ours, which serve and build a `patchwright` that says how it was called, and
/// with no other program than the usual ones.
struct Runner {
    folder: tempfile::TempDir,
    context: BTreeMap<String, String>,
    variables: BTreeMap<&'static str, String>,
}

const PROGRAM: &str = "#!/bin/sh\n\
    if [ \"$1\" = --version ]; then echo 'patchwright fake'; exit; fi\n\
    echo \"called: $*\"\n\
    echo \"setup: $INPUT_SETUP\"\n\
    echo \"verify: $INPUT_VERIFY\"\n\
    echo \"token: $GITHUB_TOKEN\"\n";

const GH: &str = "#!/bin/sh\n\
    echo \"gh for ${GH_HOST:-github.com} with ${GH_ENTERPRISE_TOKEN:-$GH_TOKEN}\" >> \"$RELEASE/../asked\"\n\
    case \"$1 $2\" in\n\
    'api '*) echo 1111111111111111111111111111111111111111 ;;\n\
    'release download')\n\
      echo \"downloading $3\" >&2\n\
      [ \"$3\" = v0.3.1 ] || exit 1\n\
      while [ $# -gt 0 ]; do\n\
        case $1 in --dir) to=$2 ;; --pattern) file=$2 ;; esac\n\
        shift\n\
      done\n\
      echo \"$file\" >> \"$RELEASE/../asked\"\n\
      if [ -e \"$RELEASE/../busy\" ]; then\n\
        echo 'HTTP 403: API rate limit exceeded' >&2\n\
        echo x >> \"$RELEASE/../busy\"; [ \"$(wc -l < \"$RELEASE/../busy\")\" -gt 2 ] || exit 1\n\
      fi\n\
      [ -e \"$RELEASE/SHA256SUMS\" ] || { echo 'release not found' >&2; exit 1; }\n\
      [ -e \"$RELEASE/$file\" ] || { echo 'no assets match the file pattern' >&2; exit 1; }\n\
      cp \"$RELEASE/$file\" \"$to\" ;;\n\
    'attestation --help') [ -e \"$RELEASE/../attested\" ] ;;\n\
    'attestation verify') shift 2; echo \"verifying ${1##*/} $2 $3 $4 $5\" >&2\n\
      echo x >> \"$RELEASE/../tries\"\n\
      if [ -e \"$RELEASE/../unable\" ] && [ \"$(wc -l < \"$RELEASE/../tries\")\" -lt \"${ANSWERS_AT:-9}\" ]; then\n\
        cat \"$RELEASE/../unable\" >&2; exit 1\n\
      fi\n\
      [ \"$(cat \"$RELEASE/../attested\")\" = yes ] ;;\n\
    *) exit 1 ;;\n\
    esac\n";

const CARGO: &str = "#!/bin/sh\n\
    echo \"cargo $1 $2\" >&2\n\
    while [ $# -gt 0 ]; do [ \"$1\" = --root ] && to=$2; shift; done\n\
    mkdir -p \"$to/bin\" && cp \"$BUILT\" \"$to/bin/patchwright\"\n";

/// All that the step may need of a machine; busybox has each of these, too.
const TOOLS: &[&str] = &[
    "awk",
    "cat",
    "chmod",
    "cp",
    "cut",
    "date",
    "grep",
    "gzip",
    "head",
    "mkdir",
    "mv",
    "od",
    "rm",
    "sed",
    "sh",
    "sha256sum",
    "sleep",
    "tar",
    "touch",
    "tr",
    "uname",
    "wc",
];

const TAGGED_COMMIT: &str = "1111111111111111111111111111111111111111";

/// A `uname` of this system and machine.
fn uname(system: &str, machine: &str) -> String {
    format!("if [ \"$1\" = -s ]; then echo {system}; else echo {machine}; fi")
}

fn machine() -> String {
    String::from_utf8(run("uname", &["-m".into()]).stdout).unwrap().trim().to_owned()
}

impl Runner {
    /// `reference` is what the workflow wrote behind the `@`.
    fn new(reference: &str) -> Runner {
        let folder = tempfile::tempdir().unwrap();
        for name in ["bin", "tools", "temp", "release", "action/.ci"] {
            fs_err::create_dir_all(folder.path().join(name)).unwrap();
        }
        let at = |path: &str| folder.path().join(path);
        let manifest = "[package]\nname = \"x\"\nversion = \"0.3.1\"\n";
        fs_err::write(at("action/Cargo.toml"), manifest).unwrap();
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(".ci/action-install");
        fs_err::copy(script, at("action/.ci/action-install")).unwrap();
        fs_err::write(at("patchwright"), PROGRAM).unwrap();
        run("chmod", &["+x".into(), at("patchwright")]);
        for tool in TOOLS {
            let found = ["/usr/bin", "/bin"].map(|folder| Path::new(folder).join(tool));
            let found = found.iter().find(|path| path.exists()).unwrap();
            symlink(found, at("tools").join(tool)).unwrap();
        }
        let path = |name: &str| at(name).display().to_string();
        let context = [
            ("github.action_path", path("action")),
            ("github.action_ref", reference.to_owned()),
            ("github.action_repository", "patchwright/patchwright".to_owned()),
            ("github.token", "the-token".to_owned()),
            ("github.api_url", "https://api.github.com".to_owned()),
            ("github.server_url", "https://github.com".to_owned()),
            ("env.GITHUB_TOKEN || github.token", "the-token".to_owned()),
        ];
        let context = context.map(|(name, value)| (name.to_owned(), value)).into();
        let runner = Runner { folder, context, variables: BTreeMap::new() };
        runner.program("gh", GH).program("cargo", CARGO)
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    /// The archive of this machine or another one.
    fn archive(&self) -> PathBuf {
        self.at("release").join(format!("patchwright-{}-linux.tar.gz", machine()))
    }

    /// Publishes a release whose `SHA256SUMS` is made from the archive and then edited.
    fn release(self, edit: impl Fn(String) -> String) -> Runner {
        let archive = self.archive();
        let name = archive.file_name().unwrap().to_str().unwrap().to_owned();
        let (from, what) = (self.at("."), "patchwright".into());
        run("tar", &["-czf".into(), archive.clone(), "-C".into(), from, what]);
        let sum = String::from_utf8(run("sha256sum", &[archive]).stdout).unwrap();
        let sum = sum.split(' ').next().unwrap().to_owned();
        fs_err::write(self.at("release/SHA256SUMS"), edit(format!("{sum}  {name}\n"))).unwrap();
        self
    }

    fn context(mut self, name: &str, value: &str) -> Runner {
        self.context.insert(name.to_owned(), value.to_owned());
        self
    }

    fn variable(mut self, name: &'static str, value: impl Into<String>) -> Runner {
        self.variables.insert(name, value.into());
        self
    }

    /// Puts a program of ours before those of the machine.
    fn program(self, name: &str, script: &str) -> Runner {
        let path = self.at("bin").join(name);
        let script = script.trim_start_matches("#!/bin/sh\n");
        fs_err::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        run("chmod", &["+x".into(), path]);
        self
    }

    fn without(self, name: &str) -> Runner {
        fs_err::remove_file(self.at("bin").join(name)).unwrap();
        self
    }

    fn file(self, name: &str, text: &str) -> Runner {
        fs_err::write(self.at(name), text).unwrap();
        self
    }

    /// The machine's curl; a server that says what it likes.
    fn by_curl(self, server: &Server) -> Runner {
        let curl = ["/usr/bin/curl", "/bin/curl"].into_iter().find(|it| Path::new(it).exists());
        symlink(curl.expect("there is no curl: run `./test`"), self.at("bin/curl")).unwrap();
        let url = server.url();
        self.without("gh").context("github.api_url", &url).context("github.server_url", &url)
    }

    /// Serves what is in the release's folder.
    fn served(self) -> (Runner, Server) {
        let server = Server::start();
        let base = "/patchwright/patchwright/releases/download/v0.3.1";
        for entry in fs_err::read_dir(self.at("release")).unwrap() {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            // As GitHub does: files are elsewhere, at an address that ends soon.
            server.answer(&format!("{base}/{name}"), Answer::redirect(&format!("/kept/{name}")));
            server.answer(&format!("/kept/{name}"), Answer::file(&entry.path()));
        }
        let commit = Answer::text(TAGGED_COMMIT);
        server.answer("/repos/patchwright/patchwright/commits/v0.3.1", commit);
        (self.by_curl(&server), server)
    }

    /// Runs the steps one after the other, as the runner does, and returns all that they said.
    fn run(mut self) -> String {
        self.steps()
    }

    fn steps(&mut self) -> String {
        let action = yaml("action.yml");
        let mut out = String::new();
        for step in action["runs"]["steps"].as_array().unwrap() {
            // A step that uses another action is that action's business.
            let Some(lines) = step["run"].as_str() else { continue };
            assert_eq!(step["shell"], "sh", "containers of jobs may have no bash");
            let outputs = self.at("outputs");
            fs_err::write(&outputs, "").unwrap();
            let script = self.at("step.sh");
            fs_err::write(&script, lines).unwrap();
            let mut shell = Command::new(self.at("tools/sh"));
            shell.arg("-e").arg(&script).env_clear().current_dir(self.folder.path());
            let path = format!("{}:{}", self.at("bin").display(), self.at("tools").display());
            shell.env("PATH", path).env("HOME", "/github/home");
            shell.env("RUNNER_TEMP", self.at("temp")).env("GITHUB_OUTPUT", &outputs);
            shell.env("RELEASE", self.at("release")).env("BUILT", self.at("patchwright"));
            shell.envs(&self.variables);
            for (name, value) in step["env"].as_object().unwrap() {
                shell.env(name, self.evaluate(value.as_str().unwrap()));
            }
            let output = shell.output().unwrap();
            out += &said(&output);
            if !output.status.success() {
                return format!("{out}exit {}\n", output.status.code().unwrap());
            }
            for line in fs_err::read_to_string(&outputs).unwrap().lines() {
                let (name, value) = line.split_once('=').unwrap();
                let id = step["id"].as_str().unwrap();
                self.context.insert(format!("steps.{id}.outputs.{name}"), value.to_owned());
            }
        }
        // How long it took is said, and differs.
        let is_time = |line: &&str| line.starts_with("installed in ") && line.ends_with(" s");
        assert_eq!(out.lines().filter(is_time).count(), 1, "{out}");
        out.split_inclusive('\n').filter(|line| !is_time(&line.trim_end())).collect()
    }

    fn evaluate(&self, template: &str) -> String {
        let Some(expression) = template.strip_prefix("${{ ").and_then(|t| t.strip_suffix(" }}"))
        else {
            return template.to_owned();
        };
        let unset = expression.starts_with("inputs.").then(String::new);
        self.context.get(expression).cloned().or(unset).unwrap_or_else(|| panic!("{expression}"))
    }
}

const CALLED: &str = "patchwright fake\ncalled: action\nsetup: \nverify: \ntoken: the-token\n";

#[track_caller]
fn is_built(said: &str, because: &str) {
    let warning = format!("::warning title=Patchwright::{because}");
    assert!(said.contains(&warning), "{said}");
    assert!(said.contains("building Patchwright 0.3.1 from source"), "{said}");
    assert!(said.contains("called: action"), "{said}");
}

#[track_caller]
fn is_stopped(said: &str, because: &str) {
    assert!(said.contains(&format!("::error title=Patchwright::{because}")), "{said}");
    assert!(said.ends_with("exit 1\n"), "{said}");
    assert!(!said.contains("called") && !said.contains("building"), "{said}");
}

#[test]
fn a_tag_or_its_commit_runs_the_released_program() {
    for reference in ["v0.3.1", "v0", "v0.3", TAGGED_COMMIT] {
        let runner = Runner::new(reference).release(|sums| sums);
        assert_eq!(runner.run(), CALLED, "{reference}");
        let (runner, _server) = Runner::new(reference).release(|sums| sums).served();
        assert_eq!(runner.run(), CALLED, "{reference}, by curl");
    }
}

#[test]
fn anything_else_is_built_from_source() {
    let other = "2222222222222222222222222222222222222222";
    for reference in ["main", "v2-dev", "vnext", "", other] {
        let runner = Runner::new(reference).release(|sums| sums);
        let (first, rest) = CALLED.split_once('\n').unwrap();
        assert_eq!(
            runner.run(),
            format!(
                "building Patchwright 0.3.1 from source\n{first}\ncargo install --locked\n{rest}"
            ),
            "{reference}"
        );
    }
}

#[test]
fn without_a_release_and_without_cargo_it_is_said_what_to_do() {
    let said = Runner::new("main").without("cargo").run();
    is_stopped(&said, "there is no release to download for this (main) and no cargo");
    assert!(said.contains("name a released tag, or install Rust on the runner"), "{said}");
    // The reason stands above, and no build is promised.
    let runner = Runner::new("v0").release(|sums| sums).file("busy", "");
    let runner = runner.program("sleep", "rm -f \"$RELEASE/../busy\"; touch \"$RELEASE/../busy\"");
    let said = runner.without("cargo").run();
    is_stopped(&said, "v0.3.1 was not downloaded, for the reason that the job's log has above");
    assert!(said.contains("rate limit") && said.contains("run the job again"), "{said}");
    assert!(!said.contains("built from source"), "{said}");
}

#[test]
fn a_wrong_or_missing_checksum_stops_the_action() {
    let edits: [fn(String) -> String; 3] = [
        |sums| sums.replacen(|c: char| c.is_ascii_hexdigit(), "g", 1),
        |_| String::new(),
        |sums| format!("{}{sums}", "0".repeat(64) + &sums[64..]),
    ];
    for edit in edits {
        let said = Runner::new("v0.3.1").release(edit).run();
        is_stopped(&said, "the checksum of ");
        let (runner, _server) = Runner::new("v0.3.1").release(edit).served();
        is_stopped(&runner.run(), "the checksum of ");
    }
}

#[test]
fn a_limit_that_passes_is_waited_for_instead_of_building() {
    let runner = Runner::new("v0.3.1").release(|sums| sums).file("busy", "");
    let said = runner.program("sleep", "echo \"waiting $1\" >&2").run();
    assert!(said.contains("rate limit exceeded") && said.contains("waiting 10"), "{said}");
    assert!(said.contains("called: action") && !said.contains("building"), "{said}");
    let (runner, server) = Runner::new("v0.3.1").release(|sums| sums).served();
    server.first("/kept/SHA256SUMS", Answer::status("429 Too Many Requests"));
    server.first("/kept/SHA256SUMS", Answer::status("503 Service Unavailable"));
    let said = runner.program("sleep", "echo \"waiting $1\" >&2").run();
    assert!(said.contains("waiting 5") && said.contains("waiting 10"), "{said}");
    assert!(said.contains("called: action") && !said.contains("building"), "{said}");
}

#[test]
fn a_limit_that_does_not_pass_is_said_before_it_is_built() {
    let (runner, server) = Runner::new("v0.3.1").release(|sums| sums).served();
    server.answer("/kept/SHA256SUMS", Answer::status("403 rate limit exceeded"));
    let said = runner.program("sleep", "exit 0").run();
    is_built(&said, "v0.3.1 cannot be downloaded");
    assert_eq!(server.count("/kept/SHA256SUMS"), 3);
}

#[test]
fn a_release_that_is_not_there_is_said_before_it_is_built() {
    let said = Runner::new("v0.3.1").program("sleep", "exit 9").run();
    is_built(&said, "v0.3.1 cannot be downloaded");
    let (runner, _server) = Runner::new("v0.3.1").served();
    is_built(&runner.program("sleep", "exit 9").run(), "v0.3.1 cannot be downloaded");
}

/// A release whose archive cannot be checked is not trusted.
#[test]
fn without_sums_or_a_program_that_makes_them_it_is_said_before_it_is_built() {
    let unsummed = || {
        let runner = Runner::new("v0.3.1").release(|sums| sums);
        fs_err::remove_file(runner.at("release/SHA256SUMS")).unwrap();
        runner
    };
    let said = unsummed().program("sleep", "exit 9").run();
    is_built(&said, "v0.3.1 cannot be downloaded");
    assert!(said.contains("has no SHA256SUMS to check it by"), "{said}");
    let (runner, _server) = unsummed().served();
    let said = runner.program("sleep", "exit 9").run();
    assert!(said.contains("has no SHA256SUMS to check it by"), "{said}");
    let runner = Runner::new("v0.3.1").release(|sums| sums).without("../tools/sha256sum");
    is_built(&runner.run(), "there is no sha256sum here to check v0.3.1 with");
}

/// What GitHub has not got whole is not given out: its address answers 404.
#[test]
fn a_half_uploaded_release_is_not_waited_for() {
    let runner = Runner::new("v0.3.1").release(|sums| sums);
    fs_err::remove_file(runner.archive()).unwrap();
    let said = runner.program("sleep", "exit 9").run();
    is_built(&said, "v0.3.1 has no patchwright-");
    let runner = Runner::new("v0.3.1").release(|sums| sums);
    fs_err::remove_file(runner.archive()).unwrap();
    let (runner, _server) = runner.served();
    is_built(&runner.program("sleep", "exit 9").run(), "v0.3.1 has no patchwright-");
}

#[test]
fn a_connection_that_breaks_off_is_tried_again_and_never_unpacked() {
    let (runner, server) = Runner::new("v0.3.1").release(|sums| sums).served();
    let file = format!("/kept/patchwright-{}-linux.tar.gz", machine());
    server.first(&file, Answer::file(&runner.archive()).cut());
    assert!(runner.program("sleep", "exit 0").run().contains("called: action"));
    let (runner, server) = Runner::new("v0.3.1").release(|sums| sums).served();
    server.answer(&file, Answer::file(&runner.archive()).cut());
    is_built(&runner.program("sleep", "exit 0").run(), "v0.3.1 cannot be downloaded");
    assert_eq!(server.count(&file), 3);
}

#[test]
fn an_archive_that_is_cut_short_or_changed_stops_the_action() {
    let cut: fn(&[u8]) -> Vec<u8> = |whole| whole[..whole.len() / 2].to_vec();
    let changed: fn(&[u8]) -> Vec<u8> = |whole| [whole, b"more"].concat();
    for edit in [cut, changed] {
        let release = || {
            let runner = Runner::new("v0.3.1").release(|sums| sums);
            let archive = runner.archive();
            fs_err::write(&archive, edit(&fs_err::read(&archive).unwrap())).unwrap();
            runner
        };
        is_stopped(&release().run(), "the checksum of ");
        let (runner, _server) = release().served();
        is_stopped(&runner.run(), "the checksum of ");
    }
}

#[test]
fn an_arm_runner_gets_its_own_archive_or_a_build() {
    let arm =
        || Runner::new("v0.3.1").release(|sums| sums).program("uname", &uname("Linux", "aarch64"));
    is_built(&arm().run(), "v0.3.1 has no patchwright-aarch64-linux.tar.gz");
    let runner = arm();
    let name = "patchwright-aarch64-linux.tar.gz";
    fs_err::rename(runner.archive(), runner.at("release").join(name)).unwrap();
    let sums = fs_err::read_to_string(runner.at("release/SHA256SUMS")).unwrap();
    let sums = sums.replace(&format!("{}-linux", machine()), "aarch64-linux");
    fs_err::write(runner.at("release/SHA256SUMS"), sums).unwrap();
    let asked = runner.at("asked");
    let mut runner = runner;
    assert_eq!(runner.steps(), CALLED);
    assert!(fs_err::read_to_string(asked).unwrap().contains(name));
}

#[test]
fn what_the_release_workflow_did_not_build_is_not_run() {
    let release = |attested| Runner::new("v0.3.1").release(|sums| sums).file("attested", attested);
    let said = release("yes").run();
    assert!(said.contains("called: action") && !said.contains("building"), "{said}");
    let said = release("no").run();
    let verified = "--repo patchwright/patchwright --signer-workflow \
                    patchwright/patchwright/.github/workflows/release.yml";
    assert!(said.contains("verifying patchwright-") && said.contains(verified), "{said}");
    is_stopped(&said, "nothing shows that the release workflow");
}

#[test]
fn who_built_it_is_asked_again_and_an_outage_is_no_forgery() {
    let release = |said: &str| {
        let runner = Runner::new("v0.3.1").release(|sums| sums).file("attested", "yes");
        runner.file("unable", said).program("sleep", "echo \"waiting $1\" >&2")
    };
    let unable = "Error: HTTP 401: Bad credentials (https://api.github.com/)\n";
    let said = release(unable).variable("ANSWERS_AT", "3").run();
    assert!(said.contains("waiting 5") && said.contains("waiting 10"), "{said}");
    assert!(said.contains("called: action") && !said.contains("building"), "{said}");
    for words in [unable, "dial tcp: lookup tuf-repo.github.com: no such host\n"] {
        let said = release(words).run();
        is_stopped(&said, "who built patchwright-");
        let because = format!("could not be checked: verifying patchwright-{}", machine());
        assert!(said.contains(&because) && said.contains("; run the job again"), "{said}");
        assert!(!said.contains("nothing shows"), "{said}");
    }
    // A statement that is not there is not waited for.
    let said = release("Error: no attestations found for subject\n").run();
    is_stopped(&said, "nothing shows that the release workflow");
    assert!(!said.contains("waiting"), "{said}");
}

#[test]
fn a_runner_that_is_no_linux_is_told_before_anything_is_downloaded() {
    for (system, machine) in [("Darwin", "arm64"), ("MINGW64_NT-10.0-20348", "x86_64")] {
        let runner = Runner::new("v0.3.1").release(|sums| sums);
        let mut runner = runner.program("uname", &uname(system, machine));
        let said = runner.steps();
        is_stopped(
            &said,
            &format!("Patchwright runs on Linux runners only, and this one is {system}: "),
        );
        assert!(said.contains("`runs-on: ubuntu-latest`"), "{said}");
        assert!(!runner.at("asked").exists(), "nothing was asked of GitHub");
    }
}

#[test]
fn without_gh_no_token_goes_where_files_are() {
    let (runner, server) = Runner::new(TAGGED_COMMIT).release(|sums| sums).served();
    assert_eq!(runner.run(), CALLED);
    let asked = server.asked();
    let (with, without): (Vec<_>, Vec<_>) =
        asked.iter().partition(|request| request.contains("the-token"));
    assert!(with.iter().all(|request| request.starts_with("GET /repos/")), "{asked:?}");
    assert_eq!((with.len(), without.len()), (1, 4), "{asked:?}");
}

#[test]
fn neither_gh_nor_curl_is_said_before_it_is_built() {
    let said = Runner::new("v0.3.1").release(|sums| sums).without("gh").run();
    is_built(&said, "neither gh nor curl is here");
}

/// `gh` takes another server's name and token from variables of their own, and knows no statements of who built what there.
#[test]
fn on_github_enterprise_its_own_release_is_taken() {
    for reference in ["v0.3.1", TAGGED_COMMIT] {
        let mut runner = Runner::new(reference)
            .release(|sums| sums)
            .file("attested", "no")
            .context("github.api_url", "https://git.corp.example/api/v3")
            .context("github.server_url", "https://git.corp.example");
        assert_eq!(runner.steps(), CALLED);
        let asked = fs_err::read_to_string(runner.at("asked")).unwrap();
        assert!(asked.contains("gh for git.corp.example with the-token"), "{asked}");
        assert!(!asked.contains("gh for github.com"), "{asked}");
    }
}

/// A curl that knows github.com alone, and says what it was asked.
const PUBLIC_CURL: &str = "for each; do [ \"$before\" = --output ] && to=$each; before=$each; done\n\
    echo \"$*\" >> \"$RELEASE/../asked\"\n\
    case $each in\n\
    https://github.com/patchwright/patchwright/releases/download/v0.3.1/*)\n\
      [ -e \"$RELEASE/${each##*/}\" ] && cp \"$RELEASE/${each##*/}\" \"$to\" ;;\n\
    https://api.github.com/repos/patchwright/patchwright/commits/v0.3.1)\n\
      printf 1111111111111111111111111111111111111111 ;;\n\
    *) echo 'curl: (22) The requested URL returned error: 404' >&2; exit 22 ;;\n\
    esac";

#[test]
fn what_github_connect_brought_is_downloaded_from_github_without_the_servers_token() {
    for reference in ["v0.3.1", TAGGED_COMMIT] {
        let mut runner = Runner::new(reference)
            .release(|sums| sums)
            .program("gh", "echo 'HTTP 404: Not Found' >&2; exit 1")
            .program("curl", PUBLIC_CURL)
            .program("sleep", "exit 9")
            .context("github.api_url", "https://git.corp.example/api/v3")
            .context("github.server_url", "https://git.corp.example");
        let said = runner.steps();
        assert!(said.contains("called: action") && !said.contains("building"), "{said}");
        let asked = fs_err::read_to_string(runner.at("asked")).unwrap();
        assert!(asked.contains("https://github.com/"), "{asked}");
        assert!(!asked.contains("the-token"), "{asked}");
    }
    // On github.com itself there is no other place to ask.
    let runner = Runner::new("v0.3.1").program("gh", "echo 'release not found' >&2; exit 1");
    let mut runner = runner.program("curl", PUBLIC_CURL);
    is_built(&runner.steps(), "v0.3.1 cannot be downloaded");
    assert!(!runner.at("asked").exists());
}

/// A server in private mode shows nothing to whoever has not signed in: it leads to the page for that.
#[test]
fn a_page_for_signing_in_is_no_release() {
    let page = "echo '<!DOCTYPE html><html>Sign in to GitHub Enterprise</html>' > \"$to\"";
    let private = PUBLIC_CURL.replace(
        "    *) echo",
        &format!("https://git.corp.example/patchwright/*) {page} ;;\n    *) echo"),
    );
    let on_server = |runner: Runner| {
        runner
            .without("gh")
            .program("sleep", "exit 9")
            .context("github.api_url", "https://git.corp.example/api/v3")
            .context("github.server_url", "https://git.corp.example")
    };
    let runner = Runner::new("v0.3.1").release(|sums| sums).program("curl", &private);
    let said = on_server(runner).run();
    assert!(said.contains("called: action") && !said.contains("building"), "{said}");
    // A mirrored release whose archive is behind the page has its sums; what they say still counts.
    let sums = "https://git.corp.example/*/SHA256SUMS) cp \"$RELEASE/SHA256SUMS\" \"$to\" ;;\n    https://git.corp.example/patchwright";
    let half = private.replace("https://git.corp.example/patchwright", sums);
    let wrong = |sums: String| format!("{}{}", "0".repeat(64), &sums[64..]);
    let said = on_server(Runner::new("v0.3.1").release(wrong).program("curl", &half)).run();
    is_stopped(&said, "the checksum of ");
    // Where there is nothing behind it either, it is built.
    let nowhere = private.replace("https://github.com/", "https://nowhere.example/");
    let said = on_server(Runner::new("v0.3.1").program("curl", &nowhere)).run();
    is_built(&said, "v0.3.1 cannot be downloaded");
}

/// As in an image of Alpine: busybox, no bash, no `gh`, a home folder that is not there.
#[test]
fn in_the_container_of_a_job_busybox_is_enough() {
    let (runner, _server) = Runner::new("v0.3.1").release(|sums| sums).served();
    let busybox =
        ["/bin/busybox", "/usr/bin/busybox"].into_iter().find(|it| Path::new(it).exists());
    let busybox = busybox.expect("there is no busybox: run `./test`");
    for tool in TOOLS {
        fs_err::remove_file(runner.at("tools").join(tool)).unwrap();
        symlink(busybox, runner.at("tools").join(tool)).unwrap();
    }
    assert_eq!(runner.run(), CALLED);
}

#[test]
fn a_machine_whose_c_library_is_too_old_or_another_one_is_told() {
    let runner = Runner::new("v0.3.1").file(
        "patchwright",
        "#!/bin/sh\necho \"version 'GLIBC_2.28' not found (required by patchwright)\" >&2\nexit 1\n",
    );
    let said = runner.release(|sums| sums).run();
    assert!(said.contains("GLIBC_2.28"), "{said}");
    is_stopped(&said, "the released program does not start here: it needs glibc 2.28");
    // What the kernel says without a loader.
    let runner = Runner::new("v0.3.1").file("patchwright", "#!/lib/ld-of-another-library\n");
    is_stopped(&runner.release(|sums| sums).run(), "the released program does not start here");
}

#[test]
fn a_runner_that_stays_downloads_a_version_once_and_checks_it_each_time() {
    let (runner, server) = Runner::new("v0.3.1").release(|sums| sums).served();
    let file = format!("/kept/patchwright-{}-linux.tar.gz", machine());
    let mut runner = runner;
    let tools = runner.at("kept");
    runner = runner.variable("RUNNER_TOOL_CACHE", tools.display().to_string());
    for _ in 0..2 {
        assert_eq!(runner.steps(), CALLED);
        assert_eq!((server.count(&file), server.count("/kept/SHA256SUMS") > 0), (1, true));
    }
    let kept = tools.join("patchwright/v0.3.1").join(file.trim_start_matches("/kept/"));
    let (good, modified) = (fs_err::read(&kept).unwrap(), SystemTime::UNIX_EPOCH);
    // Somebody else's job has changed it.
    fs_err::write(&kept, [good.as_slice(), b"more"].concat()).unwrap();
    let handle = fs_err::OpenOptions::new().write(true).open(&kept).unwrap();
    handle.file().set_times(FileTimes::new().set_modified(modified)).unwrap();
    assert_eq!(runner.steps(), CALLED);
    assert_eq!(server.count(&file), 2);
    assert_eq!(fs_err::read(&kept).unwrap(), good);
    // A cache that cannot be written is treated as absent.
    fs_err::remove_dir_all(&tools).unwrap();
    fs_err::write(&tools, "a file").unwrap();
    assert_eq!(runner.steps(), CALLED);
    assert_eq!(fs_err::metadata(&tools).unwrap().permissions().mode() & 0o170_000, 0o100_000);
}

#[test]
fn two_steps_of_one_run_keep_their_files_under_different_names() {
    let mut runner = Runner::new("v0.3.1").release(|sums| sums);
    let unique = |runner: &mut Runner| {
        runner.steps();
        runner.context["steps.install.outputs.unique"].clone()
    };
    let (first, second) = (unique(&mut runner), unique(&mut runner));
    assert!(first.len() == 8 && first != second, "{first} {second}");
    let action = yaml("action.yml");
    let steps = action["runs"]["steps"].as_array().unwrap();
    let named = ["name", "key"].map(|key| {
        let names = steps.iter().filter_map(|step| step["with"][key].as_str());
        names
            .filter(|name| name.trim_end().ends_with("-${{ steps.install.outputs.unique }}"))
            .count()
    });
    assert_eq!(named, [1, 2], "the artifact; the cache, as it is read and written");
}

#[test]
fn inputs_reach_the_program_and_never_the_shell() {
    let hostile = "$(touch pwned) `touch pwned`; touch pwned '\"\n::set-env name=A::b";
    let runner = Runner::new("main").context("inputs.setup", hostile);
    let runner = runner.context("inputs.verify", "make test");
    let folder = runner.folder.path().to_owned();
    let said = runner.run();
    assert!(said.contains(&format!("setup: {hostile}\nverify: make test\n")), "{said}");
    assert!(!folder.join("pwned").exists());
}

/// A second line of it would be another output, and one of those says what is executed.
#[test]
fn a_state_folder_of_two_lines_stops_the_job() {
    let runner = Runner::new("v0.3.1").release(|sums| sums);
    let mut runner = runner.context("inputs.state-dir", "state\nprogram=/tmp/other");
    let said = runner.steps();
    is_stopped(&said, "the input `state-dir` has more than one line");
    assert!(!runner.at("asked").exists(), "nothing was asked of GitHub");
}

//! `patchwright exec`: the same engine without a forge.

use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use patchwright_base::env::Env;
use patchwright_base::error::{Failure, Result};
use patchwright_base::ui::Ui;
use patchwright_config::file::{File, read_file};
use patchwright_config::flags::Common;
use patchwright_config::{Config, Mode, SandboxChoice, Source, merge, output_schema};
use patchwright_git::{commit_named, display_path, uncommitted, working_folder_of};
use patchwright_report::{annotations, sections};
use patchwright_sandbox::docker::DockerSandbox;
use patchwright_task::pipeline::{self, RunReport};
use patchwright_task::run::RunEnvironment;
use patchwright_task::world::World;
use patchwright_types::outcome::{Conclusion, Outcome};
use patchwright_types::task::ExecRequest;

/// Follow a prompt on a local repository or URL, without a forge
///
/// Works on the committed state (HEAD, or --base) and leaves the repository untouched unless
/// --apply. Without --sandbox, commands run in Docker when it answers, else in the local sandbox. Prints the final message on stdout; the diff, plan, report and journal go into --out.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What to do; `-` reads it from standard input
    #[arg(value_name = "PROMPT")]
    pub prompt: String,

    /// Git repository: a folder or a URL
    #[arg(long, env = "PATCHWRIGHT_REPO", value_name = "PATH|URL", default_value = ".")]
    pub repo: String,

    /// Branch, tag or commit to start from [default: HEAD]
    #[arg(long, env = "PATCHWRIGHT_BASE", value_name = "REF")]
    pub base: Option<String>,

    /// Folder for change.patch, plan.md, journal.jsonl, report.html and result.json
    /// [default: a new folder below the state folder]
    #[arg(long, env = "PATCHWRIGHT_OUT", value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Read and end with a plan, or do the work
    #[arg(long, env = "PATCHWRIGHT_MODE", value_name = "MODE")]
    pub mode: Option<Mode>,

    /// JSON Schema of the result, which is printed instead of the final message
    #[arg(long, env = "PATCHWRIGHT_OUTPUT_SCHEMA", value_name = "FILE")]
    pub output_schema: Option<PathBuf>,

    /// Write the change into the working folder of --repo when it succeeds
    #[arg(long, env = "PATCHWRIGHT_APPLY")]
    pub apply: bool,

    #[command(flatten)]
    pub common: Common,
}

/// Bytes of a prompt on standard input.
const MAX_PROMPT: u64 = 1 << 20;

/// The exit code.
pub async fn run(args: Args, env: &Env, ui: Ui) -> Result<u8> {
    let mut config = args.common.resolve()?;
    let file = args.output_schema.as_deref().filter(|path| !path.as_os_str().is_empty());
    let output_schema = file.map(schema).transpose()?;
    let said = File { mode: args.mode, output_schema, ..File::default() };
    merge::lay(&mut config, said, Source::Flag);
    let prompt = prompt(&args.prompt)?;
    let repository = repository(&args.repo, ui)?;
    if args.apply {
        has_working_folder(&repository)?;
    }
    let base = args.base.filter(|base| !base.is_empty());
    if base.is_none() {
        leaves_out_uncommitted(&repository, args.out.as_deref(), ui);
    }
    without_docker(&mut config, env, ui).await;
    let world = World::for_repository(&config, &args.common, env).await?;
    world.warn_of_disk(ui);
    let request = ExecRequest {
        repository: repository.clone(),
        base: base.map(|base| base_of(&repository, base)),
        prompt,
        after: None,
    };
    let wants_output = config.output_schema.is_some();
    let environment = RunEnvironment { out: args.out.clone(), ..RunEnvironment::new(ui, env) };
    let report = Box::pin(pipeline::exec(&world, config, request, environment)).await?;
    match (&report.outcome.output, wants_output) {
        (Some(output), _) => ui.data(&format!("{output:#}")),
        // Whoever reads JSON gets that or nothing.
        (None, true) => {}
        (None, false) => ui.data(&report.outcome.final_message),
    }
    if report.outcome.change.is_none() {
        ui.say("nothing was changed");
    }
    ui.say(&format!("results are in {}", report.folder.display()));
    let applied = match report.outcome.conclusion {
        Conclusion::Done if args.apply => apply(&repository, &report, ui),
        _ if args.apply && report.outcome.change.is_some() => {
            ui.say(&format!(
                "nothing was written into `{repository}`, because the run has not come to its end; its change is {}",
                report.folder.join("change.patch").display()
            ));
            Ok(())
        }
        _ => Ok(()),
    };
    for flag in sections::to_look_at(&report.outcome.judgement) {
        ui.say(&format!("please look at: {flag}"));
    }
    Ok(match applied {
        Ok(()) => super::code(report.outcome.conclusion),
        // Not an error of the command: its result has been told, and nothing may come after that.
        Err(failure) => {
            ui.failure(&failure.to_string());
            ui.workflow_command(&annotations::error("Patchwright", &failure.message));
            failure.kind.exit_code()
        }
    })
}

/// A local run may use the local sandbox when no Docker answers; a message says so. An explicit choice of
/// the user is kept.
pub(crate) async fn without_docker(config: &mut Config, env: &Env, ui: Ui) {
    // Docker is only the default here, so its absence is no mistake of the user.
    if config.sandbox != SandboxChoice::Docker || config.sources.contains_key("sandbox") {
        return;
    }
    if let Err(err) = DockerSandbox::connect(env.var("DOCKER_HOST")).await {
        ui.say(&format!("sandbox: local (Landlock and seccomp), because {err}"));
        config.sandbox = SandboxChoice::Local;
    }
}

/// Reads a schema and checks it, before anything is started.
fn schema(path: &Path) -> Result<Value> {
    let text = read_file(path, "output schema")?;
    let wrong = |why: String| {
        Failure::usage(format!("the output schema `{}` {why}", path.display()))
            .hint("`docs/configuration.md` says which schemas can be used")
    };
    let schema = serde_json::from_str(&text).map_err(|err| wrong(format!("is not JSON: {err}")))?;
    output_schema::check(&schema).map_err(wrong)?;
    Ok(schema)
}

/// What `--repo` names. Of a folder inside of a repository that is the repository, as in git.
pub(super) fn repository(named: &str, ui: Ui) -> Result<String> {
    let folder = Path::new(named);
    // An address, or nothing at all, which is said where it is asked for.
    if !folder.is_dir() {
        return Ok(named.to_owned());
    }
    let whole = fs_err::canonicalize(folder).map_err(|err| {
        Failure::usage(format!("cannot read the folder `{named}`")).caused_by(err)
    })?;
    let is_bare = whole.join("HEAD").is_file() && whole.join("objects").is_dir();
    let root = if is_bare { Some(whole.as_path()) } else { working_folder_of(&whole) };
    let root = root.ok_or_else(|| {
        Failure::usage(format!("`{}` is not in a git repository", whole.display())).hint(
            "name one with `--repo`, or make one of it: `git init`, `git add .` and `git commit`",
        )
    })?;
    let path = root.to_str().ok_or_else(|| {
        Failure::usage(format!("the path of the repository is not UTF-8: {}", root.display()))
            .hint("give its folders other names, or work on a clone of it elsewhere")
    })?;
    if root == whole {
        return Ok(named.to_owned());
    }
    ui.say(&format!("repository: {path}"));
    Ok(path.to_owned())
}

/// Refuses `--apply` where there is nothing to write into, before anything is paid for.
fn has_working_folder(repository: &str) -> Result<()> {
    if Path::new(repository).join(".git").exists() {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "`{repository}` has no working folder that `--apply` could write into"
    ))
    .hint("leave `--apply` out, and apply `change.patch` of the run's folder where you want it"))
}

/// Says that the run does not see what is not committed. `out` holds results of runs and nothing of anybody's.
fn leaves_out_uncommitted(repository: &str, out: Option<&Path>, ui: Ui) {
    let Ok(folder) = fs_err::canonicalize(repository) else { return };
    let out = out.and_then(|out| fs_err::canonicalize(out).ok());
    let is_results = |path: &String| {
        let path = folder.join(path);
        out.as_ref().is_some_and(|out| path.starts_with(out) || out.starts_with(&path))
    };
    let mut paths = uncommitted(&folder);
    paths.retain(|path| !is_results(path));
    let Some(first) = paths.first() else { return };
    let (first, are) = match paths.len() - 1 {
        0 => (display_path(first), "is".to_owned()),
        more => (display_path(first), format!("and {more} more are")),
    };
    ui.warn(&format!(
        "`{first}` {are} not committed: the work begins at the last commit, without that; commit what it needs first"
    ));
}

/// What `--base` names. Servers know branches, tags and whole ids; a repository of this machine knows more names.
fn base_of(repository: &str, base: String) -> String {
    commit_named(Path::new(repository), &base).map_or(base, |commit| commit.to_string())
}

fn prompt(argument: &str) -> Result<String> {
    if argument != "-" {
        if argument.trim().is_empty() {
            return Err(Failure::usage("the prompt is empty")
                .hint("say what is to be done, or pipe it in and give `-` as the prompt"));
        }
        return Ok(argument.to_owned());
    }
    let mut stdin = std::io::stdin();
    // Reading a terminal would wait for input that a user of CI never gives.
    if stdin.is_terminal() {
        return Err(Failure::usage(
            "`-` reads the prompt from standard input, which is a terminal",
        )
        .hint("pipe the prompt in, or give it as the argument"));
    }
    let mut text = Vec::new();
    // Bounded, because standard input may be an endless stream.
    stdin.by_ref().take(MAX_PROMPT + 1).read_to_end(&mut text).map_err(|err| {
        Failure::usage("cannot read the prompt from standard input").caused_by(err)
    })?;
    if text.len() as u64 > MAX_PROMPT {
        let failure =
            format!("the prompt on standard input is longer than {} KB", MAX_PROMPT >> 10);
        return Err(Failure::usage(failure)
            .hint("put what is long into a file of the repository, and name it in the prompt"));
    }
    let prompt = String::from_utf8(text).map_err(|err| {
        Failure::usage("the prompt on standard input is not UTF-8").caused_by(err)
    })?;
    if prompt.trim().is_empty() {
        return Err(Failure::usage("the prompt on standard input is empty"));
    }
    Ok(prompt)
}

/// Writes the change into the working folder. The folder belongs to the person who runs this, and
/// the patch was checked, but files that were edited meanwhile are theirs: then nothing is written.
fn apply(repository: &str, report: &RunReport, ui: Ui) -> Result<()> {
    let Outcome { change, judgement, .. } = &report.outcome;
    let Some(change) = change else { return Ok(()) };
    let patch = report.folder.join("change.patch");
    if let Some(why) = sections::not_for_a_folder(judgement) {
        return Err(Failure::usage(format!(
            "the change was not written into `{repository}`: {why}"
        ))
        .hint(format!(
            "read {}, and apply it with `git apply` where you want it",
            patch.display()
        )));
    }
    patchwright_git::apply::to_working_folder(
        std::path::Path::new(repository),
        &report.repo,
        change,
    )
    .map_err(|err| {
        Failure::usage(format!("the change was not written into `{repository}`"))
            .caused_by(err)
            .hint(format!("it is kept in {}", patch.display()))
    })?;
    ui.say(&format!("wrote {} files into {repository}", change.files.len()));
    Ok(())
}

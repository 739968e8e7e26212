//! `patchwright init`: writes the example workflows into the repository of the current folder, and says which secrets and
//! settings they need. It asks GitHub nothing; `doctor` does.

mod place;
mod uses;

use std::collections::BTreeSet;
use std::path::Path;

use self::place::{State, TargetFile};
pub use self::uses::Use;
use crate::doctor::CheckState;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_base::ui::Ui;

/// Write workflow files into the repository of the current folder
///
/// Writes `.github/workflows/USE.yml` for each use, and prints the secrets and settings that it needs. A file that is
/// there and is the same stays as it is, under whatever name; one that you have changed is only replaced with `--force`, and is checked for the
/// traps that `patchwright doctor` knows.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// What Patchwright is to do in this repository; the names are those of the files
    #[arg(value_name = "USE", default_value = "issue-to-pr")]
    pub uses: Vec<Use>,

    /// Write nothing; exit with 2 when a file is absent or differs
    #[arg(long, env = "PATCHWRIGHT_CHECK", conflicts_with = "force")]
    pub check: bool,

    /// Replace files that differ, too
    #[arg(long, env = "PATCHWRIGHT_FORCE")]
    pub force: bool,
}

pub fn run(args: &Args, ui: Ui) -> Result<u8> {
    let here = std::env::current_dir()
        .map_err(|err| Failure::machine("there is no current folder").caused_by(err))?;
    let wanted = with_needed(&args.uses);
    let folder = place::workflows_of(&here)?;
    // All are looked at before any is written: a refusal leaves the repository as it was.
    let places: Vec<(Use, TargetFile, State)> = wanted
        .into_iter()
        .map(|wanted| {
            let mut place = folder.place(wanted.file())?;
            let mut state = place.state(wanted.content())?;
            // A second workflow of the same kind would start everything twice.
            if state == State::Absent
                && let Some(moved) = folder.moved(wanted.file(), wanted.content())?
            {
                state = moved.state(wanted.content())?;
                place = moved;
            }
            Ok((wanted, place, state))
        })
        .collect::<Result<_>>()?;
    if args.check {
        return check(&places, ui);
    }
    for (wanted, place, state) in &places {
        let name = place.name();
        match state {
            State::Same => ui.data(&format!("unchanged  {name}")),
            State::Absent => {
                place.create(wanted.content())?;
                ui.data(&format!("wrote      {name}"));
            }
            State::Differs if args.force => {
                place.replace(wanted.content())?;
                ui.data(&format!("replaced   {name}"));
            }
            State::Differs => {
                ui.data(&format!("kept       {name}: it differs; `--force` replaces it"));
                say_traps(place, ui)?;
            }
        }
    }
    ui.data(&next_steps(&places.iter().map(|(wanted, _, _)| *wanted).collect::<Vec<_>>()));
    Ok(0)
}

/// The uses in the order of their files, once each, with what they cannot work without.
fn with_needed(uses: &[Use]) -> Vec<Use> {
    let all: BTreeSet<Use> = uses.iter().flat_map(|one| one.needs()).chain(uses).copied().collect();
    all.into_iter().collect()
}

/// What `doctor` says about a file that people changed. Of ours it has nothing to say, which tests see to.
fn say_traps(place: &TargetFile, ui: Ui) -> Result<()> {
    let found = crate::doctor::workflow::check(&place.name(), &place.text()?);
    for finding in found.iter().filter(|finding| finding.state != CheckState::Fine) {
        ui.data(&finding.to_string());
    }
    Ok(())
}

/// Says which files are not as they would be written, and what `doctor` says about those that people changed.
fn check(places: &[(Use, TargetFile, State)], ui: Ui) -> Result<u8> {
    let mut wrong = 0;
    for (_, place, state) in places {
        let name = place.name();
        let said = match state {
            State::Same => "same   ",
            State::Absent => "absent ",
            State::Differs => "differs",
        };
        wrong += usize::from(*state != State::Same);
        ui.data(&format!("{said}  {name}"));
        if *state == State::Differs {
            say_traps(place, ui)?;
        }
    }
    if wrong == 0 {
        return Ok(0);
    }
    let words: Vec<&str> =
        places.iter().map(|(one, _, _)| one.file().trim_end_matches(".yml")).collect();
    ui.failure(&format!(
        "error: {wrong} of {} workflow files are not those of this version\n\
         hint: `patchwright init {}` writes absent ones, and `--force` replaces those that differ",
        places.len(),
        words.join(" "),
    ));
    Ok(FailureKind::Usage.exit_code())
}

/// What is left for a person to do.
fn next_steps(uses: &[Use]) -> String {
    let mut steps: Vec<String> = Vec::new();
    let secrets: BTreeSet<uses::Secret> = uses.iter().flat_map(|one| one.secrets()).collect();
    for secret in secrets {
        let when = if secret.is_optional { ", when other repositories are worked on" } else { "" };
        steps.push(format!("Add the secret {0}{when}: gh secret set {0}", secret.name));
    }
    if uses.iter().any(|one| one.opens_pull_requests()) {
        steps.push(
            "Let workflows open pull requests: Settings > Actions > General > Workflow permissions > \
             Allow GitHub Actions to create and approve pull requests"
                .to_owned(),
        );
    }
    steps.extend(uses.iter().flat_map(|one| one.steps()).map(|step| (*step).to_owned()));
    steps.push("Commit the files to the default branch, and push".to_owned());
    let numbered = steps.iter().enumerate().map(|(at, step)| format!("  {}. {step}", at + 1));
    format!("\nNext:\n{}", numbered.collect::<Vec<_>>().join("\n"))
}

/// A path as people write it: from the repository's root.
fn shown(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap_or(path).display().to_string()
}

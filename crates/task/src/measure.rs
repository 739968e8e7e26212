//! What the checks of a repository say of trees that come of patches: no model is asked, and nothing is published. By
//! this the work of models is judged, by tests that they have not seen.

use sha2::{Digest, Sha256};

use super::checks::{CheckTarget, Checks};
use super::pipeline;
use super::progress::Progress;
use super::run::{Run, RunEnvironment, Start};
use super::workspace::Checkout;
use crate::world::World;
use patchwright_base::error::{Failure, Result};
use patchwright_config::Config;
use patchwright_git::patching::{self, PatchedFile};
use patchwright_git::{GitError, Oid, blocking, diff};
use patchwright_types::evidence::CheckRun;
use patchwright_types::task::{ExecRequest, MeasureRequest};

/// What is measured.
#[derive(Clone, Debug)]
pub struct Measurement {
    /// A folder or a URL.
    pub repository: String,
    /// The commit that the patches are made for, by its id.
    pub base: String,
    /// What is measured, for people.
    pub about: String,
    /// The commands that decide; the repository's own checks when there are none.
    pub verify: Vec<String>,
    /// Tests that the change brings along, as a patch. In a tree these files are as this patch has them, whatever was made
    /// of them before.
    pub tests: String,
    /// The tree with the tests alone is measured as well.
    pub before: bool,
    /// The change itself, as a patch; it may be empty.
    pub patch: String,
}

/// What came of it.
#[derive(Clone, Debug)]
pub enum Measured {
    Checks {
        /// With the tests alone; empty unless it was asked for.
        before: Vec<CheckRun>,
        /// With the change and the tests.
        after: Vec<CheckRun>,
    },
    /// The change cannot be applied to the base: why.
    NotApplicable(String),
}

/// The two trees, and the files that differ from the base in either.
struct Trees {
    before: Oid,
    after: Oid,
    paths: Vec<String>,
}

/// Runs the checks, in a fresh sandbox for each tree. A killed measurement in the same folder runs those that it had not
/// run.
///
/// # Errors
/// When the repository cannot be read, the tests do not apply to it, or there is no sandbox.
pub async fn measure(
    world: &World,
    config: Config,
    measurement: &Measurement,
    environment: RunEnvironment,
) -> Result<Measured> {
    let start = Start::silently(world, config, environment);
    let run = start.run(request(measurement), None)?;
    run.begin().await?;
    let progress = Progress::on_terminal(&run);
    let measured = Box::pin(run.unless_interrupted(within(&run, measurement, &progress))).await;
    run.or_interruption(measured)
}

fn request(measurement: &Measurement) -> MeasureRequest {
    let Measurement { repository, base, about, verify, tests, before, patch } = measurement;
    let mut hash = Sha256::new();
    for part in [tests, patch, &verify.join("\n"), &before.to_string()] {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    MeasureRequest {
        repository: repository.clone(),
        base: base.clone(),
        about: about.clone(),
        digest: hex::encode(hash.finalize()),
    }
}

async fn within(run: &Run<'_>, measurement: &Measurement, progress: &Progress) -> Result<Measured> {
    let at_base = ExecRequest {
        repository: measurement.repository.clone(),
        base: Some(measurement.base.clone()),
        prompt: String::new(),
        after: None,
    };
    let checkout = Checkout::of_exec(run, &at_base).await?;
    let Trees { before, after, paths } = match trees(&checkout, measurement).await? {
        Ok(trees) => trees,
        Err(why) => return Ok(Measured::NotApplicable(why)),
    };
    let mut run = run.configured(&checkout.rules).await?;
    if !measurement.verify.is_empty() {
        run.config.verify.clone_from(&measurement.verify);
    }
    let run = &run;
    let Checkout { workspace, rules } = checkout.sparse(run).await?;
    let (checks, image) = pipeline::prepare(run, &rules, None, &workspace, progress).await?;
    let checks: &Checks = &*checks.of_change(&rules, paths).await?;
    let mut baseline = Vec::new();
    if measurement.before {
        let tree = run.pack(&run.with_tree(&workspace, before)?).await?;
        baseline = checks.run_fresh(run, &image, &tree, CheckTarget::Base).await?;
    }
    let tree = run.pack(&run.with_tree(&workspace, after)?).await?;
    let side = CheckTarget::Head(&baseline);
    let after = checks.run_fresh(run, &image, &tree, side).await?;
    Ok(Measured::Checks { before: baseline, after })
}

/// The trees; why the change cannot be applied, where it cannot.
async fn trees(
    checkout: &Checkout,
    measurement: &Measurement,
) -> Result<std::result::Result<Trees, String>> {
    let workspace = &checkout.workspace;
    let (repo, base) = (workspace.repo.clone(), workspace.base);
    let Measurement { tests, patch, .. } = measurement.clone();
    let made = blocking(move || {
        let base = diff::tree_of(&repo, base)?;
        let of_tests = patching::files_of(&tests)?;
        let before = patching::apply(&repo, base, &tests)
            .map_err(|err| GitError::Unacceptable(format!("the tests: {err}")))?;
        let applied = patching::files_of(&patch)
            .and_then(|files| Ok((files, patching::apply(&repo, base, &patch)?)));
        let (of_patch, changed) = match applied {
            Ok(applied) => applied,
            Err(GitError::Unacceptable(why)) => return Ok(Err(why)),
            Err(err) => return Err(err),
        };
        let after = patching::with_files_of(&repo, changed, before, &of_tests)?;
        let files = of_tests.into_iter().chain(of_patch);
        let paths = files.map(|PatchedFile { path, .. }| path).collect();
        Ok(Ok(Trees { before, after, paths }))
    });
    made.await.map_err(|err| {
        Failure::usage(format!("the patches of `{}` cannot be used", measurement.about))
            .caused_by(err)
    })
}

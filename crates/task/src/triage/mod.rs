//! A new issue, sorted: which labels fit, what it duplicates, what is missing.
//!
//! [`triage`] is the whole flow. The model reads and proposes; what may be written is decided here: labels are
//! those of the repository that may be put on ([`labels`]), duplicates those issues that our own search had
//! found ([`candidates`]), and all words stand in one comment of ours that is edited in place ([`publish`]).
//! The author of an issue needs no access, so nothing in it is obeyed, and the sandbox reads only.

mod admit;
mod answer;
mod brief;
mod candidates;
mod choices;
mod labels;
mod limits;
mod publish;
mod templates;

use self::admit::AdmittedTriage;
use self::choices::TriageChoices;
use super::job::Job;
use super::network;
use super::pipeline;
use super::progress::Progress;
use super::run::{Run, RunEnvironment, Start};
use super::workspace::Checkout;
use crate::world::World;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_config::{Config, Mode, NONE};
use patchwright_prompt as prompt;
use patchwright_report::triage as words;
use patchwright_types::events::{Event, Object, TriageResult};
use patchwright_types::outcome::{Conclusion, Outcome};
use patchwright_types::task::TriageRequest;
use patchwright_types::triaged::Triaged;

/// A triage that came to an end.
#[derive(Debug)]
pub struct TriageReport {
    pub triaged: Triaged,
    /// The address of the comment, where one was written.
    pub comment_url: Option<String>,
    /// What people are shown of it: the comment without its last lines.
    pub shown: String,
    /// Where journal and report are.
    pub folder: std::path::PathBuf,
}

impl TriageReport {
    /// As `triage.json` has it.
    pub fn as_json(&self) -> String {
        let TriageReport { triaged, comment_url, folder, .. } = self;
        let result = TriageResult { triaged, comment_url: comment_url.as_deref(), folder };
        serde_json::to_string(&Event::TriageResult(Box::new(result))).unwrap_or_default()
    }
}

/// Triages: admit → begin → open → offer → agent → decide → publish.
///
/// # Errors
/// A [`Failure`] when there is no outcome to report: nothing to do, no sandbox, no forge.
pub async fn triage(
    world: &World,
    config: Config,
    request: TriageRequest,
    environment: RunEnvironment,
) -> Result<TriageReport> {
    let start = Start::new(world, for_triage(config), environment);
    let admitted = admit::admit(world, &start.config, request).await?;
    let run = start.run(admitted.request.clone(), Some(admitted.issue.title.clone()))?;
    if run.folder.recorded.is_empty()
        && let Some(why) = admitted.is_done(&run.config.triage)
    {
        run.folder.finish();
        return Err(Failure::nothing_to_do(why).hint("`--full` triages it once more"));
    }
    run.begin().await?;
    let progress = Progress::on_terminal(&run);
    let result = Box::pin(work(&run, &admitted, &progress)).await;
    let result = run.or_interruption(result);
    if let Err(failure) = &result
        && matches!(failure.kind, FailureKind::NothingToDo | FailureKind::Usage)
    {
        run.folder.finish();
    }
    result
}

/// Strangers decide what is read, so nothing is written and nothing reached.
fn for_triage(config: Config) -> Config {
    let config = network::closed(config, "a triage reaches nothing");
    let limits = limits::of(&config);
    let output_schema = Some(answer::schema());
    Config { mode: Mode::Plan, attempts: 1, limits, output_schema, ..config }
}

async fn work(
    run: &Run<'_>,
    admitted: &AdmittedTriage,
    progress: &Progress,
) -> Result<TriageReport> {
    progress.phase("Cloning the repository");
    let workspace = run.unless_interrupted(admitted.open(run)).await?;
    let rules = workspace.rules(run.world, &run.config, &admitted.repository);
    let rules = run.unless_interrupted(rules).await?;
    let run = &as_the_repository_says(run.configured(&rules).await?)?;
    let checkout = Checkout { workspace, rules }.sparse(run).await?;
    progress.phase("Looking for issues like it");
    let offer = run
        .unless_interrupted(TriageChoices::of(run, admitted, checkout.rules.workspace()))
        .await?;
    let told = brief::tell(run, admitted, &offer, checkout.rules.workspace()).await?;
    let job = Job::triage(&told, &checkout, prompt::text("mode/triage.md")?);
    let finished = Box::pin(pipeline::carry_out(run, &job, progress)).await?;
    finish(run, admitted, &offer, finished.outcome, progress).await
}

/// The run with what the repository's own file has tightened. Reading needs neither setup nor servers.
fn as_the_repository_says(run: Run<'_>) -> Result<Run<'_>> {
    if !run.config.triage.enabled {
        let why = "the repository's own configuration turns triage off";
        return Err(Failure::nothing_to_do(why).hint("see `triage.enabled`"));
    }
    let mut run = run;
    run.config.limits = limits::of(&run.config);
    run.config.setup = vec![NONE.to_owned()];
    run.config.services.clear();
    Ok(run)
}

/// Decides what the answer may say, publishes, and writes the last lines.
async fn finish(
    run: &Run<'_>,
    admitted: &AdmittedTriage,
    offer: &TriageChoices,
    outcome: Outcome,
    progress: &Progress,
) -> Result<TriageReport> {
    let mut triaged = answer::triaged(run, admitted, offer, &outcome);
    let mut comment_url = None;
    if outcome.conclusion == Conclusion::Done && !run.config.dry_run && !run.is_interrupted() {
        progress.phase("Publishing");
        let publishing = publish::publish(run, admitted, offer, &mut triaged);
        comment_url = run.unless_interrupted(publishing).await?;
    }
    let shown = words::shown(&triaged, run.environment.run_url.as_deref());
    let shown = run.world.redactor.redact(&shown);
    run.conclude(&outcome, &[]);
    tell_end(run, admitted, &triaged, comment_url.as_deref());
    run.end(&outcome)?;
    Ok(TriageReport { triaged, comment_url, shown, folder: run.folder.path.clone() })
}

/// The last events, and the file with the same.
fn tell_end(run: &Run<'_>, admitted: &AdmittedTriage, triaged: &Triaged, url: Option<&str>) {
    if url.is_some() {
        let number = Some(admitted.issue.number);
        run.tell(&Event::Published { object: Object::Comment, url, number, operation: None });
    }
    let folder = &run.folder.path;
    let result = Event::TriageResult(Box::new(TriageResult { triaged, comment_url: url, folder }));
    super::salvage::write_last(run, "triage.json", &super::salvage::as_text(run, &result));
    run.tell_files();
    run.tell(&result);
}

//! What triage writes: labels that the issue lacks, and its one comment.

use serde_json::json;

use super::admit::{self, AdmittedTriage};
use super::choices::TriageChoices;
use super::labels::is_same;
use crate::admit::must_be_same;
use crate::run::Run;
use patchwright_base::error::{Failure, Result};
use patchwright_report as report;
use patchwright_report::triage::{self as words, Memory, PURPOSE};
use patchwright_types::triaged::{LabelState, Triaged};

/// The effect of putting labels on, in the journal.
pub(super) const LABELS: &str = "labels";
/// Labels that are looked at before any is put on.
const MAX_LABELS: usize = 1_000;

/// Puts the labels on, and writes the comment. Returns its address.
pub(super) async fn publish(
    run: &Run<'_>,
    admitted: &AdmittedTriage,
    offer: &TriageChoices,
    triaged: &mut Triaged,
) -> Result<Option<String>> {
    let (forge, repository) = (run.world.forge()?, &admitted.repository.id);
    must_be_same(forge.as_ref(), &admitted.repository).await?;
    // People may have dealt with it while the model was reading.
    let now = forge.issue(repository, admitted.issue.number).await.map_err(Failure::from)?;
    admit::wanted(&run.config, &admitted.repository, &now)?;
    label(run, admitted, triaged).await?;
    if !run.config.triage.comment {
        return Ok(None);
    }
    let put_on = |state| matches!(state, LabelState::Added | LabelState::TakenOff);
    let mut labels = admitted.memory.labels.clone();
    labels.extend(triaged.labels.iter().filter(|it| put_on(it.state)).map(|it| it.name.clone()));
    labels.sort();
    labels.dedup();
    let runs = admitted.memory.runs.saturating_add(1);
    let memory = Memory { digest: offer.digest.clone(), runs, labels };
    let body = words::comment(triaged, &memory, run.environment.run_url.as_deref());
    let body = run.world.redactor.redact(&body);
    comment(run, admitted, &body).await.map(Some)
}

/// The forge would make a label that is gone by now, so they are looked at once more.
async fn label(run: &Run<'_>, admitted: &AdmittedTriage, triaged: &mut Triaged) -> Result<()> {
    let wanted =
        |triaged: &Triaged| triaged.labels.iter().any(|it| it.state == LabelState::Proposed);
    if !wanted(triaged) {
        return Ok(());
    }
    let (forge, repository) = (run.world.forge()?, &admitted.repository.id);
    let known = forge.labels(repository, MAX_LABELS).await.map_err(Failure::from)?;
    let is_known = |name: &str| known.iter().any(|label| is_same(&label.name, name));
    let is_gone = |it: &patchwright_types::triaged::ProposedLabel| {
        it.state == LabelState::Proposed && !is_known(&it.name)
    };
    for gone in triaged.labels.extract_if(.., |it| is_gone(it)) {
        triaged.dropped.push(format!("the label `{}` is gone", gone.name));
    }
    let proposed = triaged.labels.iter().filter(|it| it.state == LabelState::Proposed);
    let names: Vec<String> = proposed.map(|it| it.name.clone()).collect();
    if names.is_empty() {
        return Ok(());
    }
    let number = admitted.issue.number;
    let key = format!("{repository}#{number}");
    run.folder.intends(LABELS, &key, json!({ "labels": names }))?;
    forge
        .add_labels(repository, number, &names)
        .await
        .map_err(|err| Failure::from(err).hint(run.files_hint()))?;
    run.folder.did(LABELS, &key, json!({ "labels": names }))?;
    for label in triaged.labels.iter_mut().filter(|it| it.state == LabelState::Proposed) {
        label.state = LabelState::Added;
    }
    run.environment.ui.say(&format!("labels: {}", names.join(", ")));
    Ok(())
}

async fn comment(run: &Run<'_>, admitted: &AdmittedTriage, body: &str) -> Result<String> {
    let (forge, repository) = (run.world.forge()?, &admitted.repository.id);
    let (number, marker) = (admitted.issue.number, report::marker(PURPOSE, &run.folder.id));
    run.folder.intends("triage", &marker, json!({ "comment": admitted.sticky }))?;
    let comment = forge
        .upsert_comment(repository, number, &marker, admitted.sticky, body)
        .await
        .map_err(|err| Failure::from(err).hint(run.files_hint()))?;
    let detail = json!({ "comment": comment.id, "url": comment.html_url });
    run.folder.did("triage", &marker, detail)?;
    run.environment.ui.say(&format!("comment: {}", comment.html_url));
    Ok(comment.html_url)
}

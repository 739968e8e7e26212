//! `approve HASH`: carries out exactly the plan that was approved, or says what has changed since.

use super::CommandReply;
use super::admit::AdmittedCommand;
use super::fix;
use super::landed;
use super::own_commits::{self, IsForeign};
use super::plan::made_from;
use super::plan_hash::{self, PostedPlan};
use super::work::Instruction;
use crate::admit::is_us;
use crate::run::Run;
use crate::workspace::Checkout;
use patchwright_base::error::{Failure, Result};
use patchwright_forge::{Comment, ReviewComment};
use patchwright_report::answer as words;
use patchwright_types::outcome::Conclusion;

/// Carries out an approved plan.
pub(super) async fn approve(
    run: &Run<'_>,
    admitted: &AdmittedCommand,
    hash: &str,
) -> Result<CommandReply> {
    let PostedPlans { ours: plans, others } = plans(run, admitted).await?;
    let mention = run.config.respond.mention.clone();
    let proposed = match choose(&plans, hash) {
        PlanChoice::One(proposed) => proposed,
        PlanChoice::None if matches!(choose(&others, hash), PlanChoice::One(_)) => {
            let changed =
                ["the text of the plan itself, or the key by which I know what I wrote".to_owned()];
            let body = words::plan_outdated(hash, &changed, &mention);
            return Ok(CommandReply::with_body(Conclusion::Refused, body));
        }
        PlanChoice::None => {
            let known: Vec<&str> = plans.iter().map(|plan| plan.hash.as_str()).collect();
            let body = words::no_such_plan(hash, &known, &mention);
            return Ok(CommandReply::with_body(Conclusion::NothingToDo, body));
        }
        PlanChoice::Several(hashes) => {
            let body = words::several_plans(hash, &hashes, &mention);
            return Ok(CommandReply::with_body(Conclusion::NothingToDo, body));
        }
    };
    if let Some(pull) = &admitted.pull
        && let Some(landed) = landed::before_the_end(run, admitted, pull).await?
    {
        return Ok(landed);
    }
    let checkout = Checkout::of_command(run, admitted).await?;
    let asked = words::approved_plan(&crate::context::hidden::clean(&proposed.plan).text);
    let instruction = Instruction {
        template: "task/fix.md",
        words: &asked,
        failures: "",
        mode: None,
        trailers: fix::trailers(admitted),
        conflict: None,
    };
    if admitted.pull.is_none()
        && let Some(answer) = fix::ended_before(run, &asked)?
    {
        return Ok(answer);
    }
    let changed = changed(admitted, &checkout, &proposed);
    let pull = admitted.pull.as_ref();
    let is_foreign = pull.map_or(IsForeign::No, |pull| IsForeign::of(run, admitted, pull));
    let has_landed = || {
        landed::pushed(run, admitted).is_some()
            || own_commits::landed_before(run, &checkout, &instruction, is_foreign).is_some()
    };
    if !changed.is_empty() && !has_landed() {
        let body = words::plan_outdated(&proposed.hash, &changed, &mention);
        return Ok(CommandReply::with_body(Conclusion::Refused, body));
    }
    match &admitted.pull {
        Some(pull) => fix::change(run, admitted, pull, &checkout, &instruction).await,
        None => fix::issue(run, admitted, &asked).await,
    }
}

/// The plans here, newest first, one of each hash.
struct PostedPlans {
    /// Ours, as we wrote them.
    ours: Vec<PostedPlan>,
    /// Those of our account that are not as we wrote them: nobody can approve them.
    others: Vec<PostedPlan>,
}

async fn plans(run: &Run<'_>, admitted: &AdmittedCommand) -> Result<PostedPlans> {
    let mut said: Vec<Comment> = admitted.comments.clone();
    if admitted.pull.is_some() {
        let forge = run.world.forge()?;
        let threads = forge.threads(&admitted.repository.id, admitted.request.number).await;
        let threads = threads.map_err(Failure::from)?.into_iter();
        said.extend(threads.flat_map(|thread| thread.comments).map(ReviewComment::into_comment));
    }
    let mut plans = PostedPlans { ours: Vec::new(), others: Vec::new() };
    for comment in said.iter().rev().filter(|said| is_us(admitted.viewer.as_ref(), &said.author)) {
        let Some(plan) = plan_hash::read(&comment.body) else { continue };
        let among = if comment.ours { &mut plans.ours } else { &mut plans.others };
        if !among.iter().any(|other| other.hash == plan.hash) {
            among.push(plan);
        }
    }
    Ok(plans)
}

enum PlanChoice {
    None,
    One(PostedPlan),
    Several(Vec<String>),
}

/// The plan that a hash, or its beginning, names.
fn choose(plans: &[PostedPlan], hash: &str) -> PlanChoice {
    let wanted = hash.trim().to_ascii_lowercase();
    if wanted.is_empty() {
        return PlanChoice::None;
    }
    let named: Vec<&PostedPlan> =
        plans.iter().filter(|plan| plan.hash.starts_with(wanted.as_str())).collect();
    match named.as_slice() {
        [] => PlanChoice::None,
        [one] => PlanChoice::One((*one).clone()),
        several => PlanChoice::Several(several.iter().map(|plan| plan.hash.clone()).collect()),
    }
}

/// What is no longer as it was when the plan was made.
fn changed(admitted: &AdmittedCommand, checkout: &Checkout, proposed: &PostedPlan) -> Vec<String> {
    let repository = admitted.repository.id.to_string();
    let commit = checkout.workspace.base.to_string();
    let source = made_from(admitted, &repository, &commit);
    let kind = if admitted.pull.is_some() { "pull request" } else { "issue" };
    let mut changed = Vec::new();
    if plan_hash::text_digest(&source) != proposed.text {
        changed.push(format!("the title or description of the {kind}"));
    }
    if commit != proposed.commit {
        let branch = &checkout.workspace.base_branch;
        changed.push(format!("the branch {branch}, which is at {commit} now"));
    }
    // The parts may be right and the plan still not the one that was hashed.
    if changed.is_empty() && plan_hash::hash(&source, &proposed.plan) != proposed.hash {
        changed.push("the text of the plan itself".to_owned());
    }
    changed
}

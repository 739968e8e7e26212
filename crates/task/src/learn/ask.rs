//! The one question to the model: what was said, and what is known already, for a list of lessons. Without tools and
//! without a sandbox: what it reads can make it say something and do nothing.

use std::time::Duration;

use super::collect::Said;
use super::lessons::{self, Answer};
use crate::brief::message;
use crate::context::instructions::Instructions;
use crate::run::Run;
use crate::structured;
use patchwright_agent::budget::{self, Decision, SharedBudget};
use patchwright_agent::compact;
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_base::text;
use patchwright_journal::Entry;
use patchwright_prompt::{self as prompt, SaidByMaintainer};
use patchwright_provider::catalogue::{self, StructuredOutput};
use patchwright_provider::item::{Item, Role, Usage};
use patchwright_provider::output::as_sent;
use patchwright_provider::{OutputFormat, Progress, Reply, Request, ToolChoice};
use patchwright_types::outcome::Spending;

/// How often it is asked: an answer that cannot be used is asked for once more.
const ASKED: u32 = 2;
/// Most time for one answer.
const TIME: Duration = Duration::from_mins(10);

/// What the model has to know to say nothing twice.
pub(super) struct Known<'a> {
    pub repository: &'a str,
    pub instructions: &'a Instructions,
    pub lessons: &'a [String],
}

/// Asks for lessons. What was answered before the run was killed is not asked again.
///
/// # Errors
/// When the model does not answer, or not in the form that it was asked for, or nothing may be spent.
pub(super) async fn ask(
    run: &Run<'_>,
    known: &Known<'_>,
    said: &[Said],
) -> Result<(Answer, Spending)> {
    let schema = lessons::schema();
    let mut items = vec![message(Role::User, question(known, said)?)];
    if let Some(answer) = given(run, &items) {
        return Ok((answer, spent(run)));
    }
    run.journal(&Entry::Prompted {
        instructions: prompt::text("task/learn_system.md")?.to_owned(),
        tools: serde_json::json!([]),
        items: items.clone(),
        profile: None,
    })?;
    let budget = SharedBudget::new(&run.config.limits);
    let mut problems = Vec::new();
    for turn in 1..=ASKED {
        let least = catalogue::least(&run.world.model, compact::estimate(&items));
        if let Decision::Stop(which) = budget.decide(least, run.remaining()) {
            let why = format!("the budget has no room for the question ({})", which.word());
            return Err(Failure::new(FailureKind::Budget, why)
                .hint("raise the limit, or read less with `--since`"));
        }
        let reply = reply(run, &items, &schema, &budget, turn).await?;
        let answer = reply.text();
        match structured::read(&schema, &answer) {
            Ok(value) => {
                let answer = serde_json::from_value(value.clone())
                    .map_err(|err| Failure::internal("the schema of lessons").caused_by(err))?;
                run.journal(&Entry::Given { result: value, words: String::new() })?;
                return Ok((answer, budget.spent()));
            }
            Err(why) => problems = why,
        }
        items.extend(reply.items);
        let again = prompt::output(&format!("{schema:#}"), &problems)?;
        items.push(message(Role::User, again));
    }
    let why = text::line(&problems.join("; "));
    Err(Failure::new(FailureKind::Provider, format!("the model's answer cannot be used: {why}"))
        .hint("choose another model with `--model`"))
}

fn question(known: &Known<'_>, said: &[Said]) -> Result<String> {
    let headings: Vec<String> = said.iter().map(Said::heading).collect();
    let told: Vec<SaidByMaintainer<'_>> = said
        .iter()
        .zip(&headings)
        .map(|(said, heading)| SaidByMaintainer {
            id: &said.id,
            heading,
            about: &said.about,
            text: &said.text,
        })
        .collect();
    prompt::learn(known.repository, &known.instructions.render(""), known.lessons, &told)
}

/// What was answered to this very question. Where more was said meanwhile, it is another one.
fn given(run: &Run<'_>, question: &[Item]) -> Option<Answer> {
    let mut entries = run.folder.recorded.iter().map(|line| &line.entry).rev();
    let result = entries.find_map(|entry| match entry {
        Entry::Given { result, .. } => Some(result.clone()),
        _ => None,
    })?;
    let was_asked = entries.find_map(|entry| match entry {
        Entry::Prompted { items, .. } => Some(items == question),
        _ => None,
    });
    if was_asked == Some(true) { serde_json::from_value(result).ok() } else { None }
}

/// What a killed attempt has used.
fn spent(run: &Run<'_>) -> Spending {
    let budget = SharedBudget::new(&run.config.limits);
    run.folder.recorded.iter().for_each(|line| budget.count(&line.entry));
    budget.spent()
}

async fn reply(
    run: &Run<'_>,
    items: &[Item],
    schema: &serde_json::Value,
    budget: &SharedBudget,
    turn: u32,
) -> Result<Reply> {
    let (model, sent) = (&run.world.model, as_sent(schema));
    let is_bound = model.output_mode(&sent) == StructuredOutput::Schema;
    let effort = run.config.effort.as_deref().or(model.default_effort.as_deref());
    let request = Request {
        model,
        instructions: prompt::text("task/learn_system.md")?,
        tools: &[],
        history: items,
        effort,
        tool_choice: ToolChoice::None,
        output: is_bound.then_some(OutputFormat { name: "lessons", schema: &sent }),
        cache_key: &run.folder.id,
        previous: None,
        has_alternative: false,
    };
    let lost = parking_lot::Mutex::new(Usage::default());
    let progress = |what: Progress<'_>| {
        if let Progress::Lost { usage } = what {
            *lost.lock() += budget::plausible(usage);
        }
    };
    let time = TIME.min(run.remaining());
    let asked = run.world.provider.reply(&request, &progress);
    let answered =
        run.unless_interrupted(async { Ok(tokio::time::timeout(time, asked).await) }).await?;
    let lost = *lost.lock();
    if lost != Usage::default() {
        record(
            run,
            budget,
            &Entry::Lost { usage: lost, cost_usd: catalogue::cost(model, &lost).0 },
        )?;
    }
    let Ok(answered) = answered else {
        let why = format!("the model did not answer within {} s", time.as_secs());
        return Err(Failure::new(FailureKind::Provider, why).hint("run the same command again"));
    };
    let mut reply = answered.map_err(Failure::from)?;
    reply.usage = budget::plausible(reply.usage);
    if model.price.is_none() {
        budget.is_unpriced();
    }
    let cost_usd = catalogue::cost(model, &reply.usage).0;
    record(run, budget, &Entry::Replied { turn, reply: reply.clone(), cost_usd })?;
    Ok(reply)
}

fn record(run: &Run<'_>, budget: &SharedBudget, entry: &Entry) -> Result<()> {
    run.journal(entry)?;
    budget.count(entry);
    Ok(())
}

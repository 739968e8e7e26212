//! The one question to a model, and to those that go on for it: what was said, and what is known already, for a list of
//! lessons. Without tools and without a sandbox: what it reads can make it say something and do nothing.

use std::collections::VecDeque;
use std::iter;
use std::time::Duration;

use super::collect::Remark;
use super::lessons::{self, LessonsReply};
use crate::brief::message;
use crate::context::instructions::Instructions;
use crate::run::Run;
use crate::structured;
use patchwright_agent::budget::{self, Decision, SharedBudget};
use patchwright_agent::state::State;
use patchwright_agent::{compact, fallback};
use patchwright_base::error::{Failure, FailureKind, Result};
use patchwright_base::text;
use patchwright_journal::{self as journal, Entry};
use patchwright_prompt::{self as prompt, MaintainerRemark};
use patchwright_provider::catalogue::{self, Model, StructuredOutput};
use patchwright_provider::item::{Content, Item, Role, StopReason, Usage};
use patchwright_provider::output::as_sent;
use patchwright_provider::{
    OutputFormat, Progress, Provider, ProviderError, Reply, Request, ToolChoice,
};
use patchwright_types::events::Event;
use patchwright_types::outcome::Spending;

/// How often it is asked: an answer that cannot be used is asked for once more.
const ASKED: usize = 2;
/// Most time for one answer.
const TIME: Duration = Duration::from_mins(10);

/// What the model has to know to say nothing twice.
pub(super) struct KnownLessons<'a> {
    pub repository: &'a str,
    pub instructions: &'a Instructions,
    pub lessons: &'a [String],
}

/// What all models are asked with.
struct LessonsRequest<'a> {
    run: &'a Run<'a>,
    schema: serde_json::Value,
    question: Item,
    budget: SharedBudget,
}

/// What came of asking one model.
enum AskOutcome {
    Given(serde_json::Value),
    /// It says nothing about the question, so another model may answer.
    Declined(Failure),
}

/// Asks for lessons, one model after the other until one answers. What was answered before the run was killed is not
/// asked again.
///
/// # Errors
/// When no model answers, or not in the form that it was asked for, or nothing may be spent.
pub(super) async fn ask(
    run: &Run<'_>,
    known: &KnownLessons<'_>,
    said: &[Remark],
) -> Result<(LessonsReply, Spending)> {
    let question = message(Role::User, question(known, said)?);
    let budget = SharedBudget::new(&run.config.limits);
    run.folder.recorded.iter().for_each(|line| budget.count(&line.entry));
    let asking = LessonsRequest { run, schema: lessons::schema(), question, budget };
    let mut past = RecordedAttempt::of(run, &asking);
    if !past.is_prompted {
        run.journal(&Entry::Prompted {
            instructions: prompt::text("task/learn_system.md")?.to_owned(),
            tools: serde_json::json!([]),
            items: vec![asking.question.clone()],
            profile: None,
        })?;
    }
    let all = AskedModel::all(run);
    let begin = all.iter().position(|it| past.model.as_deref() == Some(it.name)).unwrap_or(0);
    for (at, model) in all.iter().enumerate().skip(begin) {
        let next = all.get(at + 1);
        let replies = std::mem::take(&mut past.replies);
        match asking.one(model, replies, next.is_some()).await? {
            AskOutcome::Given(value) => {
                let answer = serde_json::from_value(value.clone())
                    .map_err(|err| Failure::internal("the schema of lessons").caused_by(err))?;
                if !past.is_given {
                    run.journal(&Entry::Given { result: value, words: String::new() })?;
                }
                return Ok((answer, asking.spending()));
            }
            AskOutcome::Declined(why) => match next {
                Some(next) => asking.switch(model, next, &why)?,
                None => return Err(why),
            },
        }
    }
    Err(Failure::internal("there is no model to ask"))
}

impl LessonsRequest<'_> {
    /// Asks one model, and once more where its answer cannot be used. `replies` are those that it has given before the
    /// run was killed.
    async fn one(
        &self,
        model: &AskedModel<'_>,
        mut replies: VecDeque<Reply>,
        has_next: bool,
    ) -> Result<AskOutcome> {
        let mut items = vec![self.question.clone()];
        let mut problems = Vec::new();
        for _ in 0..ASKED {
            let reply = match replies.pop_front() {
                Some(reply) => reply,
                None => match self.reply(model, &items, has_next).await? {
                    Ok(reply) => reply,
                    Err(why) => return Ok(AskOutcome::Declined(why)),
                },
            };
            if has_next && is_refusal(&reply) {
                let why = Failure::new(FailureKind::Provider, "the model refused to answer");
                return Ok(AskOutcome::Declined(why));
            }
            match structured::read(&self.schema, &reply.text()) {
                Ok(value) => return Ok(AskOutcome::Given(value)),
                Err(why) => problems = why,
            }
            items.extend(reply.items);
            let again = prompt::output(Some(&format!("{:#}", self.schema)), &problems)?;
            items.push(message(Role::User, again));
        }
        let why = text::line(&problems.join("; "));
        Err(Failure::new(
            FailureKind::Provider,
            format!("the model's answer cannot be used: {why}"),
        )
        .hint("choose another model with `--model`"))
    }

    /// Another model is asked the same question from its beginning.
    fn switch(&self, from: &AskedModel<'_>, to: &AskedModel<'_>, why: &Failure) -> Result<()> {
        let why = self.run.world.redactor.redact(&fallback::reason(&why.message));
        let (name, from, to) = (to.name.to_owned(), from.model.slug.clone(), to.model.slug.clone());
        let said = format!("switching from `{from}` to `{to}`: {why}");
        self.run.environment.ui.say(&said);
        self.run.tell(&Event::Model { model: &to, instead_of: &from, why: &why, agent: None });
        self.record(&Entry::Switched { name, from, to, why, takes_back: false })
    }

    fn record(&self, entry: &Entry) -> Result<()> {
        self.run.journal(entry)?;
        self.budget.count(entry);
        Ok(())
    }

    /// What was used, by a killed attempt, too.
    fn spending(&self) -> Spending {
        let mut state = State::default();
        let lines = journal::read(self.run.folder.journal.path()).unwrap_or_default();
        for line in &lines {
            state.apply(&line.entry);
        }
        Spending { models: state.models(), ..self.budget.spent() }
    }
}

fn may_be_answered_elsewhere(err: &ProviderError) -> bool {
    fallback::is_of_provider(err) || matches!(err, ProviderError::Filtered { .. })
}

fn is_refusal(reply: &Reply) -> bool {
    let refuses = |item: &Item| {
        matches!(item, Item::Message(message)
            if message.content.iter().any(|it| matches!(it, Content::Refusal { .. })))
    };
    matches!(reply.stop, StopReason::Refusal | StopReason::ContentFilter)
        || reply.items.iter().any(refuses)
}

/// A model that may be asked.
struct AskedModel<'a> {
    /// As the operator named it.
    name: &'a str,
    model: &'a Model,
    provider: &'a dyn Provider,
    effort: Option<&'a str>,
}

impl AskedModel<'_> {
    /// The run's own, and those that go on for it.
    fn all<'a>(run: &'a Run<'_>) -> Vec<AskedModel<'a>> {
        let (config, world) = (&run.config, run.world);
        let own = AskedModel {
            name: &config.model,
            model: &world.model,
            provider: world.provider.as_ref(),
            effort: config.effort.as_deref().or(world.model.default_effort.as_deref()),
        };
        let others = world.others.fallbacks.iter().map(|other| AskedModel {
            name: &other.name,
            model: &other.model,
            provider: other.provider.as_ref(),
            effort: other.effort(config),
        });
        iter::once(own).chain(others).collect()
    }
}

/// What a killed attempt has on record about this very question. Where more was said meanwhile, it is another one.
#[derive(Default)]
struct RecordedAttempt {
    is_prompted: bool,
    is_given: bool,
    /// Recorded replies of the model that was asked last.
    replies: VecDeque<Reply>,
    /// The one that the run had come to, where it is not its own.
    model: Option<String>,
}

impl RecordedAttempt {
    fn of(run: &Run<'_>, asking: &LessonsRequest<'_>) -> RecordedAttempt {
        let mut past = RecordedAttempt::default();
        for line in &run.folder.recorded {
            match &line.entry {
                Entry::Prompted { items, .. } => {
                    let is_prompted = items.as_slice() == std::slice::from_ref(&asking.question);
                    past = RecordedAttempt { is_prompted, ..RecordedAttempt::default() };
                }
                Entry::Replied { reply, .. } => past.replies.push_back(reply.clone()),
                Entry::Switched { name, .. } => {
                    past.replies.clear();
                    past.model = Some(name.clone());
                }
                Entry::Given { .. } => past.is_given = true,
                _ => {}
            }
        }
        if !past.is_prompted {
            return RecordedAttempt::default();
        }
        let is_usable = |reply: &Reply| structured::read(&asking.schema, &reply.text()).is_ok();
        // All that it was asked came to nothing, and whoever runs the command again wants it asked anew.
        if past.replies.len() >= ASKED && !past.replies.iter().any(is_usable) {
            past.replies.clear();
        }
        past
    }
}

fn question(known: &KnownLessons<'_>, said: &[Remark]) -> Result<String> {
    let headings: Vec<String> = said.iter().map(Remark::heading).collect();
    let told: Vec<MaintainerRemark<'_>> = said
        .iter()
        .zip(&headings)
        .map(|(said, heading)| MaintainerRemark {
            id: &said.id,
            heading,
            about: &said.about,
            text: &said.text,
        })
        .collect();
    prompt::learn(known.repository, &known.instructions.render(""), known.lessons, &told)
}

impl LessonsRequest<'_> {
    /// One reply, or why this model gave none and the next one may be asked.
    async fn reply(
        &self,
        asked: &AskedModel<'_>,
        items: &[Item],
        has_next: bool,
    ) -> Result<std::result::Result<Reply, Failure>> {
        let (run, model, sent) = (self.run, asked.model, as_sent(&self.schema));
        let least = catalogue::least(model, compact::estimate(items));
        if let Decision::Stop(which) = self.budget.decide(least, run.remaining()) {
            let why = format!("the budget has no room for the question ({})", which.word());
            return Err(Failure::new(FailureKind::Budget, why)
                .hint("raise the limit, or read less with `--since`"));
        }
        let is_bound = model.output_mode(&sent) == StructuredOutput::Schema;
        let request = Request {
            model,
            instructions: prompt::text("task/learn_system.md")?,
            tools: &[],
            history: items,
            effort: asked.effort,
            tool_choice: ToolChoice::None,
            output: is_bound.then_some(OutputFormat { name: "lessons", schema: &sent }),
            cache_key: &run.folder.id,
            previous: None,
            has_alternative: has_next,
        };
        let lost = parking_lot::Mutex::new(Usage::default());
        let progress = |what: Progress<'_>| {
            if let Progress::Lost { usage } = what {
                *lost.lock() += budget::plausible(usage);
            }
        };
        let time = TIME.min(run.remaining());
        let asking = asked.provider.reply(&request, &progress);
        let answered =
            run.unless_interrupted(async { Ok(tokio::time::timeout(time, asking).await) }).await;
        if !matches!(answered, Ok(Ok(_))) {
            // Given up on the way: what was sent is billed all the same.
            let input = compact::estimate(items) + compact::estimate_text(request.instructions);
            *lost.lock() += Usage { input, estimated: true, ..Usage::default() };
        }
        let usage = *lost.lock();
        if usage != Usage::default() {
            let cost_usd = catalogue::cost(model, &usage).0;
            self.record(&Entry::Lost { usage, cost_usd })?;
        }
        let mut reply = match answered? {
            Err(_) => {
                let why = format!("the model did not answer within {} s", time.as_secs());
                let failure = Failure::new(FailureKind::Provider, why);
                return Ok(Err(failure.hint("run the same command again")));
            }
            Ok(Err(err)) if may_be_answered_elsewhere(&err) => return Ok(Err(Failure::from(err))),
            Ok(Err(err)) => return Err(Failure::from(err)),
            Ok(Ok(reply)) => reply,
        };
        reply.usage = budget::plausible(reply.usage);
        if model.price.is_none() {
            self.budget.is_unpriced();
        }
        let cost_usd = catalogue::cost(model, &reply.usage).0;
        let turn = self.budget.spent().turns + 1;
        self.record(&Entry::Replied { turn, reply: reply.clone(), cost_usd })?;
        Ok(Ok(reply))
    }
}

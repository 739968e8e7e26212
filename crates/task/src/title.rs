//! The title of the pull request, which is the subject of the commit too, as the patterns of the repository want
//! it: the model is told of them, is asked once more when it has not minded them, and in the end the title is mended
//! or nothing is published.

use super::agent_phase::Phase;
use super::asked_again;
use super::brief::message;
use super::check_loop::CheckedWork;
use super::run::Run;
use patchwright_agent::{Agent, StopKind, Stopped};
use patchwright_base::error::Result;
use patchwright_config::{Config, Mode};
use patchwright_journal::{Entry, Line};
use patchwright_policy::Violation;
use patchwright_policy::names::Patterns;
use patchwright_prompt as prompt;
use patchwright_provider::item::Role;
use patchwright_report::{commit_message, pr_body};

/// The rule that a title breaks for which nothing could be done.
const RULE: &str = "title.pattern";
/// Begins the note that the model was asked; its final message of then follows.
const ASKED: &str = "title asked for again: ";

pub fn patterns(config: &Config) -> Patterns {
    Patterns::new(&config.policy.titles)
}

/// The title for what the model said last.
pub fn of_run(run: &Run<'_>, final_message: &str) -> String {
    of(&run.config, final_message, run.title.as_deref())
}

/// The title: the model's own first line where that is as it must be, else what can be made of it or of `other`.
/// Where nothing can, it is as if there were no patterns; [`violation`] says so.
pub fn of(config: &Config, final_message: &str, other: Option<&str>) -> String {
    let patterns = patterns(config);
    let usual = pr_body::title(final_message, other);
    if patterns.is_empty() {
        return usual;
    }
    let own = pr_body::first_line(final_message);
    if patterns.hold(&own) {
        return own;
    }
    let others = other.map(commit_message::subject);
    let candidates = [Some(usual.clone()), others];
    let mended = candidates.into_iter().flatten().find_map(|title| fitted(&patterns, &title));
    mended.unwrap_or(usual)
}

/// A title that somebody has given, as it must be; as it is where that cannot be.
pub fn fitting(config: &Config, title: &str) -> String {
    let subject = commit_message::subject(title);
    fitted(&patterns(config), &subject).unwrap_or(subject)
}

fn fitted(patterns: &Patterns, title: &str) -> Option<String> {
    if patterns.hold(title) {
        return Some(title.to_owned());
    }
    patterns.mend(title, &commit_message::subject)
}

/// What is against a title, if something is.
pub fn violation(config: &Config, title: &str) -> Option<Violation> {
    let patterns = patterns(config);
    let unmet = patterns.unmet(title)?;
    let message = format!(
        "no title could be found that is as the repository wants it ({unmet}); the last one was `{}`",
        title.replace('`', "'")
    );
    Some(Violation::new(RULE, None, message))
}

/// What the model is told of the patterns with its task; nothing where there are none.
pub(super) fn title_rules(config: &Config) -> Result<Option<String>> {
    let patterns = patterns(config);
    if patterns.is_empty() {
        return Ok(None);
    }
    prompt::title(&patterns.lines(), prompt::TitleRequest::First).map(Some)
}

/// Asks the model once for another first line, when the one that it has written cannot be the title.
pub(super) async fn mend(
    phase: &Phase<'_>,
    agent: &mut Agent<'_>,
    recorded: &[Line],
    stopped: &mut Stopped,
    work: &mut CheckedWork,
) -> Result<()> {
    let run = phase.run;
    let patterns = patterns(&run.config);
    if let Some(before) = asked_again::said_before(recorded, ASKED) {
        answered(before, stopped);
        return Ok(());
    }
    let is_done = matches!(stopped.reason, StopKind::Finished) && run.config.mode == Mode::Execute;
    let is_unchanged = stopped.touched.is_empty()
        && work.change.as_ref().is_none_or(|change| change.files.is_empty());
    if patterns.is_empty() || !is_done || is_unchanged || stopped.needs_input().is_some() {
        return Ok(());
    }
    if !phase.names_its_change || patterns.hold(&pr_body::first_line(&stopped.final_message)) {
        return Ok(());
    }
    run.environment.ui.say("asking the model for another title");
    let before = stopped.final_message.clone();
    run.journal(&Entry::Note { text: format!("{ASKED}{before}") })?;
    let question = prompt::title(&patterns.lines(), prompt::TitleRequest::Again)?;
    *stopped = agent.continue_with(vec![message(Role::User, question)]).await;
    // It may have changed files all the same: what was collected is collected again.
    work.change = None;
    answered(&before, stopped);
    Ok(())
}

/// What a finished run that is on record had said.
pub(super) fn recorded(recorded: &[Line], stopped: &mut Stopped) {
    if let Some(before) = asked_again::said_before(recorded, ASKED) {
        answered(before, stopped);
    }
}

/// How the run stands after the question, however that ended: a title is never worth losing the work for.
fn answered(before: &str, stopped: &mut Stopped) {
    asked_again::stays_finished(stopped);
    let last = stopped.final_message.trim();
    stopped.final_message = match last.lines().count() {
        0 => before.to_owned(),
        // The title alone; what else there was to say stays said.
        1 => {
            let rest = before.trim_start().split_once('\n').map_or("", |(_, rest)| rest);
            format!("{last}\n{rest}")
        }
        _ => return,
    };
}

//! The result of the work as JSON by the operator's schema (`output-schema`): told to the model ahead, asked
//! for at the end, checked, and asked for once more when it does not fit. What the model says is never taken
//! for the result unless it fits.

use serde_json::Value;

use super::agent_phase::Phase;
use super::brief::{Brief, message};
use patchwright_agent::checkpoints::RestoredWorkspace;
use patchwright_agent::{Agent, ResultBinding, StopKind, Stopped};
use patchwright_base::error::Result;
use patchwright_config::output_schema;
use patchwright_guest::edit_format::fence::without_thoughts;
use patchwright_journal::{Entry, Line};
use patchwright_prompt as prompt;
use patchwright_provider::ProviderError;
use patchwright_provider::item::{Item, Role};

/// Bytes of a result.
const MAX_BYTES: usize = 1 << 20;
/// How often it is asked for.
const TIMES: usize = 2;
/// Begins the note that the model was asked; its final message of then follows.
const ASKED: &str = "result asked for: ";

/// What came of asking for the result.
#[derive(Clone, Debug, PartialEq)]
pub enum Output {
    /// It was not asked for: nobody wants one, or the work did not come to its end.
    NotWanted,
    Given(Value),
    /// What the model gave does not fit, and why.
    Unfit(String),
}

impl Output {
    pub fn value(&self) -> Option<&Value> {
        match self {
            Output::Given(value) => Some(value),
            Output::NotWanted | Output::Unfit(_) => None,
        }
    }
}

/// What stands behind the task.
pub(super) fn ahead(schema: &Value) -> Result<String> {
    prompt::output_ahead(&format!("{schema:#}"))
}

/// Asks for the result of work that has come to its end.
///
/// # Errors
/// When the journal cannot be written.
pub(super) async fn take(
    phase: &Phase<'_>,
    agent: &mut Agent<'_>,
    recorded: &[Line],
    brief: &Brief,
    stopped: &mut Stopped,
) -> Result<Output> {
    let Some(schema) = &brief.output_schema else { return Ok(Output::NotWanted) };
    if let Some((result, words)) = given(recorded) {
        words.clone_into(&mut stopped.final_message);
        return Ok(Output::Given(result.clone()));
    }
    if !matches!(stopped.reason, StopKind::Finished) || stopped.needs_input().is_some() {
        return Ok(Output::NotWanted);
    }
    // The process may have ended while it was asked: what it has said since is its answer, not its final message.
    let asked = asked_before(recorded);
    let words = asked.map_or_else(|| stopped.final_message.clone(), str::to_owned);
    // A model that gave it unasked is not asked; one that gave something like it is told what is wrong with that.
    let mut problems = match read(schema, &stopped.final_message) {
        Ok(result) => {
            stopped.final_message.clone_from(&words);
            return note(phase, result, words);
        }
        Err(why) if is_document(&stopped.final_message) => why,
        Err(_) => Vec::new(),
    };
    if asked.is_none() {
        phase.run.journal(&Entry::Note { text: format!("{ASKED}{words}") })?;
    }
    phase.progress.phase("Asking for the result as JSON");
    let mut binding = ResultBinding::Best;
    let mut times = 0;
    while times < TIMES {
        let is_bound = binding == ResultBinding::Best && agent.is_bound_to(schema);
        let shown = (!is_bound).then(|| format!("{schema:#}"));
        let question = prompt::output(shown.as_deref(), &problems)?;
        let question = vec![message(Role::User, question)];
        let (now, answer) = agent.give_result(schema, binding, question).await;
        *stopped = now;
        stopped.final_message.clone_from(&words);
        if is_bound && is_rejected(&stopped.reason) {
            // Providers differ in what they take of JSON Schema. The checks here do not.
            phase.run.environment.ui.say("the provider does not take the schema: asking in words");
            binding = ResultBinding::Words;
            continue;
        }
        times += 1;
        if !matches!(stopped.reason, StopKind::Finished) {
            return Ok(Output::NotWanted);
        }
        match read(schema, &answer) {
            Ok(result) => return note(phase, result, words),
            Err(why) => problems = why,
        }
    }
    Ok(Output::Unfit(problems.join("; ")))
}

/// Resumes the work. Where its last question was for the result, no tool is offered beside it: the work is over.
pub(super) async fn resume(
    agent: &mut Agent<'_>,
    brief: &Brief,
    settled: &[Line],
    (recorded, restored, news): (&[Line], &RestoredWorkspace, Option<Item>),
) -> Stopped {
    // For news, the model works on.
    let is_asked = news.is_none() && asked_before(settled).is_some() && given(settled).is_none();
    if let Some(schema) = brief.output_schema.as_ref().filter(|_| is_asked) {
        agent.expect_result(schema);
    }
    let mut stopped = agent.resume(recorded, restored, news).await;
    if let Some(given) = agent.expected_result() {
        stopped.final_message = given;
    }
    if is_asked && is_rejected(&stopped.reason) {
        // It is asked for anew, and in words where this schema is not taken.
        stopped.reason = StopKind::Finished;
    }
    stopped
}

/// The provider refused the request itself, which cost nothing.
fn is_rejected(stop: &StopKind) -> bool {
    let StopKind::Provider(ProviderError::Rejected { status, .. }) = stop else { return false };
    matches!(status, 400 | 422)
}

/// It has a JSON document in it, with or without words around that.
fn is_document(answer: &str) -> bool {
    let said = without_thoughts(answer).trim();
    let parts = [Some(unfenced(said)), only_block(said), outermost(said)];
    parts.into_iter().flatten().any(|part| {
        serde_json::from_str::<Value>(part).is_ok_and(|it| it.is_object() || it.is_array())
    })
}

fn note(phase: &Phase<'_>, mut result: Value, words: String) -> Result<Output> {
    patchwright_journal::redact_strings(&mut result, &phase.run.world.redaction());
    phase.run.journal(&Entry::Given { result: result.clone(), words })?;
    Ok(Output::Given(result))
}

/// The result of a run that had come to its end and is on record.
pub(super) fn recorded(lines: &[Line], brief: &Brief, stopped: &mut Stopped) -> Output {
    match (given(lines), &brief.output_schema) {
        (Some((result, words)), _) => {
            words.clone_into(&mut stopped.final_message);
            Output::Given(result.clone())
        }
        (None, Some(_)) => {
            if let Some(words) = asked_before(lines) {
                words.clone_into(&mut stopped.final_message);
            }
            Output::Unfit("the model gave none".to_owned())
        }
        (None, None) => Output::NotWanted,
    }
}

fn given(lines: &[Line]) -> Option<(&Value, &str)> {
    lines.iter().rev().find_map(|line| match &line.entry {
        Entry::Given { result, words } => Some((result, words.as_str())),
        _ => None,
    })
}

/// The final message before the model was asked, when it was.
fn asked_before(lines: &[Line]) -> Option<&str> {
    lines.iter().rev().find_map(|line| match &line.entry {
        Entry::Note { text } => text.strip_prefix(ASKED),
        _ => None,
    })
}

/// The result in an answer; what is wrong with it otherwise.
pub(super) fn read(schema: &Value, answer: &str) -> std::result::Result<Value, Vec<String>> {
    if answer.len() > MAX_BYTES {
        return Err(vec![format!("it has {} bytes; at most {MAX_BYTES} are taken", answer.len())]);
    }
    let said = without_thoughts(answer).trim();
    let whole = unfenced(said);
    let unreadable = match fitting(schema, whole) {
        Ok(result) => return Ok(result),
        Err(why) => why,
    };
    // A document that is one, and does not fit, is the answer. Only words around one are looked past.
    if serde_json::from_str::<Value>(whole).is_ok() {
        return Err(unreadable);
    }
    let mut problems = None;
    for inner in [only_block(said), outermost(said)].into_iter().flatten() {
        match fitting(schema, inner) {
            Ok(result) => return Ok(result),
            // What is wrong with the document helps more than that there are words around it.
            Err(why) if serde_json::from_str::<Value>(inner).is_ok() => {
                problems.get_or_insert(why);
            }
            Err(_) => {}
        }
    }
    Err(problems.unwrap_or(unreadable))
}

fn fitting(schema: &Value, text: &str) -> std::result::Result<Value, Vec<String>> {
    let value: Value = serde_json::from_str(text)
        .map_err(|err| vec![format!("it is not one JSON document: {err}")])?;
    output_schema::validate(schema, &value)?;
    Ok(value)
}

/// The text without the fence that models like to put around code.
fn unfenced(answer: &str) -> &str {
    let answer = answer.trim();
    let inner = answer.strip_prefix("```json").or_else(|| answer.strip_prefix("```"));
    inner.and_then(|inner| inner.strip_suffix("```")).unwrap_or(answer).trim()
}

/// The content of the fenced block of an answer that has one, and not two.
fn only_block(answer: &str) -> Option<&str> {
    let mut parts = answer.split("```");
    let (_, block, _) = (parts.next()?, parts.next()?, parts.next()?);
    let (language, content) = block.split_once('\n')?;
    let is_language = language.trim().is_empty() || language.trim().eq_ignore_ascii_case("json");
    (parts.next().is_none() && is_language).then(|| content.trim())
}

/// From the first brace to the last.
fn outermost(answer: &str) -> Option<&str> {
    answer.get(answer.find('{')?..=answer.rfind('}')?)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::read;

    #[test]
    fn a_result_is_one_document_that_fits() {
        let schema = json!({"type": "object", "required": ["a"]});
        for answer in
            ["{\"a\": 1}", " \n{\"a\":1}\n", "```json\n{\"a\": 1}\n```", "```\n{\"a\":1}```"]
        {
            assert_eq!(read(&schema, answer), Ok(json!({"a": 1})), "{answer}");
        }
        for answer in ["", "Done.", "{\"b\": 1}", "[]", "{\"a\": 1}{\"a\": 1}", "}{"] {
            assert!(read(&schema, answer).is_err(), "{answer}");
        }
    }

    #[test]
    fn words_around_a_result_are_looked_past() {
        let schema = json!({"type": "object", "required": ["a"]});
        for answer in [
            "{\"a\": 1} Done.",
            "Here it is: {\"a\": 1}",
            "<think>{\"a\": 2}?</think>\n{\"a\": 1}",
            "The result:\n\n```json\n{\"a\": 1}\n```\nI ran `f({})`.",
            "<think>Hm.</think>```\n{\"a\": 1}\n```",
        ] {
            assert_eq!(read(&schema, answer), Ok(json!({"a": 1})), "{answer}");
        }
        for answer in [
            "<think>{\"a\": 1}",
            "Words {\"b\": 1} around",
            "One: {\"a\": 1}, or another: {\"a\": 2}",
            "```json\n{\"a\": 1}\n```\nor\n```json\n{\"a\": 2}\n```",
        ] {
            assert!(read(&schema, answer).is_err(), "{answer}");
        }
    }

    #[test]
    fn a_wrong_document_with_words_around_it_is_told_what_is_wrong_with_it() {
        let schema =
            json!({"type": "object", "properties": {"severity": {"enum": ["low", "high"]}}});
        for answer in [
            "Sure! Here:\n```json\n{\"severity\": \"medium\"}\n```\nHope that helps",
            "It is {\"severity\": \"medium\"}.",
        ] {
            let why = read(&schema, answer).unwrap_err().join("; ");
            assert!(why.contains("severity") && !why.contains("one JSON document"), "{why}");
        }
    }

    #[test]
    fn the_schema_may_want_something_else_than_an_object() {
        let schema = json!({"type": "array"});
        assert_eq!(read(&schema, "So:\n```json\n[1]\n```"), Ok(json!([1])));
    }
}

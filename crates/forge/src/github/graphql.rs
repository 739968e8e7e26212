//! The GraphQL API, for what REST does not have: review threads, and turning pull requests into
//! drafts. Answers come with status 200 also when parts or all of them were refused.
//!
//! Sent through octocrab as any other call, but not by its `graphql`: that one asks `/graphql` below
//! the REST root, where Enterprise Server has none, drops the data of a partial answer, and leaves the
//! `type` out of an error, which tells a refusal from a mistake.
//!
//! Every question and every mutation here may be asked twice without harm.

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::http::{Api, Call, Reply};
use super::refusal::clean;
use super::token::Scope;
use super::wire::lenient;
use crate::{ForgeError, Requirement};

/// How often a question is asked again that GitHub ran out of time for.
const ATTEMPTS: u32 = 3;

/// What could be read, and what was refused.
#[derive(Deserialize)]
pub(super) struct GraphqlResponse<T> {
    pub(super) data: Option<T>,
    #[serde(default, deserialize_with = "lenient")]
    pub(super) errors: Vec<Problem>,
}

/// Why a part of the answer is missing.
#[derive(Debug, Deserialize)]
pub(super) struct Problem {
    /// `FORBIDDEN`, `NOT_FOUND`, `RATE_LIMITED`, …; empty for mistakes in the question.
    #[serde(rename = "type", default, deserialize_with = "lenient")]
    kind: String,
    #[serde(default, deserialize_with = "lenient")]
    message: String,
    /// Names of fields and places in lists, from the root to what is missing.
    #[serde(default, deserialize_with = "lenient")]
    path: Vec<Value>,
    #[serde(default)]
    extensions: Option<Extensions>,
}

#[derive(Debug, Deserialize)]
struct Extensions {
    #[serde(default)]
    code: Option<String>,
}

impl Problem {
    /// The server does not know a field that was asked for: it is older, or newer.
    pub(super) fn is_unknown_field(&self) -> bool {
        let code = self.extensions.as_ref().and_then(|extensions| extensions.code.as_deref());
        code == Some("undefinedField") || self.message.contains("doesn't exist on type")
    }

    /// It is about a field of the question's root, or about something in it.
    pub(super) fn is_below(&self, field: &str) -> bool {
        self.path.first().and_then(Value::as_str) == Some(field)
    }

    pub(super) fn is_refusal(&self) -> bool {
        matches!(self.kind.as_str(), "FORBIDDEN" | "INSUFFICIENT_SCOPES")
            || self.message.contains("Resource not accessible by")
    }

    /// The repository has no drafts.
    pub(super) fn is_about_drafts(&self) -> bool {
        let message = self.message.to_lowercase();
        message.contains("draft") && message.contains("not supported")
    }

    /// The repository does not let GitHub merge by itself.
    pub(super) fn is_about_auto_merge(&self) -> bool {
        let message = self.message.to_lowercase();
        message.contains("auto merge is not allowed")
            || message.contains("auto-merge is not allowed")
            || message.contains("auto merge is not enabled")
    }

    /// It could be merged at once.
    pub(super) fn is_about_clean_status(&self) -> bool {
        let message = self.message.to_lowercase();
        message.contains("clean status")
            || message.contains("protected branch rules not configured")
    }

    pub(super) fn is_out_of_time(&self) -> bool {
        self.message.starts_with("Something went wrong while executing your query")
            || self.message.contains("timed out")
            || self.message.contains("timeout")
    }
}

impl Api {
    /// A question or a mutation. `thing` is what it is about, for people. The scope is said by the caller: ids do not
    /// tell where something is.
    pub(super) fn graphql_call(
        &self,
        query: &str,
        variables: &Value,
        (scope, thing): (Scope, String),
    ) -> Call {
        let call = Call::write(http::Method::POST, self.graphql_url().as_str(), thing)
            .json(json!({ "query": query, "variables": variables }));
        Call { scope, ..call }
    }

    /// Asks, repeating what fails on the way. The answer may be partial or empty.
    pub(super) async fn ask<T: DeserializeOwned>(
        &self,
        call: &Call,
    ) -> Result<GraphqlResponse<T>, ForgeError> {
        let mut attempt = 1;
        loop {
            let reply = self.repeat(call).await?;
            let answer: GraphqlResponse<T> = self.understand(call, reply)?;
            let again = answer.data.is_none() && answer.errors.iter().any(Problem::is_out_of_time);
            if !again || attempt >= ATTEMPTS {
                return Ok(answer);
            }
            self.limiter.back_off(attempt).await;
            attempt += 1;
        }
    }

    /// Changes something; the change may be made twice without harm.
    pub(super) async fn mutate<T: DeserializeOwned>(
        &self,
        call: &Call,
    ) -> Result<GraphqlResponse<T>, ForgeError> {
        let (reply, _) = self.write_repeatable(call).await?;
        self.understand(call, reply)
    }

    fn understand<T: DeserializeOwned>(
        &self,
        call: &Call,
        reply: Reply,
    ) -> Result<GraphqlResponse<T>, ForgeError> {
        let reply = self.good(call, reply)?;
        self.parse(call, &reply)
    }

    /// The error for an answer that lacks what it was asked for.
    pub(super) fn refused(&self, call: &Call, problems: &[Problem]) -> ForgeError {
        let Some(problem) = problems.first() else {
            return ForgeError::Malformed {
                host: self.host(),
                message: format!("its answer about {} is empty", call.thing),
            };
        };
        let message = clean(&problem.message, &[]);
        let action = call.action.clone();
        if problems.iter().any(Problem::is_refusal) {
            let need =
                (!call.need.is_empty()).then(|| Requirement::Permission(call.need.to_owned()));
            return ForgeError::Forbidden { action, message, need };
        }
        if problem.kind == "NOT_FOUND" {
            return ForgeError::NotFound { what: format!("{} ({message})", call.thing) };
        }
        if problem.is_out_of_time() {
            return self.unavailable(message);
        }
        ForgeError::Invalid { action, message }
    }
}

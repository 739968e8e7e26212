//! JSON-RPC 2.0: what a line is, and what is answered to one that is nothing.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use patchwright_base::error::Failure;
use serde_json::json;

const PARSE_ERROR: i32 = -32700;
const INVALID_REQUEST: i32 = -32600;
const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;
const INTERNAL_ERROR: i32 = -32603;
/// "Resource not found", a code of the Agent Client Protocol's own.
const NOT_FOUND: i32 = -32002;

/// What a request is answered by.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Id {
    Number(i64),
    Text(String),
}

/// A message of the client.
#[derive(Debug, PartialEq)]
pub(super) enum Incoming {
    Request {
        id: Id,
        method: String,
        params: Value,
    },
    Notification {
        method: String,
        params: Value,
    },
    /// A response. We send no requests, so it answers none.
    Answer,
}

/// A message that is none, and whose it is if that can be seen.
#[derive(Debug)]
pub(super) struct Unreadable {
    pub id: Option<Id>,
    pub error: RpcError,
}

/// What went wrong, for the client.
#[derive(Debug, Serialize)]
pub(super) struct RpcError {
    code: i32,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<Value>,
}

/// Everything that we send.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Outgoing<T> {
    Result { jsonrpc: Version, id: Id, result: T },
    Error { jsonrpc: Version, id: Option<Id>, error: RpcError },
    Notification { jsonrpc: Version, method: &'static str, params: T },
}

#[derive(Debug, Serialize)]
pub(super) enum Version {
    #[serde(rename = "2.0")]
    Two,
}

impl RpcError {
    fn new(code: i32, message: impl Into<String>) -> RpcError {
        RpcError { code, message: message.into(), data: None }
    }

    pub(super) fn parse(message: impl Into<String>) -> RpcError {
        RpcError::new(PARSE_ERROR, message)
    }

    pub(super) fn request(message: impl Into<String>) -> RpcError {
        RpcError::new(INVALID_REQUEST, message)
    }

    pub(super) fn method(name: &str) -> RpcError {
        let name: String = name.chars().filter(|c| !c.is_control()).take(80).collect();
        RpcError::new(METHOD_NOT_FOUND, format!("there is no method `{name}`"))
    }

    pub(super) fn params(message: impl Into<String>) -> RpcError {
        RpcError::new(INVALID_PARAMS, message)
    }

    pub(super) fn no_session(id: &str) -> RpcError {
        let id: String = id.chars().filter(|c| !c.is_control()).take(80).collect();
        RpcError::new(NOT_FOUND, format!("there is no session `{id}`"))
    }
}

impl From<&Failure> for RpcError {
    fn from(failure: &Failure) -> RpcError {
        let hints: Vec<&str> = failure.hints.iter().map(|hint| hint.text.as_str()).collect();
        let mut message = failure.message.clone();
        if let Some(cause) = &failure.cause {
            message = format!("{message}: {cause:#}");
        }
        let data = json!({
            "conclusion": failure.kind.conclusion(),
            "exitCode": failure.kind.exit_code(),
            "hints": hints,
        });
        RpcError { code: INTERNAL_ERROR, message, data: Some(data) }
    }
}

/// Reads one line.
pub(super) fn read(line: &str) -> Result<Incoming, Box<Unreadable>> {
    let message: Value = serde_json::from_str(line).map_err(|err| {
        let error = RpcError::parse(format!("a line is not JSON: {err}"));
        Box::new(Unreadable { id: None, error })
    })?;
    let Value::Object(mut message) = message else {
        let error =
            RpcError::request("a message is one object; batches are not part of the protocol");
        return Err(Box::new(Unreadable { id: None, error }));
    };
    let id = message.remove("id");
    let known = id.clone().and_then(|id| serde_json::from_value::<Id>(id).ok());
    let bad = |why: &str| Box::new(Unreadable { id: known.clone(), error: RpcError::request(why) });
    if message.get("jsonrpc").and_then(Value::as_str) != Some("2.0") {
        return Err(bad("`jsonrpc` has to be \"2.0\""));
    }
    let params = message.remove("params").unwrap_or_else(|| json!({}));
    match (id, message.remove("method")) {
        (None, Some(Value::String(method))) => Ok(Incoming::Notification { method, params }),
        (Some(_), Some(Value::String(method))) => match known {
            Some(id) => Ok(Incoming::Request { id, method, params }),
            None => Err(bad("`id` has to be a string or a whole number")),
        },
        (Some(_), None) if message.contains_key("result") || message.contains_key("error") => {
            Ok(Incoming::Answer)
        }
        _ => Err(bad("`method` has to be a string")),
    }
}

//! The HTTP client of servers, with a token where they want one: one that is refused is renewed, and the request,
//! which was not carried out then, is sent once more.

use std::collections::HashMap;
use std::sync::Arc;

use futures_util::StreamExt;
use futures_util::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::model::ClientJsonRpcMessage;
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
};
use serde_json::Value;
use sse_stream::Sse;

use super::TokenSource;
use crate::mcp::fault;
use crate::mcp::oversized::{self, MAX_MESSAGE};
use patchwright_base::error::chain;

type Fault = StreamableHttpError<reqwest::Error>;
type Headers = HashMap<HeaderName, HeaderValue>;
type Events = BoxStream<'static, Result<Sse, SseError>>;

/// The library's words for an event that is too large; its type is its own.
const TOO_LARGE: &str = "SSE event exceeded the maximum size";

/// A client for one server.
#[derive(Clone)]
pub(in super::super) struct ServerClient {
    pub(in super::super) http: reqwest::Client,
    pub(in super::super) tokens: Option<Arc<TokenSource>>,
}

impl ServerClient {
    /// The token to send, where one is wanted.
    async fn token(&self) -> Result<Option<String>, Fault> {
        let Some(tokens) = &self.tokens else { return Ok(None) };
        tokens.token(None).await.map(Some).map_err(no_token)
    }

    /// Another token, where the one that was sent is not taken.
    async fn next(
        &self,
        sent: Option<String>,
        was: TokenAcceptance,
    ) -> Result<Option<String>, Fault> {
        let (Some(tokens), Some(sent)) = (&self.tokens, sent) else { return Ok(None) };
        match was {
            TokenAcceptance::No => tokens.token(Some(&sent)).await.map(Some).map_err(no_token),
            TokenAcceptance::Yes => {
                tokens.was_taken().await;
                Ok(None)
            }
        }
    }

    /// With what to do where the token lacks a scope.
    async fn explained<T>(&self, answer: Result<T, Fault>) -> Result<T, Fault> {
        let wanted = answer.as_ref().err().and_then(fault::lacks_scope);
        match (&self.tokens, wanted) {
            (Some(tokens), Some(wanted)) => Err(no_token(tokens.lacks(&wanted).await)),
            _ => answer,
        }
    }
}

/// What a server thinks of the token that it was sent.
enum TokenAcceptance {
    Yes,
    No,
}

impl TokenAcceptance {
    fn of<T>(answer: &Result<T, Fault>) -> TokenAcceptance {
        // One that lacks a scope is good, and another one would lack it, too.
        let is_refused =
            |err: &Fault| fault::is_unauthorized(err) && fault::lacks_scope(err).is_none();
        if answer.as_ref().is_err_and(is_refused) {
            TokenAcceptance::No
        } else {
            TokenAcceptance::Yes
        }
    }
}

/// A fresh token that is not taken either is no matter of its age.
fn refused<T>(answer: Result<T, Fault>) -> Result<T, Fault> {
    match TokenAcceptance::of(&answer) {
        TokenAcceptance::Yes => answer,
        TokenAcceptance::No => Err(no_token(super::NoToken::not_taken())),
    }
}

fn no_token(err: super::NoToken) -> Fault {
    Fault::Io(std::io::Error::other(err))
}

/// Events in which one that is too large is an error answer to the request.
fn answered(events: Events, id: Value) -> Events {
    let map = move |event: Result<Sse, SseError>| match event {
        Err(err) if chain(&err).contains(TOO_LARGE) => {
            Ok(Sse { data: Some(oversized::answer(&id)), ..Sse::default() })
        }
        event => event,
    };
    events.map(map).boxed()
}

impl StreamableHttpClient for ServerClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<StreamableHttpPostResponse, Fault> {
        self.post_message_with_max_sse_event_size(
            uri,
            message,
            session,
            token,
            headers,
            MAX_MESSAGE,
        )
        .await
    }

    async fn post_message_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session: Option<Arc<str>>,
        _token: Option<String>,
        headers: Headers,
        most: usize,
    ) -> Result<StreamableHttpPostResponse, Fault> {
        let send = |token: Option<String>| {
            self.http.post_message_with_max_sse_event_size(
                Arc::clone(&uri),
                message.clone(),
                session.clone(),
                token,
                headers.clone(),
                most,
            )
        };
        let token = self.token().await?;
        let answer = send(token.clone()).await;
        let verdict = TokenAcceptance::of(&answer);
        let answer = match self.next(token, verdict).await? {
            Some(next) => refused(send(Some(next)).await),
            None => answer,
        };
        let answer = self.explained(answer).await?;
        Ok(match (answer, message) {
            (
                StreamableHttpPostResponse::Sse(events, session),
                ClientJsonRpcMessage::Request(it),
            ) => {
                let id = serde_json::to_value(&it.id).unwrap_or_default();
                StreamableHttpPostResponse::Sse(answered(events, id), session)
            }
            (answer, _) => answer,
        })
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session: Arc<str>,
        _token: Option<String>,
        headers: Headers,
    ) -> Result<(), Fault> {
        let token = self.token().await?;
        self.http.delete_session(uri, session, token, headers).await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        token: Option<String>,
        headers: Headers,
    ) -> Result<Events, Fault> {
        self.get_stream_with_max_sse_event_size(
            uri,
            session,
            last_event,
            token,
            headers,
            MAX_MESSAGE,
        )
        .await
    }

    async fn get_stream_with_max_sse_event_size(
        &self,
        uri: Arc<str>,
        session: Option<Arc<str>>,
        last_event: Option<String>,
        _token: Option<String>,
        headers: Headers,
        most: usize,
    ) -> Result<Events, Fault> {
        let open = |token: Option<String>| {
            self.http.get_stream_with_max_sse_event_size(
                Arc::clone(&uri),
                session.clone(),
                last_event.clone(),
                token,
                headers.clone(),
                most,
            )
        };
        let token = self.token().await?;
        let answer = open(token.clone()).await;
        let verdict = TokenAcceptance::of(&answer);
        match self.next(token, verdict).await? {
            Some(next) => refused(open(Some(next)).await),
            None => answer,
        }
    }
}

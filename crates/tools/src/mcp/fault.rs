//! Why nothing came of a request to a server, in words without the library's names of its types.

use rmcp::ServiceError;
use rmcp::transport::DynamicTransportError;
use rmcp::transport::streamable_http_client::StreamableHttpError;

use super::oauth::challenge::Challenge;
use super::text;
use patchwright_base::error::chain;
use patchwright_base::proxies;

/// Longest explanation, in bytes.
const MAX_WHY: usize = 600;

/// What goes wrong over HTTP with our client.
type HttpError = StreamableHttpError<reqwest::Error>;

/// An error of the library, in words.
pub(super) fn why(err: &ServiceError) -> String {
    match err {
        ServiceError::TransportSend(err) => of_transport(err),
        ServiceError::UnexpectedResponse => {
            "it did not answer in the way of the protocol".to_owned()
        }
        err => text::line(&chain(err), MAX_WHY),
    }
}

/// An error of the way to the server, in words.
pub(super) fn of_transport(err: &DynamicTransportError) -> String {
    match err.error.downcast_ref::<HttpError>() {
        Some(err) => over_http(err),
        None => text::line(&chain(&*err.error), MAX_WHY),
    }
}

/// It came over HTTP.
pub(super) fn is_http(err: &DynamicTransportError) -> bool {
    err.error.is::<HttpError>()
}

/// The server does not answer strangers, or we have no token for it.
pub(super) fn asks_who(err: &DynamicTransportError) -> bool {
    let err = err.error.downcast_ref::<HttpError>();
    matches!(err.and_then(status), Some(401 | 403)) || matches!(err, Some(HttpError::Io(_)))
}

/// The server does not take the token, or wants one.
pub(super) fn is_unauthorized(err: &HttpError) -> bool {
    status(err) == Some(401)
}

/// The scopes that the server wants a token to have, where it refuses one for lack of them.
pub(super) fn lacks_scope(err: &HttpError) -> Option<Vec<String>> {
    let (header, is_forbidden) = match err {
        HttpError::AuthRequired(err) => (&err.www_authenticate_header, false),
        HttpError::InsufficientScope(err) => (&err.www_authenticate_header, true),
        _ => return None,
    };
    let said = Challenge::of([header.as_str()]);
    let is_so = said.lacks_scope || (is_forbidden && !said.scopes.is_empty());
    is_so.then_some(said.scopes)
}

fn over_http(err: &HttpError) -> String {
    if let HttpError::InsufficientScope(wanted) = err {
        let scope = wanted.required_scope.as_deref().map(|scope| text::line(scope, 200));
        let scope = scope.map(|scope| format!(" (`{}`)", scope.replace('`', "'")));
        let scope = scope.unwrap_or_default();
        return format!("its token is not for what was asked{scope}: its scopes decide (HTTP 403)");
    }
    if let Some(status) = status(err) {
        let why = match status {
            300..=399 => "it sends to another address, which is not followed",
            401 | 403 => "it wants to know who asks",
            404 | 405 | 410 => "there is no server of this protocol at its address",
            429 => "it is asked too often",
            500..=599 => "it has failed by itself",
            _ => "it refused the request",
        };
        return format!("{why} (HTTP {status})");
    }
    match err {
        // Of ours: there is no token to be sent.
        HttpError::Io(err) => text::line(&chain(err), MAX_WHY),
        HttpError::UnexpectedContentType(kind) => {
            let kind = text::line(kind.as_deref().unwrap_or("nothing"), 60).replace('`', "'");
            format!("it did not answer in the way of the protocol, but with `{kind}`")
        }
        HttpError::UnexpectedServerResponse(_) | HttpError::Deserialize(_) => {
            "it did not answer in the way of the protocol".to_owned()
        }
        HttpError::Client(sent) => {
            let way = proxies::way_of_error(sent).map(|way| format!("{way}: "));
            text::line(&format!("{}{}", way.unwrap_or_default(), chain(err)), MAX_WHY)
        }
        err => text::line(&chain(err), MAX_WHY),
    }
}

/// The status that a server answered with instead of a message; the library has some of them in
/// words only.
fn status(err: &HttpError) -> Option<u16> {
    match err {
        HttpError::HttpStatus(answer) => Some(answer.status),
        HttpError::AuthRequired(_) => Some(401),
        HttpError::InsufficientScope(_) => Some(403),
        HttpError::UnexpectedServerResponse(words) => {
            words.strip_prefix("HTTP ")?.get(..3)?.parse().ok()
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::any::TypeId;
    use std::borrow::Cow;

    use crate::mcp::fault::*;

    #[test]
    fn what_fails_over_http_is_told_in_plain_words() {
        let unexpected = |words| HttpError::UnexpectedServerResponse(Cow::Borrowed(words));
        for (err, says, is_stranger) in [
            (unexpected("HTTP 401 Unauthorized: {}"), "it wants to know who asks (HTTP 401)", true),
            (
                unexpected("HTTP 307 Temporary Redirect: "),
                "it sends to another address, which is not followed (HTTP 307)",
                false,
            ),
            (
                HttpError::UnexpectedContentType(Some("text/html".to_owned())),
                "it did not answer in the way of the protocol, but with `text/html`",
                false,
            ),
            (unexpected("<html>"), "it did not answer in the way of the protocol", false),
        ] {
            let err = DynamicTransportError::from_parts(
                "a::b::Transport<c::D>",
                TypeId::of::<()>(),
                Box::new(err),
            );
            assert_eq!(of_transport(&err), says);
            assert_eq!(asks_who(&err), is_stranger, "{says}");
            assert_eq!(why(&ServiceError::TransportSend(err)), says);
        }
    }
}

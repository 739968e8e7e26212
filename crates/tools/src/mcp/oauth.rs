//! Access tokens of HTTP servers, by OAuth 2: a refresh token of the operator's or a client's own credentials are
//! exchanged for short-lived tokens while the run goes on. Nobody logs in: there is no browser, and nobody to use it.
//!
//! Secrets go to the token endpoint of the issuer that the operator names, and tokens to the server's own address.
//! What a server says of who may issue tokens for it ([RFC 9728]) is only compared with that, because a server that
//! could name the issuer could ask for the operator's secrets. The issuer says where its token endpoint is
//! ([RFC 8414]), and each token is asked for one server ([RFC 8707]). A login registers a client where the operator has
//! none and the issuer lets it ([RFC 7591]).
//!
//! [RFC 9728]: https://www.rfc-editor.org/rfc/rfc9728
//! [RFC 8414]: https://www.rfc-editor.org/rfc/rfc8414
//! [RFC 8707]: https://www.rfc-editor.org/rfc/rfc8707
//! [RFC 7591]: https://www.rfc-editor.org/rfc/rfc7591

mod callback;
pub(super) mod challenge;
pub(super) mod client;
mod discovery;
pub(super) mod grant;
pub mod login;
mod registration;
mod resource;
mod stored;
pub(super) mod token;
mod trouble;

pub(super) use self::token::{AddressCheck, NoToken, TokenSource};

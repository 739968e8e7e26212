//! Requests for credentials: short, bounded, and answered by services whose errors are worth reading.

use std::sync::LazyLock;
use std::time::Duration;

use reqwest::{Client, RequestBuilder};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::time::timeout;

use super::{refused, unavailable};
use crate::http;
use crate::http::{direct_fault, transport_fault};
use crate::wire::fault::Fault;
use patchwright_base::env::Env;

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// How long a service of the own machine may take, which is not there on others.
const NEARBY: Duration = Duration::from_secs(5);

/// Bytes of an answer.
const MOST: usize = 256 << 10;

/// A client without proxies: services of the own machine are never behind one.
static DIRECT: LazyLock<Option<Client>> = LazyLock::new(|| http::direct_client().ok());

/// The ways to ask.
pub(super) struct CredentialClient<'a> {
    pub(super) http: &'a Client,
    scale: f64,
}

/// An answer with its body.
pub(super) struct CredentialResponse {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl<'a> CredentialClient<'a> {
    pub(super) fn new(http: &'a Client, env: &Env) -> CredentialClient<'a> {
        CredentialClient { http, scale: env.time_scale() }
    }

    /// The client for services of the own machine.
    pub(super) fn direct(&self) -> &Client {
        DIRECT.as_ref().unwrap_or(self.http)
    }

    /// Asks a service somewhere.
    pub(super) async fn ask(&self, request: RequestBuilder) -> Result<CredentialResponse, Fault> {
        self.ask_within(request, PATIENCE, transport_fault).await
    }

    /// Asks a service of the own machine.
    pub(super) async fn ask_nearby(
        &self,
        request: RequestBuilder,
    ) -> Result<CredentialResponse, Fault> {
        self.ask_within(request, NEARBY, direct_fault).await
    }

    async fn ask_within(
        &self,
        request: RequestBuilder,
        limit: Duration,
        fault: fn(&reqwest::Error) -> Fault,
    ) -> Result<CredentialResponse, Fault> {
        let limit = limit.mul_f64(self.scale.max(0.2));
        let asking = async {
            let mut response = request.send().await.map_err(|err| fault(&err))?;
            let status = response.status().as_u16();
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(|err| fault(&err))? {
                body.extend_from_slice(&chunk);
                if body.len() > MOST {
                    return Err(refused("the answer is too long"));
                }
            }
            Ok(CredentialResponse { status, body })
        };
        let seconds = limit.as_secs_f64();
        timeout(limit, asking)
            .await
            .unwrap_or_else(|_| Err(unavailable(format!("no answer within {seconds} s"))))
    }
}

impl CredentialResponse {
    /// What a successful answer says; the error of any other, in the service's own words. `who` is asked.
    pub(super) fn read<T: DeserializeOwned>(&self, who: &str) -> Result<T, Fault> {
        if self.status != 200 {
            return Err(self.fault(who, &self.words()));
        }
        serde_json::from_slice(&self.body)
            .map_err(|_| refused(format!("{who} answered with something else than was asked for")))
    }

    /// An answer that is not what was asked for.
    pub(super) fn fault(&self, who: &str, words: &str) -> Fault {
        let status = self.status;
        let message = format!("{who} answers with {status}: {words}");
        if status == 429 || status >= 500 { unavailable(message) } else { refused(message) }
    }

    /// What an error says, as OAuth servers, Google, Azure and GitHub write it.
    fn words(&self) -> String {
        let parsed: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        let said = ["/error_description", "/error/message", "/message", "/Message", "/error"]
            .iter()
            .find_map(|path| parsed.pointer(path)?.as_str());
        if let Some(said) = said {
            return said.to_owned();
        }
        let text = String::from_utf8_lossy(&self.body);
        match text.trim_start().chars().next() {
            None => "no message".to_owned(),
            Some('<') => "a page instead of a message".to_owned(),
            Some(_) => text.chars().take(300).collect(),
        }
    }
}

//! The contents of Git LFS: asked for by the batch API (`docs/api/batch.md` of git-lfs), fetched from wherever the
//! answer says, and kept when their digest is the one that was asked for.
//!
//! Our token goes to the forge's own address. The addresses of contents are usually those of a storage, whose answer to
//! the batch has brought the headers that it takes: those are sent, and nothing else. A redirect gets no headers at all.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use reqwest::header::{
    ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION,
};
use reqwest::{Response, StatusCode};
use secrecy::ExposeSecret;
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;
use url::Url;

use super::GitHubForge;
use super::refusal::clean;
use crate::{ForgeError, MissingContent, RepositoryId, WayThere};
use patchwright_base::error::Service;
use patchwright_git::lfs::Pointer;

const MEDIA: &str = "application/vnd.git-lfs+json";
/// Objects of one request, as git-lfs has it.
const BATCH: usize = 100;
/// Bytes of an answer to a batch.
const MAX_ANSWER: usize = 4 << 20;
/// Headers of one address.
const MAX_HEADERS: usize = 20;
/// Silence before it is given up, and addresses that lead to others.
const SILENCE: Duration = Duration::from_mins(1);
const MAX_REDIRECTS: usize = 3;
/// How often a batch is asked for.
const TRIES: u32 = 4;

#[derive(Deserialize)]
struct BatchResponse {
    #[serde(default)]
    transfer: Option<String>,
    objects: Vec<Object>,
}

#[derive(Deserialize)]
struct Object {
    oid: String,
    #[serde(default)]
    actions: Option<Actions>,
    #[serde(default)]
    error: Option<Problem>,
}

#[derive(Deserialize)]
struct Actions {
    #[serde(default)]
    download: Option<Action>,
}

#[derive(Deserialize)]
struct Action {
    href: String,
    #[serde(default)]
    header: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Problem {
    code: u32,
    #[serde(default)]
    message: String,
}

impl GitHubForge {
    /// Brings contents into the repository at `into`; those that were not to be had, with the reason.
    pub(super) async fn bring_contents(
        &self,
        repository: &RepositoryId,
        wanted: &[Pointer],
        into: &Path,
    ) -> Result<Vec<MissingContent>, ForgeError> {
        let mut missing = Vec::new();
        for batch in wanted.chunks(BATCH) {
            let answer = self.batch(repository, batch).await?;
            for pointer in batch {
                let told = answer.objects.iter().find(|object| object.oid == pointer.sha256);
                let why = match told.map(address_of) {
                    Some(Ok(action)) => self.content(action, pointer, into).await.err(),
                    Some(Err(why)) => Some(why),
                    None => Some("the server did not say where it is".to_owned()),
                };
                missing.extend(why.map(|why| MissingContent {
                    sha256: pointer.sha256.clone(),
                    why: clean(&why, &self.api.secrets()),
                }));
            }
        }
        Ok(missing)
    }

    async fn batch(
        &self,
        repository: &RepositoryId,
        wanted: &[Pointer],
    ) -> Result<BatchResponse, ForgeError> {
        let thing = format!("the LFS objects of `{repository}`");
        let mut attempt = 0;
        loop {
            attempt += 1;
            let reply = self.ask_batch(repository, wanted).await;
            let err = match reply {
                Ok((StatusCode::OK, body)) => {
                    let answer: BatchResponse =
                        serde_json::from_slice(&body).map_err(|_| ForgeError::Malformed {
                            host: self.api.host(),
                            message: format!("{thing} could not be read"),
                        })?;
                    return match answer.transfer.as_deref() {
                        None | Some("basic") => Ok(answer),
                        Some(_) => Err(ForgeError::Malformed {
                            host: self.api.host(),
                            message: format!("{thing} come in a way that was not asked for"),
                        }),
                    };
                }
                Ok((status, _)) if status.is_server_error() || status.as_u16() == 429 => {
                    self.no_contents(&format!("status {} for {thing}", status.as_u16()))
                }
                Ok((StatusCode::NOT_FOUND, _)) => return Err(ForgeError::NotFound { what: thing }),
                Ok((StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN, _)) => {
                    let (action, message) =
                        (format!("read {thing}"), "it is not for this token".to_owned());
                    return Err(ForgeError::Forbidden { action, message, need: None });
                }
                Ok((status, _)) => {
                    let message = format!("status {}", status.as_u16());
                    return Err(ForgeError::Invalid {
                        action: format!("reading {thing}"),
                        message,
                    });
                }
                Err(err) => err,
            };
            if attempt >= TRIES {
                return Err(err);
            }
            self.api.limiter.back_off(attempt).await;
        }
    }

    async fn ask_batch(
        &self,
        repository: &RepositoryId,
        wanted: &[Pointer],
    ) -> Result<(StatusCode, Vec<u8>), ForgeError> {
        let url = format!("{}.git/info/lfs/objects/batch", self.page_of(repository));
        let objects: Vec<_> = wanted
            .iter()
            .map(|pointer| json!({ "oid": pointer.sha256, "size": pointer.size }))
            .collect();
        let body = json!({
            "operation": "download", "transfers": ["basic"], "objects": objects, "hash_algo": "sha256",
        });
        let mut request = self.http.post(url).header(ACCEPT, MEDIA).header(CONTENT_TYPE, MEDIA);
        if let Some(token) = self.api.token.for_git(repository).await? {
            let pair = format!("x-access-token:{}", token.expose_secret());
            let mut value =
                HeaderValue::from_str(&format!("Basic {}", BASE64_STANDARD.encode(pair)))
                    .map_err(|_| ForgeError::state("the token cannot be sent"))?;
            value.set_sensitive(true);
            request = request.header(AUTHORIZATION, value);
        }
        let sent = request.body(body.to_string()).send();
        let response = self.patiently(sent).await?;
        let status = response.status();
        Ok((status, self.read(response, MAX_ANSWER).await?))
    }

    async fn patiently(
        &self,
        sent: impl Future<Output = Result<Response, reqwest::Error>>,
    ) -> Result<Response, ForgeError> {
        match tokio::time::timeout(SILENCE, sent).await {
            Ok(Ok(response)) => Ok(response),
            Ok(Err(err)) => Err(self.no_contents(&err.without_url().to_string())),
            Err(_) => Err(self.no_contents("no answer")),
        }
    }

    async fn read(&self, mut response: Response, most: usize) -> Result<Vec<u8>, ForgeError> {
        let mut body = Vec::new();
        while let Some(piece) = self.piece(&mut response).await? {
            body.extend_from_slice(&piece);
            if body.len() > most {
                return Err(self.no_contents("an answer without end"));
            }
        }
        Ok(body)
    }

    async fn piece(&self, response: &mut Response) -> Result<Option<bytes::Bytes>, ForgeError> {
        match tokio::time::timeout(SILENCE, response.chunk()).await {
            Ok(Ok(piece)) => Ok(piece),
            Ok(Err(err)) => Err(self.no_contents(&err.without_url().to_string())),
            Err(_) => Err(self.no_contents("the answer does not go on")),
        }
    }

    fn no_contents(&self, message: &str) -> ForgeError {
        let message = clean(message, &self.api.secrets());
        ForgeError::Unavailable {
            service: Service::Git,
            host: self.api.host(),
            message,
            way: WayThere::Open,
        }
    }

    /// One content, to its place.
    async fn content(&self, action: &Action, pointer: &Pointer, into: &Path) -> Result<(), String> {
        let place = pointer.place(into);
        let folder = place.parent().unwrap_or(into);
        fs_err::create_dir_all(folder).map_err(|err| err.to_string())?;
        let mut response = self.answer_of(action).await?;
        if !response.status().is_success() {
            return Err(format!("status {}", response.status().as_u16()));
        }
        let file = tempfile::NamedTempFile::new_in(folder).map_err(|err| err.to_string())?;
        let handle = file.as_file().try_clone().map_err(|err| err.to_string())?;
        let mut writer = tokio::fs::File::from_std(handle);
        let (mut digest, mut size) = (Sha256::new(), 0_u64);
        while let Some(piece) = self.piece(&mut response).await.map_err(|err| err.to_string())? {
            size += piece.len() as u64;
            if size > pointer.size {
                return Err(format!("it is larger than {} bytes", pointer.size));
            }
            digest.update(&piece);
            writer.write_all(&piece).await.map_err(|err| err.to_string())?;
        }
        writer.flush().await.map_err(|err| err.to_string())?;
        if size != pointer.size || hex::encode(digest.finalize()) != pointer.sha256 {
            return Err("what came is something else".to_owned());
        }
        file.persist(&place).map(drop).map_err(|err| err.error.to_string())
    }

    /// The answer of a storage, wherever it sends us.
    async fn answer_of(&self, action: &Action) -> Result<Response, String> {
        let mut url = self.reachable(&action.href)?;
        let mut headers = headers(&action.header)?;
        for _ in 0..=MAX_REDIRECTS {
            let asked = self.http.get(url.clone()).headers(headers).send();
            let response = self.patiently(asked).await.map_err(|err| err.to_string())?;
            if !response.status().is_redirection() {
                return Ok(response);
            }
            let to = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
            let next = to.and_then(|to| url.join(to).ok()).ok_or("a redirect to nowhere")?;
            url = self.reachable(next.as_str())?;
            // What was meant for one place is no other's business.
            headers = HeaderMap::new();
        }
        Err("redirects without end".to_owned())
    }

    /// `https`, or as the forge itself is reached.
    fn reachable(&self, address: &str) -> Result<Url, String> {
        let url = Url::parse(address).map_err(|_| "its address cannot be one".to_owned())?;
        let is_plain = url.username().is_empty() && url.password().is_none();
        if is_plain && (url.scheme() == "https" || url.scheme() == self.server_url.scheme()) {
            Ok(url)
        } else {
            Err("its address is not one of `https`".to_owned())
        }
    }
}

fn address_of(object: &Object) -> Result<&Action, String> {
    if let Some(Problem { code, message }) = &object.error {
        return Err(match code {
            404 | 410 => "the server does not have it".to_owned(),
            code => format!("{message} ({code})"),
        });
    }
    let action = object.actions.as_ref().and_then(|actions| actions.download.as_ref());
    action.ok_or_else(|| "the server did not say where it is".to_owned())
}

fn headers(told: &BTreeMap<String, String>) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, value) in told.iter().take(MAX_HEADERS) {
        let name = HeaderName::try_from(name.as_str());
        let value = HeaderValue::try_from(value.as_str());
        let (Ok(name), Ok(mut value)) = (name, value) else {
            return Err("its headers cannot be sent".to_owned());
        };
        value.set_sensitive(true);
        headers.insert(name, value);
    }
    // These are about the connection, which is ours.
    for name in ["host", "content-length", "transfer-encoding", "connection"] {
        headers.remove(name);
    }
    Ok(headers)
}

//! What GitHub tried to deliver to a hook: the list, and what was in one. GitHub repeats nothing by
//! itself and forgets after three days
//! (<https://docs.github.com/en/webhooks/using-webhooks/handling-failed-webhook-deliveries>).

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::http::{Api, Call};
use super::{GitHubForge, route};
use crate::{Credential, ForgeError, RepositoryId};

/// Pages of the list that are read at once, 100 deliveries each.
const MOST_PAGES: usize = 50;

/// Whose deliveries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookSource {
    /// The App's own hook.
    App,
    /// A hook of a repository, which takes a token of its administrator.
    Repository { repository: RepositoryId, hook: u64 },
}

impl fmt::Display for HookSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HookSource::App => f.write_str("the App's hook"),
            HookSource::Repository { repository, hook } => write!(f, "{repository}/{hook}"),
        }
    }
}

impl FromStr for HookSource {
    type Err = String;

    /// Reads `OWNER/REPO/ID`.
    fn from_str(text: &str) -> Result<HookSource, String> {
        let mistake = || format!("`{text}` is not a hook; write it as `OWNER/REPO/ID`");
        let (repository, hook) = text.rsplit_once('/').ok_or_else(mistake)?;
        let repository = repository.parse().map_err(|_| mistake())?;
        let hook = hook.parse().ok().filter(|hook| *hook > 0).ok_or_else(mistake)?;
        Ok(HookSource::Repository { repository, hook })
    }
}

/// One attempt to deliver.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct HookDelivery {
    /// Id of this attempt.
    pub id: u64,
    /// Id of the delivery, which all of its attempts share.
    pub guid: String,
    pub delivered_at: DateTime<Utc>,
    /// What the server answered; 0 without an answer.
    #[serde(default)]
    pub status_code: i64,
    pub event: String,
}

impl HookDelivery {
    fn has_failed(&self) -> bool {
        !(200..300).contains(&self.status_code)
    }
}

impl GitHubForge {
    /// The attempts since a time that failed, oldest first; at most the newest 5,000.
    ///
    /// # Errors
    /// Also when we may not see them.
    pub async fn failed_deliveries(
        &self,
        source: &HookSource,
        since: DateTime<Utc>,
    ) -> Result<Vec<HookDelivery>, ForgeError> {
        let (api, path) = self.hook(source)?;
        let mut call = Call::get(
            format!("{path}?per_page=100&status=failure"),
            format!("the deliveries of {source}"),
        )
        .needs("webhooks: read");
        let mut failed = Vec::new();
        for _ in 0..MOST_PAGES {
            let (page, next) = api.page::<HookDelivery>(&call).await?;
            let is_end = page.iter().any(|delivery| delivery.delivered_at < since);
            let wanted = |it: &HookDelivery| it.delivered_at >= since && it.has_failed();
            failed.extend(page.into_iter().filter(wanted));
            match next {
                Some(next) if !is_end => call.path = next,
                _ => break,
            }
        }
        failed.reverse();
        Ok(failed)
    }

    /// The payload of one attempt as JSON text; `None` when it is not kept any more.
    ///
    /// # Errors
    /// When GitHub does not tell.
    pub async fn delivery_payload(
        &self,
        source: &HookSource,
        id: u64,
    ) -> Result<Option<String>, ForgeError> {
        #[derive(Deserialize)]
        struct Delivery {
            request: Request,
        }
        #[derive(Deserialize)]
        struct Request {
            payload: Option<Box<RawValue>>,
        }
        let (api, path) = self.hook(source)?;
        let call = Call::get(format!("{path}/{id}"), format!("delivery {id} of {source}"))
            .needs("webhooks: read");
        match api.read_json::<Delivery>(&call).await {
            Ok(delivery) => Ok(delivery.request.payload.map(|payload| payload.get().to_owned())),
            Err(ForgeError::NotFound { .. }) => Ok(None),
            Err(err) => Err(err),
        }
    }

    /// Who asks about a hook, and where.
    fn hook(&self, source: &HookSource) -> Result<(&Api, String), ForgeError> {
        match (source, self.app()) {
            (HookSource::App, Some(app)) => Ok((app.api(), "app/hook/deliveries".to_owned())),
            (HookSource::App, None) => Err(ForgeError::Authentication {
                credential: Credential::App,
                message: "only a GitHub App has a hook of its own".to_owned(),
            }),
            (HookSource::Repository { repository, hook }, _) => {
                Ok((&self.api, route(repository, &format!("hooks/{hook}/deliveries"))))
            }
        }
    }

    /// We are a GitHub App.
    pub fn is_app(&self) -> bool {
        self.app().is_some()
    }
}

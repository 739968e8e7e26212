//! Where the GitHub App is installed for a repository, and what it may there: for checks before any work.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::http::Call;
use super::installations::PERMISSIONS;
use super::token::Token;
use super::{GitHubForge, route};
use crate::{ForgeError, RepositoryId};

/// An installation of the App.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledApp {
    pub installation: u64,
    /// The account that installed it.
    pub account: String,
    /// Permissions that we use and that are not granted, or less than we use, as GitHub's settings call them.
    pub lacks: Vec<String>,
    pub is_suspended: bool,
}

#[derive(Deserialize)]
struct InstallationJson {
    id: u64,
    #[serde(default)]
    permissions: BTreeMap<String, String>,
    #[serde(default)]
    account: Option<AccountJson>,
    #[serde(default)]
    suspended_at: Option<String>,
}

#[derive(Deserialize)]
struct AccountJson {
    #[serde(default)]
    login: String,
}

impl GitHubForge {
    /// The App's installation for a repository; `None` when we are no App.
    ///
    /// # Errors
    /// When it is not installed there, the key is refused, or GitHub does not answer.
    pub async fn installed_app(
        &self,
        repository: &RepositoryId,
    ) -> Result<Option<InstalledApp>, ForgeError> {
        let Token::Installed(app, _) = &self.api.token else { return Ok(None) };
        let what = format!("an installation of the App with access to `{repository}`");
        let call = Call::get(route(repository, "installation"), what);
        let found: InstallationJson = app.api().read_json(&call).await?;
        let lacks = PERMISSIONS.iter().filter(|(name, wanted)| {
            let granted = found.permissions.get(*name).map(String::as_str);
            !matches!((granted, *wanted), (Some("write" | "admin"), _) | (Some("read"), "read"))
        });
        Ok(Some(InstalledApp {
            installation: found.id,
            account: found.account.map(|account| account.login).unwrap_or_default(),
            lacks: lacks
                .map(|(name, wanted)| format!("{}: {wanted}", name.replace('_', "-")))
                .collect(),
            is_suspended: found.suspended_at.is_some(),
        }))
    }

    /// The account of the App that we are; `None` when we are none.
    ///
    /// # Errors
    /// When the App or its key is wrong, or GitHub does not answer.
    pub async fn app_login(&self) -> Result<Option<String>, ForgeError> {
        let Token::Installed(app, _) = &self.api.token else { return Ok(None) };
        Ok(Some(app.account().await?.login))
    }
}

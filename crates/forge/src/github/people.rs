//! Who we are, and what others may do.

use http::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::http::{Call, segment};
use super::token::Scope;
use super::wire::{Permission, User, account};
use super::{GitHubForge, route};
use crate::{Account, ForgeError, RepositoryId, Role};

/// An account with its number.
#[derive(Deserialize)]
struct UserJson {
    id: u64,
    login: String,
    #[serde(rename = "type", default, deserialize_with = "super::wire::lenient")]
    kind: String,
}

impl GitHubForge {
    /// There is a person or an organisation of this name, as far as we may see.
    pub async fn has_owner(&self, login: &str) -> Result<bool, ForgeError> {
        let call = Call::get(format!("users/{}", segment(login)), format!("account `{login}`"));
        match self.api.read(&call).await {
            Ok(_) => Ok(true),
            Err(ForgeError::NotFound { .. }) => Ok(false),
            Err(err) => Err(err),
        }
    }

    /// Ourselves, asked once. App and Actions tokens may not ask REST, and are told by GraphQL. `None`
    /// where neither says: then nobody is us.
    pub(super) async fn own_account(&self) -> Result<Option<Account>, ForgeError> {
        let ask = async {
            if let Some(app) = self.app() {
                return app.account().await.map(Some);
            }
            let call = Call::get("user", "our own account");
            match self.api.read_json::<User>(&call).await {
                Ok(user) => Ok(Some(account(Some(user)))),
                Err(ForgeError::Forbidden { .. } | ForgeError::NotFound { .. }) => {
                    self.the_viewer().await
                }
                Err(err) => Err(err),
            }
        };
        self.viewer.get_or_try_init(|| ask).await.cloned()
    }

    /// The address that GitHub gives every account, which is no secret.
    pub(super) async fn address_of(&self, login: &str) -> Result<Option<String>, ForgeError> {
        if Account::of(login).is_machine() {
            return Ok(None);
        }
        let path = format!("users/{}", segment(login));
        let user: UserJson = self.api.read_json(&Call::get(path, format!("`{login}`"))).await?;
        let host = match self.server_url.host_str() {
            Some("github.com") | None => "github.com",
            Some(host) => host,
        };
        let person = user.kind == "User" && Account::of(&user.login).has_login(login);
        let address = format!("{}+{}@users.noreply.{host}", user.id, user.login);
        Ok(person.then_some(address))
    }

    /// The account of a token that REST does not name, which is an app's.
    async fn the_viewer(&self) -> Result<Option<Account>, ForgeError> {
        let call = self.api.graphql_call(
            "query { viewer { login } }",
            &json!({}),
            (Scope::Anywhere, "our own account".to_owned()),
        );
        match self.api.ask::<ViewerData>(&call).await {
            Ok(answer) => {
                let viewer = answer.data.and_then(|told| told.viewer);
                Ok(viewer.filter(|viewer| !viewer.login.is_empty()).map(|viewer| {
                    // GraphQL leaves the end out of the names of bots, mostly.
                    let name = viewer.login.trim_end_matches("[bot]");
                    Account { login: format!("{name}[bot]"), is_bot: true }
                }))
            }
            // No GraphQL here, or not for this token.
            Err(
                ForgeError::Forbidden { .. }
                | ForgeError::NotFound { .. }
                | ForgeError::Invalid { .. }
                | ForgeError::Malformed { .. },
            ) => Ok(None),
            Err(err) => Err(err),
        }
    }

    /// The account is ours. All workflows of a repository may share it: what a text of it says of
    /// itself counts only when it is sealed as well.
    pub(super) async fn is_ours(&self, author: &Account) -> Result<bool, ForgeError> {
        Ok(self.own_account().await?.is_some_and(|viewer| viewer.is_same(author)))
    }

    pub(super) async fn permission_of(
        &self,
        repository: &RepositoryId,
        login: &str,
    ) -> Result<Role, ForgeError> {
        let call = Call::get(
            route(repository, &format!("collaborators/{}/permission", segment(login))),
            format!("the permission of `{login}` in `{repository}`"),
        )
        .needs("metadata: read");
        let reply = self.api.read(&call).await?;
        let malformed = |message: String| ForgeError::Malformed { host: self.api.host(), message };
        if reply.status != StatusCode::OK {
            return Err(malformed(format!("status {} to a question", reply.status.as_u16())));
        }
        let permission: Permission = self.api.parse(&call, &reply)?;
        if permission.login().is_some_and(|other| !other.eq_ignore_ascii_case(login)) {
            return Err(malformed(format!("asked about `{login}`, it told about somebody else")));
        }
        permission
            .role()
            .ok_or_else(|| malformed(format!("the role of `{login}` has no known name")))
    }
}

#[derive(Deserialize)]
struct ViewerData {
    viewer: Option<ViewerJson>,
}

#[derive(Deserialize)]
struct ViewerJson {
    login: String,
}

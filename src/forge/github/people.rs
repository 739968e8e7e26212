//! Who we are, and what others may do.

use http::StatusCode;

use super::http::{Call, segment};
use super::wire::{Permission, User, account};
use super::{GitHubForge, route};
use crate::forge::{Account, ForgeError, RepositoryId, Role};

impl GitHubForge {
    /// Ourselves, asked once. App and Actions tokens may not ask: `None`.
    pub(super) async fn who_we_are(&self) -> Result<Option<Account>, ForgeError> {
        let ask = async {
            if let Some(app) = self.app() {
                return app.account().await.map(Some);
            }
            let call = Call::get("user", "our own account");
            match self.api.read_json::<User>(&call).await {
                Ok(user) => Ok(Some(account(Some(user)))),
                Err(ForgeError::Forbidden { .. } | ForgeError::NotFound { .. }) => Ok(None),
                Err(err) => Err(err),
            }
        };
        self.viewer.get_or_try_init(|| ask).await.cloned()
    }

    /// We wrote what `author` wrote. Where the forge does not tell who we are, the token is an app's,
    /// and what an app writes comes from a bot account, which no stranger has.
    pub(super) async fn is_ours(&self, author: &Account) -> Result<bool, ForgeError> {
        Ok(match self.who_we_are().await? {
            Some(viewer) => viewer.login.eq_ignore_ascii_case(&author.login),
            None => author.is_bot,
        })
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

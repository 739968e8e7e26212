//! How a [`GitHubForge`] is made, and made into one for a job or for a repository.

use std::sync::Arc;

use super::http::{Api, Call, segment};
use super::installations::App;
use super::limits::Limiter;
use super::token::{Scope, Token, TokenRepository};
use super::{AppKey, Gate, GitHubForge, GitHubOptions, layers, route, wire};
use crate::{Credential, ForgeError, Repository, RepositoryId};

impl GitHubForge {
    /// Does not ask GitHub anything yet.
    ///
    /// # Errors
    /// When an address is not `http` or `https`, or has credentials in it, or when the token has characters that no header can carry.
    pub fn new(options: GitHubOptions) -> Result<GitHubForge, ForgeError> {
        // Known before anything is begun, and not at each request.
        layers::bearer(&options.token, Credential::Token)?;
        let token = Token::Fixed(options.token.clone());
        GitHubForge::with_token(options, token)
    }

    /// GitHub as an App sees it where it is installed, with tokens that are minted when they are
    /// needed. The token of the options is not used.
    ///
    /// # Errors
    /// When an address is not `http` or `https`, or has credentials in it.
    pub fn of_app(options: GitHubOptions, key: AppKey) -> Result<GitHubForge, ForgeError> {
        let itself = Api::new(
            options.http.clone(),
            options.api_url.clone(),
            options.graphql_url.clone(),
            Token::AppItself(Arc::new(key)),
            Limiter::new(options.pace),
        );
        GitHubForge::with_token(options, Token::Installed(App::new(itself), None))
    }

    fn with_token(options: GitHubOptions, token: Token) -> Result<GitHubForge, ForgeError> {
        for url in [&options.api_url, &options.graphql_url, &options.server_url] {
            let plain = url.username().is_empty() && url.password().is_none();
            if !matches!(url.scheme(), "http" | "https") || !plain {
                return Err(ForgeError::Invalid {
                    action: "the address of GitHub".to_owned(),
                    message: "it has to be `http` or `https`, without credentials".to_owned(),
                });
            }
        }
        let GitHubOptions { api_url, graphql_url, server_url, token: _, http, pace, seal } =
            options;
        let api = Api::new(http.clone(), api_url, graphql_url, token, Limiter::new(pace));
        Ok(GitHubForge { api, server_url, http, viewer: Arc::default(), seal })
    }

    /// This GitHub for work on one repository: an App's requests all carry a token for that repository, by its id
    /// where that is known, of the installation that is named.
    #[must_use]
    pub fn scoped(
        &self,
        repository: &RepositoryId,
        id: Option<u64>,
        installation: Option<u64>,
    ) -> GitHubForge {
        let Token::Installed(app, _) = &self.api.token else {
            return self.with_api(self.api.clone());
        };
        let scope =
            Scope::Repository(TokenRepository { name: repository.clone(), id, installation });
        let token = Token::Installed(Arc::clone(app), Some(scope));
        self.with_api(self.api.as_other(token))
    }

    /// What the repository with this id is called now that was called `name`. A name leads to whatever has it:
    /// after a renaming to the same repository, until another one takes the name over.
    ///
    /// # Errors
    /// [`ForgeError::NotFound`] when it is gone, or we may not see it any more.
    pub async fn present_name(
        &self,
        name: &RepositoryId,
        id: u64,
    ) -> Result<RepositoryId, ForgeError> {
        #[derive(serde::Deserialize)]
        struct Found {
            id: Option<u64>,
            full_name: String,
        }
        let thing = format!("repository `{name}`, which has the id {id},");
        let mut gone = ForgeError::NotFound { what: thing.clone() };
        for path in [route(name, ""), format!("repositories/{id}")] {
            match self.api.read_json::<Found>(&Call::get(path, &thing)).await {
                Ok(it) if it.id.is_none_or(|its| its == id) => {
                    return it.full_name.parse().map_err(|_| ForgeError::Malformed {
                        host: self.api.host(),
                        message: "a repository without an owner".to_owned(),
                    });
                }
                Ok(_) => {}
                Err(err @ ForgeError::NotFound { .. }) => gone = err,
                Err(err) => return Err(err),
            }
        }
        Err(gone)
    }

    fn with_api(&self, api: Api) -> GitHubForge {
        GitHubForge {
            api,
            server_url: self.server_url.clone(),
            http: self.http.clone(),
            viewer: Arc::clone(&self.viewer),
            seal: self.seal.clone(),
        }
    }

    /// Places in a list of repositories, in groups that one token is enough for: an App has another one for each
    /// account.
    pub(super) fn by_token<'a>(
        &self,
        all: impl IntoIterator<Item = &'a RepositoryId>,
    ) -> Vec<(Scope, Vec<usize>)> {
        let mut groups: Vec<(Scope, Vec<usize>)> = Vec::new();
        for (at, id) in all.into_iter().enumerate() {
            let scope = match &self.api.token {
                Token::Installed(_, None) => Scope::Owner(id.owner.to_lowercase()),
                Token::Installed(_, Some(_)) | Token::Fixed(_) | Token::AppItself(_) => {
                    Scope::Anywhere
                }
            };
            match groups.iter_mut().find(|(known, _)| *known == scope) {
                Some((_, places)) => places.push(at),
                None => groups.push((scope, vec![at])),
            }
        }
        groups
    }

    /// The App that we are, when we are one.
    pub(super) fn app(&self) -> Option<&App> {
        match &self.api.token {
            Token::Installed(app, _) => Some(app),
            Token::Fixed(_) | Token::AppItself(_) => None,
        }
    }

    /// This GitHub, with its pace and limits in this process; besides, every write (a push too) passes this gate right
    /// before it is sent, and the gate is told about rate limits.
    #[must_use]
    pub fn gated(&self, gate: Gate) -> GitHubForge {
        self.with_api(self.api.gated(gate))
    }

    /// A repository as GitHub tells of it.
    pub(super) fn repository_from(&self, json: wire::Repository) -> Result<Repository, ForgeError> {
        let id: RepositoryId = json.full_name.parse().map_err(|_| ForgeError::Malformed {
            host: self.api.host(),
            message: "a repository without an owner".to_owned(),
        })?;
        let page = self.page_of(&id);
        Ok(Repository {
            id,
            node_id: json.node_id,
            default_branch: json.default_branch,
            archived: json.archived || json.disabled,
            refuses_pulls: json.has_pull_requests == Some(false),
            pulls_by_collaborators_only: json.pull_request_creation_policy == "collaborators_only",
            can_push: json.permissions.map(|permissions| permissions.push),
            private: json.private,
            // Made here rather than read: the token goes to this address.
            clone_url: format!("{page}.git"),
            html_url: json.html_url.unwrap_or(page),
        })
    }

    pub(super) fn page_of(&self, repository: &RepositoryId) -> String {
        let server = self.server_url.as_str().trim_end_matches('/');
        format!("{server}/{}/{}", segment(&repository.owner), segment(&repository.name))
    }
}

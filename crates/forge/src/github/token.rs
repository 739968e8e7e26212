//! Which token a request carries: one that stays, or one of a GitHub App's installation, which ends
//! after an hour and is replaced before that, or when GitHub refuses it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::header::HeaderMap;
use secrecy::{ExposeSecret, SecretString};

use super::app::App;
use super::http::Api;
use crate::{ForgeError, RepositoryId};

/// Who we are to GitHub.
#[derive(Clone)]
pub(super) enum Token {
    Fixed(SecretString),
    /// The App itself, which may ask about its installations and deliveries, and nothing else.
    AppItself(Arc<super::app::Key>),
    /// The App where it is installed. With a scope for everything, else by what each request is about.
    Installed(Arc<App>, Option<Scope>),
}

/// What a request is about, which decides whose token it carries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    Repository(RepositoryId, Option<u64>),
    /// All that is installed at an organisation or a person.
    Owner(String),
    /// Wherever the App is installed.
    Anywhere,
}

impl Scope {
    /// From a path below the API's root, or from the variables of a GraphQL question.
    pub(super) fn of(path: &str, body: Option<&serde_json::Value>) -> Scope {
        let mut parts = path.split(['/', '?']);
        let id = |owner: &str, name: &str| format!("{owner}/{name}").parse::<RepositoryId>().ok();
        match (parts.next(), parts.next(), parts.next()) {
            (Some("repos"), Some(owner), Some(name)) => {
                id(owner, name).map_or(Scope::Anywhere, |id| Scope::Repository(id, None))
            }
            (Some("orgs" | "users"), Some(owner), _) => Scope::Owner(owner.to_owned()),
            (Some("search"), ..) => Scope::searched(path).unwrap_or(Scope::Anywhere),
            _ => {
                let variable = |name: &str| body?.get("variables")?.get(name)?.as_str();
                let named = variable("owner").zip(variable("name"));
                let named = named.and_then(|(owner, name)| id(owner, name));
                named.map_or(Scope::Anywhere, |id| Scope::Repository(id, None))
            }
        }
    }

    /// `org:…`, `user:…` or `repo:…` in a search.
    fn searched(path: &str) -> Option<Scope> {
        let (_, query) = path.split_once('?')?;
        let (_, words) =
            url::form_urlencoded::parse(query.as_bytes()).find(|(key, _)| key == "q")?;
        words.split_whitespace().find_map(|word| {
            let (key, value) = word.split_once(':')?;
            match key {
                "org" | "user" => Some(Scope::Owner(value.to_owned())),
                "repo" => value.parse().ok().map(|id| Scope::Repository(id, None)),
                _ => None,
            }
        })
    }
}

impl Token {
    /// The token for what a request is about. Boxed, because asking for one is a request of its own.
    pub(super) fn for_scope<'a>(
        &'a self,
        scope: &'a Scope,
    ) -> BoxFuture<'a, Result<SecretString, ForgeError>> {
        Box::pin(async move {
            match self {
                Token::Fixed(token) => Ok(token.clone()),
                Token::AppItself(key) => key.sign(),
                Token::Installed(app, fixed) => app.token(fixed.as_ref().unwrap_or(scope)).await,
            }
        })
    }

    /// The token that git shows for a repository; `None` when there is none.
    pub(super) async fn for_git(
        &self,
        repository: &RepositoryId,
    ) -> Result<Option<SecretString>, ForgeError> {
        let token = self.for_scope(&Scope::Repository(repository.clone(), None)).await?;
        Ok((!token.expose_secret().is_empty()).then_some(token))
    }

    /// GitHub did not take this token (401); true when another one may be better.
    pub(super) async fn refused(&self, token: &SecretString, headers: Option<&HeaderMap>) -> bool {
        match self {
            Token::Fixed(_) => false,
            Token::AppItself(key) => headers.is_some_and(|headers| key.set_clock(headers)),
            Token::Installed(app, _) => app.forget(token).await,
        }
    }
}

impl Api {
    /// What must not be in any message. Tokens that end are known to every redactor.
    pub(super) fn secrets(&self) -> Vec<&str> {
        match &self.token {
            Token::Fixed(token) => vec![token.expose_secret()],
            Token::AppItself(_) | Token::Installed(..) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use crate::github::token::Scope;

    #[test]
    fn what_a_request_is_about_is_in_its_path_or_its_variables() {
        let of = |path: &str| Scope::of(path, None);
        let app = || Scope::Repository("acme/app".parse().unwrap(), None);
        assert_eq!(of("repos/acme/app"), app());
        assert_eq!(of("repos/acme/app?x=1"), app());
        assert_eq!(of("repos/acme/app/issues/7"), app());
        assert_eq!(of("orgs/acme/repos?per_page=100"), Scope::Owner("acme".to_owned()));
        let found = of("search/repositories?q=topic%3Ax+org%3Aacme");
        assert_eq!(found, Scope::Owner("acme".to_owned()));
        assert_eq!(of("user"), Scope::Anywhere);
        let body = json!({"query": "…", "variables": {"owner": "acme", "name": "app"}});
        assert_eq!(Scope::of("https://api.github.com/graphql", Some(&body)), app());
    }
}

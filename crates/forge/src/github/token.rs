//! Which token a request carries: one that stays, or one of a GitHub App's installation, which ends
//! after an hour and is replaced before that, or when GitHub refuses it.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::header::HeaderMap;
use secrecy::{ExposeSecret, SecretString};

use super::http::Api;
use super::installations::App;
use super::limits::LimitedAccount;
use crate::{Credential, ForgeError, RepositoryId};

/// Who we are to GitHub.
#[derive(Clone)]
pub(super) enum Token {
    Fixed(SecretString),
    /// The App itself, which may ask about its installations and deliveries, and nothing else.
    AppItself(Arc<super::app::Key>),
    /// The App where it is installed. With a scope for everything, else by what each request is about.
    Installed(Arc<App>, Option<Scope>),
}

/// A repository, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct TokenRepository {
    pub(super) name: RepositoryId,
    /// Its id, which stays when it gets another name or owner.
    pub(super) id: Option<u64>,
    /// The App's installation there.
    pub(super) installation: Option<u64>,
}

/// What a request is about, which decides whose token it carries.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Scope {
    Repository(TokenRepository),
    /// All that is installed at an organisation or a person.
    Owner(String),
    /// Wherever the App is installed.
    Anywhere,
}

impl Scope {
    /// From a path below the API's root.
    pub(super) fn of(path: &str) -> Scope {
        let mut parts = path.split(['/', '?']);
        match (parts.next(), parts.next(), parts.next()) {
            (Some("repos"), Some(owner), Some(name)) => {
                let id = format!("{owner}/{name}").parse::<RepositoryId>();
                id.map_or(Scope::Anywhere, |id| Scope::of_repository(&id))
            }
            (Some("orgs" | "users"), Some(owner), _) => Scope::Owner(owner.to_owned()),
            (Some("search"), ..) => Scope::searched(path).unwrap_or(Scope::Anywhere),
            _ => Scope::Anywhere,
        }
    }

    /// The repository that has this name.
    pub(super) fn of_repository(name: &RepositoryId) -> Scope {
        Scope::Repository(TokenRepository { name: name.clone(), id: None, installation: None })
    }

    pub(super) fn place(&self) -> Option<&TokenRepository> {
        match self {
            Scope::Repository(place) => Some(place),
            Scope::Owner(_) | Scope::Anywhere => None,
        }
    }

    /// Names in small letters: GitHub does not tell them apart by case.
    pub(super) fn lowercase(&self) -> Scope {
        match self {
            Scope::Repository(TokenRepository { name, id, installation }) => {
                let (owner, name) = (name.owner.to_lowercase(), name.name.to_lowercase());
                let name = RepositoryId { owner, name };
                Scope::Repository(TokenRepository { name, id: *id, installation: *installation })
            }
            Scope::Owner(owner) => Scope::Owner(owner.to_lowercase()),
            Scope::Anywhere => Scope::Anywhere,
        }
    }

    /// For people.
    pub(super) fn words(&self) -> String {
        match self {
            Scope::Repository(place) => place.name.to_string(),
            Scope::Owner(owner) => owner.clone(),
            Scope::Anywhere => "any account".to_owned(),
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
                "repo" => value.parse().ok().map(|id| Scope::of_repository(&id)),
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

    /// With whose requests GitHub counts one that is about this.
    pub(super) fn limited_account(&self, scope: &Scope) -> LimitedAccount {
        let Token::Installed(_, fixed) = self else { return LimitedAccount::default() };
        match fixed.as_ref().unwrap_or(scope) {
            Scope::Repository(place) => LimitedAccount::installed_at(&place.name.owner),
            Scope::Owner(owner) => LimitedAccount::installed_at(owner),
            Scope::Anywhere => LimitedAccount::default(),
        }
    }

    /// Which of the operator's credentials it comes from.
    pub(super) fn credential(&self) -> Credential {
        match self {
            Token::Fixed(_) => Credential::Token,
            Token::AppItself(_) | Token::Installed(..) => Credential::App,
        }
    }

    /// The token that git shows for a repository; `None` when there is none.
    pub(super) async fn for_git(
        &self,
        repository: &RepositoryId,
    ) -> Result<Option<SecretString>, ForgeError> {
        let token = self.for_scope(&Scope::of_repository(repository)).await?;
        Ok((!token.expose_secret().is_empty()).then_some(token))
    }

    /// GitHub did not take this token (401); true when another one may be better.
    pub(super) fn refused(&self, token: &SecretString, headers: Option<&HeaderMap>) -> bool {
        match self {
            Token::Fixed(_) => false,
            Token::AppItself(key) => headers.is_some_and(|headers| key.set_clock(headers)),
            // Another request may have replaced it already.
            Token::Installed(app, _) => {
                app.forget(token);
                true
            }
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
    use crate::github::token::Scope;

    #[test]
    fn what_a_request_is_about_is_in_its_path() {
        let app = || Scope::of_repository(&"acme/app".parse().unwrap());
        assert_eq!(Scope::of("repos/acme/app"), app());
        assert_eq!(Scope::of("repos/acme/app?x=1"), app());
        assert_eq!(Scope::of("repos/acme/app/issues/7"), app());
        assert_eq!(Scope::of("repos/Acme/App").lowercase(), app());
        assert_eq!(Scope::of("orgs/acme/repos?per_page=100"), Scope::Owner("acme".to_owned()));
        let found = Scope::of("search/repositories?q=topic%3Ax+org%3Aacme");
        assert_eq!(found, Scope::Owner("acme".to_owned()));
        assert_eq!(Scope::of("search/issues?q=repo%3Aacme%2Fapp+is%3Aissue"), app());
        assert_eq!(Scope::of("user"), Scope::Anywhere);
    }
}

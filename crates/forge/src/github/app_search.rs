//! Searches for repositories. An App has a token for each account where it is installed and none for all of them, so
//! its search is one at each account: of those that the query names, else of all.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::discovery::RepositoryList;
use super::http::Call;
use super::installations::App;
use super::token::{Scope, Token};
use super::{GitHubForge, RepositoryNames};
use crate::ForgeError;

/// Accounts that are searched, one after the other.
const MOST_ACCOUNTS: usize = 10_000;

impl GitHubForge {
    /// The repositories that a search finds; see [`RepositoryList`] for what it leaves out. `now` is the time up to
    /// which repositories were created.
    ///
    /// # Errors
    /// When GitHub cannot be asked, or does not take the query.
    pub async fn search_repositories(
        &self,
        query: &str,
        now: DateTime<Utc>,
    ) -> Result<RepositoryList, ForgeError> {
        let Token::Installed(app, None) = &self.api.token else {
            return self.search_in(query, now, None).await;
        };
        let mut queries = by_owner(query);
        if queries.is_empty() {
            let everywhere = accounts(app).await?.into_iter();
            queries =
                everywhere.map(|login| (login.clone(), format!("{query} user:{login}"))).collect();
        }
        let is_only = queries.len() == 1;
        let mut listed = RepositoryList::default();
        let mut names = RepositoryNames::default();
        for (owner, query) in queries {
            match self.search_in(&query, now, Some(&Scope::Owner(owner.clone()))).await {
                Ok(found) => {
                    names.extend(found.repositories);
                    listed.notes.extend(found.notes);
                }
                Err(err @ (ForgeError::NotFound { .. } | ForgeError::Forbidden { .. }))
                    if !is_only =>
                {
                    listed.notes.push(format!("`{owner}` was left out of the search: {err}"));
                    listed.left_out.push(owner);
                }
                Err(err) => return Err(err),
            }
        }
        listed.repositories = names;
        Ok(listed)
    }
}

/// The query at each of the owners that it names, without the words that name others.
fn by_owner(query: &str) -> BTreeMap<String, String> {
    let words: Vec<(&str, Option<String>)> =
        query.split_whitespace().map(|word| (word, owner(word))).collect();
    let owners = words.iter().filter_map(|(_, owner)| owner.clone());
    let of = |wanted: &str| -> String {
        let kept = words.iter().filter(|(_, owner)| owner.as_deref().is_none_or(|it| it == wanted));
        kept.map(|(word, _)| *word).collect::<Vec<_>>().join(" ")
    };
    owners.map(|owner| (owner.clone(), of(&owner))).collect()
}

/// Whose repositories `org:…`, `user:…` or `repo:…` asks for, in small letters.
fn owner(word: &str) -> Option<String> {
    let (key, value) = word.split_once(':')?;
    let owner = match key {
        "org" | "user" => value,
        "repo" => value.split_once('/')?.0,
        _ => return None,
    };
    Some(owner.to_lowercase()).filter(|owner| !owner.is_empty())
}

/// Where the App is installed.
async fn accounts(app: &App) -> Result<Vec<String>, ForgeError> {
    #[derive(Deserialize)]
    struct InstallationJson {
        account: Option<AccountJson>,
    }
    #[derive(Deserialize)]
    struct AccountJson {
        login: Option<String>,
    }
    let call = Call::get("app/installations?per_page=100", "the App's installations");
    let installations: Vec<InstallationJson> = app.api().list(&call, MOST_ACCOUNTS).await?;
    Ok(installations.into_iter().filter_map(|it| it.account?.login).collect())
}

#[cfg(test)]
mod tests {
    use crate::github::app_search::by_owner;

    #[test]
    fn each_owner_is_asked_for_its_own_repositories() {
        let queries: Vec<_> =
            by_owner("org:Acme topic:x user:globex -org:hooli repo:acme/app").into_iter().collect();
        let wanted = [
            ("acme", "org:Acme topic:x -org:hooli repo:acme/app"),
            ("globex", "topic:x user:globex -org:hooli"),
        ];
        assert_eq!(queries, wanted.map(|(owner, query)| (owner.to_owned(), query.to_owned())));
        assert!(by_owner("topic:x org: repo:nowhere").is_empty());
    }
}

//! The token and the repository, by reads only.

use std::sync::Arc;

use super::Finding;
use patchwright_base::env::Env;
use patchwright_forge::github::Pace;
use patchwright_forge::github::{GitHubForge, GitHubOptions};
use patchwright_forge::seal::Seal;
use patchwright_forge::{Forge, ForgeError, RepositoryId, Role};
use patchwright_provider::http;

/// Checks the token, and the repository when one is named.
pub async fn check(repository: Option<&RepositoryId>, env: &Env) -> Vec<Finding> {
    let Some(token) = env.github_token() else {
        let message = "`GITHUB_TOKEN` is not set";
        return vec![match repository {
            Some(_) => Finding::broken("token", message, "set `GITHUB_TOKEN`"),
            None => Finding::note("token", message, Some("set `GITHUB_TOKEN` for work on GitHub")),
        }];
    };
    let parse = |url: &str| url::Url::parse(url).ok();
    let (Some(api_url), Some(graphql_url), Some(server_url), Ok(http)) = (
        parse(&env.github_api_url()),
        parse(&env.github_graphql_url()),
        parse(&env.github_server_url()),
        http::client(),
    ) else {
        return vec![Finding::broken(
            "github",
            "`GITHUB_API_URL`, `GITHUB_GRAPHQL_URL` or `GITHUB_SERVER_URL` is not a web address",
            "correct or unset them",
        )];
    };
    let pace = Pace::default();
    let seal = match Seal::of(env, None) {
        Ok(seal) => seal,
        Err(failure) => {
            let hint = failure.hints.first().map(ToString::to_string).unwrap_or_default();
            return vec![Finding::broken("state key", failure.message, hint)];
        }
    };
    let options = GitHubOptions { api_url, graphql_url, server_url, token, http, pace, seal };
    let forge: Arc<dyn Forge> = match GitHubForge::new(options) {
        Ok(forge) => Arc::new(forge),
        Err(err) => return vec![Finding::broken("github", err.to_string(), "correct the address")],
    };
    let mut findings = Vec::new();
    let viewer = match forge.viewer().await {
        Ok(Some(viewer)) => {
            findings.push(Finding::fine("token", format!("belongs to `{}`", viewer.login)));
            Some(viewer)
        }
        Ok(None) => {
            findings.push(Finding::fine("token", "is an app's or a workflow's"));
            None
        }
        Err(err) => {
            findings.push(Finding::broken("token", err.to_string(), "make a new token"));
            return findings;
        }
    };
    if let Some(repository) = repository {
        let login = viewer.as_ref().map(|viewer| viewer.login.as_str());
        findings.extend(check_repository(forge.as_ref(), repository, login).await);
    }
    findings
}

async fn check_repository(
    forge: &dyn Forge,
    id: &RepositoryId,
    login: Option<&str>,
) -> Vec<Finding> {
    let repository = match forge.repository(id).await {
        Ok(repository) => repository,
        Err(err) => {
            return vec![Finding::broken(
                "repository",
                err.to_string(),
                "check the name, and that the token may see it",
            )];
        }
    };
    let mut findings = Vec::new();
    findings.push(if repository.archived {
        Finding::broken("repository", "is archived", "unarchive it in its settings")
    } else {
        Finding::fine(
            "repository",
            format!("{}, branch `{}`", repository.id, repository.default_branch),
        )
    });
    if let Some(login) = login {
        findings.push(match forge.role(&repository.id, login).await {
            Ok(role) if role >= Role::Write => {
                Finding::fine("access", format!("`{login}` may push"))
            }
            Ok(_) => Finding::broken(
                "access",
                format!("`{login}` may not push"),
                "use a token of somebody with write access",
            ),
            Err(ForgeError::Forbidden { .. }) => Finding::note(
                "access",
                "the token may not ask for roles",
                Some("give it `metadata: read`"),
            ),
            Err(err) => Finding::broken("access", err.to_string(), "try again later"),
        });
    }
    findings.push(match forge.branch_tip(&repository.id, &repository.default_branch).await {
        Ok(Some(_)) => Finding::fine("contents", "can be read"),
        Ok(None) => Finding::broken("contents", "the repository is empty", "push a first commit"),
        Err(err) => {
            Finding::broken("contents", err.to_string(), "give the token `contents: write`")
        }
    });
    findings
}

//! The token and the repository, by reads only.

use super::Finding;
use patchwright_base::env::Env;
use patchwright_base::error::Failure;
use patchwright_base::github::GitHubAddresses;
use patchwright_base::roots;
use patchwright_forge::github::{AppKey, GitHubForge, GitHubOptions, Pace};
use patchwright_forge::seal::Seal;
use patchwright_forge::{Account, Forge, ForgeError, RepositoryId, Role};
use patchwright_provider::http;

/// Checks who we are to GitHub, and the repository when one is named.
pub async fn check(repository: Option<&RepositoryId>, env: &Env) -> Vec<Finding> {
    let addresses = match env.github_addresses() {
        Ok(addresses) => addresses,
        Err(failure) => return vec![broken("github", failure)],
    };
    if !env.has_github() {
        let message = "`GITHUB_TOKEN` is not set";
        let fix =
            "set `GITHUB_TOKEN`, or `PATCHWRIGHT_APP_ID` and a private key to be a GitHub App";
        return vec![match repository {
            Some(_) => Finding::broken("token", message, fix),
            None => Finding::note("token", message, Some("set `GITHUB_TOKEN` for work on GitHub")),
        }];
    }
    let forge = match connect(env, &addresses) {
        Ok(forge) => forge,
        Err(finding) => return vec![finding],
    };
    match forge.app_login().await {
        Ok(None) => {}
        Ok(Some(login)) => return check_app(&forge, repository, &login).await,
        Err(err) => {
            let fix =
                "correct `PATCHWRIGHT_APP_ID`, or make another private key in the App's settings";
            return vec![unanswered("app", &err, fix)];
        }
    }
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
            findings.push(unanswered("token", &err, "make a new token"));
            return findings;
        }
    };
    if let Some(repository) = repository {
        findings.extend(check_repository(&forge, repository, viewer.as_ref()).await);
    }
    findings
}

fn broken(what: &str, failure: Failure) -> Finding {
    let hint = failure.hints.first().map(ToString::to_string).unwrap_or_default();
    Finding::broken(what, failure.message, hint)
}

/// What to do depends on what is wrong: another token mends no certificate, and no server that is away.
fn unanswered(what: &str, err: &ForgeError, credential: &str) -> Finding {
    let (what, fix) = match err {
        ForgeError::Unavailable { .. } => (
            "github",
            "see that this machine reaches that address: the server, `GITHUB_API_URL`, and the proxy in `HTTPS_PROXY` or \
             `HTTP_PROXY` where there is one",
        ),
        ForgeError::Untrusted { .. } => ("github", roots::TRUST),
        ForgeError::RateLimited { .. } => ("github", "wait until then"),
        _ => (what, credential),
    };
    Finding::broken(what, err.to_string(), fix)
}

/// GitHub as runs would reach it: with the token, else as the App.
fn connect(env: &Env, addresses: &GitHubAddresses) -> Result<GitHubForge, Finding> {
    let parse = |url: &str| url::Url::parse(url).ok();
    let http = http::client().map_err(|failure| broken("github", failure))?;
    let (Some(api_url), Some(graphql_url), Some(server_url)) =
        (parse(&addresses.api), parse(&addresses.graphql), parse(&addresses.server))
    else {
        return Err(Finding::broken(
            "github",
            "`GITHUB_API_URL`, `GITHUB_GRAPHQL_URL` or `GITHUB_SERVER_URL` is not a web address",
            "correct or unset them",
        ));
    };
    let seal = Seal::of(env, None).map_err(|failure| broken("state key", failure))?;
    let (pace, token) = (Pace::default(), env.github_token());
    let key = if token.is_some() { Ok(None) } else { AppKey::of(env) };
    let key = key.map_err(|failure| broken("app", failure))?;
    let token = token.unwrap_or_default();
    let options = GitHubOptions { api_url, graphql_url, server_url, token, http, pace, seal };
    let forge = match key {
        Some(key) => GitHubForge::of_app(options, key),
        None => GitHubForge::new(options),
    };
    forge.map_err(|err| match err {
        ForgeError::Authentication { .. } => {
            Finding::broken("token", err.to_string(), "set the token, or make a new one")
        }
        _ => Finding::broken("github", err.to_string(), "correct the address"),
    })
}

/// Permissions without which an App can do none of its work; the others cost parts of it.
const NEEDED: &[&str] =
    &["contents: write", "issues: write", "metadata: read", "pull-requests: write"];

async fn check_app(
    forge: &GitHubForge,
    repository: Option<&RepositoryId>,
    login: &str,
) -> Vec<Finding> {
    let mut findings = vec![Finding::fine("app", format!("is `{login}`"))];
    let Some(id) = repository else { return findings };
    let installed = match forge.installed_app(id).await {
        Ok(Some(installed)) => installed,
        Ok(None) => return findings,
        Err(err) => {
            let fix = format!("install the App for `{}`, with access to `{id}`", id.owner);
            findings.push(Finding::broken("installation", err.to_string(), fix));
            return findings;
        }
    };
    let number = installed.installation;
    if installed.is_suspended {
        let fix = "lift the suspension in the settings of the installation";
        let message = format!("installation {number} is suspended");
        findings.push(Finding::broken("installation", message, fix));
        return findings;
    }
    let account = &installed.account;
    findings.push(Finding::fine("installation", format!("{number}, of `{account}`")));
    let (needed, useful): (Vec<&String>, Vec<&String>) =
        installed.lacks.iter().partition(|it| NEEDED.contains(&it.as_str()));
    let list =
        |all: &[&String]| all.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ");
    let fix = "grant it in the App's settings, and accept the change for the installation";
    if !needed.is_empty() {
        findings.push(Finding::broken("permissions", format!("lacks {}", list(&needed)), fix));
    }
    if !useful.is_empty() {
        let message = format!("lacks {}, for parts of the work", list(&useful));
        findings.push(Finding::note("permissions", message, Some(fix)));
    }
    if installed.lacks.is_empty() {
        findings.push(Finding::fine("permissions", "all that is used is granted"));
    }
    findings.extend(check_repository(forge, id, None).await);
    findings
}

async fn check_repository(
    forge: &dyn Forge,
    id: &RepositoryId,
    viewer: Option<&Account>,
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
    if let Some(viewer) = viewer.filter(|viewer| viewer.is_bot) {
        // A bot has no role that could be asked for: what its token may is decided where it is made.
        let message = format!("`{}` may what its token was given", viewer.login);
        let fix = "give the job `contents: write`, `issues: write` and `pull-requests: write` below `permissions:`";
        findings.push(Finding::note("access", message, Some(fix)));
    } else if let Some(login) = viewer.map(|viewer| viewer.login.as_str()) {
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

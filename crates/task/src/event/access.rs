//! May this account set us to work?
//!
//! Called for every actor of an event before anything else happens: no container, no model call, no
//! reply. People need the role, asked of the forge itself and never read from the payload; bots need
//! to be named. Fails closed: any error denies access.

use patchwright_base::error::Failure;
use patchwright_forge::{Account, Forge, ForgeError, RepositoryId, Role};

/// Who may.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AccessConfig {
    /// When not empty, only these people, who still need the role.
    pub allow_users: Vec<String>,
    /// Bots, by their exact login (`renovate[bot]`). There is no pattern that means all of them.
    pub allow_bots: Vec<String>,
    /// The least role of a person; anything below [`Role::Write`] counts as `Write`.
    pub minimum: Role,
}

impl Default for AccessConfig {
    fn default() -> AccessConfig {
        AccessConfig { allow_users: Vec::new(), allow_bots: Vec::new(), minimum: Role::Write }
    }
}

/// The account may. Made only by [`check`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Granted {
    pub login: String,
    /// What the forge said; `None` for a bot, which is allowed by name.
    pub role: Option<Role>,
}

/// The account may not.
#[derive(Debug)]
pub enum Denied {
    /// It has no right to, and why: a clause for the log and the report.
    NoRight(String),
    /// Whether it has could not be found out. The next attempt may: it is the forge's failure, not the account's.
    Unknown(Box<Failure>),
}

impl Denied {
    fn unknown(what: &str, err: ForgeError) -> Denied {
        let is_nobody = matches!(err, ForgeError::NotFound { .. });
        let failure = Failure::from(err);
        let message = format!("{what} is unknown: {}", failure.message);
        // Nothing that passes: the account is gone, or the token will never be told of it.
        let failure =
            if is_nobody { Failure::refused(message) } else { Failure { message, ..failure } };
        Denied::Unknown(Box::new(failure))
    }

    /// A clause for the log and the report.
    pub fn why(&self) -> &str {
        match self {
            Denied::NoRight(why) => why,
            Denied::Unknown(failure) => &failure.message,
        }
    }
}

/// Asks whether `actor` may set us to work on `repository`.
///
/// # Errors
/// [`Denied`] for every reason not to, including that the question could not be answered.
pub async fn check(
    forge: &dyn Forge,
    repository: &RepositoryId,
    actor: &Account,
    config: &AccessConfig,
) -> Result<Granted, Denied> {
    let login = actor.login.as_str();
    if !is_login(login) {
        return Err(Denied::NoRight("the account has no valid name".to_owned()));
    }
    if login.eq_ignore_ascii_case("ghost") {
        return Err(Denied::NoRight("the account does not exist any more".to_owned()));
    }
    if actor.is_bot || login.ends_with("[bot]") {
        return check_bot(forge, login, config).await;
    }
    let listed = |users: &[String]| users.iter().any(|user| user.eq_ignore_ascii_case(login));
    if !config.allow_users.is_empty() && !listed(&config.allow_users) {
        return Err(Denied::NoRight(format!("`{login}` is not among the users who are allowed")));
    }
    let role = forge.role(repository, login).await.map_err(|err| {
        Denied::unknown(&format!("the permission of `{login}` in `{repository}`"), err)
    })?;
    let minimum = config.minimum.max(Role::Write);
    if role < minimum {
        return Err(Denied::NoRight(format!(
            "`{login}` has the role `{}` in `{repository}`, and it takes `{}`",
            word(role),
            word(minimum)
        )));
    }
    Ok(Granted { login: login.to_owned(), role: Some(role) })
}

async fn check_bot(
    forge: &dyn Forge,
    login: &str,
    config: &AccessConfig,
) -> Result<Granted, Denied> {
    if !config.allow_bots.iter().any(|bot| bot == login && bot != "*") {
        return Err(Denied::NoRight(format!("`{login}` is a bot that is not allowed by name")));
    }
    // Being set off by ourselves would never end.
    let viewer = forge.viewer().await;
    let viewer = viewer
        .map_err(|err| Denied::unknown(&format!("whether `{login}` is our own account"), err))?;
    if viewer.is_some_and(|viewer| viewer.login.eq_ignore_ascii_case(login)) {
        return Err(Denied::NoRight(format!("`{login}` is our own account")));
    }
    Ok(Granted { login: login.to_owned(), role: None })
}

/// GitHub's logins: letters, digits, `-` and `_`, and `[bot]` at the end of an app's.
fn is_login(login: &str) -> bool {
    let name = login.strip_suffix("[bot]").unwrap_or(login);
    !name.is_empty()
        && login.len() <= 100
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
}

fn word(role: Role) -> &'static str {
    match role {
        Role::None => "none",
        Role::Read => "read",
        Role::Triage => "triage",
        Role::Write => "write",
        Role::Maintain => "maintain",
        Role::Admin => "admin",
    }
}

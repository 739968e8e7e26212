//! The database of campaigns and webhooks: whether this version reads it, and what opening it would change.

use std::path::Path;

use super::Finding;
use patchwright_base::env::Env;
use patchwright_base::error::Failure;
use patchwright_fleet::batch::fleet::database;
use patchwright_fleet::store::{VERSION, look};

/// Nothing where there is no database: most people need none.
pub(super) async fn check(env: &Env, state: &Path) -> Option<Finding> {
    let what = "database";
    let is_named = env.database_url().is_some();
    Some(match look(&database(env, state)).await {
        Ok(None) if is_named => {
            Finding::fine(what, "empty; the first command that uses it makes its tables")
        }
        Ok(None) => return None,
        Ok(Some(found)) if found == VERSION => Finding::fine(what, format!("version {found}")),
        Ok(Some(found)) if found > VERSION => Finding::broken(
            what,
            format!("version {found}, made by a newer Patchwright; this one knows {VERSION}"),
            "use that version of Patchwright or a newer one, or another database in `DATABASE_URL`",
        ),
        Ok(Some(found)) => Finding::note(
            what,
            format!("version {found}; the first command that uses it brings it to {VERSION}"),
            Some(if is_server(env) {
                "take a dump first (`pg_dump`), and stop workers of the older version: it does not open the new one"
            } else {
                "nothing: the file is copied beside itself first"
            }),
        ),
        Err(err) => {
            let failure = Failure::from(err);
            let fix = failure.hints.first().map_or_else(String::new, ToString::to_string);
            Finding::broken(what, failure.message, fix)
        }
    })
}

fn is_server(env: &Env) -> bool {
    env.database_url().is_some_and(|url| !url.starts_with("sqlite:"))
}

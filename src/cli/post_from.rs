//! Posts a review that another workflow run found but may not post itself: no model, no container.

use std::path::Path;
use std::sync::Arc;

use crate::cli::ui::Ui;
use crate::config::Config;
use crate::config::env::Env;
use crate::error::Result;
use crate::redact::Redactor;
use crate::task::review::hand_over::{self, Expected, Poster};
use crate::task::review::run::Ended;
use crate::world;

/// Posts the review in `folder` where `expected` says that it may be posted.
pub async fn run(
    config: &Config,
    folder: &Path,
    expected: &Expected,
    env: &Env,
    ui: Ui,
) -> Result<Ended> {
    let forge = Arc::new(world::github(env)?);
    let redactor = Redactor::new(env.secrets());
    let poster = Poster { forge: forge.as_ref(), config, redactor: &redactor, ui };
    let (reviewed, published) = hand_over::post_from(poster, folder, expected).await?;
    if let Some(url) = &published.url {
        ui.say(&format!("review: {url}"));
    }
    Ok(Ended { reviewed, published: Some(published), folder: folder.to_owned() })
}

//! Configuration files as they are written: the operator's (`--config`) and the repository's
//! (`.github/patchwright.yml` of the base commit). One grammar for both, made from [`crate::settings`];
//! [`super::merge`] decides which keys a repository may set.

use crate::renamed_settings::{self, RenamedSetting};
use crate::{settings, yaml};
use patchwright_base::error::{Failure, Result};
use patchwright_base::named_file;

pub use crate::read::parse_size;
pub use crate::settings::{
    Access, Container, File, Identity, Limits, Network, Policy, Publish, Respond, Review, Tools,
    Triage,
};

/// Where the repository keeps its configuration.
pub const REPOSITORY_FILE: &str = ".github/patchwright.yml";

/// Parses a configuration file. `name` is what messages call it.
pub fn parse(name: &str, text: &str) -> Result<File> {
    Ok(parse_with(name, text, &renamed_settings::names())?.0)
}

/// Parses a configuration file in which keys may have these former names; and what is to be said about each of those.
///
/// # Errors
/// When it is too large, or says what no setting means.
pub fn parse_with(
    name: &str,
    text: &str,
    former: &[RenamedSetting],
) -> Result<(File, Vec<String>)> {
    // Editors of Windows put a byte order mark in front.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.len() > 256 << 10 {
        return Err(Failure::usage(format!("configuration `{name}` is larger than 256 KB")));
    }
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok((File::default(), Vec::new()));
    }
    let invalid = |why: String| {
        Failure::usage(format!("configuration `{name}` is not valid"))
            .caused_by(anyhow::anyhow!(why))
            .hint("every key is described in `docs/configuration.md`")
    };
    let (file, warnings) =
        match (serde_saphyr::from_str(text), renamed_settings::renamed(text, former)) {
            (Ok(file), _) => (file, Vec::new()),
            (Err(_), Some((value, warnings))) => {
                (serde_json::from_value(value).map_err(|err| invalid(err.to_string()))?, warnings)
            }
            (Err(err), None) => return Err(invalid(yaml::explained(&err))),
        };
    super::check::check(&file).map_err(invalid)?;
    if let Some(low) = settings::too_low(&file) {
        return Err(invalid(low).hint("leave the key out for the default"));
    }
    Ok((file, warnings))
}

/// What is wrong with what a source other than a file says about one setting, in words that begin behind its name.
pub fn mistake(said: &File, key: &str) -> Option<String> {
    let why = super::check::check(said).err().or_else(|| settings::too_low(said))?;
    Some(why.strip_prefix(&format!("`{key}` ")).unwrap_or(&why).to_owned())
}

/// The most that a file can be that is named on the command line; the payload of an event is the largest of them.
pub(crate) const MAX_FILE: u64 = 32 << 20;

/// Reads a file named on the command line.
pub fn read_file(path: &std::path::Path, what: &str) -> Result<String> {
    named_file::read_text(path, MAX_FILE).map_err(|err| {
        Failure::usage(format!("cannot read the {what} `{}`", path.display())).caused_by(err)
    })
}

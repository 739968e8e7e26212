//! Variables of commands in a container: of those that the image sets, what its toolchain needs; ours; those of the
//! task. Pure.

use std::collections::BTreeMap;

use crate::PreparedImage;

/// Variables of an image that its toolchain needs. Everything else that an image sets is taken out.
const INHERITED: &[&str] = &[
    "PATH",
    "LANG",
    "LANGUAGE",
    "TZ",
    "GOTOOLCHAIN",
    "BUNDLE_APP_CONFIG",
    "BUNDLE_SILENCE_ROOT_WARNING",
    "MAVEN_CONFIG",
];
const INHERITED_PREFIXES: &[&str] = &["LC_"];
const INHERITED_SUFFIXES: &[&str] = &["_HOME", "_VERSION", "_PATH", "PATH", "_ROOT", "_DIR"];
/// Never inherited, whatever else the name says.
const SECRET_WORDS: &[&str] = &["TOKEN", "SECRET", "PASSW", "CREDENTIAL", "AUTH", "KEY"];
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Whose commands they are, and where they work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommandContext<'a> {
    pub(crate) home: &'a str,
    pub(crate) user: &'a str,
    pub(crate) workspace: &'a str,
}

/// The variables by name; `None` for one of the image that is taken out.
pub(crate) fn of_commands<'a>(
    of_image: impl Iterator<Item = (&'a str, &'a str)>,
    place: CommandContext<'_>,
    prepared: Option<&PreparedImage>,
    of_task: &BTreeMap<String, String>,
) -> BTreeMap<String, Option<String>> {
    let mut set: BTreeMap<String, Option<String>> = BTreeMap::new();
    for (name, value) in of_image {
        set.insert(name.to_owned(), is_inherited(name).then(|| value.to_owned()));
    }
    set.entry("PATH".to_owned()).or_insert_with(|| Some(DEFAULT_PATH.to_owned()));
    // The same for setup and work: what setup installs for its user is there later.
    set.insert("HOME".to_owned(), Some(place.home.to_owned()));
    set.insert("USER".to_owned(), Some(place.user.to_owned()));
    for (name, value) in prepared.map(|prepared| &prepared.env).into_iter().flatten().chain(of_task)
    {
        set.insert(name.clone(), Some(value.clone()));
    }
    if let (Some(prepared), Some(Some(path))) = (prepared, set.get("PATH"))
        && let Some(path) = prepared.path(place.workspace, path)
    {
        set.insert("PATH".to_owned(), Some(path));
    }
    set
}

fn is_inherited(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    let is_secret = SECRET_WORDS.iter().any(|word| upper.contains(word));
    let is_known = INHERITED.contains(&name)
        || INHERITED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || INHERITED_SUFFIXES.iter().any(|suffix| name.ends_with(suffix));
    is_known && !is_secret
}

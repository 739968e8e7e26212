//! Looks which programs a sandbox has, for the environment that the model is told of. Some of them take their time to
//! say their version, so what an image has is asked once in a process.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::LazyLock;

use parking_lot::Mutex;

use crate::context::environment::{self, InstalledPrograms};
use patchwright_guest::protocol::Exec;
use patchwright_sandbox::{PreparedImage, Running};

/// Images that are remembered.
const MOST: usize = 1_000;

/// The id of an image, and the toolchains whose versions were asked for.
type Asked = (String, BTreeSet<&'static str>);

/// What images have. An id is a digest of the content, so this is true wherever the image is.
static KNOWN: LazyLock<Mutex<HashMap<Asked, InstalledPrograms>>> = LazyLock::new(Mutex::default);

/// The programs in a sandbox of this image, and the versions of these toolchains. What it does not say is not told.
pub(super) async fn look(
    sandbox: &Running,
    image: &PreparedImage,
    toolchains: &BTreeSet<&'static str>,
) -> InstalledPrograms {
    let key = is_all_there_is(image).then(|| (image.reference.clone(), toolchains.clone()));
    if let Some(found) = key.as_ref().and_then(|key| KNOWN.lock().get(key).cloned()) {
        return found;
    }
    let probe = Exec {
        argv: vec!["/bin/sh".to_owned(), "-c".to_owned(), environment::probe(toolchains)],
        cwd: None,
        env: BTreeMap::new(),
        timeout_ms: u64::try_from(environment::PROBE_TIMEOUT.as_millis()).unwrap_or(u64::MAX),
        output_cap: environment::PROBE_OUTPUT,
    };
    let Ok(said) = sandbox.client.exec(probe).await else { return InstalledPrograms::default() };
    let found = environment::parse_probe(&said.output);
    if let Some(key) = key.filter(|_| said.exit_code == 0 && !said.timed_out) {
        let mut known = KNOWN.lock();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key, found.clone());
    }
    found
}

/// Nothing but the image decides what is found: it has a name that stays its own, and no folder of a workspace, where
/// whoever wrote the repository could put programs, is looked into.
fn is_all_there_is(image: &PreparedImage) -> bool {
    image.reference.starts_with("sha256:") && image.paths.is_empty() && image.env.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_remembered_that_a_repository_may_decide() {
        let id = "sha256:8fbd6daf257d7c88c1fd539b711e2db1d1047a4599052243eada7a53e94174ff";
        let plain = PreparedImage { reference: id.to_owned(), ..PreparedImage::default() };
        assert!(is_all_there_is(&plain));
        let named = PreparedImage { reference: "rust:1".to_owned(), ..plain.clone() };
        let paths = PreparedImage { paths: vec!["node_modules/.bin".to_owned()], ..plain.clone() };
        let env = [("PATH".to_owned(), "/pw/workspace/bin".to_owned())];
        let with_env = PreparedImage { env: env.into(), ..plain };
        for image in [named, paths, with_env] {
            assert!(!is_all_there_is(&image), "{image:?}");
        }
    }
}

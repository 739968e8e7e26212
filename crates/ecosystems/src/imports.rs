//! What the sources of a package load from another one by its path, without a word in a manifest: relative imports of
//! JavaScript and TypeScript, includes of C and C++, folders that Python is told to look in.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use regex::Regex;

use crate::dependents::package_of;
use crate::files::{Files, join, resolve};
use crate::packages::is_vendored;

/// Most sources of all packages that are read, and most bytes of one.
const MAX_SOURCES: usize = 4_000;
const MAX_SOURCE: usize = 128 << 10;
/// Most imports of one source.
const MAX_IMPORTS: usize = 500;
/// Most folders of one package, and how deep they are.
const MAX_FOLDERS: usize = 500;
const MAX_DEPTH: usize = 8;
/// Folders whose files a build has written.
const BUILT: &[&str] = &["dist", "build", "out", "target"];

const SCRIPTS: &[&str] = &["js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "vue", "svelte"];
const HEADERS: &[&str] = &["c", "cc", "cpp", "cxx", "h", "hh", "hpp", "hxx"];

/// What is left to read.
pub(crate) struct Imports {
    left: usize,
}

impl Imports {
    pub(crate) fn new() -> Imports {
        Imports { left: MAX_SOURCES }
    }

    /// The other packages of `known` that the sources of this one name by path.
    pub(crate) fn of<'a>(
        &mut self,
        files: &Files<'_>,
        known: &BTreeSet<&'a str>,
        package: &str,
    ) -> BTreeSet<&'a str> {
        let mut used = BTreeSet::new();
        let mut folders = vec![(package.to_owned(), 0)];
        let mut seen = 0;
        while let Some((folder, depth)) = folders.pop() {
            seen += 1;
            if seen > MAX_FOLDERS || self.left == 0 {
                break;
            }
            for name in files.files(&folder) {
                let Some(pattern) = pattern_of(&name).filter(|_| self.left > 0) else { continue };
                self.left -= 1;
                let Some(text) = files.glance(&join(&folder, &name), MAX_SOURCE) else { continue };
                let paths = pattern.captures_iter(&text).take(MAX_IMPORTS);
                let paths = paths.filter_map(|found| resolve(&folder, found.get(1)?.as_str()));
                used.extend(paths.filter_map(|path| package_of(known, &path)));
            }
            if depth < MAX_DEPTH {
                let inner = files.folders(&folder).into_iter();
                let inner = inner.filter(|name| {
                    !name.starts_with('.') && !is_vendored(name) && !BUILT.contains(&name.as_str())
                });
                let inner = inner.map(|name| join(&folder, &name));
                folders.extend(
                    inner.filter(|it| !known.contains(it.as_str())).map(|it| (it, depth + 1)),
                );
            }
        }
        // Files of the root are those of everybody.
        used.retain(|other| !other.is_empty() && *other != package);
        used
    }
}

/// What finds relative paths in a source of this name.
fn pattern_of(name: &str) -> Option<&'static Regex> {
    static SCRIPT: LazyLock<Regex> = LazyLock::new(|| {
        pattern(
            r#"\b(?:from|import|require|import\s*\(|require\s*\(|resolve\s*\()\s*["'`]((?:\./)?\.\./[^"'`\n]{0,300})["'`]"#,
        )
    });
    static HEADER: LazyLock<Regex> =
        LazyLock::new(|| pattern(r#"#\s*include\s*"((?:\./)?\.\./[^"\n]{1,300})""#));
    static PYTHON: LazyLock<Regex> =
        LazyLock::new(|| pattern(r#"\bsys\.path\b[^\n]{0,200}?["']/?(\.\./[^"'\n]{1,300})["']"#));
    let (_, ending) = name.rsplit_once('.')?;
    match ending {
        _ if SCRIPTS.contains(&ending) => Some(&SCRIPT),
        _ if HEADERS.contains(&ending) => Some(&HEADER),
        "py" => Some(&PYTHON),
        _ => None,
    }
}

#[expect(clippy::expect_used, reason = "constants, and a test reads with each of them")]
fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("a valid pattern")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn sources_name_what_they_load_by_path() {
        for (about, path, text, expected) in [
            ("import", "b/src/x.ts", "import { a } from '../../a/src';", true),
            ("for what it does", "b/x.js", "import \"../a/setup.js\"", true),
            ("later", "b/x.mjs", "const a = await import('../a/x.mjs')", true),
            ("require", "b/lib/x.cjs", "const a = require( '../../a' );", true),
            ("re-exported", "b/x.tsx", "export * from `../a/x`", true),
            ("of its own", "b/src/deep/x.ts", "import y from '../y'", false),
            ("by name", "b/x.ts", "import a from 'a'", false),
            ("installed", "b/node_modules/z/x.js", "require('../../../a')", false),
            ("include", "b/src/x.c", "#include \"../../a/a.h\"", true),
            ("of a system", "b/src/x.c", "#include <../a/a.h>", false),
            ("sys.path", "b/x.py", "sys.path.insert(0, '../a')", true),
            (
                "sys.path beside the file",
                "b/x.py",
                "sys.path.append(os.path.dirname(__file__) + '/../a')",
                true,
            ),
            ("out of the tree", "b/x.ts", "import a from '../../../a'", false),
        ] {
            let tree = [("a/package.json", "{}"), ("b/package.json", "{}"), (path, text)];
            let tree: BTreeMap<String, Vec<u8>> =
                tree.iter().map(|(path, text)| ((*path).into(), (*text).into())).collect();
            let (files, known) = (Files::new(&tree), BTreeSet::from(["", "a", "b"]));
            let used = Imports::new().of(&files, &known, "b");
            assert_eq!(used.contains("a"), expected, "{about}: {used:?}");
            assert!(used.iter().all(|it| *it == "a"), "{about}: {used:?}");
        }
    }
}

//! Where there are many checks: which of them a change concerns.
//!
//! Those of the root, of the packages that it is in, and of the packages whose manifests name these. A file that is
//! in no package may be used by all of them, unless it is prose.

use std::collections::{BTreeMap, BTreeSet};

use super::{Check, CheckPlan, Kind};
use crate::dependents::{Dependents, package_of};
use crate::files::Files;
use crate::packages;
use crate::setup::Note;

/// More checks than this are narrowed down to those that a change concerns.
pub(super) const MANY: usize = 4;
/// Most checks of a run.
const MAX_CHECKS: usize = 12;

/// Folders of which all checks are told from others.
pub(super) struct Packages<'a> {
    pub files: &'a Files<'a>,
    /// All with a manifest, whether they have checks or not.
    pub folders: &'a [String],
    /// Which kinds they are of.
    pub kinds: &'a [(String, &'a Kind)],
}

/// Keeps, where there are many checks, those that a change to these paths concerns, and of too many the first ones.
/// Without paths, the first ones are kept.
pub(super) fn narrow(plan: &mut CheckPlan, packages: &Packages<'_>, touched: &[String]) {
    let found = plan.checks.len();
    if found > MANY && !touched.is_empty() {
        keep(plan, packages, touched);
    }
    if plan.checks.len() > MAX_CHECKS {
        // The root's may be the last ones, and are about everything.
        let (root, others): (Vec<Check>, Vec<Check>) =
            std::mem::take(&mut plan.checks).into_iter().partition(|it| it.folder.is_empty());
        plan.checks = root.into_iter().chain(others).collect();
        let more = plan.checks.len() - MAX_CHECKS;
        note(plan, format!("{} left out: a run has at most {MAX_CHECKS}", are(more, "more", "")));
        plan.checks.truncate(MAX_CHECKS);
    }
    plan.left_out = found - plan.checks.len();
}

fn keep(plan: &mut CheckPlan, packages: &Packages<'_>, touched: &[String]) {
    let folders: BTreeSet<&str> = packages.folders.iter().map(String::as_str).collect();
    let checked: BTreeSet<&str> = plan.checks.iter().map(|it| it.folder.as_str()).collect();
    let mut inside: BTreeSet<&str> = BTreeSet::new();
    let mut of_all = None;
    for path in touched {
        match package_of(&folders, path).unwrap_or_default() {
            "" if is_prose(path) => {}
            "" if !packages.root_is_one() => of_all = of_all.or(Some(path)),
            package => {
                inside.insert(package);
                inside.extend(covering(package, &checked));
            }
        }
    }
    let dependents = Dependents::read(packages.files, packages.folders);
    let reached = dependents.reached(&inside);
    let distances: BTreeMap<&str, usize> = plan
        .checks
        .iter()
        .filter_map(|check| {
            let package = package_of(&folders, &check.folder).unwrap_or_default();
            let steps = match package {
                "" => Some(0),
                package => reached.get(package).map(|steps| steps + 1),
            };
            let steps = steps.or_else(|| of_all.map(|_| usize::MAX))?;
            Some((package, steps))
        })
        .collect();
    let distance = |check: &Check| {
        let package = package_of(&folders, &check.folder).unwrap_or_default();
        distances.get(package).copied()
    };
    let before = plan.checks.len();
    plan.checks.retain(|check| distance(check).is_some());
    let others = before - plan.checks.len();
    if others > 0 {
        let text = are(others, "", " of packages that the change does not concern");
        note(plan, format!("{text} left out"));
    }
    if let Some(path) = of_all {
        let text = "is in no package, so that the change may concern all of them";
        plan.notes.push(Note { file: path.clone(), text: text.to_owned() });
    }
    let concerned = plan.checks.len();
    if concerned > MAX_CHECKS {
        // The nearest are kept, in the order in which they were found.
        let mut ranks: Vec<(usize, usize)> =
            plan.checks.iter().map(|it| distance(it).unwrap_or(usize::MAX)).zip(0..).collect();
        ranks.sort_unstable();
        let kept: BTreeSet<usize> = ranks.iter().take(MAX_CHECKS).map(|(_, at)| *at).collect();
        let mut at = 0;
        plan.checks.retain(|_| {
            at += 1;
            kept.contains(&(at - 1))
        });
        let text = are(concerned - MAX_CHECKS, "", " of packages that the change may concern");
        note(plan, format!("{text} left out: a run has at most {MAX_CHECKS}"));
    }
}

/// The folder above a package whose check is about it: a workspace, a solution.
fn covering<'a>(package: &'a str, checked: &BTreeSet<&str>) -> Option<&'a str> {
    let mut above = package;
    while !above.is_empty() && !checked.contains(above) {
        above = above.rsplit_once('/').map_or("", |(parent, _)| parent);
    }
    Some(above).filter(|above| !above.is_empty())
}

impl Packages<'_> {
    /// The root is a package of its own, and not only what others are in.
    fn root_is_one(&self) -> bool {
        let mut of_root = self.kinds.iter().filter(|(folder, _)| folder.is_empty());
        of_root.any(|(_, kind)| !packages::is_workspace(self.files, "", kind.manifest))
    }
}

/// Files of the root that no check is about: what people and the forge read.
fn is_prose(path: &str) -> bool {
    const FOLDERS: &[&str] = &[".github/", "docs/", "doc/"];
    const ENDINGS: &[&str] = &[".md", ".mdx", ".rst", ".adoc"];
    const NAMES: &[&str] = &[".gitignore", ".gitattributes", ".editorconfig", "CODEOWNERS"];
    let name = path.rsplit('/').next().unwrap_or(path);
    FOLDERS.iter().any(|folder| path.starts_with(folder))
        || ENDINGS.iter().any(|ending| name.ends_with(ending))
        || NAMES.contains(&name)
        || name.starts_with("LICENSE")
}

fn note(plan: &mut CheckPlan, text: String) {
    plan.notes.push(Note { file: String::new(), text });
}

/// `3 checks are`, with words before and behind the noun.
fn are(count: usize, before: &str, behind: &str) -> String {
    let before = if before.is_empty() { String::new() } else { format!("{before} ") };
    let (noun, verb) = if count == 1 { ("check", "is") } else { ("checks", "are") };
    format!("{count} {before}{noun}{behind} {verb}")
}

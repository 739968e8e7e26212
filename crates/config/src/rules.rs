//! How an operator's value and the wish of a repository's own file become one. A repository can tighten
//! and never loosen; a wish that is not taken is noted by its key.

use std::collections::BTreeMap;

use patchwright_forge::ReviewEvent;

use crate::file::REPOSITORY_FILE;
use crate::tools::McpServer;
use crate::{Source, narrow};

/// What a repository's own file may do to a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repository {
    /// Nothing.
    No,
    /// Lower the number.
    Lower,
    /// Set it, where the operator has not.
    Choose,
    /// Add to the list.
    Add,
    /// Turn it on, never off.
    On,
    /// Turn it off, never on.
    Off,
    /// Keep some of what the operator lists.
    Fewer,
}

impl Repository {
    /// As `docs/configuration.md` has it.
    pub fn word(self) -> &'static str {
        match self {
            Repository::No => "no",
            Repository::Lower => "lower",
            Repository::Choose => "choose",
            Repository::Add => "add",
            Repository::On => "turn on",
            Repository::Off => "turn off",
            Repository::Fewer => "fewer",
        }
    }
}

/// A key that a repository's file has, and where the outcome is recorded.
pub(crate) struct RepositorySetting<'a> {
    pub(crate) key: String,
    pub(crate) sources: &'a mut BTreeMap<String, Source>,
    pub(crate) notes: &'a mut Vec<String>,
}

impl RepositorySetting<'_> {
    fn take<T>(self, target: &mut T, value: T) {
        *target = value;
        self.sources.insert(self.key, Source::RepositoryFile);
    }

    /// Takes the value when the place is free; notes a wish that differs from the operator's.
    fn take_if<T: PartialEq>(self, is_free: bool, target: &mut T, value: T) {
        if is_free {
            self.take(target, value);
        } else if *target != value {
            let key = self.key;
            self.notes.push(format!(
                "`{key}` in `{REPOSITORY_FILE}` was not taken: the operator has set it"
            ));
        }
    }

    /// No operator has set it: no file, campaign or flag.
    fn is_open(&self) -> bool {
        self.sources.get(&self.key).is_none_or(|source| *source == Source::RepositoryFile)
    }

    /// Notes the key, with what follows it (`.tools: *`), and why it was refused.
    pub(crate) fn refuse(&mut self, part: &str, why: &str) {
        let key = &self.key;
        self.notes.push(format!("`{key}{part}` in `{REPOSITORY_FILE}` was refused: {why}"));
    }

    fn refuse_to_all_but_operators(&mut self, part: &str) {
        self.refuse(part, "only the operator may set it");
    }
}

/// How a setting is laid over another. `T` is the resolved value, `W` what a file has.
pub(crate) trait Rule<T, W: Into<T>> {
    fn operator(target: &mut T, value: W) {
        *target = value.into();
    }

    fn repository(setting: RepositorySetting<'_>, target: &mut T, wish: W);
}

/// Only the operator may set it.
pub(crate) struct Operator;

impl Operator {
    pub(crate) const REPOSITORY: Repository = Repository::No;
}

impl<T, W: Into<T>> Rule<T, W> for Operator {
    fn repository(mut setting: RepositorySetting<'_>, _: &mut T, _: W) {
        setting.refuse_to_all_but_operators("");
    }
}

/// A limit, which a repository may lower.
pub(crate) struct Lower;

impl Lower {
    pub(crate) const REPOSITORY: Repository = Repository::Lower;
}

impl<T: PartialOrd> Rule<T, T> for Lower {
    fn repository(mut setting: RepositorySetting<'_>, target: &mut T, wish: T) {
        if wish <= *target {
            *target = wish;
        } else {
            setting.refuse("", "it is looser than the operator's limit");
        }
    }
}

/// The repository's to choose, unless the operator has.
pub(crate) struct Choose;

impl Choose {
    pub(crate) const REPOSITORY: Repository = Repository::Choose;
}

impl<T: PartialEq, W: Into<T>> Rule<T, W> for Choose {
    fn repository(setting: RepositorySetting<'_>, target: &mut T, wish: W) {
        let is_open = setting.is_open();
        setting.take_if(is_open, target, wish.into());
    }
}

/// As [`Choose`], and also where the operator has set nothing but an empty value.
pub(crate) struct Fill;

impl Fill {
    pub(crate) const REPOSITORY: Repository = Repository::Choose;
}

pub(crate) trait Empty {
    fn is_empty(&self) -> bool;
}

impl<T> Empty for Vec<T> {
    fn is_empty(&self) -> bool {
        Vec::is_empty(self)
    }
}

impl<K, V> Empty for BTreeMap<K, V> {
    fn is_empty(&self) -> bool {
        BTreeMap::is_empty(self)
    }
}

impl<T> Empty for Option<T> {
    fn is_empty(&self) -> bool {
        self.is_none()
    }
}

impl<T: PartialEq + Empty, W: Into<T>> Rule<T, W> for Fill {
    fn repository(setting: RepositorySetting<'_>, target: &mut T, wish: W) {
        let is_ours = setting.sources.get(&setting.key) == Some(&Source::RepositoryFile);
        setting.take_if(target.is_empty() || is_ours, target, wish.into());
    }
}

/// A list of restrictions, which every source adds to.
pub(crate) struct Add;

impl Add {
    pub(crate) const REPOSITORY: Repository = Repository::Add;
}

impl Rule<Vec<String>, Vec<String>> for Add {
    fn operator(target: &mut Vec<String>, value: Vec<String>) {
        for entry in value {
            if !target.contains(&entry) {
                target.push(entry);
            }
        }
    }

    fn repository(_: RepositorySetting<'_>, target: &mut Vec<String>, wish: Vec<String>) {
        Add::operator(target, wish);
    }
}

/// A restriction that a repository may turn on.
pub(crate) struct TurnOn;

impl TurnOn {
    pub(crate) const REPOSITORY: Repository = Repository::On;
}

impl Rule<bool, bool> for TurnOn {
    fn repository(mut setting: RepositorySetting<'_>, target: &mut bool, wish: bool) {
        if *target && !wish {
            setting.refuse_to_all_but_operators(": false");
        }
        *target |= wish;
    }
}

/// A permission that a repository may turn off.
pub(crate) struct TurnOff;

impl TurnOff {
    pub(crate) const REPOSITORY: Repository = Repository::Off;
}

impl Rule<bool, bool> for TurnOff {
    fn repository(mut setting: RepositorySetting<'_>, target: &mut bool, wish: bool) {
        if wish && !*target {
            setting.refuse_to_all_but_operators("");
        }
        *target &= wish;
    }
}

/// What a review says as a whole: as [`Choose`], but approving is the operator's.
pub(crate) struct Event;

impl Event {
    pub(crate) const REPOSITORY: Repository = Repository::Choose;
}

impl Rule<ReviewEvent, ReviewEvent> for Event {
    fn repository(mut setting: RepositorySetting<'_>, target: &mut ReviewEvent, wish: ReviewEvent) {
        if wish == ReviewEvent::Approve {
            setting.refuse_to_all_but_operators(": approve");
        } else {
            Choose::repository(setting, target, wish);
        }
    }
}

/// MCP servers: a repository names those that it wants, with fewer tools.
pub(crate) struct Servers;

impl Servers {
    pub(crate) const REPOSITORY: Repository = Repository::Fewer;
}

type McpServers = BTreeMap<String, McpServer>;

impl Rule<McpServers, McpServers> for Servers {
    fn repository(setting: RepositorySetting<'_>, target: &mut McpServers, wish: McpServers) {
        // An empty section names no server and wishes for nothing.
        if !wish.is_empty() {
            narrow::servers(setting, target, &wish);
        }
    }
}

/// Hosts: a repository lists those that it wants of the operator's.
pub(crate) struct Hosts;

impl Hosts {
    pub(crate) const REPOSITORY: Repository = Repository::Fewer;
}

impl Rule<Vec<String>, Vec<String>> for Hosts {
    fn repository(setting: RepositorySetting<'_>, target: &mut Vec<String>, wish: Vec<String>) {
        narrow::hosts(setting, target, &wish);
    }
}

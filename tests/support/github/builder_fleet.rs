//! Many repositories before GitHub starts, and what sets one apart from the others.

use patchwright_forge::Role;

use super::builder::GitHub;
use super::pace::Ceiling;
use super::world::User;
use crate::support::git_quick;

/// The name of the `number`th repository of a fleet, from one.
pub(crate) fn fleet_name(number: usize) -> String {
    format!("acme/app-{number:03}")
}

impl GitHub {
    /// Repositories `acme/app-001`, `acme/app-002` and so on, each with one commit on `main`. The
    /// files of one are made from its number.
    pub(crate) fn repositories<F, I, P, T>(self, count: usize, files: F) -> GitHub
    where
        F: Fn(usize) -> I,
        I: IntoIterator<Item = (P, T)>,
        P: Into<String>,
        T: Into<String>,
    {
        let names = (1..=count).map(fleet_name);
        names.enumerate().fold(self, |github, (at, name)| {
            let files = files(at + 1).into_iter();
            let files: Vec<_> = files.map(|(path, text)| (path.into(), text.into())).collect();
            github.quick_repository(&name, &files)
        })
    }

    /// A repository with one commit on `main`, made without a process; none when there are no files.
    pub(crate) fn quick_repository(
        mut self,
        full_name: &str,
        files: &[(String, String)],
    ) -> GitHub {
        self = self.repository(full_name, &[]);
        if !files.is_empty() {
            let time = i64::try_from(self.world.git.now()).unwrap();
            git_quick::first_commit(&self.world.git.path(full_name), "main", time, files);
        }
        self
    }

    /// The next verbs are about this repository.
    pub(crate) fn at(mut self, full_name: &str) -> GitHub {
        let name = self.world.repository(full_name).full_name();
        self.current = name;
        self
    }

    /// An organisation, with or without repositories.
    pub(crate) fn organization(self, login: &str) -> GitHub {
        self.account(login, "Organization")
    }

    /// An owner of repositories who is a person.
    pub(crate) fn person(self, login: &str) -> GitHub {
        self.account(login, "User")
    }

    fn account(mut self, login: &str, kind: &'static str) -> GitHub {
        let id = self.world.id();
        let user = User { login: login.to_owned(), id, kind };
        self.world.users.entry(login.to_owned()).or_insert(user).kind = kind;
        self
    }

    /// Topics of the current repository.
    pub(crate) fn topics(self, topics: &[&str]) -> GitHub {
        self.with(|here| here.topics.extend(topics.iter().map(|&topic| topic.to_owned())))
    }

    /// The language that the current repository is mostly written in.
    pub(crate) fn language(self, language: &str) -> GitHub {
        self.with(|here| here.language = Some(language.to_owned()))
    }

    /// The current repository is archived.
    pub(crate) fn archived(self) -> GitHub {
        self.with(|here| here.archived = true)
    }

    /// The current repository was taken down.
    pub(crate) fn disabled(self) -> GitHub {
        self.with(|here| here.disabled = true)
    }

    /// The current repository is a template.
    pub(crate) fn template(self) -> GitHub {
        self.with(|here| here.template = true)
    }

    /// The current repository is private: only those who have a role in it know of it.
    pub(crate) fn private(self) -> GitHub {
        self.with(|here| here.private = true)
    }

    /// The current repository had another name, which redirects.
    pub(crate) fn renamed_from(self, old: &str) -> GitHub {
        self.world.git.redirect(old, &self.current);
        self.with(|here| here.former_names.push(old.to_owned()))
    }

    /// One of GitHub's seconds takes so many real ones, for the pace of writes.
    pub(crate) fn time_scale(mut self, scale: f64) -> GitHub {
        self.world.pace.scale = scale;
        self
    }

    /// Too many writes meet the secondary limit.
    pub(crate) fn enforce(mut self, ceiling: Ceiling) -> GitHub {
        self.world.pace.ceiling = Some(ceiling);
        self
    }

    /// The role that the account of the token in use has in the current repository. `None` takes it
    /// away, so that only what is public is seen.
    pub(crate) fn our_role(mut self, role: Role) -> GitHub {
        let login = self.world.tokens[super::builder::TOKEN].login.clone();
        if role == Role::None {
            return self.with(|here| drop(here.roles.remove(&login)));
        }
        self = self.user(&login, role);
        self
    }
}

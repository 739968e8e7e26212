//! Trouble with one repository, or with a share of them, from cloning to the last answer.

use std::collections::BTreeMap;
use std::time::Duration;

use super::builder::GitHub;
use super::fault::{Fault, Kind};
use super::routes::Answer;
use super::server::{Server, message};
use super::world::World;
use crate::support::git_http::{Fault as GitFault, Step};

/// What goes wrong.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Trouble {
    /// The connection breaks in the middle of a clone.
    CloneCut,
    CloneError(u16),
    CloneSlow(Duration),
    PushError(u16),
    /// The push takes effect, and the connection breaks.
    PushLost,
    /// No pull request is opened.
    PullError(u16),
    /// The pull request is opened, and this status comes.
    PullErrorAfter(u16),
    /// The pull request is opened, and the connection breaks.
    PullLost,
    /// The next write meets the secondary limit, with these seconds in `Retry-After` or without.
    Secondary(Option<u64>),
    /// 404, for ever.
    Gone,
    /// 403, for ever: the organisation wants single sign-on.
    Forbidden,
    /// Answers about it come late.
    Slow(Duration),
}

const SSO: &str = "Resource protected by organization SAML enforcement. You must grant your Personal Access token access to this organization.";

/// Why all of a repository is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Blocked {
    Gone,
    Forbidden,
}

impl Blocked {
    pub(crate) fn answer(self) -> Answer {
        match self {
            Blocked::Gone => Answer::problem(404, "Not Found"),
            Blocked::Forbidden => {
                let sso = "required; url=https://github.com/orgs/acme/sso?authorization_request=A";
                Answer::new(403, message(SSO, 403)).header("x-github-sso", sso.to_owned())
            }
        }
    }

    /// Kind and words of an error in GraphQL.
    pub(crate) fn in_graphql(self, name: &str) -> (&'static str, String) {
        match self {
            Blocked::Gone => {
                ("NOT_FOUND", format!("Could not resolve to a Repository with the name '{name}'."))
            }
            Blocked::Forbidden => ("FORBIDDEN", SSO.to_owned()),
        }
    }
}

impl World {
    /// The next `times` requests that match meet the trouble.
    pub(crate) fn add_trouble(&mut self, repository: &str, trouble: &Trouble, times: u32) {
        let name = self.repository(repository).full_name();
        self.troubled.insert(name.clone(), trouble.clone());
        let api = |method, path, kind| Some(Fault { method, path, times, kind });
        let pulls = |kind| api("POST", "/pulls", kind);
        let git = |step, fault: GitFault| {
            for _ in 0..times {
                self.git.fault_in(&name, step, fault.clone());
            }
            None
        };
        let fault = match trouble {
            Trouble::CloneCut => git(Step::Fetch, GitFault::CutAfter(100)),
            Trouble::CloneError(status) => git(Step::Fetch, GitFault::Status(*status)),
            Trouble::CloneSlow(wait) => git(Step::Fetch, GitFault::Slow(*wait)),
            Trouble::PushError(status) => git(Step::Push, GitFault::Status(*status)),
            Trouble::PushLost => git(Step::Push, GitFault::CutAfter(0)),
            Trouble::PullError(status) => pulls(Kind::ErrorBefore(*status)),
            Trouble::PullErrorAfter(status) => pulls(Kind::ErrorAfter(*status)),
            Trouble::PullLost => pulls(Kind::CutAfter),
            Trouble::Secondary(retry_after) => {
                let kind = Kind::Secondary { retry_after: *retry_after, window: Duration::ZERO };
                api("write", "", kind)
            }
            Trouble::Slow(wait) => api("any", "", Kind::Delay(*wait)),
            Trouble::Gone => {
                self.repository(&name).blocked = Some(Blocked::Gone);
                self.git.close(&name, 404, "Repository not found.");
                None
            }
            Trouble::Forbidden => {
                self.repository(&name).blocked = Some(Blocked::Forbidden);
                self.git.close(&name, 403, &format!("remote: {SSO}"));
                None
            }
        };
        if let Some(fault) = fault {
            self.faults_in.push((name, fault));
        }
    }

    /// Takes the fault that a request to a repository meets, if there is one.
    pub(crate) fn take_fault_in(
        &mut self,
        method: &str,
        path: &str,
        which: &impl Fn(&Fault) -> bool,
    ) -> Option<Kind> {
        let path = path.trim_start_matches("/api/v3").trim_start_matches('/');
        let parts: Vec<&str> = path.splitn(4, '/').collect();
        let name = match parts.as_slice() {
            ["repos", owner, name, ..] => format!("{owner}/{name}"),
            ["repositories", id, ..] => {
                let id = id.parse().ok();
                self.repositories.iter().find(|one| Some(one.id) == id)?.full_name()
            }
            _ => return None,
        };
        let fits = |asked: &str| {
            asked == method || asked == "any" || (asked == "write" && method != "GET")
        };
        let place = self.faults_in.iter().position(|(repository, fault)| {
            repository.eq_ignore_ascii_case(&name)
                && fits(fault.method)
                && path.ends_with(fault.path.trim_start_matches('/'))
                && fault.times > 0
                && which(fault)
        })?;
        let fault = &mut self.faults_in[place].1;
        fault.times -= 1;
        Some(fault.kind.clone())
    }
}

impl GitHub {
    /// Trouble with one repository, once.
    pub(crate) fn fault_for(self, repository: &str, trouble: Trouble) -> GitHub {
        self.fault_times(repository, trouble, 1)
    }

    /// Trouble with one repository, more than once.
    pub(crate) fn fault_times(mut self, repository: &str, trouble: Trouble, times: u32) -> GitHub {
        self.world.add_trouble(repository, &trouble, times);
        self
    }

    /// Trouble with a share of the repositories, evenly spread, of each of these kinds in turn. The
    /// same every time; [`Server::troubled`] says where.
    pub(crate) fn fault_share(mut self, share: f64, troubles: &[Trouble]) -> GitHub {
        let names: Vec<String> =
            self.world.repositories.iter().map(super::world::Repository::full_name).collect();
        let mut due = 0.5;
        let mut kinds = troubles.iter().cycle();
        for name in names {
            due += share;
            if due >= 1.0 - 1e-9
                && let Some(trouble) = kinds.next()
            {
                due -= 1.0;
                self.world.add_trouble(&name, trouble, 1);
            }
        }
        self
    }
}

impl Server {
    /// Trouble with one repository, once.
    pub(crate) fn fault_for(&self, repository: &str, trouble: Trouble) {
        self.fault_times(repository, trouble, 1);
    }

    /// Trouble with one repository, more than once.
    pub(crate) fn fault_times(&self, repository: &str, trouble: Trouble, times: u32) {
        self.world().add_trouble(repository, &trouble, times);
    }

    /// Which repositories were given trouble, whether they have met it or not.
    pub(crate) fn troubled(&self) -> BTreeMap<String, Trouble> {
        self.world().troubled.clone()
    }
}

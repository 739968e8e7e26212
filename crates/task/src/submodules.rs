//! Submodules of a run: fetched by the host, to read. Their files stand in the sandbox; what is changed in them is no
//! part of a change, and the commits that they stand for stay as they are.
//!
//! Which there are, and where each is fetched from, the tree that decides about the run says, never the head of a pull
//! request or what a model wrote: a stranger's `.gitmodules` would have the token read what the stranger may not. A
//! head that moves a submodule gets the other commit from the same place. The token goes to repositories of the same
//! owner on the forge's own host, where that owner's repositories name them; all others are asked as anybody may ask. One that cannot be had is said, and its
//! folder is empty.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use url::Url;

use super::lfs::repository_of;
use super::run::Run;
use super::workspace::Workspace;
use patchwright_base::text;
use patchwright_config::checkout::Submodules as Which;
use patchwright_forge::{ForgeError, Repository, RepositoryId};
use patchwright_git::clone::{Asker, Repo, fetch, module_mirror};
use patchwright_git::modules::{self, Module};
use patchwright_git::transport::Remote;
use patchwright_git::tree::FetchedCommit;
use patchwright_git::{GitError, Oid, blocking};

/// Submodules in submodules.
const MAX_DEPTH: usize = 5;
/// All together.
const MAX_FETCHED: usize = 100;
/// Notes about single ones.
const MAX_NOTES: usize = 20;
/// Paths in one note.
const MAX_SHOWN: usize = 5;

/// The submodules of a run.
#[derive(Debug, Default)]
pub(crate) struct Submodules {
    /// Where those of the repository itself are, by path.
    places: BTreeMap<String, SubmoduleSource>,
    /// What we have, by path.
    fetched: BTreeMap<String, FetchedCommit>,
    /// Commits of heads that were tried, by path, and where we have them.
    tried: tokio::sync::Mutex<BTreeMap<(String, Oid), Option<FetchedCommit>>>,
    /// Paths of those that were not fetched.
    absent: Mutex<Vec<String>>,
    notes: Mutex<Vec<String>>,
}

/// How a repository is asked.
#[derive(Clone, Debug)]
enum SubmoduleSource {
    /// As ourselves.
    Ours(RepositoryId, Url),
    /// As anybody.
    Anybodys(Url),
}

impl Submodules {
    /// Fetches those of the tree that decides, as far as the configuration wants them.
    pub(super) async fn of(run: &Run<'_>, rules: &Workspace) -> Submodules {
        let which = run.config.checkout.submodules;
        let mut found = Submodules::default();
        if which == Which::Off {
            found.leave_all(run, rules).await;
            return found;
        }
        let parent = rules.address.as_deref().and_then(|address| Url::parse(address).ok());
        let commit = FetchedCommit { repository: rules.repo.path().to_owned(), commit: rules.base };
        let is_ours = true;
        let mut left = vec![Level { prefix: String::new(), commit, parent, depth: 0, is_ours }];
        while let Some(level) = left.pop() {
            let FetchedCommit { repository, commit } = level.commit.clone();
            let read = move || modules::of_commit(&Repo::open(&repository)?, commit);
            let listed = blocking(read).await.unwrap_or_else(|err| {
                found.note(
                    run,
                    format!("the submodules of {} cannot be read: {err}", commit.short()),
                );
                Vec::new()
            });
            for module in listed {
                if found.fetched.len() >= MAX_FETCHED {
                    found.note(run, format!("no more than {MAX_FETCHED} submodules are fetched"));
                    return found;
                }
                let path = format!("{}{}", level.prefix, module.path);
                match found.take(run, rules, &level, &module).await {
                    Err(why) => found.left_out(run, &path, &why),
                    Ok((place, commit)) if which == Which::Recursive && level.depth < MAX_DEPTH => {
                        let (prefix, depth) = (format!("{path}/"), level.depth + 1);
                        let is_ours = matches!(place, SubmoduleSource::Ours(..));
                        let parent = Some(place.address().clone());
                        left.push(Level { prefix, commit, parent, depth, is_ours });
                    }
                    Ok(_) => {}
                }
            }
        }
        found
    }

    /// Nothing is to be fetched. A check that needs what is not there fails in words of its own, so people and the model are
    /// told.
    async fn leave_all(&self, run: &Run<'_>, rules: &Workspace) {
        let (repo, base) = (rules.repo.clone(), rules.base);
        let Ok(listed) = blocking(move || modules::of_commit(&repo, base)).await else { return };
        let paths: Vec<_> = listed.iter().map(|module| text::line(&module.path)).collect();
        if paths.is_empty() {
            return;
        }
        let shown = paths.iter().take(MAX_SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
        let more = if paths.len() > MAX_SHOWN { ", …" } else { "" };
        run.environment.ui.say(&format!(
            "note: submodules are not fetched, so these folders are empty: {shown}{more} (`--submodules true` fetches them)"
        ));
        *self.absent.lock() = paths;
    }

    /// Fetches one; where it was fetched from and is now, or why it was not.
    async fn take(
        &mut self,
        run: &Run<'_>,
        rules: &Workspace,
        level: &Level,
        module: &Module,
    ) -> Result<(SubmoduleSource, FetchedCommit), String> {
        let address = modules::address(&module.url, level.parent.as_ref())?;
        let place = place(run, rules, &address, level)?;
        let path = format!("{}{}", level.prefix, module.path);
        if level.depth == 0 {
            self.places.insert(path.clone(), place.clone());
        }
        let fetched = bring(run, &place, module.commit).await?;
        self.fetched.insert(path, fetched.clone());
        Ok((place, fetched))
    }

    /// Those that a commit of the repository has: at other commits, perhaps, than the tree that decides.
    pub(super) async fn at(
        &self,
        run: &Run<'_>,
        workspace: &Workspace,
    ) -> BTreeMap<String, FetchedCommit> {
        let mut there = self.fetched.clone();
        for (path, place) in &self.places {
            let (repo, base, name) = (workspace.repo.clone(), workspace.base, path.clone());
            let at = blocking(move || modules::commit_at(&repo, base, &name)).await;
            let Ok(Some(commit)) = at else { continue };
            if there.get(path).is_some_and(|fetched| fetched.commit == commit) {
                continue;
            }
            let mut tried = self.tried.lock().await;
            let key = (path.clone(), commit);
            if !tried.contains_key(&key) {
                let brought = bring(run, place, commit).await;
                if let Err(why) = &brought {
                    self.left_out(run, path, why);
                }
                tried.insert(key.clone(), brought.ok());
            }
            if let Some(Some(fetched)) = tried.get(&key) {
                there.insert(path.clone(), fetched.clone());
            }
        }
        there
    }

    /// The folders whose files are there, to read only.
    pub(super) fn paths(&self) -> Vec<String> {
        self.fetched.keys().take(MAX_NOTES).map(|path| text::line(path)).collect()
    }

    /// The folders that stay empty.
    pub(super) fn absent(&self) -> Vec<String> {
        self.absent.lock().iter().take(MAX_NOTES).cloned().collect()
    }

    /// What people should know about those that are not there.
    pub(super) fn notes(&self) -> Vec<String> {
        self.notes.lock().clone()
    }

    fn left_out(&self, run: &Run<'_>, path: &str, why: &str) {
        let (path, why) = (text::line(path), text::line(why));
        self.absent.lock().push(path.clone());
        self.note(run, format!("the submodule `{path}` was not fetched: {why}"));
    }

    fn note(&self, run: &Run<'_>, note: String) {
        let mut notes = self.notes.lock();
        if notes.len() < MAX_NOTES && !notes.contains(&note) {
            run.environment.ui.say(&format!("note: {}", run.world.redactor.redact(&note)));
            notes.push(note);
        }
    }
}

/// The submodules of one commit, on the way down.
struct Level {
    /// The path of its folder, with a slash at the end; empty for the repository itself.
    prefix: String,
    commit: FetchedCommit,
    /// Where its repository is, from which relative addresses count.
    parent: Option<Url>,
    depth: usize,
    /// It is the repository itself, or one of the same owner, all the way down.
    is_ours: bool,
}

impl SubmoduleSource {
    fn address(&self) -> &Url {
        match self {
            SubmoduleSource::Ours(_, url) | SubmoduleSource::Anybodys(url) => url,
        }
    }
}

/// How an address is asked that one level names, or why it is not. A stranger's library does not have the token read
/// what the stranger may not.
fn place(
    run: &Run<'_>,
    rules: &Workspace,
    address: &Url,
    level: &Level,
) -> Result<SubmoduleSource, String> {
    let home = rules.address.as_deref().and_then(|home| Url::parse(home).ok());
    let Some(home) = home.filter(|home| home.origin() == address.origin()) else {
        let host = address.host_str().unwrap_or_default();
        let hosts = &run.config.checkout.submodule_hosts;
        let is_listed = hosts.iter().any(|listed| listed.eq_ignore_ascii_case(host));
        return if is_listed && address.port().is_none() {
            Ok(SubmoduleSource::Anybodys(address.clone()))
        } else {
            Err(format!("`{host}` is not among `checkout.submodule-hosts`"))
        };
    };
    let id = repository_of(address).ok_or("its address names no repository")?;
    let is_owners =
        repository_of(&home).is_some_and(|home| home.owner.eq_ignore_ascii_case(&id.owner));
    Ok(if is_owners && level.is_ours {
        SubmoduleSource::Ours(id, address.clone())
    } else {
        SubmoduleSource::Anybodys(address.clone())
    })
}

/// Has one commit of another repository here; the error says why not.
async fn bring(
    run: &Run<'_>,
    place: &SubmoduleSource,
    commit: Oid,
) -> Result<FetchedCommit, String> {
    let url = place.address();
    if let SubmoduleSource::Ours(id, url) = place {
        let repo = opened(run, url, Asker::Ourselves).await?;
        if let Some(ended) = by_ourselves(run, &repo, (id, url), commit).await {
            return ended.map(|()| FetchedCommit { repository: repo.path().to_owned(), commit });
        }
    }
    let repo = opened(run, url, Asker::Anybody).await?;
    by_anybody(run, &repo, url, commit).await?;
    Ok(FetchedCommit { repository: repo.path().to_owned(), commit })
}

/// Where what is fetched is kept. Another run may have fetched it with a token that reads more than ours: so nothing is
/// used of which the server has not told this run that it may have it.
async fn opened(run: &Run<'_>, url: &Url, asker: Asker) -> Result<Repo, String> {
    let (state, address) = (run.world.state.clone(), url.to_string());
    let opened = blocking(move || module_mirror(&state, &address, asker)).await;
    opened.map_err(|err| err.to_string())
}

/// Without a token.
async fn by_anybody(run: &Run<'_>, repo: &Repo, url: &Url, commit: Oid) -> Result<(), String> {
    let remote = Remote::http(&run.world.http, url.as_str(), None);
    let remote = remote.map_err(|err| err.to_string())?.until(run.stop());
    let (repo, refs) = (repo.clone(), [commit.to_string()]);
    blocking(move || fetch(&repo, &remote, &refs, 1)).await.map_err(|err| match err {
        GitError::Authentication { .. } | GitError::Forbidden { .. } => {
            "it is not to be had without a token, and ours goes to the same owner's only".to_owned()
        }
        err => err.to_string(),
    })
}

/// With our token; `None` where everybody's way may be better: a token of an app may be for one repository.
async fn by_ourselves(
    run: &Run<'_>,
    repo: &Repo,
    (id, url): (&RepositoryId, &Url),
    commit: Oid,
) -> Option<Result<(), String>> {
    let refs = [commit.to_string()];
    let Ok(forge) = run.world.forge() else {
        let remote = run.world.remote(url.as_str()).ok()?.until(run.stop());
        let repo = repo.clone();
        let fetched = blocking(move || fetch(&repo, &remote, &refs, 1)).await;
        return Some(fetched.map_err(|err| err.to_string()));
    };
    let repository = Repository {
        id: id.clone(),
        node_id: String::new(),
        default_branch: String::new(),
        archived: false,
        refuses_pulls: false,
        pulls_by_collaborators_only: false,
        can_push: None,
        private: true,
        clone_url: url.to_string(),
        html_url: url.to_string(),
    };
    let fetched = forge.fetch(&repository, repo.path(), &refs, 1);
    match run.unless_interrupted(async { Ok(fetched.await) }).await {
        Ok(Ok(())) => Some(Ok(())),
        Ok(Err(
            ForgeError::NotFound { .. }
            | ForgeError::Forbidden { .. }
            | ForgeError::Authentication { .. },
        )) => None,
        Ok(Err(err)) => Some(Err(err.to_string())),
        Err(failure) => Some(Err(failure.message)),
    }
}

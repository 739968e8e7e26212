//! Pull requests, as far as they are not issues.

use super::{Answer, Request, Value, World, git, json, shape, too_long};
use crate::support::github::conversation::Opening;
use crate::support::github::shape_review::{commit, diff_entry};

pub(super) fn answer(
    world: &mut World,
    request: &Request,
    place: usize,
    rest: &[&str],
) -> Option<Answer> {
    Some(match (request.method.as_str(), rest) {
        ("GET", ["pulls"]) => list(world, request, place),
        ("POST", ["pulls"]) => create(world, request, place),
        ("GET", ["pulls", number]) => read(world, request, place, number.parse().ok()?)?,
        ("PATCH", ["pulls", number]) => edit(world, request, place, number.parse().ok()?)?,
        ("POST", ["pulls", number, "requested_reviewers"]) => {
            ask(world, request, place, number.parse().ok()?)?
        }
        ("GET", ["pulls", number, "files"]) => files(world, request, place, number.parse().ok()?)?,
        ("GET", ["pulls", number, "commits"]) => {
            let (repository, number) = (&world.repositories[place], number.parse().ok()?);
            repository.pulls.get(&number)?;
            let commits = world.commits(place, number).into_iter();
            // No more than 250 are listed.
            let items = commits.take(250).map(|sha| commit(world, &request.base, repository, &sha));
            request.page(Some(repository), items.collect())
        }
        ("PUT", ["pulls", number, "merge"]) => {
            let number = number.parse().ok()?;
            let pull = world.repositories[place].pulls.get(&number)?;
            let asked = request.field("sha").as_str();
            if asked.is_some_and(|sha| sha != pull.last_head) {
                let text = "Head branch was modified. Review and try the merge again.";
                return Some(Answer::problem(409, text));
            }
            if pull.draft || !world.merge(place, number) {
                return Some(Answer::problem(405, "Pull Request is not mergeable"));
            }
            let sha = git::tip(&world.repositories[place].path, &world.pull(place, number).base);
            let text = "Pull Request successfully merged";
            Answer::new(200, json!({"sha": sha, "merged": true, "message": text}))
        }
        _ => return None,
    })
}

fn read(world: &mut World, request: &Request, place: usize, number: u64) -> Option<Answer> {
    let pull = world.repositories[place].pulls.get(&number)?;
    if request.accept.contains("diff") || request.accept.contains("patch") {
        let diff = world.diff(place, number, &pull.last_head);
        let lines: usize = diff.files.iter().map(|file| file.patch.lines().count()).sum();
        let (most_files, most_lines) = (world.limits.diff_files, world.limits.diff_lines);
        let what = if diff.files.len() > most_files {
            format!("files ({most_files})")
        } else if lines > most_lines {
            format!("lines ({most_lines})")
        } else {
            return Some(Answer::text(200, &diff.text));
        };
        let text = format!("Sorry, the diff exceeded the maximum number of {what}.");
        let error = json!({"resource": "PullRequest", "field": "diff", "code": "too_large"});
        let mut answer = Answer::problem(406, &text);
        answer.body["errors"] = json!([error]);
        return Some(answer);
    }
    let repository = &world.repositories[place];
    let shown = shape::pull(world, &request.base, repository, number, "pull-request");
    world.pull_mut(place, number).asked = true;
    Some(Answer::new(200, shown))
}

fn files(world: &World, request: &Request, place: usize, number: u64) -> Option<Answer> {
    let repository = &world.repositories[place];
    let head = &repository.pulls.get(&number)?.last_head;
    let diff = world.diff(place, number, head);
    // No more than 3000 are listed.
    let items = diff.files.iter().take(3000);
    let items = items.map(|file| diff_entry(world, &request.base, repository, head, file));
    Some(request.page(Some(repository), items.collect()))
}

fn list(world: &World, request: &Request, place: usize) -> Answer {
    let repository = &world.repositories[place];
    let wanted = request.query("state").unwrap_or("open");
    // Without `owner:` the filter is ignored.
    let head = request.query("head").filter(|head| head.contains(':'));
    let base = request.query("base");
    let mut numbers: Vec<u64> = repository
        .pulls
        .iter()
        .filter(|(number, pull)| {
            let open = repository.issues[number].open;
            let owner = pull.head_repository.split('/').next().unwrap_or_default();
            (wanted == "all" || open == (wanted == "open"))
                && head.is_none_or(|head| head == format!("{owner}:{}", pull.head))
                && base.is_none_or(|base| base == pull.base)
        })
        .map(|(number, _)| *number)
        .collect();
    if request.query("sort") == Some("updated") {
        numbers.sort_by_key(|number| (last_activity(repository, *number), *number));
    }
    if request.query("direction") != Some("asc") && !request.stale {
        numbers.reverse();
    }
    let items = numbers.into_iter().map(|number| {
        let form = "pull-request-simple";
        let mut pull = shape::pull(world, &request.base, repository, number, form);
        pull["updated_at"] = shape::time(last_activity(repository, number));
        pull
    });
    request.page(Some(repository), items.collect())
}

/// Comments and reviews are activity, too.
fn last_activity(repository: &super::Repository, number: u64) -> i64 {
    let comments = repository.comments.iter().filter(|comment| comment.issue == number);
    let said = comments.map(|comment| comment.created);
    let reviews = repository.pulls[&number].reviews.iter().filter_map(|review| review.submitted);
    said.chain(reviews).fold(repository.issues[&number].updated, i64::max)
}

fn custom(text: &str) -> Answer {
    Answer::invalid("PullRequest", &[json!({"code": "custom", "message": text})])
}

fn wrong(field: &str) -> Answer {
    Answer::invalid("PullRequest", &[json!({"code": "invalid", "field": field})])
}

/// Why nobody, or not this account, can open one there.
fn not_permitted(repository: &super::Repository, request: &Request) -> Option<Answer> {
    if !repository.has_pulls {
        return Some(Answer::problem(404, "Not Found"));
    }
    if repository.pulls_by_collaborators_only && !repository.writable(&request.token) {
        let message = "Pull request creation is limited to collaborators.";
        return Some(Answer::problem(403, message));
    }
    let may = request.login != "github-actions[bot]" || repository.actions_may_open_pulls;
    let message = "GitHub Actions is not permitted to create or approve pull requests.";
    (!may).then(|| Answer::problem(403, message))
}

fn create(world: &mut World, request: &Request, place: usize) -> Answer {
    let text = |name: &str| request.field(name).as_str().unwrap_or_default().to_owned();
    let (title, base, draft) = (text("title"), text("base"), request.field("draft") == true);
    let repository = &world.repositories[place];
    if let Some(refused) = not_permitted(repository, request) {
        return refused;
    }
    let named = text("head");
    let (owner, head) = match named.split_once(':') {
        Some((owner, head)) => (owner.to_owned(), head.to_owned()),
        None => (repository.owner.clone(), named),
    };
    let (name, network) = (repository.full_name(), world.root(repository));
    let is_head = |other: &&super::Repository| {
        other.owner.eq_ignore_ascii_case(&owner) && world.root(other) == network
    };
    let Some(from) = world.repositories.iter().find(is_head) else { return wrong("head") };
    let Some(head_sha) = git::tip(&from.path, &head) else { return wrong("head") };
    let from_name = from.full_name();
    if git::tip(&repository.path, &base).is_none() {
        return wrong("base");
    }
    if draft && !repository.has_drafts {
        return Answer::problem(422, "Draft pull requests are not supported in this repository.");
    }
    if title.chars().count() > 256 {
        return custom("title is too long (maximum is 256 characters)");
    }
    if too_long(request.field("body")) {
        return custom("body is too long (maximum is 65536 characters)");
    }
    let there = repository.pulls.iter().any(|(number, pull)| {
        (&pull.head, &pull.head_repository, &pull.base) == (&head, &from_name, &base)
            && repository.issues[number].open
    });
    if there {
        return custom(&format!("A pull request already exists for {owner}:{head}."));
    }
    if git::contains(&repository.path, &format!("refs/heads/{base}"), &head_sha) {
        return custom(&format!("No commits between {base} and {head}"));
    }
    let number = repository.issues.keys().max().unwrap_or(&0) + 1;
    let body = request.field("body").as_str().map(str::to_owned);
    let opening = Opening {
        number,
        title: &title,
        body: body.as_deref(),
        author: &request.login,
        head_repository: &from_name,
        head: &head,
        base: &base,
    };
    world.open_pull(place, &opening);
    let pull = world.pull_mut(place, number);
    pull.draft = draft;
    pull.maintainer_can_modify =
        from_name != name && *request.field("maintainer_can_modify") != json!(false);
    let repository = &world.repositories[place];
    Answer::new(201, shape::pull(world, &request.base, repository, number, "pull-request"))
}

fn edit(world: &mut World, request: &Request, place: usize, number: u64) -> Option<Answer> {
    let mine = world.repositories[place].issues.get(&number)?.author.as_deref();
    if mine != Some(&request.login) && !world.repositories[place].writable(&request.token) {
        return Some(Answer::not_accessible(&request.token));
    }
    let now = world.tick();
    let repository = &mut world.repositories[place];
    let pull = repository.pulls.get_mut(&number)?;
    if let Some(base) = request.field("base").as_str() {
        if git::tip(&repository.path, base).is_none() {
            return Some(wrong("base"));
        }
        base.clone_into(&mut pull.base);
    }
    if too_long(request.field("body")) {
        return Some(custom("body is too long (maximum is 65536 characters)"));
    }
    if request.field("title").as_str().is_some_and(|title| title.chars().count() > 256) {
        return Some(custom("title is too long (maximum is 256 characters)"));
    }
    if request.field("state") == "open" && !repository.issues[&number].open {
        if pull.merged {
            return Some(custom("Cannot reopen a merged pull request"));
        }
        let is_own = pull.head_repository == format!("{}/{}", repository.owner, repository.name);
        if is_own && git::tip(&repository.path, &pull.head).is_none() {
            let text =
                format!("state cannot be changed. The {} branch has been deleted.", pull.head);
            return Some(custom(&text));
        }
    }
    let issue = repository.issues.get_mut(&number)?;
    if let Some(title) = request.field("title").as_str() {
        title.clone_into(&mut issue.title);
    }
    if let Some(body) = request.field("body").as_str() {
        issue.body = Some(body.to_owned());
    }
    if let Some(state) = request.field("state").as_str() {
        issue.open = state == "open";
    }
    issue.updated = now;
    let repository = &world.repositories[place];
    Some(Answer::new(200, shape::pull(world, &request.base, repository, number, "pull-request")))
}

fn ask(world: &mut World, request: &Request, place: usize, number: u64) -> Option<Answer> {
    let names = request.field("reviewers").as_array().cloned().unwrap_or_default();
    let names: Vec<String> = names.iter().filter_map(Value::as_str).map(str::to_owned).collect();
    let repository = &mut world.repositories[place];
    let author = repository.issues.get(&number)?.author.clone();
    let pull = repository.pulls.get_mut(&number)?;
    if names.iter().any(|name| author.as_ref() == Some(name)) {
        return Some(Answer::problem(422, "Review cannot be requested from pull request author."));
    }
    let teams = request.field("team_reviewers").as_array().cloned().unwrap_or_default();
    let teams: Vec<String> = teams
        .iter()
        .filter_map(Value::as_str)
        .map(|team| format!("{}/{team}", repository.owner))
        .collect();
    let is_foreign = |team: &String| !repository.governance.teams.contains(team);
    if names.iter().any(|name| !repository.roles.contains_key(name)) || teams.iter().any(is_foreign)
    {
        let text = "Reviews may only be requested from collaborators. One or more of the users or teams you specified is not a collaborator of the repository.";
        return Some(Answer::problem(422, text));
    }
    for name in names.into_iter().chain(teams) {
        if !pull.reviewers.contains(&name) {
            pull.reviewers.push(name);
        }
    }
    let repository = &world.repositories[place];
    let pull = shape::pull(world, &request.base, repository, number, "pull-request-simple");
    Some(Answer::new(201, pull))
}

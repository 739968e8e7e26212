//! Issues, comments, labels and reactions.

use super::{Answer, Issue, Reaction, Request, Value, World, json, shape, too_long};

mod listed;

pub(super) fn answer(
    world: &mut World,
    request: &Request,
    place: usize,
    rest: &[&str],
) -> Option<Answer> {
    if !world.repositories[place].has_issues && rest[0] == "issues" {
        return Some(Answer::problem(410, "Issues has been disabled in this repository."));
    }
    Some(match (request.method.as_str(), rest) {
        ("GET", ["labels"]) => {
            let repository = &world.repositories[place];
            request.page(
                Some(repository),
                repository.labels.iter().map(|name| shape::label(name)).collect(),
            )
        }
        ("GET", ["labels", name]) => {
            let found =
                world.repositories[place].labels.iter().find(|l| l.eq_ignore_ascii_case(name))?;
            Answer::new(200, shape::label(found))
        }
        ("GET", ["issues"]) => listed::list(world, request, place),
        ("POST", ["issues"]) => listed::create(world, request, place),
        ("GET", ["issues", "comments", id]) => {
            let (repository, id): (_, u64) = (&world.repositories[place], id.parse().ok()?);
            let comment = repository.comments.iter().find(|comment| comment.id == id)?;
            Answer::new(200, shape::comment(world, &request.base, repository, comment))
        }
        ("PATCH", ["issues", "comments", id]) => {
            edit_comment(world, request, place, id.parse().ok()?)?
        }
        ("DELETE", ["issues", "comments", id]) => {
            let id: u64 = id.parse().ok()?;
            let comments = &mut world.repositories[place].comments;
            let at = comments.iter().position(|comment| comment.id == id)?;
            comments.remove(at);
            Answer::new(204, Value::Null)
        }
        (_, ["issues", number, rest @ ..]) => {
            one(world, request, place, number.parse().ok()?, rest)?
        }
        _ => return None,
    })
}

fn one(
    world: &mut World,
    request: &Request,
    place: usize,
    number: u64,
    rest: &[&str],
) -> Option<Answer> {
    let issue = world.repositories[place].issues.get(&number)?.clone();
    if issue.deleted {
        return Some(Answer::problem(410, "This issue was deleted"));
    }
    if let Some((repository, number)) = issue.transferred_to {
        let rest = if rest.is_empty() { String::new() } else { format!("/{}", rest.join("/")) };
        let to = request.base.api(&format!("repositories/{repository}/issues/{number}{rest}"));
        let status = if request.method == "GET" { 301 } else { 307 };
        return Some(Answer::problem(status, "Moved Permanently").header("location", to));
    }
    let repository = &world.repositories[place];
    match (request.method.as_str(), rest) {
        ("GET", []) => {
            let mut shown = shape::issue(world, &request.base, repository, &issue);
            if request.accept.contains(".full+") || request.accept.contains(".html+") {
                shown["body_html"] = json!(rendered(issue.body.as_deref().unwrap_or_default()));
            }
            Some(Answer::new(200, shown))
        }
        ("PATCH", []) => edit(world, request, place, number),
        ("GET", ["comments"]) => {
            let comments = repository.comments.iter().filter(|comment| comment.issue == number);
            let items =
                comments.map(|comment| shape::comment(world, &request.base, repository, comment));
            Some(request.page(Some(repository), items.collect()))
        }
        ("POST", ["comments"]) => Some(comment(world, request, place, &issue)),
        ("GET", ["labels"]) => {
            let labels = issue.labels.iter().map(|name| shape::label(name)).collect();
            Some(request.page(Some(repository), labels))
        }
        ("POST", ["labels"]) => Some(add_labels(world, request, place, number)),
        ("DELETE", ["labels", name]) => remove_label(world, place, number, name),
        ("GET", ["reactions"]) => {
            let items = issue.reactions.iter().map(|reaction| shape::reaction(world, reaction));
            Some(request.page(Some(repository), items.collect()))
        }
        ("POST", ["reactions"]) => Some(react(world, request, place, &issue)),
        ("POST", ["assignees"]) => Some(assign(world, request, place, number)),
        ("PUT", ["lock"]) => lock(world, place, number, true),
        ("DELETE", ["lock"]) => lock(world, place, number, false),
        ("DELETE", ["reactions", id]) => {
            let id: u64 = id.parse().ok()?;
            let issue = world.repositories[place].issues.get_mut(&number)?;
            let at = issue.reactions.iter().position(|reaction| reaction.id == id)?;
            issue.reactions.remove(at);
            Some(Answer::new(204, Value::Null))
        }
        _ => None,
    }
}

fn edit(world: &mut World, request: &Request, place: usize, number: u64) -> Option<Answer> {
    if let Some(answer) = listed::refusal(request) {
        return Some(answer);
    }
    let issue = world.repositories[place].issues.get(&number)?;
    let mine = issue.author.as_deref() == Some(&request.login);
    if !mine && !world.repositories[place].writable(&request.token) {
        return Some(Answer::not_accessible(&request.token));
    }
    let now = world.tick();
    if let Some(labels) = listed::labels(request) {
        listed::set_labels(&mut world.repositories[place], number, &labels);
    }
    let issue = world.repositories[place].issues.get_mut(&number)?;
    if let Some(title) = request.field("title").as_str() {
        title.clone_into(&mut issue.title);
    }
    if let Some(body) = request.field("body").as_str() {
        issue.body = Some(body.to_owned());
        issue.editor = Some(request.login.clone());
    }
    if let Some(state) = request.field("state").as_str() {
        issue.open = state == "open";
    }
    issue.updated = now;
    let issue = issue.clone();
    if let Some(milestone) = request.field("milestone").as_u64() {
        let governance = &mut world.repositories[place].governance;
        if !governance.milestones.iter().any(|(number, _)| *number == milestone) {
            let error = json!({"value": milestone, "field": "milestone", "code": "invalid"});
            return Some(Answer::invalid("Issue", &[error]));
        }
        governance.milestone_of.insert(number, milestone);
    }
    let repository = &world.repositories[place];
    Some(Answer::new(200, shape::issue(world, &request.base, repository, &issue)))
}

fn comment(world: &mut World, request: &Request, place: usize, issue: &Issue) -> Answer {
    if issue.locked {
        return Answer::problem(403, "Unable to create comment because issue is locked.");
    }
    let body = request.field("body");
    if too_long(body) {
        let error = json!({"code": "custom", "field": "body", "message": "body is too long (maximum is 65536 characters)"});
        return Answer::invalid("IssueComment", &[error]);
    }
    let name = world.repositories[place].full_name();
    let text = body.as_str().unwrap_or_default().to_owned();
    let id = world.add_comment(&name, issue.number, Some(&request.login.clone()), &text);
    let repository = &world.repositories[place];
    let comment = repository.comments.iter().find(|comment| comment.id == id).unwrap();
    Answer::new(201, shape::comment(world, &request.base, repository, comment))
}

fn edit_comment(world: &mut World, request: &Request, place: usize, id: u64) -> Option<Answer> {
    let now = world.tick();
    if too_long(request.field("body")) {
        let error = json!({"code": "custom", "field": "body", "message": "body is too long (maximum is 65536 characters)"});
        return Some(Answer::invalid("IssueComment", &[error]));
    }
    let comment = world.repositories[place].comments.iter_mut().find(|comment| comment.id == id)?;
    request.field("body").as_str().unwrap_or_default().clone_into(&mut comment.body);
    comment.updated = now;
    let comment = comment.clone();
    let repository = &world.repositories[place];
    Some(Answer::new(200, shape::comment(world, &request.base, repository, &comment)))
}

fn add_labels(world: &mut World, request: &Request, place: usize, number: u64) -> Answer {
    let body = request.body.clone().unwrap_or_default();
    let names = body["labels"].as_array().or(body.as_array()).cloned().unwrap_or_default();
    world.tick();
    let repository = &mut world.repositories[place];
    let issue = repository.issues.get_mut(&number).unwrap();
    for name in names.iter().filter_map(|name| name.as_str().or(name["name"].as_str())) {
        let known =
            repository.labels.iter().find(|other| other.eq_ignore_ascii_case(name)).cloned();
        let name = known.unwrap_or_else(|| name.to_owned());
        repository.labels.insert(name.clone());
        if !issue.labels.contains(&name) {
            issue.labels.push(name);
        }
    }
    Answer::new(200, issue.labels.iter().map(|name| shape::label(name)).collect())
}

/// Who may not be assigned is left out without a word.
fn assign(world: &mut World, request: &Request, place: usize, number: u64) -> Answer {
    let names = request.field("assignees").as_array().cloned().unwrap_or_default();
    let repository = &mut world.repositories[place];
    for name in names.iter().filter_map(Value::as_str) {
        let assigned = repository.governance.assignees.entry(number).or_default();
        if repository.roles.contains_key(name) && !assigned.iter().any(|it| it == name) {
            assigned.push(name.to_owned());
        }
    }
    let repository = &world.repositories[place];
    let issue = &repository.issues[&number];
    Answer::new(201, shape::issue(world, &request.base, repository, issue))
}

fn remove_label(world: &mut World, place: usize, number: u64, name: &str) -> Option<Answer> {
    world.tick();
    let issue = world.repositories[place].issues.get_mut(&number)?;
    let at = issue.labels.iter().position(|label| label.eq_ignore_ascii_case(name));
    let Some(at) = at else { return Some(Answer::problem(404, "Label does not exist")) };
    issue.labels.remove(at);
    Some(Answer::new(200, issue.labels.iter().map(|name| shape::label(name)).collect()))
}

fn lock(world: &mut World, place: usize, number: u64, locked: bool) -> Option<Answer> {
    world.repositories[place].issues.get_mut(&number)?.locked = locked;
    Some(Answer::new(204, Value::Null))
}

fn react(world: &mut World, request: &Request, place: usize, issue: &Issue) -> Answer {
    let content = request.field("content").as_str().unwrap_or_default().to_owned();
    let mine =
        |reaction: &&Reaction| reaction.login == request.login && reaction.content == content;
    if let Some(known) = issue.reactions.iter().find(mine) {
        return Answer::new(200, shape::reaction(world, known));
    }
    if issue.locked {
        return Answer::problem(403, "Unable to create reaction because issue is locked.");
    }
    let reaction = Reaction { id: world.id(), login: request.login.clone(), content };
    let answer = Answer::new(201, shape::reaction(world, &reaction));
    world.repositories[place].issues.get_mut(&issue.number).unwrap().reactions.push(reaction);
    answer
}

/// Pictures as GitHub renders them; the rest does not matter. What stands in a comment is not there.
fn rendered(body: &str) -> String {
    let mut html = String::from("<p>");
    let mut rest = body;
    while let Some((before, after)) = rest.split_once("<!--") {
        html.push_str(before);
        rest = after.split_once("-->").map_or("", |(_, rest)| rest);
    }
    html.push_str(rest);
    while let Some(at) = html.find("![") {
        let Some((_, link)) = html[at..].split_once("](") else { break };
        let Some((address, after)) = link.split_once(')') else { break };
        html = format!("{}<img src=\"{address}\">{after}", &html[..at]);
    }
    html + "</p>"
}

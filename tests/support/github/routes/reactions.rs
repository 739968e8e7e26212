//! Reactions to comments, in conversations and on the diff.

use super::{Answer, Reaction, Request, Value, World, shape};

pub(super) fn answer(
    world: &mut World,
    request: &Request,
    place: usize,
    rest: &[&str],
) -> Option<Answer> {
    let (kind, id): (_, u64) = (rest[0], rest[2].parse().ok()?);
    let reactions = of(world, place, kind, id)?.clone();
    match (request.method.as_str(), &rest[3..]) {
        ("GET", ["reactions"]) => {
            let wanted = request.query("content");
            let items = reactions
                .iter()
                .filter(|reaction| wanted.is_none_or(|content| reaction.content == content))
                .map(|reaction| shape::reaction(world, reaction));
            let items = items.collect();
            Some(request.page(Some(&world.repositories[place]), items))
        }
        ("POST", ["reactions"]) => {
            let content = request.text("content");
            let mine = |reaction: &&Reaction| {
                reaction.login == request.login && reaction.content == content
            };
            if let Some(known) = reactions.iter().find(mine) {
                return Some(Answer::new(200, shape::reaction(world, known)));
            }
            let reaction = Reaction { id: world.id(), login: request.login.clone(), content };
            let answer = Answer::new(201, shape::reaction(world, &reaction));
            of(world, place, kind, id)?.push(reaction);
            Some(answer)
        }
        ("DELETE", ["reactions", reaction]) => {
            let reaction: u64 = reaction.parse().ok()?;
            let reactions = of(world, place, kind, id)?;
            let at = reactions.iter().position(|other| other.id == reaction)?;
            reactions.remove(at);
            Some(Answer::new(204, Value::Null))
        }
        _ => None,
    }
}

fn of<'a>(
    world: &'a mut World,
    place: usize,
    kind: &str,
    id: u64,
) -> Option<&'a mut Vec<Reaction>> {
    if kind == "pulls" {
        return world.review_comment_mut(place, id).map(|comment| &mut comment.reactions);
    }
    let comments = &mut world.repositories[place].comments;
    comments.iter_mut().find(|comment| comment.id == id).map(|comment| &mut comment.reactions)
}

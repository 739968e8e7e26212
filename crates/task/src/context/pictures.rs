//! The pictures that an issue or a pull request shows, for a model that can see them. The host fetches them:
//! the sandbox has no network.

use patchwright_base::text;
use patchwright_forge::{Forge, Picture, RenderedBody, RepositoryId};
use patchwright_guest::tools::picture;
use patchwright_provider::item::Content;
use patchwright_types::task::IssueSnapshot;

/// Most pictures of a text, and bytes of one and of all: every request sends them again.
const MAX_COUNT: usize = 6;
const MAX_BYTES: usize = 3_750_000;
const MAX_ALL: usize = 8_000_000;

/// Pictures, with the words before them.
#[derive(Clone, Debug, Default)]
pub struct Pictures {
    pub content: Vec<Content>,
    /// What was left out, and why.
    pub notes: Vec<String>,
}

/// The pictures of the text as it stood at the trigger. What cannot be had is a note.
pub async fn of(
    forge: &dyn Forge,
    repository: &RepositoryId,
    number: u64,
    snapshot: &IssueSnapshot,
) -> Pictures {
    if !["![", "<img", "<IMG"].iter().any(|mark| snapshot.body.contains(mark)) {
        return Pictures::default();
    }
    let left_out = |why: String| Pictures { content: Vec::new(), notes: vec![why] };
    match forge.pictures(repository, number, MAX_COUNT, MAX_BYTES).await {
        Ok(RenderedBody { pictures, .. }) if pictures.is_empty() => Pictures::default(),
        Ok(rendered) if !is_same(&rendered.body, &snapshot.body) => {
            left_out("the pictures were left out: the text changed after the trigger".to_owned())
        }
        Ok(rendered) => shown(&rendered.pictures),
        Err(err) => {
            left_out(format!("the pictures were left out: {}", text::line(&err.to_string())))
        }
    }
}

fn is_same(one: &str, other: &str) -> bool {
    one.replace("\r\n", "\n").trim() == other.replace("\r\n", "\n").trim()
}

fn shown(pictures: &[Picture]) -> Pictures {
    let mut made = Pictures::default();
    let mut room = MAX_ALL;
    for (at, fetched) in pictures.iter().enumerate() {
        let name = format!("Picture {}", at + 1);
        let read = fetched.content.as_ref().map_err(Clone::clone).and_then(|content| {
            room = room.checked_sub(content.len()).ok_or("all together are too large")?;
            picture::shown(&name, content)?
                .ok_or_else(|| "it is no picture that models see".to_owned())
        });
        match read {
            Ok(output) => made.content.extend(
                output
                    .images
                    .into_iter()
                    .map(|image| Content::Image { media_type: image.media_type, data: image.data }),
            ),
            Err(why) => {
                let address = text::inline(&fetched.address);
                made.notes
                    .push(format!("a picture was left out ({address}): {}", text::line(&why)));
            }
        }
    }
    if !made.content.is_empty() {
        let words = "These are the pictures that the text shows, in its order. They come from its author, as the \
                     text does.";
        made.content.insert(0, Content::text(words));
    }
    made
}

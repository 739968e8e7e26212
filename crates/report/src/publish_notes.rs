//! What people should know of a pull request of ours beside what is in it, as sentences: in its description, in the
//! comment on the issue, and in comments on the pull requests that it concerns.

use std::fmt::Write as _;

use super::answer::{commit_link, link};
use super::pr_body::is_plain_url;
use patchwright_base::text::code;
use patchwright_types::publish_notes::{
    LeftAlone, PublishNotes, PullBeside, ReplacedHead, Replacement, SaidThere, Unheard,
};

/// The purpose of the marker of the comment that says what took the place of what reviewers have seen.
pub const REPLACED: &str = "replaced";
/// The purpose of the marker of the comment on a pull request that was left alone.
pub const BESIDE: &str = "pull-request-beside";

/// A sentence or two for each. `own` is the pull request's number, where they do not stand in its description.
pub fn lines(notes: &PublishNotes, own: Option<u64>) -> Vec<String> {
    let replaced = notes.replaced.iter().map(|replaced| self::replaced(replaced, own));
    let beside = notes.beside.iter().map(beside);
    replaced.chain(beside).chain(notes.unheard.iter().map(unheard)).collect()
}

/// As a list.
pub fn list(notes: &PublishNotes, own: Option<u64>) -> String {
    lines(notes, own).iter().fold(String::new(), |list, line| list + "- " + line + "\n")
}

fn replaced(replaced: &ReplacedHead, own: Option<u64>) -> String {
    let ReplacedHead { from, to, told, how } = replaced;
    let which = own.map_or_else(|| "This".to_owned(), |number| format!("#{number}"));
    let heads = format!("{} took the place of {}", commit_link(to, None), commit_link(from, None));
    match how {
        Replacement::Anew => {
            let told = said(*told).map(|said| format!(", and {said} there")).unwrap_or_default();
            format!(
                "{which} was made anew on its base branch: {heads}. The model was told what it had before{told}."
            )
        }
        Replacement::Resumed => {
            let told = said(*told).map(|said| format!(" Its model was told {said} there."));
            let told = told.unwrap_or_default();
            format!("{which} has more work of the same run, which was resumed: {heads}.{told}")
        }
        Replacement::Unaware => format!(
            "{which} has another change now: {heads}. Another run had made that meanwhile, and the model was not told of it."
        ),
    }
}

/// What was said, in numbers; `None` where nothing was.
fn said(told: SaidThere) -> Option<String> {
    let SaidThere { threads, reviews, comments } = told;
    let parts = [
        (threads, "thread that is not resolved", "threads that are not resolved"),
        (reviews, "review", "reviews"),
        (comments, "comment", "comments"),
    ];
    let parts = parts.iter().filter(|(count, ..)| *count > 0);
    let parts: Vec<String> = parts.map(|(count, one, many)| counted(*count, one, many)).collect();
    match parts.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        [first @ .., last] => Some(format!("{} and {last}", first.join(", "))),
    }
}

fn beside(pull: &PullBeside) -> String {
    let PullBeside { number, why } = pull;
    format!(
        "#{number} is open for this as well. {}, so it was left as it is: close one of the two.",
        because(*why)
    )
}

fn because(why: LeftAlone) -> &'static str {
    match why {
        LeftAlone::CommitsOfPeople => "It has commits that people made or asked for",
        LeftAlone::Rule => "A rule lets nobody rewrite its branch",
    }
}

fn unheard(unheard: &Unheard) -> String {
    let Unheard { number, is_pull_request, edited, comments, newest } = unheard;
    let kind = if *is_pull_request { "Pull request" } else { "Issue" };
    let newest = newest.as_deref().filter(|url| is_plain_url(url));
    let newest = newest.map(|url| format!(" ([the newest]({url}))")).unwrap_or_default();
    let new = counted(*comments, "new or edited comment", "new or edited comments");
    let what = match (edited, comments) {
        (true, 0) => "was edited".to_owned(),
        (true, _) => format!("was edited and has {new}{newest}"),
        (false, _) => format!("has {new}{newest}"),
    };
    format!(
        "{kind} #{number} {what} since this was asked for. That is not in it: ask again to have it worked on."
    )
}

fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// The comment on a pull request on which people have said something, when another change took the place of what they
/// looked at. `about` is the issue.
pub fn replaced_comment(notes: &PublishNotes, about: Option<u64>, run_url: Option<&str>) -> String {
    let how = notes.replaced.as_ref().map(|it| it.how).unwrap_or_default();
    let mut out = match how {
        Replacement::Anew => "**Patchwright has made this anew**".to_owned(),
        Replacement::Resumed => "**Patchwright has resumed its work on this**".to_owned(),
        Replacement::Unaware => "**Patchwright has replaced the change in this**".to_owned(),
    };
    if let Some(number) = about.filter(|_| how != Replacement::Resumed) {
        let _ = write!(out, ", because #{number} was worked on again");
    }
    let _ = write!(out, "{}\n\n{}", link(run_url), list(notes, None));
    out.push_str(
        "\nThreads stay as they are: whether what they ask for is done, the description and the difference say.\n",
    );
    out
}

/// The comment on a pull request that was left alone. `other` is the one beside it.
pub fn beside_comment(other: u64, why: LeftAlone, mention: &str, run_url: Option<&str>) -> String {
    format!(
        "**#{other} is open for the same as this**{}\n\n{}, so a run has left it as it is and opened the other one. \
         Close one of the two. To have something changed here, ask here: {}.\n",
        link(run_url),
        because(why),
        code(&format!("@{mention} fix …"))
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_counted_in_words() {
        let told = |threads, reviews, comments| said(SaidThere { threads, reviews, comments });
        assert_eq!(told(0, 0, 0), None);
        assert_eq!(told(1, 0, 0).unwrap(), "1 thread that is not resolved");
        assert_eq!(
            told(2, 1, 3).unwrap(),
            "2 threads that are not resolved, 1 review and 3 comments"
        );
    }

    #[test]
    fn the_model_is_said_to_know_what_was_there_only_where_it_was_told() {
        for (how, begins, is_told) in [
            (Replacement::Anew, "#8 was made anew on its base branch: ", true),
            (Replacement::Resumed, "#8 has more work of the same run, which was resumed: ", false),
            (Replacement::Unaware, "#8 has another change now: ", false),
        ] {
            let (from, to) = ("a".repeat(40), "b".repeat(40));
            let line =
                replaced(&ReplacedHead { from, to, told: SaidThere::default(), how }, Some(8));
            assert!(line.starts_with(begins), "{line}");
            assert_eq!(line.contains("The model was told"), is_told, "{line}");
        }
    }

    #[test]
    fn what_came_too_late_is_named_with_its_page() {
        let url = "https://github.com/acme/app/issues/7#issuecomment-1";
        let all = |edited, comments| Unheard {
            number: 7,
            is_pull_request: false,
            edited,
            comments,
            newest: (comments > 0).then(|| url.to_owned()),
        };
        let begins = |it: Unheard, with: &str| assert!(unheard(&it).starts_with(with), "{with}");
        begins(all(true, 0), "Issue #7 was edited since");
        begins(
            all(false, 1),
            &format!("Issue #7 has 1 new or edited comment ([the newest]({url})) since"),
        );
        begins(all(true, 2), "Issue #7 was edited and has 2 new or edited comments (");
    }
}

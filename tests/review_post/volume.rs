//! How much a review asks of people: the words on its pages, its writes to GitHub, its notifications.
//! The bounds are upper ones. A text that needs more room has to find it in another.

use super::{adds, finding, github, module, review, reviewer, sticky};
use crate::support::github::GitHub;
use crate::support::model::Turn;
use crate::support::world::TestWorld;

/// What one review put on the pages of a pull request.
#[derive(Debug, Default, PartialEq, Eq)]
struct Volume {
    /// Words that people see without opening anything, and all of them.
    shown: usize,
    words: usize,
    annotations: usize,
    writes: usize,
    notifications: usize,
}

/// Words of the texts, without HTML comments and link definitions, which nobody sees.
fn words(texts: &[String], is_counted: impl Fn(usize) -> bool) -> usize {
    let mut depth = 0;
    let mut count = 0;
    for line in texts.iter().flat_map(|text| text.lines()) {
        depth += line.matches("<details>").count();
        let is_hidden = line.starts_with("<!--") || line.starts_with("[//]: #");
        // The line of a fold that is closed is seen.
        let folds = depth.saturating_sub(line.matches("<summary>").count());
        if !is_hidden && is_counted(folds) {
            let plain = line.replace(['|', '<', '>', '*', '#'], " ");
            let has_letters = |word: &&str| word.chars().any(char::is_alphanumeric);
            count += plain.split_whitespace().filter(has_letters).count();
        }
        depth = depth.saturating_sub(line.matches("</details>").count());
    }
    count
}

/// Creating a comment or a review notifies everybody who watches; editing and checks notify nobody.
fn notifies(write: &str) -> bool {
    let created =
        ["POST /repos/acme/app/issues/3/comments ", "POST /repos/acme/app/pulls/3/reviews "];
    created.iter().any(|created| write.starts_with(created))
}

fn volume(turns: Vec<Turn>) -> Volume {
    let world = TestWorld::new(github().actions_token(), turns);
    review(&world).expect(0);
    let reviews = world.github.reviews(3);
    let mut texts: Vec<String> = reviews.into_iter().map(|review| review.body).collect();
    texts.push(sticky(&world));
    let [check] = <[_; 1]>::try_from(world.github.check_runs()).unwrap();
    texts.push(check.summary.unwrap_or_default());
    let writes = world.github.writes();
    Volume {
        shown: words(&texts, |folds| folds == 0),
        words: words(&texts, |_| true),
        annotations: check.annotations.len(),
        writes: writes.len(),
        notifications: writes.iter().filter(|write| notifies(write)).count(),
    }
}

impl Volume {
    fn is_within(&self, bound: &Volume) -> bool {
        self.shown <= bound.shown
            && self.words <= bound.words
            && self.annotations <= bound.annotations
            && self.writes <= bound.writes
            && self.notifications <= bound.notifications
    }
}

#[test]
fn a_clean_review_is_short_and_notifies_once() {
    let volume = volume(reviewer([]));
    let bound = Volume { shown: 50, words: 90, annotations: 0, writes: 4, notifications: 1 };
    assert!(volume.is_within(&bound), "{volume:?}");
}

#[test]
fn a_review_with_three_findings_says_each_once() {
    let volume = volume(reviewer([adds(3, 1), adds(5, 2), adds(7, 2)]));
    // The claim creates the comment in the conversation, the review is the second. The check is announced and ended.
    let bound = Volume { shown: 135, words: 175, annotations: 0, writes: 5, notifications: 2 };
    assert!(volume.is_within(&bound), "{volume:?}");
}

#[test]
fn what_is_beyond_thirty_comments_is_annotated_and_what_is_minor_is_not() {
    let github = GitHub::new().repository("acme/app", &[("README.md", "# app\n")]).pull(
        3,
        "Add functions",
        "feature",
        &[("calc.py", &module(1..35))],
    );
    let findings = (1..35).map(|n| adds(n, if n > 32 { 3 } else { 1 }));
    let world = TestWorld::new(github.actions_token(), reviewer(findings));
    review(&world).expect(0);
    assert_eq!(world.github.review_comments(3).len(), 30);
    let check = &world.github.check_runs()[0];
    let titles: Vec<&str> =
        check.annotations.iter().map(|it| it["title"].as_str().unwrap()).collect();
    assert_eq!(titles, ["P1: Adds 31", "P1: Adds 32"]);
}

#[test]
fn later_reviews_notify_once_or_not_at_all() {
    let world = TestWorld::new(github().actions_token(), reviewer([adds(3, 1)]));
    review(&world).expect(0);
    let mut before = world.github.writes().len();
    let mut later = |files: &[(&str, &str)], turns: Vec<Turn>| {
        world.github.push_to_pull(3, files);
        world.model.add(turns);
        review(&world).expect(0);
        let writes = world.github.writes().split_off(before);
        before += writes.len();
        (writes.len(), writes.iter().filter(|write| notifies(write)).count())
    };
    let changed = module(1..11).replace("return x + 9\n", "return 9 + x\n");
    let nine = finding("calc.py", "    return 9 + x", "Adds 9", 1);
    // The claim, the review, the comment in the conversation, the check twice: announced and ended.
    assert_eq!(later(&[("calc.py", &changed)], reviewer([nine])), (5, 1));
    let again = changed.replace("return x + 10\n", "return 10 + x\n");
    assert_eq!(later(&[("calc.py", &again)], reviewer([])), (4, 0));
}

//! `report_finding`: one thing that is wrong with the change under review, and the code that shows it.

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{HostCall, Tool};
use crate::review::ReviewContext;
use crate::schema;
use patchwright_base::text;
use patchwright_guest::tool::{Effect, ToolError, ToolOutput};
use patchwright_journal::Entry;
use patchwright_review::finding::{Category, Finding, Priority, Verdict};
use patchwright_review::title::is_same_title;

/// Most findings of one review that are at least as important as the next one; and of those that must
/// not be merged.
const MAX_FINDINGS: usize = 200;
const MAX_GRAVE: usize = 1000;
/// Findings that are kept at all, so that the review can say how many it left out.
const MAX_COUNTED: usize = 2000;
/// Characters of a title that are kept.
const MAX_TITLE: usize = 200;
/// Bytes of a body, a quote and a replacement.
const MAX_BODY: usize = 16 << 10;
const MAX_CODE: usize = 8 << 10;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// Changed file, relative to the root of the repository.
    path: String,
    /// The lines that it is about, copied from the file exactly: whole lines, without signs and numbers,
    /// as few as show the problem.
    quote: String,
    /// Number of the first quoted line.
    line: Option<u32>,
    /// What is wrong, in one line.
    title: String,
    /// Why it is wrong, when it shows and what to do about it; Markdown.
    body: String,
    /// 0: must not be merged like this; 1: fix it in this pull request; 2: fix it some time; 3: nice to
    /// have.
    #[schemars(range(min = 0, max = 3))]
    priority: u8,
    /// How sure you are that it is a real problem, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    confidence: f64,
    category: Category,
    /// What stands in place of the quoted lines; only when it is complete and you are sure. An empty one counts as none.
    replacement: Option<String>,
    /// Only when you ran something that showed the problem: the command, and what came out, in a few lines.
    reproduction: Option<String>,
}

pub struct ReportFinding;

#[async_trait]
impl Tool for ReportFinding {
    fn name(&self) -> &'static str {
        "report_finding"
    }

    fn effect(&self) -> Effect {
        Effect::Reads
    }

    fn schema(&self) -> Value {
        schema::of::<Args>()
    }

    async fn call(&self, ctx: &HostCall<'_>, args: Value) -> Result<ToolOutput, ToolError> {
        let args: Args = patchwright_guest::tools::parse_args(self.name(), args)?;
        let review_context = super::review_context(ctx)?;
        let (finding, place, is_placed) = match checked(review_context, args)? {
            Checked::Good { finding, place, is_placed } => (finding, place, is_placed),
            Checked::SendBack { finding, why } => {
                return Err(send_back(ctx, review_context, finding, &why));
            }
        };
        // Held from the comparison to the entry: calls of one reply run side by side.
        let mut findings = ctx.findings.lock();
        let on_lines = is_placed.then_some(place.as_str());
        let same = SameFindings { review_context, findings: &findings, new: &finding, on_lines };
        if let Some(at) = same.replaced() {
            return replace(ctx, review_context, &mut findings[at], at + 1, finding, &place);
        }
        let beside = same.beside();
        let most = if finding.priority == Priority::P0 { MAX_GRAVE } else { MAX_FINDINGS };
        let too_many =
            findings.iter().filter(|known| known.priority <= finding.priority).count() >= most;
        let only_graver = |what: &str| {
            Err(ToolError::tell(format!(
                "{what}: there are {most} findings that are as important, the most of one review. Go on \
                 only with graver ones, or end with the summary"
            )))
        };
        if too_many && findings.len() >= MAX_COUNTED {
            return only_graver("not reported");
        }
        ctx.journal
            .append(&Entry::Found { finding: finding.clone() })
            .map_err(|failure| ToolError::Broken(failure.to_string()))?;
        findings.push(finding);
        if too_many {
            // The review says how many there were.
            return only_graver("counted only");
        }
        Ok(ToolOutput::text(format!("Finding {}: {place}{beside}", findings.len())))
    }
}

/// A finding that was looked at.
enum Checked {
    Good {
        finding: Finding,
        /// In words.
        place: String,
        /// It stands on lines of the difference.
        is_placed: bool,
    },
    /// It has to be reported again.
    SendBack { finding: Finding, why: String },
}

/// Takes what the model says anew of a finding, which keeps its number. Whoever was asked to look at it once more and says
/// it in other words says that it stands.
fn replace(
    ctx: &HostCall<'_>,
    review_context: &ReviewContext<'_>,
    known: &mut Finding,
    number: usize,
    finding: Finding,
    place: &str,
) -> Result<ToolOutput, ToolError> {
    // What was run to show it was run, whatever is said of it now.
    let reproduction = finding.reproduction.clone().or_else(|| known.reproduction.clone());
    let finding = Finding { verdict: known.verdict, reproduction, ..finding };
    if (Finding { quote: known.quote.clone(), line: known.line, ..finding.clone() }) == *known {
        return Ok(ToolOutput::text(format!("Reported before as finding {number}")));
    }
    let (verdict, confirmed) = if review_context.is_questioned(number) {
        (Verdict::Confirmed, " and confirmed")
    } else {
        (finding.verdict, "")
    };
    let finding = Finding { verdict, ..finding };
    ctx.journal
        .append(&Entry::Replaced { number, finding: finding.clone() })
        .map_err(|failure| ToolError::Broken(failure.to_string()))?;
    *known = finding;
    let said = format!("Finding {number}, replaced{confirmed}: {place}");
    Ok(ToolOutput::text(said))
}

/// Keeps the finding, so that nothing is lost when the model leaves it at that.
fn send_back(
    ctx: &HostCall<'_>,
    review_context: &ReviewContext<'_>,
    finding: Finding,
    why: &str,
) -> ToolError {
    let entry = Entry::SentBack { finding: finding.clone() };
    if let Err(failure) = ctx.journal.append(&entry) {
        return ToolError::Broken(failure.to_string());
    }
    review_context.send_back(finding);
    ToolError::tell(format!("not reported yet: {why}"))
}

impl Args {
    /// More than is kept of a finding.
    fn is_too_long(&self) -> bool {
        let code = self.quote.len().max(self.replacement.as_ref().map_or(0, String::len));
        self.body.len() > MAX_BODY || code > MAX_CODE
    }
}

/// The finding as it is kept, and where it stands; or what has to be different.
fn checked(review_context: &ReviewContext<'_>, args: Args) -> Result<Checked, ToolError> {
    let refuse = |why: &str| Err(ToolError::tell(format!("not reported: {why}")));
    let title = text::cut(&text::line(&args.title), MAX_TITLE);
    if title.is_empty() {
        return refuse("`title` is empty; say in one line what is wrong");
    }
    if args.body.trim().is_empty() {
        return refuse("`body` is empty; say why it is wrong and when it shows");
    }
    let Ok(priority) = Priority::try_from(args.priority) else {
        return refuse("`priority` is 0, 1, 2 or 3");
    };
    if !(0.0..=1.0).contains(&args.confidence) {
        return refuse("`confidence` is a number from 0 to 1");
    }
    let is_too_long = args.is_too_long();
    let mut finding = Finding {
        path: args.path.trim().to_owned(),
        quote: text::head(&args.quote, MAX_CODE),
        line: args.line,
        title,
        body: text::head(args.body.trim(), MAX_BODY),
        priority,
        confidence: args.confidence,
        category: args.category,
        replacement: args.replacement.filter(|_| !is_too_long),
        reproduction: review_context.reproduction(args.reproduction.as_deref()),
        verdict: Verdict::Pending,
    };
    let placed = (review_context.place)(&finding);
    finding.path = placed.path;
    let why = if finding.quote.trim().is_empty() && placed.has_lines {
        "`quote` is empty; copy the lines that it is about from the file".to_owned()
    } else if is_too_long {
        "it is too long; quote only the lines that show the problem".to_owned()
    } else {
        match placed.words {
            Ok(place) => return Ok(Checked::Good { finding, place, is_placed: true }),
            // A picture or a mode has no lines that could be quoted.
            Err(_) if placed.is_changed && !placed.has_lines => {
                let place = format!("about {} as a whole", text::code(&finding.path));
                return Ok(Checked::Good { finding, place, is_placed: false });
            }
            Err(why) if placed.is_changed => why,
            Err(_) => format!(
                "this file is not changed by the pull request; the nearest that are: {}",
                review_context.nearest(&finding.path)
            ),
        }
    };
    if review_context.was_sent_back(&finding) {
        let lines = placed.off_diff.as_ref();
        let place = lines.map_or("kept without a place on the diff".to_owned(), |lines| {
            format!("kept for {lines} of the file, which the difference does not show")
        });
        return Ok(Checked::Good { finding, place, is_placed: false });
    }
    let why = format!(
        "{why}\nCorrect it and report it again. When it is right as it is, report it unchanged: it is \
         then kept without a place on the diff"
    );
    Ok(Checked::SendBack { finding, why })
}

/// The findings before, for the question which of them a new one is.
struct SameFindings<'a> {
    review_context: &'a ReviewContext<'a>,
    findings: &'a [Finding],
    new: &'a Finding,
    /// Where the new one stands on the difference.
    on_lines: Option<&'a str>,
}

impl SameFindings<'_> {
    /// The earlier finding that the new one replaces: the one at the same lines with the same title. In the second look a
    /// similar title is enough, when it is the only one there; before that, similar titles may be two problems of one line.
    fn replaced(&self) -> Option<usize> {
        let words = |text: &str| words(text).to_lowercase();
        let has_title = |at: &usize| words(&self.findings[*at].title) == words(&self.new.title);
        let here = self.at_same_place();
        if let Some(same) = here.iter().copied().find(has_title) {
            return Some(same);
        }
        let is_meant = |at: &usize| {
            self.review_context.is_questioned(*at + 1)
                && is_same_title(&self.findings[*at].title, &self.new.title)
        };
        match here.into_iter().filter(is_meant).collect::<Vec<_>>().as_slice() {
            [only] => Some(*only),
            _ => None,
        }
    }

    /// What else was reported there, in words; empty when nothing was.
    fn beside(&self) -> String {
        let numbers: Vec<String> =
            self.at_same_place().iter().map(|at| (at + 1).to_string()).collect();
        match numbers.as_slice() {
            [] => String::new(),
            [one] => {
                format!(", where finding {one} stands: withdraw that one if this takes its place")
            }
            several => format!(
                ", where findings {} stand: withdraw the one that this takes the place of, if any",
                several.join(", ")
            ),
        }
    }

    /// Those that stand at the place of the new one; without a place on the difference, those that quote the same lines of
    /// the same file.
    fn at_same_place(&self) -> Vec<usize> {
        let is_here = |known: &Finding| {
            if known.verdict == Verdict::Withdrawn || known.path != self.new.path {
                return false;
            }
            match ((self.review_context.place)(known).words.ok(), self.on_lines) {
                (Some(known), Some(new)) => known == new,
                (None, None) => {
                    words(&known.quote).to_lowercase() == words(&self.new.quote).to_lowercase()
                        && (known.line == self.new.line
                            || known.line.is_none()
                            || self.new.line.is_none())
                }
                _ => false,
            }
        };
        let all = self.findings.iter().enumerate();
        all.filter(|(_, known)| is_here(known)).map(|(at, _)| at).collect()
    }
}

/// With single spaces.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

//! Why targets failed, and the command that has those of one class tried again.

use maud::{Markup, html};

use super::super::figures::Figures;
use super::super::retry_command;
use patchwright_types::campaign::{CampaignState, CampaignView, ErrorClass};

pub(super) fn section(view: &CampaignView, figures: &Figures) -> Markup {
    if figures.by_class.is_empty() {
        return html! {};
    }
    let mut classes: Vec<_> = figures.by_class.iter().collect();
    classes.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let can_retry = view.campaign.state != CampaignState::Closed;
    html! {
        section aria-labelledby="errors" {
            h2 id="errors" { "Failures" }
            div class="scroll" tabindex="0" role="region" aria-label="Table of failures" {
                table class="small" {
                    thead { tr {
                        th scope="col" { "Error class" } th scope="col" class="number" { "Count" }
                        th scope="col" { "Means" }
                        @if can_retry { th scope="col" { "Try again" } }
                    } }
                    tbody {
                        @for (class, count) in classes {
                            @let word = class.map_or("none", ErrorClass::word);
                            tr {
                                th scope="row" { a href={ "#state=failed&class=" (word) } { (word) } }
                                td class="number" { (count) }
                                td { (class.map_or("No class was recorded.", meaning)) }
                                @if can_retry { td { @if let Some(class) = class {
                                    code { (retry_command(&view.campaign, Some(*class))) }
                                } } }
                            }
                        }
                    }
                }
            }
            @if can_retry {
                p class="meta" {
                    "All of them: " code { (retry_command(&view.campaign, None)) } ", only one repository: "
                    code { (retry_command(&view.campaign, None)) " --repository OWNER/NAME" } "."
                }
            }
        }
    }
}

/// An error class in a sentence.
fn meaning(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::Access => "The repository is gone, or the token may not see or write it.",
        ErrorClass::Clone => "Fetching the repository failed.",
        ErrorClass::Sandbox => "Sandbox, image or setup.",
        ErrorClass::Model => "The model's provider.",
        ErrorClass::Budget => "A budget or the deadline of the run.",
        ErrorClass::Policy => "Policy refused the change.",
        ErrorClass::Checks => "The repository's checks fail on the change.",
        ErrorClass::Agent => "The agent gave up.",
        ErrorClass::Question => "The agent needs an answer: repeat it with `--instructions`.",
        ErrorClass::Output => "The result is not the JSON that was asked for.",
        ErrorClass::Publish => "Push or pull request.",
        ErrorClass::Forge => "GitHub was unavailable, or limited us for too long.",
        ErrorClass::Conflict => "The branch has commits of other people.",
        ErrorClass::Configuration => "Wrong configuration, the same everywhere.",
        ErrorClass::Machine => "The worker's machine: disk, memory, state folder.",
        ErrorClass::Lost => "Its worker died or hung again and again.",
        ErrorClass::Internal => "A defect in Patchwright.",
    }
}

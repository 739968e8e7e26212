//! The work of a run that may change something, as data: what the kinds of task that do so differ in.
//!
//! A job is made from what the `admit` of its kind returned and from a checkout, and is carried out by
//! [`crate::pipeline::carry_out`].

use super::admit::AdmittedIssue;
use super::earlier::EarlierPull;
use super::respond::admit::AdmittedCommand;
use super::respond::work::Instruction;
use super::workspace::Checkout;
use patchwright_agent::ExpectedChange;
use patchwright_base::error::Result;
use patchwright_config::Mode;
use patchwright_git::Oid;
use patchwright_prompt as prompt;
use patchwright_types::task::{CampaignRequest, ExecRequest, PromptRequest, Trigger};

/// What a run is to do.
pub(super) struct Job<'a> {
    pub subject: Subject<'a>,
    pub checkout: &'a Checkout,
    pub baseline: Baseline,
    /// The model may end without a change: what was asked may have been a question.
    pub answer_suffices: bool,
    /// The work has a result beside the change, which can be asked for as JSON.
    pub has_result: bool,
    /// Overrides the default text about the mode.
    pub mode_text: Option<&'static str>,
    /// Subject of the commit; the model's own words when absent.
    pub commit_title: Option<&'a str>,
    /// Lines below the commit's message, beside the run's own.
    pub trailers: &'a [String],
    /// What the agent finds in the workspace, where that is not the tree of the commit that the change is
    /// made on.
    pub start_tree: Option<Oid>,
    /// The open pull requests of earlier runs for the same.
    pub earlier: &'a [EarlierPull],
}

/// What the task in words is made from.
#[derive(Clone, Copy)]
pub(super) enum Subject<'a> {
    Issue(&'a AdmittedIssue),
    Exec(&'a ExecRequest),
    Prompt(&'a PromptRequest),
    Campaign(&'a CampaignRequest),
    Command(&'a AdmittedCommand, &'a Instruction<'a>),
    Triage(&'a RenderedTask),
}

/// A task that is in words already, and what was left out of them.
#[derive(Clone, Debug)]
pub(super) struct RenderedTask {
    pub text: String,
    pub notes: Vec<String>,
}

/// Which commit the checks run on before the model works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Baseline {
    OfBase,
    /// The head of a pull request, which is what a command changes.
    OfHead,
    /// Nothing is to be changed, so there is nothing to compare.
    None,
}

impl<'a> Job<'a> {
    fn new(subject: Subject<'a>, checkout: &'a Checkout, baseline: Baseline) -> Job<'a> {
        Job {
            subject,
            checkout,
            baseline,
            answer_suffices: false,
            has_result: false,
            mode_text: None,
            commit_title: None,
            trailers: &[],
            start_tree: None,
            earlier: &[],
        }
    }

    /// Whoever carries it out publishes the change. That of a campaign is stored, and published by another process.
    pub(super) fn is_published(&self) -> bool {
        match self.subject {
            Subject::Issue(_) | Subject::Prompt(_) => true,
            Subject::Command(..) => self.baseline != Baseline::None,
            Subject::Exec(_) | Subject::Campaign(_) | Subject::Triage(_) => false,
        }
    }

    /// What the model says last becomes a title.
    /// Of a campaign and of CI's failures, the task itself says that nothing may have to be changed.
    pub(super) fn expected_change(&self) -> ExpectedChange {
        match self.subject {
            _ if self.baseline == Baseline::None => ExpectedChange::None,
            _ if self.answer_suffices => ExpectedChange::Possible,
            Subject::Campaign(_) => ExpectedChange::UnlessSaid,
            Subject::Command(_, told) if !told.failures.is_empty() => ExpectedChange::UnlessSaid,
            _ => ExpectedChange::Required,
        }
    }

    pub(super) fn names_its_change(&self) -> bool {
        let has_forge = !matches!(self.subject, Subject::Exec(_));
        has_forge && self.commit_title.is_none() && self.baseline != Baseline::None
    }

    pub(super) fn issue(issue: &'a AdmittedIssue, checkout: &'a Checkout) -> Job<'a> {
        Job::new(Subject::Issue(issue), checkout, Baseline::OfBase)
    }

    /// Who set this off, where it is worked on again and again: for an issue, or a prompt.
    pub(super) fn trigger(&self) -> Option<&'a Trigger> {
        match self.subject {
            Subject::Issue(issue) => issue.request.trigger.as_ref(),
            Subject::Prompt(request) => request.trigger.as_ref(),
            Subject::Exec(_) | Subject::Campaign(_) | Subject::Command(..) | Subject::Triage(_) => {
                None
            }
        }
    }

    pub(super) fn exec(request: &'a ExecRequest, checkout: &'a Checkout) -> Job<'a> {
        let job = Job::new(Subject::Exec(request), checkout, Baseline::OfBase);
        Job { answer_suffices: true, has_result: true, ..job }
    }

    pub(super) fn prompt(request: &'a PromptRequest, checkout: &'a Checkout) -> Job<'a> {
        let job = Job::new(Subject::Prompt(request), checkout, Baseline::OfBase);
        Job { answer_suffices: true, has_result: true, ..job }
    }

    /// # Errors
    /// When the prompts cannot be read.
    pub(super) fn campaign(
        request: &'a CampaignRequest,
        checkout: &'a Checkout,
    ) -> Result<Job<'a>> {
        let (baseline, mode_text) = if request.answer {
            (Baseline::None, Some(prompt::text("mode/report.md")?))
        } else {
            (Baseline::OfBase, None)
        };
        let job = Job::new(Subject::Campaign(request), checkout, baseline);
        let has_result = request.answer;
        Ok(Job { mode_text, has_result, commit_title: request.title.as_deref(), ..job })
    }

    /// The job for an issue that is sorted, not solved.
    pub(super) fn triage(
        told: &'a RenderedTask,
        checkout: &'a Checkout,
        mode_text: &'static str,
    ) -> Job<'a> {
        let job = Job::new(Subject::Triage(told), checkout, Baseline::None);
        Job { has_result: true, answer_suffices: true, mode_text: Some(mode_text), ..job }
    }

    pub(super) fn command(
        admitted: &'a AdmittedCommand,
        instruction: &'a Instruction<'a>,
        checkout: &'a Checkout,
        mode: Mode,
    ) -> Job<'a> {
        let baseline = match (mode, instruction.conflict) {
            (Mode::Execute, Some(_)) => Baseline::OfBase,
            (Mode::Execute, None) => Baseline::OfHead,
            (Mode::Plan | Mode::Review, _) => Baseline::None,
        };
        let job = Job::new(Subject::Command(admitted, instruction), checkout, baseline);
        Job {
            mode_text: instruction.mode,
            trailers: &instruction.trailers,
            commit_title: instruction.conflict.map(|conflict| conflict.title.as_str()),
            start_tree: instruction.conflict.map(|conflict| conflict.tree),
            ..job
        }
    }
}

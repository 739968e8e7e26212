//! The list of runs: a form to search it, and its pages.

use chrono::DateTime;
use maud::{Markup, html};

use super::{shell, subject, time, wide};
use crate::server::visitor::Visitor;
use crate::store::{MOST_EXAMINED, RunCursor, RunPage, RunRow, RunSearch};
use patchwright_base::text;
use patchwright_report::campaign::duration;

/// What the page shows.
pub(in crate::server) struct RunList<'a> {
    pub(in crate::server) search: &'a RunSearch,
    /// What was asked for and is not a search.
    pub(in crate::server) mistake: Option<&'a str>,
    pub(in crate::server) page: RunPage,
    /// Runs of the page whose report is on this machine.
    pub(in crate::server) reports: Vec<String>,
}

pub(in crate::server) fn runs(list: &RunList<'_>, visitor: &Visitor) -> String {
    let RunList { search, page, .. } = list;
    let content = html! {
        h1 { "Runs" }
        (form(search))
        @if let Some(mistake) = list.mistake { p role="alert" { (mistake) } }
        @if page.rows.is_empty() { p .note { "No run is like that here." } } @else {
            (wide("Runs", &table(list)))
        }
        @if page.is_cut {
            p .note {
                "Searched " (MOST_EXAMINED) " runs; the next page searches on."
            }
        }
        nav aria-label="Pages of runs" {
            @if let Some(newer) = page.newer { a rel="prev" href=(link(search, newer)) { "Newer" } }
            @if let Some(older) = page.older { a rel="next" href=(link(search, older)) { "Older" } }
        }
    };
    shell("Runs - Patchwright", Some(visitor), &content)
}

fn form(search: &RunSearch) -> Markup {
    let number = search.number.map(|number| number.to_string());
    let fields = [
        ("repository", "Repository (OWNER/REPO)", search.repository.as_deref()),
        ("number", "Number", number.as_deref()),
        ("conclusion", "Conclusion", search.conclusion.as_deref()),
        ("text", "Text", search.text.as_deref()),
    ];
    html! {
        form .search method="get" action="/runs" role="search" {
            @for (name, label, value) in fields {
                div {
                    label for=(name) { (label) }
                    input id=(name) name=(name) value=(value.unwrap_or_default()) maxlength="200";
                }
            }
            button { "Search" }
        }
    }
}

fn table(list: &RunList<'_>) -> Markup {
    html! { table {
        tr {
            th { "Ended" } th { "About" } th { "Conclusion" } th { "What became of it" }
            th .n { "Cost" } th .n { "Took" } th { "Report" }
        }
        @for row in &list.page.rows { (line(list, row)) }
    } }
}

fn line(list: &RunList<'_>, row: &RunRow) -> Markup {
    let run = &row.ended;
    html! {
        tr {
            td { @if let Some(at) = DateTime::from_timestamp_millis(row.at) { (time(at)) } }
            td { (subject(Some(&run.repository), run.number)) " " span .note { (text::line(&run.about)) } }
            td { (text::line(&run.conclusion)) }
            td { (text::line(&run.text)) }
            td .n { (format!("${:.2}", run.cost_usd)) }
            td .n { (duration(run.milliseconds)) }
            td {
                @if let Some(id) = &run.run {
                    @if list.reports.contains(id) {
                        a href=(format!("/runs/{id}/report.html")) { (text::line(id)) }
                    } @else { code { (text::line(id)) } }
                }
            }
        }
    }
}

/// The search at another page.
fn link(search: &RunSearch, at: RunCursor) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    let number = search.number.map(|number| number.to_string());
    for (name, value) in [
        ("repository", &search.repository),
        ("number", &number),
        ("conclusion", &search.conclusion),
        ("text", &search.text),
    ] {
        if let Some(value) = value {
            query.append_pair(name, value);
        }
    }
    match at {
        RunCursor::Newest => {}
        RunCursor::Before(id) => drop(query.append_pair("before", &id.to_string())),
        RunCursor::After(id) => drop(query.append_pair("after", &id.to_string())),
    }
    format!("/runs?{}", query.finish())
}

/// The runs that failed like this.
pub(super) fn search_of_class(class: &str) -> String {
    let search = RunSearch { conclusion: Some(class.to_owned()), ..RunSearch::default() };
    link(&search, RunCursor::Newest)
}

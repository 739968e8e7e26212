//! `GET /runs`: the ended runs, searched and in pages.

use std::sync::Arc;

use axum::Extension;
use axum::extract::{RawQuery, State};
use axum::response::Response;

use super::visitor::Visitor;
use super::{ServerState, dashboard, page, reports};
use crate::store::{RunCursor, RunPage, RunSearch};
use patchwright_base::text;

/// The longest value of a field, in characters.
const LONGEST: usize = 200;

pub(super) async fn runs(
    State(shared): State<Arc<ServerState>>,
    Extension(visitor): Extension<Visitor>,
    RawQuery(query): RawQuery,
) -> Response {
    let (search, mistake) = search(query.as_deref().unwrap_or_default());
    let found = match mistake {
        None => shared.fleet.store.runs(&search).await,
        Some(_) => Ok(RunPage::default()),
    };
    let page = match found {
        Ok(page) => page,
        Err(err) => return dashboard::trouble(&err),
    };
    let state = shared.fleet.state.clone();
    let ids: Vec<String> = page.rows.iter().filter_map(|row| row.ended.run.clone()).collect();
    let here = move || ids.into_iter().filter(|id| reports::is_here(&state, id)).collect();
    let reports = tokio::task::spawn_blocking(here).await.unwrap_or_default();
    let list = page::RunList { search: &search, mistake, page, reports };
    dashboard::page_response(&shared, &page::runs(&list, &visitor), &page::policy())
}

/// What is looked for, and what is wrong with it.
fn search(query: &str) -> (RunSearch, Option<&'static str>) {
    let (mut search, mut mistake) = (RunSearch::default(), None);
    for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
        // Cleaned, because the page shows it again.
        let value: String = text::line(&value).chars().take(LONGEST).collect();
        if value.is_empty() {
            continue;
        }
        let number = || value.trim_start_matches('#').parse::<i64>();
        match &*name {
            "repository" => search.repository = Some(value),
            "conclusion" => search.conclusion = Some(value),
            "text" => search.text = Some(value),
            "number" => match number() {
                Ok(number) => search.number = Some(number),
                Err(_) => mistake = Some("The number has to be one, such as 17."),
            },
            "before" => search.from = number().map_or(search.from, RunCursor::Before),
            "after" => search.from = number().map_or(search.from, RunCursor::After),
            _ => {}
        }
    }
    (search, mistake)
}

//! Lists: follows `Link: rel="next"` to the end, or fails; never a silent part of a list.
//!
//! GitHub's page links go by `/repositories/{id}/…` and some have a cursor instead of a number, so
//! they are followed as they are, path and query, on the API's own host only. octocrab's `Page` follows
//! them to whatever host they name, and does not know every list that is in an object: check runs.

use std::collections::VecDeque;

use serde::de::DeserializeOwned;

use super::http::{Api, Call};
use crate::ForgeError;

pub(super) const PAGE_SIZE: usize = 100;
/// More pages than any list that we read has.
const MOST_PAGES: usize = 1000;
/// Most pages of a list of which nothing is kept. A hundred repositories each make a million.
const LONGEST_LIST: usize = 10_000;

/// Where an answer says that the list goes on.
#[derive(Debug, Default, PartialEq, Eq)]
struct Links {
    next: Option<String>,
    last: Option<String>,
}

impl Api {
    /// The newest `limit` items of a list that GitHub gives oldest first. `call` has `per_page=100`
    /// in its query and no page.
    pub(super) async fn list<T: DeserializeOwned>(
        &self,
        call: &Call,
        limit: usize,
    ) -> Result<Vec<T>, ForgeError> {
        self.list_in(call, limit, |page: Vec<T>| page).await
    }

    /// Lists what answers hold in a field of theirs.
    pub(super) async fn list_in<P: DeserializeOwned, T>(
        &self,
        call: &Call,
        limit: usize,
        items: impl Fn(P) -> Vec<T>,
    ) -> Result<Vec<T>, ForgeError> {
        self.list_bounded(call, limit, items, |_| {}).await
    }

    /// Lists like [`Api::list_in`]; `bound` sees what is kept after each page, and may make it smaller.
    pub(super) async fn list_bounded<P: DeserializeOwned, T>(
        &self,
        call: &Call,
        limit: usize,
        items: impl Fn(P) -> Vec<T>,
        bound: impl Fn(&mut VecDeque<T>),
    ) -> Result<Vec<T>, ForgeError> {
        let mut kept = VecDeque::new();
        let mut page = call.clone();
        for number in 0..MOST_PAGES {
            let reply = self.read(&page).await?;
            let links = links(&reply.headers);
            // With many more pages than wanted, go on near the end.
            let far = (number == 0)
                .then(|| links.last.as_deref().and_then(|last| jump(last, limit)))
                .flatten();
            if let Some(address) = far {
                page.path = self.below_root(&address)?;
                continue;
            }
            kept.extend(items(self.parse::<P>(&page, &reply)?));
            while kept.len() > limit {
                kept.pop_front();
            }
            bound(&mut kept);
            match links.next {
                None => return Ok(kept.into()),
                Some(next) => page.path = self.below_root(&next)?,
            }
        }
        Err(self.endless(call))
    }

    /// The first `pages` pages of a list, in its order; the rest is left out.
    pub(super) async fn first_pages<T: DeserializeOwned>(
        &self,
        call: &Call,
        pages: usize,
    ) -> Result<Vec<T>, ForgeError> {
        let (mut found, mut page) = (Vec::new(), call.clone());
        for _ in 0..pages {
            let reply = self.read(&page).await?;
            found.extend(self.parse::<Vec<T>>(&page, &reply)?);
            match links(&reply.headers).next {
                None => break,
                Some(next) => page.path = self.below_root(&next)?,
            }
        }
        Ok(found)
    }

    /// A list from its first page to its last, a page at a time, of which nothing is kept.
    pub(super) async fn each_page<P: DeserializeOwned>(
        &self,
        call: &Call,
        mut take: impl FnMut(P),
    ) -> Result<(), ForgeError> {
        let mut page = call.clone();
        for _ in 0..LONGEST_LIST {
            let reply = self.read(&page).await?;
            take(self.parse::<P>(&page, &reply)?);
            match links(&reply.headers).next {
                None => return Ok(()),
                Some(next) => page.path = self.below_root(&next)?,
            }
        }
        Err(self.endless(call))
    }

    fn endless(&self, call: &Call) -> ForgeError {
        ForgeError::Malformed {
            host: self.host(),
            message: format!("the list of {} does not end", call.thing),
        }
    }

    /// One page of a list, and where it goes on.
    pub(super) async fn page<T: DeserializeOwned>(
        &self,
        call: &Call,
    ) -> Result<(Vec<T>, Option<String>), ForgeError> {
        let reply = self.read(call).await?;
        let next = links(&reply.headers).next;
        let next = next.map(|next| self.below_root(&next)).transpose()?;
        Ok((self.parse(call, &reply)?, next))
    }
}

/// The address of the first page that holds one of the newest `limit` items, when that saves pages.
fn jump(last: &str, limit: usize) -> Option<String> {
    let mut url = url::Url::parse(last).ok()?;
    let pages: usize = url.query_pairs().find(|(key, _)| key == "page")?.1.parse().ok()?;
    // The last page may hold a single item, so one page more than the full ones.
    let wanted = limit.div_ceil(PAGE_SIZE) + 1;
    if pages <= wanted {
        return None;
    }
    let first = (pages - wanted + 1).to_string();
    let pairs: Vec<(String, String)> = url
        .query_pairs()
        .map(|(key, value)| {
            let value = if key == "page" { first.clone() } else { value.into_owned() };
            (key.into_owned(), value)
        })
        .collect();
    url.query_pairs_mut().clear().extend_pairs(pairs);
    Some(url.into())
}

fn links(headers: &http::HeaderMap) -> Links {
    let mut links = Links::default();
    let header = headers.get(http::header::LINK).and_then(|link| link.to_str().ok());
    for part in header.unwrap_or_default().split(", ") {
        let Some((address, rest)) = part.trim().strip_prefix('<').and_then(|p| p.split_once('>'))
        else {
            continue;
        };
        match rest.split_once("rel=\"").and_then(|(_, rel)| rel.split_once('"')) {
            Some(("next", _)) => links.next = Some(address.to_owned()),
            Some(("last", _)) => links.last = Some(address.to_owned()),
            _ => {}
        }
    }
    links
}

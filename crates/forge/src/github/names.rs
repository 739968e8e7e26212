//! Names of very many repositories, kept in little memory: an organisation may have a hundred thousand.

use std::collections::{HashSet, VecDeque};

use sha2::{Digest, Sha256};

use crate::RepositoryId;

/// Names that are kept as one text, and given up together.
const IN_A_PART: usize = 50;

/// Texts that were seen. Of each only half a SHA-256 is kept: nobody has ever made two texts with the same one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DigestSet(HashSet<u128>);

impl DigestSet {
    /// True when it is new.
    pub fn insert(&mut self, text: &str) -> bool {
        self.0.insert(digest(text))
    }

    /// Whether it was seen.
    pub fn has(&self, text: &str) -> bool {
        self.0.contains(&digest(text))
    }
}

fn digest(text: &str) -> u128 {
    let digest = Sha256::digest(text.as_bytes());
    digest.iter().take(16).fold(0, |number, byte| number << 8 | u128::from(*byte))
}

/// Names of repositories in the order in which they were found, each once, whatever the case of its letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepositoryNames {
    /// One name a line.
    parts: VecDeque<String>,
    /// Names in the last part.
    in_last: usize,
    count: usize,
    seen: DigestSet,
}

impl RepositoryNames {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// True when no name was added.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Adds one, unless it is there.
    pub fn push(&mut self, id: &RepositoryId) {
        let name = id.to_string();
        if !self.seen.insert(&name.to_lowercase()) {
            return;
        }
        match self.parts.back_mut() {
            Some(part) if self.in_last < IN_A_PART => {
                part.push('\n');
                part.push_str(&name);
                self.in_last += 1;
            }
            _ => {
                // A full part grows no more.
                self.parts.back_mut().into_iter().for_each(String::shrink_to_fit);
                self.parts.push_back(name);
                self.in_last = 1;
            }
        }
        self.count += 1;
    }

    /// What was seen, in lower case; the names are given up.
    pub fn into_seen(self) -> DigestSet {
        self.seen
    }
}

impl Extend<RepositoryId> for RepositoryNames {
    fn extend<T: IntoIterator<Item = RepositoryId>>(&mut self, all: T) {
        for id in all {
            self.push(&id);
        }
    }
}

impl FromIterator<RepositoryId> for RepositoryNames {
    fn from_iter<T: IntoIterator<Item = RepositoryId>>(all: T) -> RepositoryNames {
        let mut names = RepositoryNames::default();
        names.extend(all);
        names
    }
}

impl IntoIterator for RepositoryNames {
    type Item = RepositoryId;
    type IntoIter = std::iter::Flatten<NameParts>;

    fn into_iter(self) -> Self::IntoIter {
        self.into_parts().flatten()
    }
}

impl RepositoryNames {
    /// A few at a time. What was given is kept no longer, and what was seen is given up at once.
    pub fn into_parts(self) -> NameParts {
        NameParts { left: self.count, parts: self.parts }
    }
}

/// The parts of [`RepositoryNames`].
#[derive(Debug)]
pub struct NameParts {
    parts: VecDeque<String>,
    left: usize,
}

impl NameParts {
    /// Names that were not given yet.
    pub fn left(&self) -> usize {
        self.left
    }
}

impl Iterator for NameParts {
    type Item = Vec<RepositoryId>;

    fn next(&mut self) -> Option<Vec<RepositoryId>> {
        let part = self.parts.pop_front()?;
        let names: Vec<RepositoryId> = part.lines().filter_map(|name| name.parse().ok()).collect();
        self.left = self.left.saturating_sub(names.len());
        Some(names)
    }
}

#[cfg(test)]
mod tests {
    use crate::github::names::*;

    #[test]
    fn each_name_is_kept_once_in_its_order_and_given_in_parts() {
        let id = |number: usize| format!("acme/app-{number}").parse::<RepositoryId>().unwrap();
        let mut names: RepositoryNames = (0..120).map(id).collect();
        names.push(&"ACME/App-7".parse().unwrap());
        assert_eq!(names.len(), 120);
        let mut parts = names.clone().into_parts();
        let sizes: Vec<(usize, usize)> =
            std::iter::from_fn(|| parts.next().map(|part| (part.len(), parts.left()))).collect();
        assert_eq!(sizes, [(50, 70), (50, 20), (20, 0)]);
        assert_eq!(
            names.clone().into_iter().collect::<Vec<_>>(),
            (0..120).map(id).collect::<Vec<_>>()
        );
        let seen = names.into_seen();
        assert!(seen.has("acme/app-119") && !seen.has("acme/app-120"));
    }
}

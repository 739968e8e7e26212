//! What a pod is made of, as one word: [`crate::PreparedImage::reference`] goes through journals, and a later process
//! starts from it.

use serde::{Deserialize, Serialize};

/// An image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Reference {
    pub(super) image: String,
    /// The registry has to give it to anybody: what a node has of it may be somebody else's.
    pub(super) is_public: bool,
}

/// In front of a name whose image has to be public. No name has a space.
const PUBLIC: &str = "public ";

impl Reference {
    pub(super) fn word(&self) -> String {
        format!("{}{}", if self.is_public { PUBLIC } else { "" }, self.image)
    }

    pub(super) fn parse(word: &str) -> Reference {
        let (image, is_public) =
            word.strip_prefix(PUBLIC).map_or((word, false), |image| (image, true));
        Reference { image: image.to_owned(), is_public }
    }
}

#[cfg(test)]
mod tests {
    use crate::kubernetes::reference::Reference;

    #[test]
    fn a_word_says_it_all() {
        for word in ["python:3", "public docker.io/library/python:3"] {
            assert_eq!(Reference::parse(word).word(), word);
        }
    }
}

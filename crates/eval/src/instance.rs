//! Instances and predictions, in the formats of [SWE-bench](https://github.com/SWE-bench/SWE-bench): one JSON object a
//! line, with the names of its fields. What this program adds, other tools pass over.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::{Deserialize, Deserializer, Serialize};

use patchwright_base::error::{Failure, Result};
use patchwright_base::text;

/// Bytes of a file of instances or predictions.
const MAX_FILE: u64 = 1 << 30;
/// Bytes of an instance's name: it becomes the name of a folder.
const MAX_ID: usize = 200;

/// A task whose right answer is known by tests.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    pub instance_id: String,
    /// `owner/name`.
    pub repo: String,
    /// The commit that the work begins at.
    pub base_commit: String,
    /// What the model is told.
    pub problem_statement: String,
    /// What people did, without the tests; nobody is shown it.
    #[serde(default)]
    pub patch: String,
    /// The tests that decide, which the model does not see.
    pub test_patch: String,
    /// Tests that fail with the tests alone, and have to pass.
    #[serde(rename = "FAIL_TO_PASS", alias = "fail_to_pass", deserialize_with = "names")]
    pub fail_to_pass: Vec<String>,
    /// Tests that pass with the tests alone, and still have to.
    #[serde(rename = "PASS_TO_PASS", alias = "pass_to_pass", default, deserialize_with = "names")]
    pub pass_to_pass: Vec<String>,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub hints_text: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub created_at: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub environment_setup_commit: String,
    /// The commands whose tests decide. An addition to the format.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verify: Vec<String>,
    /// The image of its sandboxes. An addition to the format.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The commit in which people solved it. An addition to the format.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub commit: String,
    /// Where `problem_statement` comes from: `issue`, `pull_request`, `commit` or `review`. An addition to the format.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub statement: String,
}

/// A change that somebody proposes for an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prediction {
    pub instance_id: String,
    pub model_name_or_path: String,
    /// A difference in git's format; nothing was changed where it is empty.
    #[serde(default, deserialize_with = "text_or_nothing")]
    pub model_patch: String,
}

/// SWE-bench's files have lists of names as lists, or as JSON within a text.
fn names<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Names {
        List(Vec<String>),
        Text(String),
    }
    match Names::deserialize(deserializer)? {
        Names::List(list) => Ok(list),
        Names::Text(text) if text.trim().is_empty() => Ok(Vec::new()),
        Names::Text(text) => serde_json::from_str(&text).map_err(serde::de::Error::custom),
    }
}

/// Tools write `null` where a model has answered nothing.
fn text_or_nothing<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> std::result::Result<String, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.unwrap_or_default())
}

/// Reads instances: a line each, or one list.
///
/// # Errors
/// When the file cannot be read, an instance is damaged, or two have the same name.
pub fn read(path: &Path) -> Result<Vec<Instance>> {
    let instances: Vec<Instance> = read_all(path, "instances")?;
    let mut seen = BTreeSet::new();
    for instance in &instances {
        let id = &instance.instance_id;
        let wrong = |why: &str| {
            Failure::usage(format!("the instance {} of `{}` {why}", text::code(id), path.display()))
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if id.is_empty() || id.len() > MAX_ID || id.starts_with('.') || !id.chars().all(is_name) {
            return Err(wrong("has a name that no folder can have")
                .hint("use letters, digits, `.`, `_` and `-`"));
        }
        if !seen.insert(id) {
            return Err(wrong("is there twice").hint("give each instance a name of its own"));
        }
        if instance.fail_to_pass.is_empty() {
            return Err(wrong("has no test that has to pass")
                .hint("name the tests that decide in `FAIL_TO_PASS`"));
        }
    }
    if instances.is_empty() {
        return Err(Failure::usage(format!("`{}` has no instances", path.display()))
            .hint("`patchwright eval mine` makes some from the history of a repository"));
    }
    Ok(instances)
}

/// Reads predictions: a line each, one list, or one object by the names of the instances.
///
/// # Errors
/// When the file cannot be read, or a prediction is damaged.
pub fn read_predictions(path: &Path) -> Result<Vec<Prediction>> {
    read_all(path, "predictions")
}

/// Reads the lines of a file, or its one list; the file may end in the middle of a line where its writer was killed.
fn read_all<T: for<'de> Deserialize<'de>>(path: &Path, what: &str) -> Result<Vec<T>> {
    let unreadable = |err: std::io::Error| {
        Failure::usage(format!("the {what} in `{}` cannot be read", path.display())).caused_by(err)
    };
    let length = fs_err::metadata(path).map_err(unreadable)?.len();
    if length > MAX_FILE {
        let most = MAX_FILE >> 20;
        return Err(Failure::usage(format!("`{}` has more than {most} MiB", path.display())));
    }
    let content = fs_err::read_to_string(path).map_err(unreadable)?;
    let damaged = |line: usize, err: serde_json::Error| {
        Failure::usage(format!("line {line} of the {what} in `{}` is damaged", path.display()))
            .caused_by(err)
            .hint("each line is a JSON object with the fields of SWE-bench: see docs/eval.md")
    };
    if content.trim_start().starts_with('[') {
        return serde_json::from_str(&content).map_err(|err| damaged(err.line(), err));
    }
    // One object of all, by their names.
    if let Ok(named) = serde_json::from_str::<BTreeMap<String, T>>(&content) {
        return Ok(named.into_values().collect());
    }
    let lines = content.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines.map(|(at, line)| serde_json::from_str(line).map_err(|err| damaged(at + 1, err))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<Vec<Instance>> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("instances.jsonl");
        fs_err::write(&path, text).unwrap();
        read(&path)
    }

    /// As the dataset's own files have it: lists are JSON within a text.
    const LINE: &str = r#"{"repo":"astropy/astropy","instance_id":"astropy__astropy-12907","base_commit":"d16bfe05a744909de4b27f5875fe0d4ed41ce607","patch":"diff","test_patch":"diff","problem_statement":"Nested models","hints_text":"","created_at":"2022-03-03T15:14:54Z","version":"4.3","FAIL_TO_PASS":"[\"a.py::x\", \"a.py::y\"]","PASS_TO_PASS":"[]","environment_setup_commit":"298ccb4","difficulty":"15 min"}"#;

    #[test]
    fn files_of_the_dataset_are_read_and_written() {
        let read = read_text(&format!("{LINE}\n\n")).unwrap();
        assert_eq!(read[0].fail_to_pass, ["a.py::x", "a.py::y"]);
        assert!(read[0].pass_to_pass.is_empty());
        let written = serde_json::to_string(&read[0]).unwrap();
        assert_eq!(read_text(&written).unwrap(), read);
        assert_eq!(read_text(&format!("[{LINE}]")).unwrap(), read);
        assert_eq!(read_text(&format!("{{\"a\": {LINE}}}")).unwrap(), read);
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said_with_its_line() {
        for (text, said) in [
            ("", "has no instances"),
            ("{\"instance_id\": \"a\"", "line 1 of the instances"),
            (&LINE.replace("astropy__astropy-12907", "../x"), "no folder can have"),
            (&LINE.replace(r#""[\"a.py::x\", \"a.py::y\"]""#, "[]"), "no test that has to pass"),
            (&format!("{LINE}\n{LINE}"), "is there twice"),
        ] {
            let failure = read_text(text).unwrap_err().to_string();
            assert!(failure.contains(said), "{failure}");
        }
    }

    #[test]
    fn a_prediction_without_a_patch_is_an_empty_one() {
        let line = r#"{"instance_id":"a","model_name_or_path":"m","model_patch":null}"#;
        let prediction: Prediction = serde_json::from_str(line).unwrap();
        assert_eq!(prediction.model_patch, "");
    }
}

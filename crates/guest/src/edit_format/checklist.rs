//! The plan as a checklist: `- [x]` done, `- [>]` (or `~`, `-`, `/`) in progress, `- [ ]` to do.
//!
//! Lines before the first item are the explanation; items without a box are to do.

use serde::{Deserialize, Serialize};

use super::Miss;

/// A step and how far it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    pub text: String,
    pub state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    Pending,
    InProgress,
    Completed,
}

/// A checklist, and what was said above it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checklist {
    pub explanation: Option<String>,
    pub items: Vec<Item>,
}

/// Reads a checklist.
pub fn parse(text: &str) -> Result<Checklist, Miss> {
    let mut list = Checklist { explanation: None, items: Vec::new() };
    let mut said = Vec::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        match (item(line), list.items.last_mut()) {
            (Some(item), _) => list.items.push(item),
            (None, None) => said.push(line),
            (None, Some(item)) => {
                item.text.push(' ');
                item.text.push_str(line);
            }
        }
    }
    if list.items.is_empty() {
        return Err(Miss::new("the plan has no steps: write one a line, as `- [ ] step`"));
    }
    list.explanation = (!said.is_empty()).then(|| said.join(" "));
    Ok(list)
}

fn item(line: &str) -> Option<Item> {
    let digits = line.len() - line.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let numbered = line.get(digits..).and_then(|rest| rest.strip_prefix(['.', ')']));
    let bullet = line.strip_prefix(['-', '*', '+']).or(numbered.filter(|_| digits > 0));
    let rest = bullet.filter(|rest| rest.is_empty() || rest.starts_with(' ')).map(str::trim);
    let (state, text) = match rest.or(Some(line)).and_then(boxed) {
        Some(found) => found,
        None => (State::Pending, rest?),
    };
    (!text.is_empty()).then(|| Item { text: text.to_owned(), state })
}

fn boxed(text: &str) -> Option<(State, &str)> {
    let (mark, rest) = text.strip_prefix('[')?.split_once(']')?;
    let state = match mark.trim() {
        "" => State::Pending,
        "x" | "X" | "✓" | "✔" => State::Completed,
        ">" | "~" | "-" | "/" | "." => State::InProgress,
        _ => return None,
    };
    Some((state, rest.trim()))
}

//! Finds tools by words: BM25 (Robertson and Zaragoza, "The Probabilistic Relevance Framework") over
//! what is known of each, its name counting most. Pure, and the same answer every time.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use patchwright_provider::{ToolDeclaration, ToolForm};

/// The usual constants: how soon more of the same word says no more, and how much length matters.
const K1: f64 = 1.2;
const B: f64 = 0.75;
/// How much a word of a name counts, against one of a description.
const NAME_WEIGHT: f64 = 3.0;
/// How much the beginning of a word counts, against the word.
const PREFIX_WEIGHT: f64 = 0.5;
/// Shortest beginning that counts.
const MIN_PREFIX: usize = 3;
/// Most words of one tool or question that are looked at.
const MAX_WORDS: usize = 2_000;
/// How deep a schema is looked into.
const MAX_DEPTH: usize = 4;

/// A tool as a bag of words.
struct Document {
    words: BTreeMap<String, f64>,
    length: f64,
}

/// The tools that fit a question, the best first, by their positions.
pub fn search(tools: &[ToolDeclaration], question: &str, most: usize) -> Vec<usize> {
    let documents: Vec<Document> = tools.iter().map(Document::of).collect();
    let total: f64 = documents.iter().map(|document| document.length).sum();
    #[expect(clippy::cast_precision_loss, reason = "counts of tools are small")]
    let count = documents.len() as f64;
    let average = (total / count.max(1.0)).max(1.0);
    let asked: BTreeSet<String> = words(question).collect();
    let mut scores = vec![0.0; documents.len()];
    for word in &asked {
        let hits: Vec<f64> = documents.iter().map(|document| document.frequency(word)).collect();
        #[expect(clippy::cast_precision_loss, reason = "counts of tools are small")]
        let having = hits.iter().filter(|hits| **hits > 0.0).count() as f64;
        let rarity = ((count - having + 0.5) / (having + 0.5) + 1.0).ln();
        for ((score, hits), document) in scores.iter_mut().zip(hits).zip(&documents) {
            let long = K1 * (1.0 - B + B * document.length / average);
            *score += rarity * hits * (K1 + 1.0) / (hits + long);
        }
    }
    let mut found: Vec<(usize, f64)> =
        scores.into_iter().enumerate().filter(|(_, score)| *score > 0.0).collect();
    found.sort_by(|(one, a), (other, b)| b.total_cmp(a).then(one.cmp(other)));
    found.into_iter().take(most).map(|(index, _)| index).collect()
}

impl Document {
    fn of(tool: &ToolDeclaration) -> Document {
        let mut text = tool.description.clone();
        if let ToolForm::Function { schema, .. } = &tool.form {
            arguments(schema, MAX_DEPTH, &mut text);
        }
        let mut document = Document { words: BTreeMap::new(), length: 0.0 };
        for word in words(&tool.name).take(MAX_WORDS) {
            document.add(word, NAME_WEIGHT);
        }
        for word in words(&text).take(MAX_WORDS) {
            document.add(word, 1.0);
        }
        document
    }

    fn add(&mut self, word: String, weight: f64) {
        *self.words.entry(word).or_default() += weight;
        self.length += weight;
    }

    fn frequency(&self, word: &str) -> f64 {
        if let Some(hits) = self.words.get(word) {
            return *hits;
        }
        if word.len() < MIN_PREFIX {
            return 0.0;
        }
        let begins = self.words.range(word.to_owned()..);
        let longer = begins.take_while(|(other, _)| other.starts_with(word)).map(|(_, hits)| *hits);
        longer.sum::<f64>() * PREFIX_WEIGHT
    }
}

/// Names and descriptions of the arguments.
fn arguments(schema: &Value, depth: usize, into: &mut String) {
    if depth == 0 {
        return;
    }
    for (name, property) in
        schema.get("properties").and_then(Value::as_object).into_iter().flatten()
    {
        into.push(' ');
        into.push_str(name);
        if let Some(description) = property.get("description").and_then(Value::as_str) {
            into.push(' ');
            into.push_str(description);
        }
        arguments(property, depth - 1, into);
    }
    if let Some(items) = schema.get("items") {
        arguments(items, depth - 1, into);
    }
}

/// The words of a text in lower case: `createPullRequest` and `create_pull_request` have three.
/// Plurals count as what they are the plural of.
fn words(text: &str) -> impl Iterator<Item = String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut was_lower = false;
    for c in text.chars() {
        let starts_hump = was_lower && c.is_uppercase();
        if (!c.is_alphanumeric() || starts_hump) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if c.is_alphanumeric() {
            word.extend(c.to_lowercase());
        }
        was_lower = c.is_lowercase() || c.is_numeric();
        if words.len() >= MAX_WORDS {
            break;
        }
    }
    if !word.is_empty() {
        words.push(word);
    }
    words.into_iter().map(singular)
}

fn singular(mut word: String) -> String {
    let is_plural = word.len() > 3 && word.ends_with('s') && !word.ends_with("ss");
    if is_plural {
        word.truncate(if word.len() > 4 && word.ends_with("ies") {
            word.len() - 3
        } else {
            word.len() - 1
        });
    }
    word
}

#[cfg(test)]
mod tests {
    use crate::search::*;
    use serde_json::json;

    fn tool(name: &str, description: &str, argument: &str) -> ToolDeclaration {
        let schema = json!({"type": "object", "properties": {argument: {"type": "string"}}});
        ToolDeclaration {
            name: name.to_owned(),
            description: description.to_owned(),
            form: ToolForm::Function { schema, strict: false },
        }
    }

    #[test]
    fn the_best_tool_comes_first() {
        let tools = [
            tool("mcp__hub__createPullRequest", "Opens a pull request.", "title"),
            tool(
                "mcp__hub__list_issues",
                "Lists the issues of a repository, open or closed.",
                "state",
            ),
            tool("mcp__hub__get_issue", "One issue with its comments.", "number"),
            tool("mcp__mail__send", "Sends a message to somebody.", "recipient"),
            tool("weather", "The forecast for a place.", "city"),
        ];
        for (question, expected) in [
            ("pull request", &[0][..]),
            ("list issues", &[1, 2]),
            ("issue comments", &[2, 1]),
            ("recipient", &[3]),
            ("forecasts", &[4]),
            ("repo", &[1]),
            ("MESSAGES", &[3]),
            ("", &[]),
            ("!?", &[]),
            ("kubernetes", &[]),
        ] {
            assert_eq!(search(&tools, question, 2), expected, "{question}");
        }
        assert_eq!(search(&tools, "mcp hub", 2).len(), 2);
        assert_eq!(search(&[], "x", 5), Vec::<usize>::new());
    }
}

//! The Chat wire beyond the plain turn: what the many servers behind it want back, and settings.

use std::collections::BTreeMap;

use patchwright_provider::catalogue::{Catalogue, Fields, Model, OutputLimit};
use patchwright_provider::item::{
    CallOutput, Content, Item, Message, Native, OutputForm, Payload, Reasoning, Role, ToolCall,
    Wire,
};
use patchwright_provider::{Request, ToolChoice, ToolDeclaration, ToolForm, wire};
use serde_json::{Value, json};

use crate::providers::user;
use crate::wires::{decode, fixtures, name};

fn model(fields: Fields) -> Model {
    let overrides = BTreeMap::from([("some-model".to_owned(), fields)]);
    Catalogue::load(&overrides).unwrap().resolve("chat/some-model", None).unwrap()
}

fn body(model: &Model, history: &[Item]) -> Value {
    let tools = [ToolDeclaration {
        name: "list_dir".to_owned(),
        description: "Lists a folder".to_owned(),
        form: ToolForm::Function { schema: json!({"type": "object"}), strict: model.strict },
    }];
    let request = Request {
        model,
        instructions: "You fix issues.",
        tools: &tools,
        history,
        effort: None,
        tool_choice: ToolChoice::Auto,
        output: None,
        has_alternative: false,
        cache_key: "run-1",
        previous: None,
    };
    serde_json::from_slice(&wire::encode(Wire::Chat, &request)).unwrap()
}

/// The assistant message that a received reply goes back as, with its calls answered.
fn echo(fixture: &str) -> Value {
    let path = fixtures(Wire::Chat).into_iter().find(|path| name(path) == fixture).unwrap();
    let reply = decode(Wire::Chat, &[&fs_err::read(path).unwrap()]).outcome.unwrap();
    let outputs = reply.items.iter().filter_map(|item| match item {
        Item::Call(call) => Some(output(&call.id, vec![Content::text("out")])),
        _ => None,
    });
    let history: Vec<Item> =
        [user("Hi")].into_iter().chain(reply.items.iter().cloned()).chain(outputs).collect();
    body(&model(Fields::default()), &history)["messages"][2].clone()
}

fn output(id: &str, content: Vec<Content>) -> Item {
    Item::Output(CallOutput {
        id: id.to_owned(),
        name: "list_dir".to_owned(),
        content,
        success: true,
        ran: false,
        goes_on: false,
        form: OutputForm::Function,
    })
}

fn picture() -> Content {
    Content::Image { media_type: "image/png".to_owned(), data: "iVBO".to_owned() }
}

#[test]
fn thoughts_go_back_whole_and_where_they_are_wanted() {
    // OpenRouter: pieces of one block are one block again, encrypted ones stay apart.
    let details = echo("reasoning_details_in_pieces")["reasoning_details"].clone();
    assert_eq!(
        details,
        json!([
            {"type": "reasoning.text", "text": "Let me look.", "format": "anthropic-claude-v1", "index": 0, "signature": "c2ln"},
            {"type": "reasoning.text", "text": "Again.", "format": "anthropic-claude-v1", "index": 1, "signature": "c2lnMg=="},
            {"type": "reasoning.encrypted", "data": "abc", "id": "call_a", "format": "google-gemini-v1", "index": 2},
            {"type": "reasoning.encrypted", "data": "def", "id": "call_a", "format": "google-gemini-v1", "index": 2},
        ])
    );
    // LiteLLM in front of Anthropic and of Gemini; Gemini's own endpoint.
    assert_eq!(
        echo("thinking_blocks")["thinking_blocks"],
        json!([{"type": "thinking", "thinking": "I look first", "signature": "c2ln"}, {"type": "redacted_thinking", "data": "b3BhcXVl"}])
    );
    assert_eq!(
        echo("provider_specific_fields")["tool_calls"][0]["provider_specific_fields"],
        json!({"thought_signature": "sig"})
    );
    assert_eq!(
        echo("thought_signature")["tool_calls"][0]["extra_content"],
        json!({"google": {"thought_signature": "sig"}})
    );
    // DeepSeek: with the call that they led to, and only there.
    assert_eq!(echo("reasoning_before_a_call")["reasoning_content"], "Look first");
    // vLLM and LocalAI: the same, under their name.
    let echoed = echo("reasoning_of_vllm_before_a_call");
    assert_eq!(echoed["reasoning"], "Look first");
    assert!(echoed.get("reasoning_content").is_none(), "{echoed}");
    let thought = |text: &str| {
        let field = if text == "a" { "reasoning_content" } else { "reasoning" };
        let value = json!({field: text});
        let native = Some(Native { wire: Wire::Chat, value });
        Item::Reasoning(Reasoning { summary: vec![text.to_owned()], native })
    };
    let spoken = Item::Message(Message {
        role: Role::Assistant,
        content: vec![Content::text("Done")],
        native: None,
    });
    let history = [user("Hi"), thought("a"), spoken, user("More"), thought("b"), user("Go on")];
    assert_eq!(
        body(&model(Fields::default()), &history)["messages"].as_array().unwrap()[2..],
        [
            json!({"role": "assistant", "content": "Done"}),
            json!({"role": "user", "content": "More\n\nGo on"}),
        ]
    );
    // Mistral's thoughts are for people, and nobody wants those that led to a last reply.
    for fixture in ["thinking_as_parts", "reasoning_before_the_last_reply"] {
        let message = echo(fixture);
        let keys: Vec<&String> = message.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["role", "content"], "{fixture}");
    }
}

#[test]
fn pictures_of_tools_follow_their_outputs_for_models_that_see() {
    let history = [
        user("Hi"),
        output("a", vec![Content::text("one"), picture()]),
        output("b", vec![picture()]),
    ];
    let seeing = body(&model(Fields { images: Some(true), ..Fields::default() }), &history);
    let roles: Vec<&str> = seeing["messages"]
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    // A reply stands between, for templates in which nothing but a reply follows an output.
    assert_eq!(roles, ["system", "user", "tool", "tool", "assistant", "user"]);
    let parts = seeing["messages"][5]["content"].as_array().unwrap();
    assert_eq!(parts.len(), 3);
    assert_eq!(
        parts[1],
        json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}})
    );
    let blind = body(&model(Fields::default()), &history);
    let note = "[a picture, image/png, about 3 bytes: this model cannot be shown pictures]";
    assert_eq!(blind["messages"][2]["content"], format!("one\n{note}"));
    assert_eq!(blind["messages"][3]["content"], note);
    assert_eq!(blind["messages"].as_array().unwrap().len(), 4);
}

#[test]
fn settings_are_sent_only_where_the_catalogue_says_so() {
    let plain = body(&model(Fields::default()), &[]);
    for absent in ["max_tokens", "max_completion_tokens", "parallel_tool_calls"] {
        assert!(plain.get(absent).is_none(), "{absent}");
    }
    assert!(plain["tools"][0]["function"].get("strict").is_none());
    let fields = Fields {
        output_limit: Some(OutputLimit::MaxTokens),
        max_output: Some(4096),
        stream_usage: Some(false),
        parallel_calls: Some(false),
        strict: Some(true),
        ..Fields::default()
    };
    let sent = body(&model(fields.clone()), &[]);
    assert_eq!((&sent["max_tokens"], &sent["parallel_tool_calls"]), (&json!(4096), &json!(false)));
    assert_eq!(sent["tools"][0]["function"]["strict"], true);
    assert!(sent.get("stream_options").is_none());
    let limit = Some(OutputLimit::MaxCompletionTokens);
    let sent = body(&model(Fields { output_limit: limit, ..fields }), &[]);
    assert_eq!(sent["max_completion_tokens"], 4096);
    assert!(sent.get("max_tokens").is_none());
}

#[test]
fn strict_functions_are_called_one_by_one() {
    for (strict, expected) in [(true, json!(false)), (false, Value::Null)] {
        let model = model(Fields { strict: Some(strict), ..Fields::default() });
        let sent = body(&model, &[user("Hi")]);
        assert_eq!(sent["parallel_tool_calls"], expected, "strict: {strict}");
    }
}

/// Mistral's, Devstral's and Gemma's chat templates refuse a conversation in which user and assistant do not
/// alternate; OpenAI's own models are told everything as it was said.
#[test]
fn neighbours_of_one_role_are_one_message_where_templates_want_it() {
    let said = |history: &[Item], model: &Model| -> Vec<String> {
        let body = body(model, history);
        let messages = body["messages"].as_array().unwrap().iter();
        messages
            .map(|message| format!("{}: {}", message["role"].as_str().unwrap(), message["content"]))
            .collect()
    };
    let call = Item::Call(ToolCall {
        id: "a".to_owned(),
        name: "list_dir".to_owned(),
        payload: Payload::Json("{}".to_owned()),
        native: None,
    });
    let shown = Item::Message(Message {
        role: Role::User,
        content: vec![Content::text("See"), picture()],
        native: None,
    });
    let history = [
        user("Environment"),
        user("Rules"),
        user("Task"),
        call,
        output("a", vec![Content::text("out"), picture()]),
        user("You repeat yourself"),
        shown,
    ];
    let model = model(Fields { images: Some(true), ..Fields::default() });
    let picture = r#"{"image_url":{"url":"data:image/png;base64,iVBO"},"type":"image_url"}"#;
    let picture =
        [picture, r#"{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBO"}}"#]
            .into_iter()
            .find(|it| said(&history, &model).join("").contains(it))
            .unwrap();
    let text = |text: &str| format!(r#"{{"type":"text","text":"{text}"}}"#);
    assert_eq!(
        said(&history, &model),
        [
            "system: \"You fix issues.\"".to_owned(),
            r#"user: "Environment\n\nRules\n\nTask""#.to_owned(),
            "assistant: null".to_owned(),
            "tool: \"out\"".to_owned(),
            "assistant: \"I have read the output.\"".to_owned(),
            format!(
                "user: [{},{picture},{},{},{picture}]",
                text("The pictures of the tool outputs above:"),
                text("You repeat yourself"),
                text("See")
            ),
        ]
    );
    let openai = Model { provider: "openai".to_owned(), ..model };
    let roles: Vec<String> = said(&history, &openai)
        .iter()
        .map(|line| line.split(':').next().unwrap().to_owned())
        .collect();
    assert_eq!(roles.join(" "), "system user user user assistant tool user user user");
}

/// However the conversation grows, what was sent stays at the beginning of what is sent.
#[test]
fn joined_messages_keep_what_was_sent_at_the_beginning() {
    let history = [
        user("Environment"),
        user("Task"),
        Item::Reasoning(Reasoning { summary: Vec::new(), native: None }),
        user("Your reply was empty"),
        output("a", vec![Content::text("out")]),
        user("Go on"),
        user("And on"),
    ];
    let plain = model(Fields::default());
    let bytes = |count: usize| body(&plain, &history[..count])["messages"].to_string();
    for count in 2..history.len() {
        let (before, after) = (bytes(count), bytes(count + 1));
        let kept = before.trim_end_matches(['"', '}', ']']);
        assert!(after.starts_with(kept), "{kept}\n{after}");
    }
}

/// Servers read them to fill a chat template, and refuse the conversation from then on.
#[test]
fn arguments_that_are_no_object_go_back_as_one() {
    let sent = |written: &str| {
        let call = ToolCall {
            id: "a".to_owned(),
            name: "list_dir".to_owned(),
            payload: Payload::Json(written.to_owned()),
            native: None,
        };
        let history = [user("Hi"), Item::Call(call), output("a", vec![Content::text("no")])];
        let body = body(&model(Fields::default()), &history);
        body["messages"][2]["tool_calls"][0]["function"]["arguments"].as_str().unwrap().to_owned()
    };
    for (written, expected) in [
        // What is an object stays as it was, letter by letter.
        ("{ \"dir_path\" : \".\" }\n", "{ \"dir_path\" : \".\" }\n"),
        ("", "{}"),
        (" ", "{}"),
        ("{\"dir_path\": \"a\nb\"", r#"{"dir_path":"a\nb"}"#),
        (r#""{\"dir_path\": \".\"}""#, r#"{"dir_path": "."}"#),
        ("{\"dir_path\": \"a", r#"{"invalid_json":"{\"dir_path\": \"a"}"#),
        ("[1]", r#"{"invalid_json":"[1]"}"#),
        ("*** Begin Patch", r#"{"input":"*** Begin Patch"}"#),
    ] {
        assert_eq!(sent(written), expected, "{written:?}");
    }
}

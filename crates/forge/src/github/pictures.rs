//! The pictures that an issue or a pull request shows.
//!
//! They are those of the page as GitHub renders it: what is hidden from people is not in it, and addresses of
//! a private repository come with a signature that lasts for minutes. Only pictures that GitHub keeps itself
//! are fetched; others, which its proxy (`camo`) fetches from anywhere, may change after people have seen them.

use html5gum::{DefaultEmitter, Token, Tokenizer};
use serde::Deserialize;
use url::Url;

use super::http::Call;
use super::{GitHubForge, route};
use crate::{ForgeError, Picture, RenderedBody, RepositoryId};

/// Text, plain and rendered.
const FULL: &str = "application/vnd.github.full+json";
/// Where GitHub keeps what people have uploaded, which nobody can change. Other hosts beside them show files of
/// branches.
const KEPT: [&str; 2] =
    ["user-images.githubusercontent.com", "private-user-images.githubusercontent.com"];

#[derive(Deserialize)]
struct RenderedJson {
    #[serde(default)]
    body: Option<String>,
    #[serde(default)]
    body_html: Option<String>,
    #[serde(default)]
    html_url: String,
}

impl GitHubForge {
    pub(super) async fn read_pictures(
        &self,
        repository: &RepositoryId,
        number: u64,
        count: usize,
        bytes: usize,
    ) -> Result<RenderedBody, ForgeError> {
        let thing = format!("issue `{repository}#{number}`");
        let call = Call::get(route(repository, &format!("issues/{number}")), thing).accept(FULL);
        let reply = self.api.read(&call).await?;
        let RenderedJson { body, body_html, html_url } = self.api.parse(&call, &reply)?;
        let mut rendered = RenderedBody { body: body.unwrap_or_default(), pictures: Vec::new() };
        let Ok(page) = Url::parse(&html_url) else { return Ok(rendered) };
        for address in sources(&body_html.unwrap_or_default(), &page) {
            if rendered.pictures.len() >= count {
                break;
            }
            // Signatures are secrets.
            let mut shown = address.clone();
            shown.set_query(None);
            let content = match self.api.download_tail(address.as_str(), bytes).await {
                Ok((status, _)) if !status.is_success() => Err(format!("status {status}")),
                Ok((_, content)) if content.len() > bytes => {
                    Err(format!("it is larger than {bytes} bytes"))
                }
                Ok((_, content)) => Ok(content),
                Err(why) => Err(why),
            };
            rendered.pictures.push(Picture { address: shown.into(), content });
        }
        Ok(rendered)
    }
}

/// The addresses of the pictures of a page that GitHub keeps itself, each once, in their order.
fn sources(html: &str, page: &Url) -> Vec<Url> {
    let mut found: Vec<Url> = Vec::new();
    for token in Tokenizer::new_with_emitter(html, DefaultEmitter::default()) {
        let Ok(Token::StartTag(tag)) = token else { continue };
        let source = (*tag.name == b"img").then(|| tag.attributes.get(b"src".as_slice())).flatten();
        let source = source.and_then(|source| page.join(&String::from_utf8_lossy(source)).ok());
        let Some(address) = source.filter(|address| is_kept(address, page)) else { continue };
        if !found.contains(&address) {
            found.push(address);
        }
    }
    found
}

fn is_kept(address: &Url, page: &Url) -> bool {
    let is_storage = address.host_str().is_some_and(|host| KEPT.contains(&host));
    // The server shows badges of workflows and files of branches as pictures, too.
    let parts: Vec<&str> = address.path().split('/').skip(1).collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    let is_upload = match parts.as_slice() {
        ["user-attachments", "assets", ..] | ["storage", "user", ..] => true,
        [_, _, "assets", user, _] => is_number(user),
        _ => false,
    };
    (address.scheme() == "https" && is_storage) || (address.origin() == page.origin() && is_upload)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_those_that_github_keeps() {
        let page = Url::parse("https://github.com/acme/app/issues/7").unwrap();
        let html = "<p><img src=\"https://private-user-images.githubusercontent.com/1/2.png?jwt=x&amp;y=1\">\
            <a href=\"/x.png\"><img alt='a' src=/user-attachments/assets/1-2></a>\
            <img src=\"https://camo.githubusercontent.com/abc\">\
            <img src=\"https://raw.githubusercontent.com/eve/app/main/a.png\">\
            <img src=\"https://github.com/eve/app/raw/main/assets/1/a.png\">\
            <img src=\"https://github.com/acme/app/assets/12/3-4\"> <img src='https://evil.example/a.png'>\
            <img src=\"https://githubusercontent.com.evil.example/a.png\"> <img>\
            <img src=\"http://user-images.githubusercontent.com/a.png\">\
            <img src=\"https://github.com/acme/app/workflows/ci/badge.svg\">\
            <img src=/user-attachments/assets/1-2><!-- <img src=/user-attachments/assets/9> --></p>";
        let found: Vec<String> = sources(html, &page).into_iter().map(String::from).collect();
        let expected = [
            "https://private-user-images.githubusercontent.com/1/2.png?jwt=x&y=1",
            "https://github.com/user-attachments/assets/1-2",
            "https://github.com/acme/app/assets/12/3-4",
        ];
        assert_eq!(found, expected);
    }
}

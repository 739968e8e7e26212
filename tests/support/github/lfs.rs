//! The server of Git LFS: the batch API where the repository is, and a storage on another origin, which takes the
//! headers that the batch told and nothing else.

use std::collections::BTreeMap;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Response, StatusCode, header};
use axum::response::IntoResponse;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::server::{Server, Shared, lock};
use super::world::World;

const MEDIA: &str = "application/vnd.git-lfs+json";

/// What GitHub keeps, by SHA-256.
pub(crate) type Objects = BTreeMap<String, (Vec<u8>, Trouble)>;

/// What is wrong with a content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Trouble {
    #[default]
    None,
    /// Other bytes of the same length.
    Damaged,
    /// Bytes without end.
    Endless,
    /// It is somewhere else.
    Moved,
    /// Storage says no.
    Refused,
    /// Its address is not one of the web.
    OddAddress,
}

impl Server {
    /// Keeps a content, and returns the pointer that stands for it.
    pub(crate) fn keep_in_lfs(&self, content: &[u8], trouble: Trouble) -> String {
        let sha256: String =
            Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
        self.world().lfs.insert(sha256.clone(), (content.to_vec(), trouble));
        pointer(&sha256, content.len())
    }
}

/// A pointer as git-lfs writes it.
pub(crate) fn pointer(sha256: &str, size: usize) -> String {
    format!("version https://git-lfs.github.com/spec/v1\noid sha256:{sha256}\nsize {size}\n")
}

fn told(status: u16, body: Value) -> Response<Body> {
    let status = StatusCode::from_u16(status).unwrap();
    (status, [(header::CONTENT_TYPE, MEDIA)], body.to_string()).into_response()
}

fn refused(status: u16, message: &str) -> Response<Body> {
    told(status, json!({"message": message, "documentation_url": "https://docs.github.com"}))
}

/// `POST /{owner}/{name}.git/info/lfs/objects/batch`
pub(super) async fn batch(
    State(world): State<Shared>,
    Path((owner, name)): Path<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
) -> Response<Body> {
    let mut world = lock(&world);
    let is = |name: header::HeaderName| headers.get(name).is_some_and(|value| value == MEDIA);
    if !is(header::ACCEPT) || !is(header::CONTENT_TYPE) {
        world.violations.push("a batch of LFS without its media type".to_owned());
        return refused(406, "The Accept header needs to be application/vnd.git-lfs+json");
    }
    let token = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = token.and_then(|value| value.strip_prefix("Basic "));
    let token = token.and_then(|value| BASE64_STANDARD.decode(value).ok());
    let token = token.map(|pair| String::from_utf8_lossy(&pair).into_owned());
    let token = token.as_deref().and_then(|pair| pair.split_once(':')).map(|(_, token)| token);
    let full_name = format!("{owner}/{}", name.strip_suffix(".git").unwrap_or(&name));
    let Some(place) = world.place(&full_name) else { return refused(404, "Not Found") };
    let known = token.map(|token| world.tokens.get(token).cloned());
    let role = match known {
        Some(None) => return refused(401, "Bad credentials"),
        Some(Some(token)) => world.repositories[place].role(&token).to_owned(),
        None if world.repositories[place].private => return refused(401, "Credentials needed"),
        None => "read".to_owned(),
    };
    if role == "none" {
        return refused(404, "Not Found");
    }
    match answer(&world, &body) {
        Ok(answer) => told(200, answer),
        Err(mistake) => {
            world.violations.push(mistake.clone());
            refused(422, &mistake)
        }
    }
}

fn answer(world: &World, body: &[u8]) -> Result<Value, String> {
    let asked: Value = serde_json::from_slice(body).map_err(|err| err.to_string())?;
    let known = ["operation", "transfers", "ref", "objects", "hash_algo"];
    if let Some(odd) =
        asked.as_object().and_then(|it| it.keys().find(|key| !known.contains(&key.as_str())))
    {
        return Err(format!("a batch of LFS with `{odd}`"));
    }
    if asked["operation"] != "download" || asked["transfers"] != json!(["basic"]) {
        return Err(format!("a batch of LFS for {} by {}", asked["operation"], asked["transfers"]));
    }
    let objects = asked["objects"].as_array().ok_or("a batch of LFS without objects")?;
    if objects.is_empty() || objects.len() > 100 {
        return Err(format!("a batch of {} objects of LFS", objects.len()));
    }
    let storage = world.logs_address.expect("a storage");
    let one = |object: &Value| {
        let oid = object["oid"].as_str().unwrap_or_default();
        let size = object["size"].as_u64().unwrap_or_default();
        match world.lfs.get(oid) {
            None => json!({
                "oid": oid, "size": size,
                "error": {"code": 404, "message": "Object does not exist on the server"},
            }),
            Some((_, trouble)) => {
                let href = match trouble {
                    Trouble::OddAddress => "file:///etc/passwd".to_owned(),
                    _ => format!("http://{storage}/lfs/{oid}?signature=1"),
                };
                let download = json!({"href": href, "header": {"X-Storage-Key": key(oid)}, "expires_in": 3600});
                json!({"oid": oid, "size": size, "authenticated": true, "actions": {"download": download}})
            }
        }
    };
    Ok(json!({"transfer": "basic", "objects": objects.iter().map(one).collect::<Vec<_>>()}))
}

fn key(oid: &str) -> String {
    format!("key-of-{}", &oid[..8])
}

/// What storage answers; `None` for what it does not keep.
pub(super) fn stored(world: &mut World, path: &str, headers: &HeaderMap) -> Option<Response<Body>> {
    let shown = headers.get("x-storage-key").map(|value| value.to_str().unwrap().to_owned());
    if let Some(oid) = path.strip_prefix("/moved-lfs/") {
        if shown.is_some() {
            world.violations.push("the key of one storage was shown to another".to_owned());
        }
        return Some(world.lfs.get(oid)?.0.clone().into_response());
    }
    let oid = path.strip_prefix("/lfs/")?;
    let (content, trouble) = world.lfs.get(oid)?.clone();
    if shown != Some(key(oid)) || trouble == Trouble::Refused {
        return Some(StatusCode::FORBIDDEN.into_response());
    }
    Some(match trouble {
        Trouble::Damaged => vec![b'x'; content.len()].into_response(),
        Trouble::Endless => {
            let pieces = std::iter::repeat_with(|| Ok::<_, std::io::Error>(vec![b'x'; 4096]));
            Body::from_stream(futures_util::stream::iter(pieces)).into_response()
        }
        Trouble::Moved => {
            (StatusCode::FOUND, [(header::LOCATION, format!("/moved-lfs/{oid}"))]).into_response()
        }
        Trouble::None | Trouble::Refused | Trouble::OddAddress => content.into_response(),
    })
}

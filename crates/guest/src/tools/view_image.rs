//! `view_image`: a picture of the workspace for the model to look at, with its kind and size in
//! words.

use serde::Deserialize;

use super::root::Root;
use super::{Effect, GuestTool, Power, ToolError, ToolOutput, parse_args, picture};
use crate::patch::tree::Entry;

pub const VIEW_IMAGE: GuestTool = GuestTool {
    name: "view_image",
    effect: Effect::Reads,
    powers: &[Power::See],
    schema: || schemars::schema_for!(Args).to_value(),
    run: |call, args| view_image(call.root, &parse_args("view_image", args)?),
};

#[derive(Debug, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Path of the file.
    pub path: String,
}

/// Reads the picture; see [`Args`].
pub fn view_image(root: &Root, args: &Args) -> Result<ToolOutput, ToolError> {
    let path = &args.path;
    let failed = |why: &str| ToolError::tell(format!("cannot view `{path}`: {why}"));
    let (target, entry) = root.locate(path)?;
    match entry {
        Entry::File { .. } => {}
        Entry::Absent => return Err(failed("there is no such file")),
        Entry::Dir => return Err(failed("it is a folder")),
        Entry::Link(_) | Entry::Outside | Entry::Other => {
            return Err(failed("it is not a regular file"));
        }
    }
    let content = root.read(&target, picture::MAX_BYTES).map_err(|err| failed(&err.to_string()))?;
    match picture::shown(&target, &content) {
        Ok(Some(output)) => Ok(output),
        Ok(None) => Err(failed("it is no PNG, JPEG, GIF or WebP picture")),
        Err(why) => Err(failed(&why)),
    }
}

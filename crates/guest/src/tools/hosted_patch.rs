//! `hosted_patch`: the operation of one `apply_patch_call`, the patch tool that `OpenAI` defines: one
//! file, and a diff without an envelope ([`crate::patch::hosted`]).

use serde::Deserialize;

use super::apply_patch::run_hosted;
use super::{Effect, GuestTool, Power, ToolError, parse_args};
use crate::patch::hosted::Operation;

pub const HOSTED_PATCH: GuestTool = GuestTool {
    name: "hosted_patch",
    effect: Effect::Writes,
    powers: &[Power::Edit],
    schema: || schemars::schema_for!(Args).to_value(),
    run: |call, args| run_hosted(call.root, &operation(parse_args("apply_patch", args)?)?),
};

#[derive(Debug, Deserialize, schemars::JsonSchema)]
struct Args {
    /// What to do with the file.
    r#type: Kind,
    /// The file, relative to the workspace root.
    path: String,
    /// What changes in it; not for `delete_file`.
    diff: Option<String>,
}

#[derive(Clone, Copy, Debug, Deserialize, schemars::JsonSchema)]
#[schemars(inline)]
enum Kind {
    #[serde(rename = "create_file")]
    Create,
    #[serde(rename = "update_file")]
    Update,
    #[serde(rename = "delete_file")]
    Delete,
}

fn operation(args: Args) -> Result<Operation, ToolError> {
    let Args { r#type, path, diff } = args;
    match (r#type, diff) {
        (Kind::Create, Some(diff)) => Ok(Operation::CreateFile { path, diff }),
        (Kind::Update, Some(diff)) => Ok(Operation::UpdateFile { path, diff }),
        (Kind::Delete, _) => Ok(Operation::DeleteFile { path }),
        (Kind::Create | Kind::Update, None) => {
            Err(ToolError::tell(format!("the operation on `{path}` has no `diff`")))
        }
    }
}

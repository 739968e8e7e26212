//! The form that takes the dashboard's token.

use maud::html;

use super::shell;

/// `mistake` says why the last attempt was none.
pub(in crate::server) fn sign_in(mistake: Option<&str>) -> String {
    let content = html! {
        h1 { "Sign in" }
        @if let Some(mistake) = mistake { p role="alert" { (mistake) } }
        form method="post" action="/sign-in" {
            p {
                label for="token" { "Token of the dashboard" }
                input id="token" name="token" type="password" autocomplete="current-password"
                    required autofocus;
            }
            button { "Sign in" }
        }
    };
    shell("Sign in - Patchwright", None, &content)
}

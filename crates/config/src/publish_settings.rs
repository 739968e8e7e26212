//! The rows about pull requests and commits; how to read them is in [`mod@crate::settings`].

/// The table of settings: what it is given, and these sections.
macro_rules! publishing {
    ($($others:tt)*) => {
        table::settings! {
            $($others)*

            /// The section `publish`.
            Publish in "publish." (file => file.publish) {
                /// the branch to start from and to merge into
                base: String => publish.base, Operator
                    default "default branch"
                    publish_flag given {
                        /// Branch to start from and to merge into [default: the default branch]
                        #[arg(long, env = "PATCHWRIGHT_BASE", value_name = "BRANCH")]
                        base: Option<String>
                    }
                    , input "base" text "The branch to work from; the default branch when empty."
                    , campaign "publish.base";

                /// the branch to push
                branch: String => publish.branch, Operator
                    default "`patchwright/issue-N`"
                    publish_flag given {
                        /// Branch to push [default: patchwright/issue-N]
                        #[arg(long, env = "PATCHWRIGHT_BRANCH", value_name = "BRANCH")]
                        branch: Option<String>
                    }
                    , input "branch" text "The branch to push to; `patchwright/issue-N` when empty."
                    , campaign "publish.branch";

                /// always a draft; otherwise only when checks fail or protected files change
                draft: bool => publish.draft, TurnOn
                    publish_flag given {
                        /// Always open the pull request as a draft
                        #[arg(long, env = "PATCHWRIGHT_DRAFT")]
                        draft: bool
                    }
                    , input "draft" switch "`true` makes every pull request a draft; otherwise only one whose checks fail.";

                /// labels of the pull request
                labels: Vec<String> => publish.labels, Fill
                    publish_flag given {
                        /// Label for the pull request; repeatable
                        #[arg(
                            long = "pr-label",
                            env = "PATCHWRIGHT_LABELS",
                            value_name = "LABEL",
                            value_delimiter = ','
                        )]
                        labels: Vec<String>
                    }
                    , input "labels" list "Labels for the pull request, separated by commas."
                    , campaign "publish.labels";

                /// logins to ask for a review of the pull request
                reviewers: Vec<String> => publish.reviewers, Fill
                    publish_flag given {
                        /// Person to ask for a review; repeatable
                        #[arg(
                            long = "reviewer",
                            env = "PATCHWRIGHT_REVIEWERS",
                            value_name = "LOGIN",
                            value_delimiter = ','
                        )]
                        reviewers: Vec<String>
                    }
                    , input "reviewers" list "Logins to ask for a review, separated by commas."
                    , campaign "publish.reviewers";

                /// most owners of the changed files, by the repository's `CODEOWNERS`, who are asked for a review too;
                /// see [commits](commits.md#reviewers)
                code_owners: usize => publish.code_owners, Choose
                    default "0: none"
                    publish_flag given {
                        /// Most owners of the changed files, by CODEOWNERS, who are asked for a review too [default: 0]
                        #[arg(long, env = "PATCHWRIGHT_CODE_OWNERS", value_name = "N")]
                        code_owners: Option<usize>
                    }
                    , input "code-owners" number "Most owners of the changed files, by the repository's CODEOWNERS, who are asked for a review too; none when empty."
                    , campaign "publish.code-owners";

                /// logins that the pull request is assigned to
                assignees: Vec<String> => publish.assignees, Fill
                    publish_flag given {
                        /// Person to assign the pull request to; repeatable
                        #[arg(
                            long = "assignee",
                            env = "PATCHWRIGHT_ASSIGNEES",
                            value_name = "LOGIN",
                            value_delimiter = ','
                        )]
                        assignees: Vec<String>
                    }
                    , input "assignees" list "Logins to assign the pull request to, separated by commas."
                    , campaign "publish.assignees";

                /// title of the open milestone that the pull request gets
                milestone: String => publish.milestone, Fill
                    default "none"
                    publish_flag given {
                        /// Title of the open milestone that the pull request gets
                        #[arg(long, env = "PATCHWRIGHT_MILESTONE", value_name = "TITLE")]
                        milestone: Option<String>
                    }
                    , input "milestone" text "Title of the open milestone that the pull request gets."
                    , campaign "publish.milestone";

                /// merge the pull request when its requirements are met, where the repository allows auto-merge; never a
                /// draft, nor what somebody should look at first
                auto_merge: bool => publish.auto_merge, TurnOff
                    publish_flag given {
                        /// Have GitHub merge the pull request when its requirements are met
                        #[arg(long, env = "PATCHWRIGHT_AUTO_MERGE")]
                        auto_merge: bool
                    }
                    , input "auto-merge" switch "`true` has GitHub merge a pull request when its requirements are met; drafts never."
                    , campaign "publish.auto-merge";

                /// how that is merged: `merge`, `squash` or `rebase`
                merge_method: MergeMethod => publish.merge_method, Choose
                    , campaign "publish.merge-method";

                /// tell the evidence in a check of the commit as well
                check_run: bool => publish.check_run, Choose
                    publish_flag given {
                        /// Tell the evidence in a check of the commit as well
                        #[arg(long, env = "PATCHWRIGHT_CHECK_RUN")]
                        check_run: bool
                    }
                    , input "check-run" switch "`true` tells the evidence in a check of the commit as well (`checks: write`).";

                /// where the branch is pushed to: `off` (the repository itself), `auto` (your account's fork, where the
                /// token may not push to the repository), or whose fork, always; see
                /// [repositories](repositories.md#forks)
                fork: Fork => publish.fork, Operator
                    publish_flag given {
                        /// Push the branch to a fork: `auto` for your account's where the token may not push to the
                        /// repository, or whose fork [default: off]
                        #[arg(long, env = "PATCHWRIGHT_FORK", value_name = "OWNER")]
                        fork: Option<Fork>
                    }
                    , input "fork" parsed "Push the branch to a fork: `auto` for the fork of the token's account where the token may not push to the repository, or whose fork; off when empty.";

                /// do everything but write to GitHub
                dry_run: bool as (skip) => dry_run, Operator
                    publish_flag given {
                        /// Do everything but write to GitHub; the change is kept in the run's folder
                        #[arg(long, env = "PATCHWRIGHT_DRY_RUN")]
                        dry_run: bool
                    }
                    own_flags "PATCHWRIGHT_DRY_RUN" &["review --dry-run", "respond --dry-run"]
                    , input "dry-run" switch "`true` does everything but write to GitHub.";
            }

            /// The section `commits`: see [commits](commits.md).
            Commits in "commits." (file => file.commits) {
                /// who signs the commits: `none`, `github` (through its API, so that they are verified), `ssh` (we, with the
                /// key in `PATCHWRIGHT_SIGNING_KEY`)
                signing: Signing => commits.signing, Operator
                    flag given {
                        /// Who signs the commits: GitHub, through its API, or we, with the key in `PATCHWRIGHT_SIGNING_KEY`
                        #[arg(long = "sign", env = "PATCHWRIGHT_SIGN", value_name = "BY", help_heading = "Commits")]
                        signing: Option<Signing>
                    }
                    , input "sign" choice "Who signs the commits: `none`, `github` (through its API, so that they are verified), `ssh` (with the key in `PATCHWRIGHT_SIGNING_KEY`).";

                /// push and propose no commit whose signature GitHub does not verify
                require_verified: bool => commits.require_verified, TurnOn;

                /// certify each commit with a line `Signed-off-by:` of its author
                sign_off: bool => commits.sign_off, TurnOn
                    flag given {
                        /// Certify each commit with a line `Signed-off-by:` of its author
                        #[arg(long, env = "PATCHWRIGHT_SIGN_OFF", help_heading = "Commits")]
                        sign_off: bool
                    }
                    , input "sign-off" switch "`true` certifies each commit with a line `Signed-off-by:` of its author.";

                /// people whom each commit names in `Co-authored-by:`, as `Name <address>`; `requester` for who asked
                co_authors: Vec<String> as (deserialize_with = "read::file_words") => commits.co_authors, Operator;
            }

            /// The section `identity`: author of the commits.
            Identity in "identity." (file => file.identity) {
                /// author of the commits
                name: String => identity.name, Operator;

                /// address of the author
                email: String => identity.email, Operator;

                /// committer of the commits, by whom we know our own
                committer_name: String => identity.committer_name, Operator
                    default "the author";

                /// address of the committer
                committer_email: String => identity.committer_email, Operator
                    default "the author's";
            }
        }
    };
}

pub(crate) use publishing;

//! The rows about what a run may do, and how it reviews and answers; how to read them is in
//! [`mod@crate::settings`].

/// The table of settings: what it is given, these sections, and those about publishing.
macro_rules! behaving {
    ($($others:tt)*) => {
        publishing! {
            $($others)*

            /// The section `policy`.
            Policy in "policy." (file => file.policy) {
                /// files of the largest change that is published
                max_files: usize => policy.max_files, Lower;

                /// size of the largest change that is published
                max_bytes: u64 as (deserialize_with = "read::file_size") => policy.max_bytes, Lower;

                /// more globs of files that make the pull request a draft; see [policy](policy.md)
                protected_paths: Vec<String> => policy.protected_paths, Add
                    default "the built-in list";

                /// more globs of files that are only handed over as a patch
                blocked_paths: Vec<String> => policy.blocked_paths, Add;

                /// fixtures in which key formats are expected
                secret_allow_paths: Vec<String> => policy.secret_allow_paths, Operator;

                /// publish changes to workflow files
                allow_workflows: bool => policy.allow_workflows, TurnOff;

                /// what titles of pull requests and subjects of commits must all be like: `conventional`,
                /// `prefix:TEXT`, `regex:PATTERN`; see [commits](commits.md#titles-and-branches)
                titles: Vec<String> as (deserialize_with = "read::file_words") => policy.titles, Add
                    flag given {
                        /// What titles of pull requests and subjects of commits must be like: `conventional`, `prefix:TEXT`,
                        /// `regex:PATTERN`; repeatable, and all must hold
                        #[arg(
                            long = "title-pattern",
                            env = "PATCHWRIGHT_TITLE_PATTERN",
                            value_name = "PATTERN",
                            value_delimiter = '\n',
                            value_parser = read::pattern,
                            help_heading = "Commits"
                        )]
                        titles: Vec<String>
                    }
                    , input "title-pattern" patterns "What titles of pull requests and subjects of commits must all be like, one a line: `conventional`, `prefix:TEXT` or `regex:PATTERN`.";

                /// what names of branches must all be like: `prefix:TEXT`, `regex:PATTERN`
                branches: Vec<String> as (deserialize_with = "read::file_words") => policy.branches, Add;
            }

            /// The section `review`.
            Review in "review." (file => file.review) {
                /// globs of files to review; see [below](#reviews)
                paths: Vec<String> => review.paths, Choose
                    default "all";

                /// globs of files that are not reviewed
                ignore_paths: Vec<String> => review.ignore_paths, Choose;

                /// what to look at in certain files: a list of `paths` and `text` (at most 50 of 4,000 bytes)
                instructions: Vec<PathInstructions> => review.instructions, Choose;

                /// the least important findings that are reported, 0 (most important) to 3
                minimum_priority: Priority => review.minimum_priority, Choose;

                /// the least sure findings that are reported, 0 to 1
                minimum_confidence: f64 => review.minimum_confidence, Choose;

                /// the least important findings that are comments on lines, 0 to 3; others are folded in the review's
                /// body
                inline_priority: Priority => review.inline_priority, Choose;

                /// the same, for how sure they are, 0 to 1
                inline_confidence: f64 => review.inline_confidence, Choose;

                /// inline comments of one review, 1 to 30
                max_comments: usize => review.max_comments, Lower;

                /// language of findings and summary, such as `German`
                language: String => review.language, Choose
                    default "the model's choice";

                /// review drafts too
                drafts: bool => review.drafts, Choose;

                /// review only pull requests with one of these labels
                labels: Vec<String> => review.labels, Choose
                    default "all";

                /// never review pull requests with one of these labels
                skip_labels: Vec<String> => review.skip_labels, Choose;

                /// never review pull requests of these accounts
                skip_authors: Vec<String> => review.skip_authors, Choose;

                /// what the review says as a whole: `comment`, `request-changes` when findings fail the check,
                /// `approve` when nothing was found (only the operator may say that)
                event: ReviewEvent => review.event, Event;

                /// findings at least this important make the check fail: 0 to 3, or `never`
                fail_on: Threshold => review.fail_on, Choose
                    default "0"
                    own_flags "PATCHWRIGHT_FAIL_ON" &["review --fail-on"]
                    , input "fail-on" parsed "Findings of a review that are at least this important make its check fail: `0` to `3`, or `never`; `0` when empty.";

                /// findings at least this important keep the check from `success`: 0 to 3, or `never`
                neutral_on: Threshold => review.neutral_on, Choose
                    default "1";

                /// a check of the repository that passes on the base and fails on the head makes the check fail
                fail_on_checks: bool => review.fail_on_checks, Choose;

                /// offer replacements as suggestions
                suggestions: bool => review.suggestions, Choose;

                /// have each finding confirmed or withdrawn by the model before anything is posted
                second_look: bool => review.second_look, Choose
                    own_flags "PATCHWRIGHT_SECOND_LOOK" &["review --second-look", "respond --second-look"]
                    , input "second-look" switch "`false` posts the findings of a review without having the model confirm each first.";

                /// resolve threads of our own when what they were about is gone
                resolve_threads: bool => review.resolve_threads, Choose;

                /// for `serve`: reviews in 24 hours that nobody asked for, of one pull request of a stranger; see
                /// [the server](serve.md)
                per_pull_request: u32 => review.per_pull_request, Operator;

                /// the same, of all pull requests of one stranger in a repository
                per_author: u32 => review.per_author, Operator;

                /// the same, of all strangers' pull requests in a repository
                per_day: u32 => review.per_day, Operator;
            }

            /// The section `respond`.
            Respond in "respond." (file => file.respond) {
                /// the name after `@`
                mention: String as (deserialize_with = "read::file_mention") => respond.mention, Operator
                    , input "mention" mention "The name after `@` that comments are read for; `patchwright` when empty.";

                /// answers of ours in one thread
                max_rounds: u32 => respond.max_rounds, Lower;

                /// attempts to repair the checks of one pull request
                max_ci_rounds: u32 => respond.max_ci_rounds, Lower;
            }

            /// The section `triage`.
            Triage in "triage." (file => file.triage) {
                /// triage issues when they are opened or edited; see [triage](triage.md)
                enabled: bool => triage.enabled, TurnOff
                    , input "triage" switch "`true` triages issues that are opened or edited: labels, duplicates, what is missing.";

                /// the labels that may be put on issues, of those that the repository has
                labels: Vec<String> => triage.labels, Operator
                    default "all but those that set something off"
                    , input "triage-labels" list "The labels that triage may put on, separated by commas; when empty, all that the repository has but those that set something off.";

                /// labels that triage never puts on
                skip_labels: Vec<String> => triage.skip_labels, Add;

                /// say what was found in one comment on the issue
                comment: bool => triage.comment, TurnOff;

                /// how often one issue is triaged, counting edits; with `comment: false` nothing counts them
                max_runs: u32 => triage.max_runs, Lower
                    least (1);

                /// turns of a triage; this and the next three count where they are lower than `limits` and no flag or
                /// input says otherwise
                max_turns: u32 => triage.max_turns, Lower
                    least (1);

                /// tokens of a triage
                max_tokens: u64 => triage.max_tokens, Lower
                    least (1);

                /// dollars of a triage
                max_cost_usd: f64 => triage.max_cost_usd, Lower
                    least (0.0);

                /// wall clock of a triage
                timeout: Duration as (deserialize_with = "read::file_duration") => triage.timeout, Lower
                    least (SECOND);
            }

            /// The section `access`.
            Access in "access." (file => file.access) {
                /// the label that starts work
                label: String => access.label, Operator
                    , input "label" text "The label that starts a run; `patchwright` when empty.";

                /// the account to which an issue is assigned to start work on it
                assignee: String => access.assignee, Operator
                    default "none: assigning starts nothing"
                    , input "assignee" text "The account to which an issue is assigned to start a run (`issues: types: [assigned]`); none when empty.";

                /// only these people (who still need write access)
                allow_users: Vec<String> => access.allow_users, Operator
                    default "everybody with write access"
                    , input "allow-users" list "Logins that may start a run, separated by commas; they need write access too. Everybody with write access when empty.";

                /// bots, by exact login
                allow_bots: Vec<String> => access.allow_bots, Operator
                    , input "allow-bots" list "Exact logins of bots that may start a run, separated by commas.";
            }

            /// The section `tools`.
            Tools in "tools." (file => file.tools) {
                /// tools that are neither declared nor run, as patterns; see [below](#tools)
                disabled: Vec<String> => tools.disabled, Add;

                /// tools whose output is not shortened for the model, as patterns
                untruncated: Vec<String> => tools.untruncated, Operator;

                /// with more tools of servers and configuration than this, they are found by searching
                search_above: usize => tools.search_above, Operator
                    default "30";

                /// commands that the model can call as tools
                custom: BTreeMap<String, CustomTool> => tools.custom, Operator;

                /// commands that run before or after calls
                hooks: Vec<Hook> => tools.hooks, Operator;

                /// variables for every command in the sandbox; no secrets
                shell_env: BTreeMap<String, String> => tools.shell_env, Operator;

                /// [sub-agents](agents.md) that may work at the same time
                agents: usize => tools.agents, Operator
                    default "0 without agent files, 4 with";

                /// a folder with agent files of your own
                agent_files: PathBuf => tools.agent_files, Operator;

                /// models that agent files of the repository may choose
                agent_models: Vec<String> => tools.agent_models, Operator
                    default "only the run's and those in `models`";

                /// offer `js_repl` where the sandbox has Node
                js_repl: bool => tools.js_repl, Operator
                    default "false";
            }
        }
    };
}

pub(crate) use behaving;

//! Every setting, each declared once. A row reads:
//!
//! ```text
//! /// What it means, for docs/configuration.md.
//! name: TypeInAFile as (how serde reads it) => field.of.the.config, Rule
//!     least (the lowest value that makes sense)
//!     default "in words, where the value does not say it"
//!     flag conversion { /// help of the flag, and its clap attributes }
//!     then { flags of the process that stand behind it in the help, as clap has them }
//!     , input "of-the-action" reader "What it means, for action.yml.", campaign "key.of-a-campaign"
//!     , formerly "key.it-had" until "version that does not understand the old names any more";
//! ```
//!
//! The rule ([`crate::rules`]) says what a repository's own file may do. From these rows come the sections of
//! configuration files, the flags, the steps from every source to a [`Config`], the inputs of the Action,
//! the settings of a campaign, and the tables in the documents.
//!
//! What a run may do and how it reviews and answers stands in [`crate::behavior_settings`], what is said about pull
//! requests and commits in [`crate::publish_settings`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

use patchwright_base::duration::parse_duration;
use patchwright_ecosystems::services::Service;
use patchwright_forge::ReviewEvent;
use patchwright_provider::catalogue::Fields;
use patchwright_provider::endpoint::EndpointSettings;
use patchwright_provider::item::Wire;
use patchwright_review::finding::Priority;

use crate::behavior_settings::behaving;
use crate::checkout::Submodules;
use crate::flags::{self, WireName};
use crate::publish::{Fork, MergeMethod, Signing};
use crate::publish_settings::publishing;
use crate::review::{PathInstructions, Threshold};
use crate::rules::{self, RepositorySetting, Rule};
use crate::table::{self, Input, Setting, concat_path};
use crate::tools::{CustomTool, Hook, McpServer};
use crate::web_search::WebSearch;
use crate::{Config, Mode, Personality, SandboxChoice, Source, read};

/// The shortest time that a limit can be: with less, every run would end as it begins.
const SECOND: Duration = Duration::from_secs(1);

behaving! {
    /// A configuration file. Every key is optional; unknown keys are errors.
    File in "" (file => file) with {
        checkout: Checkout,
        limits: Limits,
        container: Container,
        policy: Policy,
        publish: Publish,
        commits: Commits,
        review: Review,
        respond: Respond,
        triage: Triage,
        access: Access,
        network: Network,
        tools: Tools,
        identity: Identity,
    } {
        /// catalogue slug, `provider/slug`, `azure/DEPLOYMENT`, `bedrock/ID`, `vertex/ID`, `chat/NAME`,
        /// `scripted:FILE`
        model: String => model, Operator
            flag given {
                /// Model: a catalogue slug (`gpt-5.3-codex`), `provider/slug`, `azure/DEPLOYMENT`, `bedrock/ID`,
                /// `vertex/ID`, `chat/NAME` with `--base-url`, or `scripted:FILE`
                #[arg(long, env = "PATCHWRIGHT_MODEL", value_name = "MODEL")]
                model: Option<String>
            }
            , input "model" text "The model: a name of `docs/models.md`, `azure/DEPLOYMENT`, `bedrock/ID`, `vertex/ID`, or `chat/NAME` with `base-url`."
            , campaign "agent.model";

        /// models that go on when the first one is out, limited, out of quota or refuses; see
        /// [endpoints](endpoints.md#fallbacks)
        fallback_models: Vec<String> => fallback_models, Operator
            default "none"
            flag given {
                /// Model that goes on when the one before it is out, limited, out of quota or refuses: `MODEL`, or
                /// `MODEL@URL` for a server of your own; repeatable
                #[arg(long, env = "PATCHWRIGHT_FALLBACK_MODEL", value_name = "MODEL", value_delimiter = ',')]
                fallback_model: Vec<String>
            }
            , input "fallback-models" lines "Models that go on when the first one is out, limited, out of quota or refuses, one a line: `MODEL`, or `MODEL@URL` for a server of your own."
            , campaign "agent.fallback-models";

        /// attempts at the work of `issue`, `exec`, prompts and campaigns, of which the best is kept; see
        /// [attempts](attempts.md)
        attempts: u32 => attempts, Operator
            least (1)
            flag given {
                /// Attempts at the work, each in a workspace of its own; the best by the checks is kept
                #[arg(long, env = "PATCHWRIGHT_ATTEMPTS", value_name = "N",
                    value_parser = clap::value_parser!(u32).range(1..=8), help_heading = "Attempts")]
                attempts: Option<u32>
            }
            , input "attempts" number "Attempts at the work, 1 to 8, each in a workspace of its own; the best by the checks is kept."
            , campaign "agent.attempts";

        /// the models of the attempts, in turn, written as in `fallback-models`
        attempt_models: Vec<String> => attempt_models, Operator
            default "`model`"
            flag given {
                /// Model of an attempt, in turn, instead of `--model`: `MODEL`, or `MODEL@URL` for a server of your
                /// own; repeatable
                #[arg(long, env = "PATCHWRIGHT_ATTEMPT_MODEL", value_name = "MODEL",
                    value_delimiter = ',', help_heading = "Attempts")]
                attempt_model: Vec<String>
            }
            , input "attempt-models" lines "The models of the attempts, in turn, one a line, instead of `model`."
            , campaign "agent.attempt-models";

        /// attempts that are worked on at the same time
        attempts_at_once: u32 => attempts_at_once, Operator
            default "half of the machine's processors, at least 1"
            flag given {
                /// Attempts that are worked on at the same time [default: half of the processors, at least 1]
                #[arg(long, env = "PATCHWRIGHT_ATTEMPTS_AT_ONCE", value_name = "N",
                    value_parser = clap::value_parser!(u32).range(1..=8), help_heading = "Attempts")]
                attempts_at_once: Option<u32>
            }
            , input "attempts-at-once" number "Attempts that are worked on at the same time; half of the processors when empty."
            , campaign "agent.attempts-at-once";

        /// the model that compares attempts which are equal by their checks, written as in `fallback-models`
        judge_model: String => judge_model, Operator
            default "`model`"
            flag given {
                /// Model that compares attempts which are equal by their checks [default: that of the work]
                #[arg(long, env = "PATCHWRIGHT_JUDGE_MODEL", value_name = "MODEL",
                    help_heading = "Attempts")]
                judge_model: Option<String>
            }
            , input "judge-model" text "The model that compares attempts which are equal by their checks; `model` when empty."
            , campaign "agent.judge-model";

        /// endpoint of the model's API
        base_url: String => base_url, Operator
            default "the provider's own"
            flag given {
                /// Endpoint of the model's API; for OpenAI-compatible servers it ends in `/v1`
                #[arg(long, env = "PATCHWRIGHT_BASE_URL", value_name = "URL")]
                base_url: Option<String>
            }
            , input "base-url" text "Endpoint of the model's API; for OpenAI-compatible servers it ends in `/v1`.";

        /// reasoning effort, one of the model's levels
        effort: String => effort, Operator
            default "the model's default"
            flag given {
                /// Reasoning effort, one of the model's levels
                #[arg(long, env = "PATCHWRIGHT_EFFORT", value_name = "LEVEL")]
                effort: Option<String>
            }
            , input "effort" text "Reasoning effort, one of the model's levels."
            , campaign "agent.effort";

        /// protocol instead of the model's own: `responses`, `chat`, `messages`, `gemini`
        wire: Wire => wire, Operator
            default "the model's"
            flag given {
                /// Protocol to ask on, instead of the model's own
                #[arg(long, env = "PATCHWRIGHT_WIRE", value_name = "WIRE")]
                wire: Option<WireName>
            };

        /// tool profile instead of the catalogue's: `codex`, `openai-hosted`, `claude`, `gemini`, `generic`,
        /// `text`
        profile: String => profile, Operator
            default "the catalogue's"
            flag given {
                /// Tool profile instead of the catalogue's: `codex`, `openai-hosted`, `claude`, `gemini`, `generic`
                /// or `text`
                #[arg(long, env = "PATCHWRIGHT_PROFILE", value_name = "NAME")]
                profile: Option<String>
            }
            then {
                /// Operator's configuration file
                #[arg(
                    long,
                    env = "PATCHWRIGHT_CONFIG",
                    value_name = "FILE",
                    help_heading = "Configuration"
                )]
                pub config: Option<PathBuf>,

                /// Folder for journals, reports and clone mirrors [default: ~/.local/state/patchwright]
                #[arg(
                    long,
                    env = "PATCHWRIGHT_STATE_DIR",
                    value_name = "DIR",
                    help_heading = "Configuration"
                )]
                pub state_dir: Option<PathBuf>,
            };

        /// standing instructions: what you want of every run, in your words
        instructions: String => instructions, Operator
            default "none"
            flag given {
                /// Standing instructions: what you want of every run, in your words
                #[arg(long, env = "PATCHWRIGHT_INSTRUCTIONS", value_name = "TEXT")]
                instructions: Option<String>
            }
            , input "instructions" text "Standing instructions: what you want of every run, in your words.";

        /// tone of what people read: `pragmatic`, `friendly` or `none`; see [prompts](prompts.md)
        personality: Personality => personality, Operator;

        /// runs read the lessons in `.github/patchwright-memory.md`, and `learn` proposes some; see
        /// [memory](memory.md)
        memory: bool => memory, TurnOff
            , input "memory" switch "`false` has runs pass over the lessons in `.github/patchwright-memory.md`.";

        /// `execute`, or `plan`: read and end with a plan, change nothing
        mode: Mode => mode, Operator
            own_flags "PATCHWRIGHT_MODE" &["exec --mode"];

        /// JSON Schema of the result: `exec`, prompts of the Action and campaigns with `mode: report` end with
        /// JSON that fits it; see [below](#results-as-json)
        output_schema: Value => output_schema, Operator
            default "none"
            own_flags "PATCHWRIGHT_OUTPUT_SCHEMA" &["exec --output-schema"]
            , input "output-schema" schema "JSON Schema of the result, as JSON; work on a prompt ends with an output that fits it."
            , campaign "output-schema";

        /// tools that the model's provider runs; see [below](#hosted-tools)
        hosted_tools: Vec<Value> => hosted_tools, Operator;

        /// the provider stores replies, and requests add to the last one; see [below](#stored-replies)
        stateful: bool => stateful, Operator;

        /// searching the web; see [below](#web-search)
        web_search: WebSearch => web_search, Operator
            default "off";

        /// changes and additions to the catalogue; see [endpoints](endpoints.md)
        models: BTreeMap<String, Fields> => models, Operator;

        /// headers, query parameters and key commands of endpoints, by provider or base URL; see
        /// [identity](identity.md)
        endpoints: BTreeMap<String, EndpointSettings> => endpoints, Operator;

        /// where commands run: `docker`, `kubernetes` or `local`
        sandbox: SandboxChoice as (skip) => sandbox, Operator
            flag given {
                /// Where commands run
                #[arg(long, env = "PATCHWRIGHT_SANDBOX", value_name = "KIND", help_heading = "Sandbox")]
                sandbox: Option<SandboxChoice>
            }
            , input "sandbox" choice "`docker`, `kubernetes` or `local`.";

        /// a file with a `PodTemplate`: namespace, nodes, runtime and reservations of sandboxes that are pods; see
        /// [the sandbox](sandbox.md#pods)
        sandbox_pod_template: PathBuf => sandbox_pod_template, Operator
            default "the namespace of the kubeconfig, and nothing else"
            flag given {
                /// File with a `PodTemplate` of Kubernetes for `--sandbox kubernetes`
                #[arg(long, env = "PATCHWRIGHT_SANDBOX_POD_TEMPLATE", value_name = "FILE",
                    help_heading = "Sandbox")]
                sandbox_pod_template: Option<PathBuf>
            };

        /// container image
        image: String => image, Fill
            default "by the repository's kind"
            flag given {
                /// Container image; chosen by the repository's kind when absent
                #[arg(long, env = "PATCHWRIGHT_IMAGE", value_name = "IMAGE", help_heading = "Sandbox")]
                image: Option<String>
            }
            , input "image" text "The container image to work in; chosen by the kind of repository when empty."
            , campaign "environment.image";

        /// globs of images that repositories may name in `image`; see [the sandbox](sandbox.md)
        images: Vec<String> => images, Operator
            default "public registries"
            flag hosts {
                /// Image that a repository's own configuration may name, such as `ghcr.io/acme/*`; repeatable
                /// [default: public registries]
                #[arg(
                    long,
                    env = "PATCHWRIGHT_ALLOW_IMAGE",
                    value_name = "GLOB",
                    value_delimiter = ',',
                    help_heading = "Sandbox"
                )]
                allow_image: Vec<String>
            };

        /// shell commands that prepare the image, or `none`; see [the sandbox](sandbox.md#setup)
        setup: Vec<String> as (deserialize_with = "read::file_words") => setup, Fill
            default "found in the repository's files"
            flag given {
                /// Shell command that prepares the image, run once as root without secrets, or `none`; repeatable
                /// [default: found in the repository's files]
                #[arg(
                    long,
                    env = "PATCHWRIGHT_SETUP",
                    value_name = "COMMAND",
                    value_delimiter = '\n',
                    help_heading = "Sandbox"
                )]
                setup: Vec<String>
            }
            , input "setup" lines "Commands that prepare the image, one a line, or `none`. When empty, what the lock files and manifests of the repository ask for is installed."
            , campaign "environment.setup";

        /// a command of setup that fails ends the run, instead of being told to the model and the reader
        setup_required: bool => setup_required, TurnOn
            flag given {
                /// End the run when a command of setup fails
                #[arg(long, env = "PATCHWRIGHT_SETUP_REQUIRED", help_heading = "Sandbox")]
                setup_required: bool
            }
            , input "setup-required" switch "`true` ends the run when a command of setup fails."
            , campaign "environment.setup-required";

        /// the model may ask for setup again after it has changed a manifest; see
        /// [the sandbox](sandbox.md#setup-again)
        setup_again: bool => setup_again, Operator
            flag given {
                /// Let the model ask for setup again after it has changed a manifest: in the changed tree, with the
                /// same hosts, without secrets, for this run alone
                #[arg(long, env = "PATCHWRIGHT_SETUP_AGAIN", help_heading = "Sandbox")]
                setup_again: bool
            }
            , input "setup-again" switch "`true` lets the model ask for setup again after it has changed a manifest."
            , campaign "environment.setup-again";

        /// servers beside the commands of a run, by name; `{}` for none; see [the sandbox](sandbox.md#services)
        services: BTreeMap<String, Service> => services, Fill
            default "those of the CI job whose tests are run";

        /// checks
        verify: Vec<String> => verify, Fill
            default "those of CI files, or by the repository's kind"
            flag given {
                /// Check that must pass, run before and after the change; repeatable
                #[arg(
                    long,
                    env = "PATCHWRIGHT_VERIFY",
                    value_name = "COMMAND",
                    value_delimiter = '\n',
                    help_heading = "Sandbox"
                )]
                verify: Vec<String>
            }
            , input "verify" lines "Commands that check the change, one a line; found in CI files or by the kind of repository when empty."
            , campaign "verify";

        /// MCP servers, by name; see [below](#mcp-servers). The repository names those that it wants, with
        /// fewer `tools`
        mcp: BTreeMap<String, McpServer> => mcp, Servers;
    }

    /// The section `network`.
    Network in "network." (file => file.network) {
        /// hosts that commands, tools and MCP servers of a run may reach: `docs.rs`, `*.docs.rs` for everything
        /// below it, `name:port`, `name=address`; see [the sandbox](sandbox.md#network)
        allow: Vec<String> => allow_hosts, Hosts
            flag hosts {
                /// Host that commands and tools may reach, such as `crates.io` or `*.example.com`; repeatable.
                /// Without any there is no network
                #[arg(
                    long,
                    env = "PATCHWRIGHT_ALLOW_HOST",
                    value_name = "HOST",
                    value_delimiter = ',',
                    help_heading = "Sandbox"
                )]
                allow_host: Vec<String>
            }
            , input "allow-hosts" hosts "Hosts that commands and tools may reach, separated by commas, for example `crates.io, *.crates.io`. No network when empty.";

        /// hosts that setup may reach, in the same form; `registries` for those of the package registries, `*`
        /// for all, `none` for none
        setup_allow: Vec<String> as (deserialize_with = "read::file_words") => setup_hosts, Operator
            flag hosts {
                /// Host that setup commands may reach, `registries` for those of the package registries, `*` for
                /// all, `none` for none; repeatable [default: registries]
                #[arg(
                    long,
                    env = "PATCHWRIGHT_SETUP_ALLOW",
                    value_name = "HOST",
                    value_delimiter = ',',
                    help_heading = "Sandbox"
                )]
                setup_allow: Vec<String>
            }
            , input "setup-allow" hosts "Hosts that setup may reach, separated by commas: names, `registries` for those of the package registries, `none`. `registries` when empty."
            , campaign "environment.setup-allow";
    }

    /// The section `checkout`: see [repositories](repositories.md).
    Checkout in "checkout." (file => file.checkout) {
        /// submodules that are fetched, to read: `false`, `true`, or `recursive` for those of submodules, too; see
        /// [repositories](repositories.md#submodules)
        submodules: Submodules => checkout.submodules, Operator
            flag given {
                /// Submodules that are fetched, to read [default: false]
                #[arg(long, env = "PATCHWRIGHT_SUBMODULES", value_name = "WHICH", help_heading = "Sandbox")]
                submodules: Option<Submodules>
            }
            , input "submodules" choice "Submodules that are fetched, to read: `false`, `true`, or `recursive` for those of submodules, too.";

        /// hosts beside the forge's own that submodules are fetched from, without a token
        submodule_hosts: Vec<String> => checkout.submodule_hosts, Operator;

        /// folders that the sandbox has, with the files on the way to them, as a sparse checkout in git's cone mode;
        /// see [repositories](repositories.md#sparse-checkouts)
        sparse: Vec<String> => checkout.sparse, Fill
            default "all"
            flag given {
                /// Folder that the sandbox has, as in a sparse checkout in git's cone mode; repeatable [default: all]
                #[arg(
                    long,
                    env = "PATCHWRIGHT_SPARSE",
                    value_name = "FOLDER",
                    value_delimiter = ',',
                    help_heading = "Sandbox"
                )]
                sparse: Vec<String>
            }
            , input "sparse" list "Folders that the sandbox has, as in a sparse checkout in git's cone mode, separated by commas; all when empty.";

        /// files that Git LFS keeps are fetched, to read; otherwise they are pointers; see
        /// [repositories](repositories.md#git-lfs)
        lfs: bool => checkout.lfs, Operator
            flag given {
                /// Fetch the files that Git LFS keeps, to read
                #[arg(long, env = "PATCHWRIGHT_LFS", help_heading = "Sandbox")]
                lfs: bool
            }
            , input "lfs" switch "`true` fetches the files that Git LFS keeps, to read.";
    }

    /// The section `limits`.
    Limits in "limits." (file => file.limits) {
        /// model replies, before the one that is asked for in the end
        max_turns: u32 => limits.max_turns, Lower
            least (1)
            flag given {
                /// Most model replies
                #[arg(long, env = "PATCHWRIGHT_MAX_TURNS", value_name = "N", help_heading = "Budget")]
                max_turns: Option<u32>
            }
            , input "max-turns" number "Most turns of the model."
            , campaign "agent.max-turns";

        /// dollars
        max_cost_usd: f64 => limits.max_cost_usd, Lower
            least (0.0)
            flag given {
                /// Most dollars spent on the model
                #[arg(
                    long,
                    env = "PATCHWRIGHT_MAX_COST_USD",
                    value_name = "DOLLARS",
                    help_heading = "Budget"
                )]
                max_cost_usd: Option<f64>
            }
            , input "max-cost-usd" number "Most dollars to spend on the model."
            , campaign "agent.max-cost-usd";

        /// tokens in all, input and output; input that the provider read from its cache is not counted
        max_tokens: u64 => limits.max_tokens, Lower
            least (1)
            flag given {
                /// Most tokens, input and output together; input that was read from the provider's cache is not counted
                #[arg(long, env = "PATCHWRIGHT_MAX_TOKENS", value_name = "N", help_heading = "Budget")]
                max_tokens: Option<u64>
            }
            , input "max-tokens" number "Most tokens, input and output together."
            , campaign "agent.max-tokens";

        /// wall clock of the run
        timeout: Duration as (deserialize_with = "read::file_duration") => limits.timeout, Lower
            least (SECOND)
            flag given {
                /// Most wall-clock time of the whole run, such as `90s`, `45m` or `1h`
                #[arg(
                    long,
                    env = "PATCHWRIGHT_TIMEOUT",
                    value_name = "DURATION",
                    value_parser = parse_duration,
                    help_heading = "Budget"
                )]
                timeout: Option<Duration>
            }
            , input "timeout" duration "Most time for the run, for example `45m`."
            , campaign "agent.timeout";

        /// one command of the model, one check
        command_timeout: Duration as (deserialize_with = "read::file_duration")
            => limits.command_timeout, Lower
            least (SECOND);

        /// all setup commands
        setup_timeout: Duration as (deserialize_with = "read::file_duration") => setup_timeout, Lower
            least (SECOND);

        /// how often failing checks go back to the model
        verify_rounds: u32 => limits.verify_rounds, Lower;
    }

    /// The section `container`: bounds of one container.
    Container in "container." (file => file.container) {
        /// memory of one container
        memory: u64 as (deserialize_with = "read::file_size") => container.memory_bytes, Operator
            least (1);

        /// processors of one container
        cpus: f64 => container.cpus, Operator
            least (0.01);

        /// processes of one container
        pids: u32 => container.pids, Operator
            least (1);

        /// size of `/tmp` and of the home folder, each
        tmp: u64 as (deserialize_with = "read::file_size") => container.tmp_bytes, Operator
            least (1);

        /// size of the workspace
        workspace: u64 as (deserialize_with = "read::file_size")
            => container.workspace_bytes, Operator
            least (1);

        /// files in the workspace
        workspace_files: u64 => container.workspace_files, Operator
            least (1);

        /// started containers that wait for the next run; see [the sandbox](sandbox.md#warm-starts)
        warm: usize => warm.count, Operator
            default "2 where many runs are worked on (`serve`, `worker`, `schedule`, `batch run`), otherwise 0";

        /// how long one waits
        warm_age: Duration as (deserialize_with = "read::file_duration") => warm.age, Operator
            least (SECOND);

        /// the memory limits of all that wait, together
        warm_memory: u64 as (deserialize_with = "read::file_size") => warm.memory_bytes, Operator;
    }
}

//! The rows about where a run works and for how long; how to read them is in [`mod@crate::settings`].

/// The table of settings: what it is given, and these sections.
macro_rules! working {
    ($($others:tt)*) => {
        publishing! {
            $($others)*

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
                /// model replies
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
                memory: u64 as (deserialize_with = "read::file_size") => container.memory_bytes, Operator;

                /// processors of one container
                cpus: f64 => container.cpus, Operator;

                /// processes of one container
                pids: u32 => container.pids, Operator;

                /// size of `/tmp` and of the home folder, each
                tmp: u64 as (deserialize_with = "read::file_size") => container.tmp_bytes, Operator;

                /// size of the workspace
                workspace: u64 as (deserialize_with = "read::file_size")
                    => container.workspace_bytes, Operator;

                /// files in the workspace
                workspace_files: u64 => container.workspace_files, Operator;

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
    };
}

pub(crate) use working;

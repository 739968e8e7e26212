//! All integration tests, one binary: it links once and shares `support`.
#![allow(clippy::unwrap_used, reason = "tests")]
#![allow(clippy::print_stderr, reason = "tests say what they skip")]
#![allow(clippy::needless_raw_string_hashes, reason = "expect-test writes them")]
#![allow(clippy::format_push_string, clippy::assigning_clones, reason = "tests read better so")]
#![allow(clippy::case_sensitive_file_extension_comparisons, reason = "not file names")]

mod support;

mod access; // who may set us to work: roles, bots, and every way in which the question can fail
mod acp; // `patchwright acp`: prompts of an editor, a later one of the same session, cancelled ones, editors that are wrong or gone
mod action; // `patchwright action`: events in, outputs, summary and annotations out
mod action_cancelled;
mod action_failures;
mod action_mentions;
mod action_prompt;
mod action_pulls; // `patchwright action` on pull requests, comments and checks
mod agent; // the agent loop with a scripted model and the real guest
mod agents; // sub-agents: side by side, waited for, closed, killed and resumed; agent files
mod anchoring; // places on a diff: hunks against the real git, quotes from everywhere in them, what becomes of findings
mod attacks; // what must not get out or be run, whatever model and repository do
mod attempts; // several attempts at the same work: which is kept and why, stopped, killed, compared by a judge
mod bad_input; // everything that can be wrong before work starts: one message, no effects
mod batch_faults; // two versions of workers, a database that fails over, clocks that disagree, files that change, owners that vanish
mod batch_nights; // campaigns that are run again and again
mod batch_outage; // GitHub, the model or a cluster is away in the middle
mod batch_parts; // shards over several nights, repositories by name, what a part may spend
mod batch_publish; // stored changes become pull requests: every situation, the shared pace, fencing, closing, tracking
mod batch_run; // `patchwright batch run`: many repositories, whole processes against GitHub and a model
mod batch_scale; // sixty of them, with trouble in some
mod batch_simulate; // how long a campaign would take: both queues of the simulation, its counts, outages
mod batch_status; // how a campaign stands, for people and programs; the table of a terminal
mod batch_stored; // changes on their way to another machine: packs, what they may hold, what makes two the same
mod batch_time; // what a campaign's figures say, repositories that are renamed, how much is read for a step
mod binary; // binary files that a run makes: in the commit, the patch and the report, within the limits
mod bounds; // replies that are too much of anything: refused, and never in the way later
mod call_ids_wire; // servers that give several calls one id, or none: all are run, and told apart from then on
mod campaign; // campaign files, waves, windows, prompts
mod campaign_pages; // what people see of a campaign: page (in a real browser), issue, tables, JSON, live table
mod campaign_plan; // repositories found and looked at on GitHub, and what a campaign would do with each
mod catalogue; // what users write after `--model`, and what a model costs
mod change; // what counts as the change of a run, and how much of it
mod chat_wire; // the Chat wire: what its many servers want back, and settings
mod checkpoints; // checkpoints of a workspace: sent, stored, put back, damaged
mod clouds; // where models are asked: addresses, keys and bodies of public services and clouds
mod code_mode; // scripts that call tools: what they can do, what they cannot, and how they are declared
mod command_line; // variables that are empty or off, addresses of other servers, output on a full disk
mod commits; // commits that are signed, certified and titled as a repository wants them; who is asked to look at them
mod compaction; // conversations that no longer fit: what stays, and where it ends
mod compose; // `docs/compose.yml`: started, killed, cut off from its database, upgraded
mod container_image; // the image of `Dockerfile`: built, run, nothing else in it
mod context; // what the model is told: threads, hidden text, instructions, environment
mod costs; // what runs cost on every wire, long requests included, and the limits that count it
mod cron; // crontab lines: which moments they name, and what is said about wrong ones
mod damaged; // files and rows that are damaged: each said, nothing lost, nothing taken for something else
mod demo; // the main job, offline
mod dependencies; // what unprepared repositories ask for is installed from registries
mod docs; // documents against the program: help, flags, keys, inputs, exit codes, models, links
mod doctor; // one line a check, and the fix
mod edit_formats; // the text formats of models without tool calls: replies, properties, attacks
mod egress; // the way out of a run, to allowed hosts only
mod endings; // when a run ends: announcements, limits, unknown prices; commands that take long, and servers
mod endpoints; // model endpoints that are hostile or absent
mod endpoints_bad; // wrong models, keys, addresses and settings: one message, nothing sent in vain
mod eval; // `patchwright eval`: instances of a history, models at work on them, judged by tests that they have not seen
mod eval_instances; // `patchwright eval`: what of a history becomes an instance, and the tests that decide
mod eval_reviews; // `patchwright eval mine --from reviews`: what reviewers asked for, as instances
mod event_stream; // the lines of `--json`: each is in the published schema, each kind of it is printed
mod events; // webhook payloads as GitHub sends them, what they become and what is decided
mod every_tool; // each declared tool over each wire: the provider's shape of its answer, and what it did
mod exec; // a prompt on a local repository
mod exec_streams; // who reads the streams of `exec` and `acp`, slowly or not at all; terminals that are gone
mod families; // every model family in the same situations: long commands, servers, announcements, limits, flaky and red checks
mod faults; // what providers do wrong, on all four protocols: attempts, waits, outcomes, kept work
mod file_tools; // read_file, list_dir, grep_files on a real folder
mod fleet; // workers: several processes on one database, killed, stopped, drained
mod forge; // the forge contract on GitHub and on a folder; lost answers; limits
mod forged; // comments that pretend to be ours, and what they cannot do
mod forks; // repositories that we may only read: a fork found or made, and everything afterwards with it
mod four_wires; // the same scripted work over all four protocols, each request checked by schema
mod fuzzed; // parsers of what others write: what must hold for any bytes, on seeds and damaged copies
mod gemini_wire; // the Gemini protocol: requests, errors, and conversations over HTTP
mod git; // clones, upload tars, changes, patches and pushes against a real git server
mod github_world; // the GitHub of these tests against what is known of the real one
mod guest; // commands through the real guest: results, limits, survivors, confinement
mod guest_hostile; // guests that lie to the client
mod guest_local; // the local sandbox: its walls, setup, sweep, and trees without end
mod guest_transfer; // the tree into the guest and the changes out of it
mod hidden; // text that nobody sees on a page: where it hides, and that looking for it is quick
mod hosted; // tools that the provider runs: declared, with secrets on the wire only; strict schemas
mod identity; // credentials of clouds and key commands: fetched, signed with, renewed, refused, never shown
mod install; // what people install and set up with: versions, completions, manual pages, `init`
mod issue; // issue to pull request, whole processes against GitHub and a model
mod journal; // the journal file: what is written, what is read back, and bad disks
mod js_repl; // JavaScript in a Node process that stays
mod kubernetes; // `worker --launch kubernetes`: pods that run, wait, die and outlive their launcher
mod learn; // what maintainers corrected becomes a file of lessons, proposed, merged, and read by the next run
mod lfs; // files that Git LFS keeps: fetched from storage, read in the sandbox, pointers in every commit
mod litellm; // a LiteLLM proxy in between: the same work through its four fronts
mod local_servers; // servers that people run themselves: lines that work, refusals, templates, certificates
mod local_setup; // setup with a developer's own programs in the local sandbox, and checks that it leaves without packages
mod manifests; // Kubernetes manifests and systemd units that operators copy
mod markdown; // Markdown of others on its way out, judged by the parser of GitHub itself
mod mcp; // MCP servers: real ones, bad ones, over standard streams and HTTP, in whole runs
mod mentions; // comments that ask for something: which count, and what they ask
mod messages_wire; // Anthropic's Messages: requests to bodies, headers and errors over HTTP
mod model_server; // the model server of these tests against the rules of the providers
mod one_machine; // processes that share clones and what setup has made
mod otel; // traces, metrics and logs at a collector: what arrives, what never does, and collectors that are gone
mod parity; // one table of cases for Docker and the local sandbox
mod patch_commands; // `apply_patch` in commands: as a program, and as the whole command
mod patches; // the apply_patch format, its hosted dialect, and the workspace boundary
mod pipe; // commands with streams
mod pipe_hostile; // guests that lie about streams
mod policy; // what may leave the building
mod profiles; // every tool of every profile through the dispatch: names, arguments, results, hostile paths
mod prompts; // texts for models: every template renders, the first request is small
mod providers; // models over HTTP: the fault table, and whole conversations
mod proxies; // the way to services as the environment names it: proxies, certificates
mod pull_events; // events of pull requests, comments and checks, and what is decided
mod real_project; // Python-Markdown, fixed end to end; its own tests prove it
mod references;
mod release; // what a release is made of: the same elsewhere, without a word about the machine
mod released; // what released versions have left on disks: configuration, databases, state folders
mod reliability; // `docs/reliability.md` names tests that exist
mod replay; // a recorded run again, without a model
mod report_page; // `report.html`: what it shows of a run, that it is inert, small, and for everybody (in a real browser)
mod reports; // every word people read
mod requests; // the protocols without a network: requests to bodies
mod respond; // comments that ask for something: commits, answers, plans, and when nothing is done
mod responses_socket; // Responses over a WebSocket: one connection, what is new, and without one
mod responses_wire; // the Responses wire: calls and answers of every kind, stored replies
mod results; // results as JSON by a schema: asked for, checked, asked for again; schemas that cannot be
mod resume; // killed, interrupted and concurrent runs
mod resume_base; // which branch a resumed run is for; bases that are moved, renamed or deleted
mod resume_published; // runs whose work is done and not published: what their files say, and the next run
mod resume_refused; // files that can be part of no change, in resumed runs
mod resume_sandbox; // resumed runs whose image, programs or setup are others by now
mod review; // pull request to review: scope, tools, outcomes, whole processes against GitHub and a model
mod review_config; // the sections `review` and `respond`: what they may say, and who may say it
mod review_post; // reviews on GitHub: posted once, brought up to date, handed over
mod review_reports; // every word of a review, and its files for programs
mod sandbox_pods; // sandboxes as pods: a cluster of ours that runs them as containers, and whole runs in it
mod sandboxes; // real containers: what they enforce, how they start, end and are swept
mod schedule; // campaigns at their times: missed, doubled, broken, interrupted, on two machines
mod scripted; // scripted models, and replies from a journal
mod serve; // webhooks in, work done, pages out
mod services; // servers beside the sandbox, as CI has them
mod sessions; // commands that go on after their call: terminals, pipes, signals, bounds, survivors
mod settings; // the table of settings: every key from every source, applied or refused by name
mod setup_again; // dependencies that the model adds, installed on its request
mod setup_at_once; // runs that need the same setup at the same time
mod setup_cache; // whose setup a run starts from
mod shared_limits; // a rate limit that one worker is told holds the others
mod sparse; // sparse checkouts: what the sandbox has, and that everything else is in the commit as it was
mod stops; // budgets, failures and crashes of the agent loop
mod store; // the fleet's database, SQLite and PostgreSQL
mod submodules; // submodules: what the sandbox has of them, with which token they are fetched, what is not obeyed
mod text_models; // models without tool calls, from the command line and in the loop
mod tidy; // the sources against the project's own rules
mod tool_system; // custom tools, hooks, search, faults, numbers: the tool system in whole runs
mod tools_cli; // `patchwright tools`: declarations as sent
mod triage; // `patchwright triage`: labels, duplicates and questions on a new issue; hostile issues; what starts it
mod unprepared; // real projects with real bugs: setup and checks found, dependencies through the relay, the fix and nothing else
mod upgrades; // newer state and older programs, runs across an upgrade, names that settings had before
mod verification; // the repository's checks in whole runs: found, run, read test by test, told and judged
mod wanted;
mod watch; // `watch`: a run in the terminal by its journal
mod web_search; // searching the web: engines on every wire, providers' own, hosts, engines that answer nonsense
mod wires; // the protocols without a network: streams to replies
mod workflows; // the Action and the workflows: linted, and the Action's steps run for real

/// Every file here is compiled: a forgotten `mod` line would leave its tests out silently.
#[test]
fn no_test_file_is_forgotten() {
    let listed = include_str!("main.rs");
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for entry in fs_err::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let is_source = path.extension().is_some_and(|ext| ext == "rs");
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(
            !is_source || name == "main" || listed.contains(&format!("\nmod {name};")),
            "`tests/{name}.rs` is not in `tests/main.rs`"
        );
    }
}

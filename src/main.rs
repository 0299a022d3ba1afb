//! Composes: command line, configuration, logs, runtime, relay, exit status.

use std::process::ExitCode;
use std::time::SystemTime;

use clap::Parser;
use outboxd::cli::{
    CheckArgs, Cli, Command, ConfigArgs, ConvertArgs, HealthcheckArgs, RedriveArgs, ReportFormat,
    RunArgs, SetupArgs, ShadowArgs, SinkArg, SlotAdvanceArgs, SlotCommand, SlotDropArgs,
    SnapshotArgs, StatusArgs, UntilArg, exit,
};
use outboxd::config::{self, Config, ConfigError, Sources};
use outboxd::errand::Errand;
use outboxd::observe::{
    Metrics, Problem, ShownSetting, Status, Supervisor, answer, init_logging, remark, say, serve,
};
use outboxd::postgres;
use outboxd::relay::{Ended, Relay, RelayError, RunOptions, Sink, Until, View, stop_on_signals};
use outboxd::snapshot::Wish;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed pipe is no reason for another error.
            drop(error.print());
            return ExitCode::from(if error.use_stderr() {
                exit::USAGE
            } else {
                exit::DRAINED
            });
        }
    };
    let code = match cli.command {
        Command::Run(args) => run(&args),
        Command::Check(args) => check(&args),
        Command::Status(args) => status(&args),
        Command::Setup(args) => setup(&args),
        Command::Snapshot(args) => snapshot(&args),
        Command::Shadow(args) => shadow(&args),
        Command::Slot(command) => slot(&command),
        Command::Redrive(args) => redrive(&args),
        Command::Convert(args) => convert(&args),
        Command::Healthcheck(args) => healthcheck(&args),
        Command::Demo(args) => on_terminal(async { Ok(outboxd::demo::run(args).await) }),
    };
    ExitCode::from(code)
}

fn run(args: &RunArgs) -> u8 {
    let Some(config) = load(&args.config, args.sink == SinkArg::Kafka) else {
        return exit::CONFIG;
    };
    if let Err(error) = init_logging(&config.log) {
        return report_config(&format!("log.level: {error}"));
    }
    for note in &config.notes {
        if note.warning {
            tracing::warn!("{note}");
        } else {
            tracing::info!("{note}");
        }
    }
    let json = config.log.is_json();
    let ended = on_runtime(relay(config, args));
    ended.unwrap_or_else(|problem| {
        if json {
            log_problem(&problem);
        } else {
            print_problem(&problem);
        }
        exit::FAILED
    })
}

async fn relay(config: Config, args: &RunArgs) -> Result<u8, Problem> {
    Ok(match start(config, args).await? {
        Ended::Drained => exit::DRAINED,
        Ended::Undrained => {
            tracing::warn!(
                "stopped before Kafka had acknowledged everything: it comes again at the next start"
            );
            exit::FAILED
        }
    })
}

async fn start(config: Config, args: &RunArgs) -> Result<Ended, Problem> {
    let stop =
        stop_on_signals().map_err(|error| Problem::new(format!("no signal handlers: {error}")))?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"), slot = %config.slot.name,
        publication = %config.publication.name, kafka = config.kafka.bootstrap_servers(),
        "outboxd starts"
    );
    let metrics = Metrics::new().map_err(|error| Problem::new(format!("metrics: {error}")))?;
    let slot = config.slot.name.as_str();
    let status = Status::new(
        &config.name,
        slot,
        config.publication.name.as_str(),
        SystemTime::now(),
    );
    let settings = config.settings.shown().into_iter();
    let shown = settings.map(|(key, value, origin)| ShownSetting {
        key,
        value,
        origin: origin.to_string(),
    });
    status.set_settings(shown.collect());
    let view = View::new(metrics, status);
    match Supervisor::from_environment(|name| std::env::var(name).ok()) {
        Ok(Some(supervisor)) => drop(tokio::spawn(supervisor.follow(view.status.clone()))),
        Ok(None) => {}
        Err(error) => tracing::warn!("systemd cannot be told the state: {error}"),
    }
    if let Some(listen) = &config.http.listen {
        let address = serve(listen, view.metrics.clone(), view.status.clone())
            .await
            .map_err(|error| Problem {
                hint: Some("Set http.listen to a free address, or to nothing.".to_owned()),
                ..Problem::new(error.to_string())
            })?;
        tracing::info!(%address, "HTTP is up");
    }
    let sink = match args.sink {
        SinkArg::Kafka => Sink::Kafka(Box::new(config.kafka.clone())),
        SinkArg::Stdout => Sink::Stdout,
    };
    let until = match args.until {
        Some(UntilArg::Current) => Until::Current,
        None => Until::Stopped,
    };
    let door = config.door.clone();
    let worded = |error: RelayError| error.problem().reworded(|text| door.reword(text));
    let run = RunOptions {
        until,
        accept_gap: args.accept_gap,
    };
    let relay = Relay::new(config, sink, run, view, stop).map_err(&worded)?;
    relay.run().await.map_err(&worded)
}

fn check(args: &CheckArgs) -> u8 {
    match read(&args.config, true) {
        Ok(config) => on_errand(&config, &config.postgres, async |errand| {
            outboxd::check::run(&config, args, errand).await
        }),
        Err(error) => {
            if args.format == ReportFormat::Json {
                // What is wrong with the configuration is said on standard error, too.
                drop(answer(&format!("{}\n", outboxd::check::refusal(&error))));
            }
            report_config(&error.to_string())
        }
    }
}

fn status(args: &StatusArgs) -> u8 {
    match load(&args.config, false) {
        Some(config) => on_terminal(outboxd::status::run(&config, args)),
        None => exit::CONFIG,
    }
}

fn setup(args: &SetupArgs) -> u8 {
    let Some(config) = load(&args.config, false) else {
        return exit::CONFIG;
    };
    let mut as_administrator = args.config.clone();
    if let Some(url) = &args.administrator {
        as_administrator.set.push(format!("postgres.url={url}"));
    }
    let Some(administrator) = load(&as_administrator, false) else {
        return exit::CONFIG;
    };
    let administrator = administrator.postgres;
    on_errand(&config, &administrator, async |errand| {
        outboxd::setup::run(&config, &administrator, args, errand).await
    })
}

fn healthcheck(args: &HealthcheckArgs) -> u8 {
    let listen = std::env::var("OUTBOXD_HTTP_LISTEN").ok();
    match outboxd::healthcheck::run(args, listen.as_deref()) {
        Ok(answer) => {
            say(&answer);
            exit::DRAINED
        }
        Err(message) => {
            print_problem(&Problem::new(message));
            exit::FAILED
        }
    }
}

fn redrive(args: &RedriveArgs) -> u8 {
    let Some(config) = load(&args.config, true) else {
        return exit::CONFIG;
    };
    on_errand(&config, &config.postgres, async |errand| {
        outboxd::redrive::run(&config, args, errand).await
    })
}

fn slot(command: &SlotCommand) -> u8 {
    let (SlotCommand::Drop(SlotDropArgs { config, .. })
    | SlotCommand::Advance(SlotAdvanceArgs { config, .. })) = command;
    let Some(config) = load(config, true) else {
        return exit::CONFIG;
    };
    on_errand(&config, &config.postgres, async |errand| match command {
        SlotCommand::Drop(args) => outboxd::slot::drop(&config, args, errand).await,
        SlotCommand::Advance(args) => outboxd::slot::advance(&config, args, errand).await,
    })
}

fn snapshot(args: &SnapshotArgs) -> u8 {
    let Some(config) = load(&args.config, !args.dry_run) else {
        return exit::CONFIG;
    };
    if let Err(error) = init_logging(&config.log) {
        return report_config(&format!("log.level: {error}"));
    }
    let wish = match Wish::of(&config, args) {
        Ok(wish) => wish,
        Err(problem) => {
            print_problem(&problem);
            return exit::USAGE;
        }
    };
    on_errand(&config, &config.postgres, async |errand| {
        outboxd::snapshot::run(&config, wish, errand).await
    })
}

fn shadow(args: &ShadowArgs) -> u8 {
    let Some(config) = load(&args.config, true) else {
        return exit::CONFIG;
    };
    if let Err(error) = init_logging(&config.log) {
        return report_config(&format!("log.level: {error}"));
    }
    on_errand(&config, &config.postgres, async |errand| {
        outboxd::shadow::run(&config, args, errand).await
    })
}

fn load(args: &ConfigArgs, needs_kafka: bool) -> Option<Config> {
    match read(args, needs_kafka) {
        Ok(config) => Some(config),
        Err(error) => {
            report_config(&error.to_string());
            None
        }
    }
}

fn read(args: &ConfigArgs, needs_kafka: bool) -> Result<Config, ConfigError> {
    let sources = Sources {
        config: args.config.clone(),
        connector: args.connector.clone(),
        worker: args.worker.clone(),
        set: args.set.clone(),
        needs_kafka,
    };
    config::load(
        &sources,
        config::variables(std::env::vars_os())?.into_iter(),
    )
}

/// The files alone count: what this process's environment sets for a relay is not theirs.
fn convert(args: &ConvertArgs) -> u8 {
    let sources = Sources {
        connector: Some(args.connector.clone()),
        worker: args.worker.clone(),
        ..Sources::default()
    };
    let environment = std::env::vars_os().filter_map(|(name, value)| {
        let text = name.into_string().ok().zip(value.into_string().ok());
        text.filter(|(name, _)| !name.starts_with("OUTBOXD_"))
    });
    match config::load(&sources, environment) {
        Ok(config) => match answer(&config::to_toml(&config)) {
            Ok(()) => exit::DRAINED,
            Err(problem) => {
                print_problem(&problem);
                exit::FAILED
            }
        },
        Err(error) => report_config(&error.to_string()),
    }
}

/// There is no log before there is a configuration.
fn report_config(message: &str) -> u8 {
    remark("outboxd: the configuration is wrong");
    message.lines().for_each(remark);
    exit::CONFIG
}

fn log_problem(problem: &Problem) {
    tracing::error!(
        detail = problem.detail.as_deref(),
        hint = problem.hint.as_deref(),
        exit_status = exit::FAILED,
        "{}",
        problem.message
    );
}

/// The last word belongs to the terminal, not to the log.
fn print_problem(problem: &Problem) {
    remark(&format!("outboxd: {}", problem.message));
    for (name, text) in [("DETAIL", &problem.detail), ("HINT", &problem.hint)] {
        if let Some(text) = text {
            remark(&format!("{name}:  {text}"));
        }
    }
}

/// For commands that have a terminal and no log.
fn on_terminal(work: impl Future<Output = Result<u8, Problem>>) -> u8 {
    on_runtime(work).unwrap_or_else(|problem| {
        print_problem(&problem);
        exit::FAILED
    })
}

/// The same for one that opens sessions by `options`: it can be stopped, and speaks of settings as the
/// operator's files do.
fn on_errand(
    config: &Config,
    options: &postgres::Options,
    work: impl AsyncFnOnce(&Errand) -> Result<u8, Problem>,
) -> u8 {
    on_terminal(async {
        let errand = Errand::begin(&options.sessions)?;
        let ended = work(&errand).await;
        ended.map_err(|problem| problem.reworded(|text| config.door.reword(text)))
    })
}

fn on_runtime(work: impl Future<Output = Result<u8, Problem>>) -> Result<u8, Problem> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Problem::new(format!("no runtime: {error}")))?;
    let code = runtime.block_on(work);
    // Sessions that hang in a connect must not keep the process.
    runtime.shutdown_background();
    code
}

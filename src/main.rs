//! Composes: command line, configuration, logs, runtime, relay, exit status.

use std::process::ExitCode;
use std::time::SystemTime;

use clap::Parser;
use outboxd::cli::{Cli, Command, ConfigArgs, ConvertArgs, RunArgs, SinkArg, UntilArg, exit};
use outboxd::config::{self, Config, Sources};
use outboxd::observe::{Metrics, Problem, Status, init_logging, serve};
use outboxd::relay::{Ended, Relay, Sink, Until, View, stop_on_signals};

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
        Command::Convert(args) => convert(&args),
        Command::Demo(args) => on_runtime(outboxd::demo::run(args)),
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
    on_runtime(relay(config, args))
}

async fn relay(config: Config, args: &RunArgs) -> u8 {
    match start(config, args).await {
        Ok(Ended::Drained) => exit::DRAINED,
        Ok(Ended::Undrained) => {
            tracing::warn!(
                "stopped before Kafka had acknowledged everything: it comes again at the next start"
            );
            exit::FAILED
        }
        Err(problem) => {
            print_problem(&problem);
            exit::FAILED
        }
    }
}

async fn start(config: Config, args: &RunArgs) -> Result<Ended, Problem> {
    let plain = |message: String| Problem {
        message,
        detail: None,
        hint: None,
    };
    let stop = stop_on_signals().map_err(|error| plain(format!("no signal handlers: {error}")))?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"), slot = %config.slot.name,
        publication = %config.publication.name, kafka = config.kafka.bootstrap_servers(),
        "outboxd starts"
    );
    let metrics = Metrics::new().map_err(|error| plain(format!("metrics: {error}")))?;
    let slot = config.slot.name.as_str();
    let status = Status::new(
        &config.name,
        slot,
        config.publication.name.as_str(),
        SystemTime::now(),
    );
    let view = View::new(metrics, status);
    if let Some(listen) = config.http.listen {
        let address = serve(listen, view.metrics.clone(), view.status.clone())
            .await
            .map_err(|error| Problem {
                hint: Some("Set http.listen to a free address, or to nothing.".to_owned()),
                ..plain(error.to_string())
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
    let relay = Relay::new(config, sink, until, view, stop).map_err(|error| error.problem())?;
    relay.run().await.map_err(|error| error.problem())
}

fn check(args: &ConfigArgs) -> u8 {
    let Some(config) = load(args, true) else {
        return exit::CONFIG;
    };
    on_runtime(outboxd::check::run(config))
}

fn load(args: &ConfigArgs, needs_kafka: bool) -> Option<Config> {
    let sources = Sources {
        config: args.config.clone(),
        connector: args.connector.clone(),
        worker: args.worker.clone(),
        set: args.set.clone(),
        needs_kafka,
    };
    match config::load(&sources, std::env::vars()) {
        Ok(config) => Some(config),
        Err(error) => {
            report_config(&error.to_string());
            None
        }
    }
}

/// The files alone count: what this process's environment sets for a relay is not theirs.
#[expect(clippy::print_stdout, reason = "the file is the command's result")]
fn convert(args: &ConvertArgs) -> u8 {
    let sources = Sources {
        connector: Some(args.connector.clone()),
        worker: args.worker.clone(),
        ..Sources::default()
    };
    let environment = std::env::vars().filter(|(name, _)| !name.starts_with("OUTBOXD_"));
    match config::load(&sources, environment) {
        Ok(config) => {
            print!("{}", config::to_toml(&config));
            exit::DRAINED
        }
        Err(error) => report_config(&error.to_string()),
    }
}

#[expect(
    clippy::print_stderr,
    reason = "there is no log before there is a configuration"
)]
fn report_config(message: &str) -> u8 {
    eprintln!("outboxd: the configuration is wrong\n{message}");
    exit::CONFIG
}

#[expect(
    clippy::print_stderr,
    reason = "the last word belongs to the terminal, not to the log"
)]
fn print_problem(problem: &Problem) {
    eprintln!("outboxd: {}", problem.message);
    for (name, text) in [("DETAIL", &problem.detail), ("HINT", &problem.hint)] {
        if let Some(text) = text {
            eprintln!("{name}:  {text}");
        }
    }
}

fn on_runtime(work: impl Future<Output = u8>) -> u8 {
    match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => {
            let code = runtime.block_on(work);
            // Sessions that hang in a connect must not keep the process.
            runtime.shutdown_background();
            code
        }
        Err(error) => report_config(&format!("no runtime: {error}")),
    }
}

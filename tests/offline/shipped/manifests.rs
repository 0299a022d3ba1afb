//! Image, compose file, unit and manifests: read here, since no container runtime is at hand.

use std::collections::BTreeMap;

use outboxd::config::{self, Sources};
use outboxd::relay::Options;
use saphyr::Yaml;

use super::{at, documents, project, string, text};

/// The configuration that a deployment ends up with is one that outboxd takes.
fn load(toml: Option<&str>, environment: &BTreeMap<String, String>) -> config::Config {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("outboxd.toml");
    if let Some(toml) = toml {
        std::fs::write(&path, toml).unwrap();
    }
    let sources = Sources {
        config: toml.map(|_| path),
        needs_kafka: true,
        ..Sources::default()
    };
    let environment = environment.clone().into_iter();
    config::load(&sources, environment).unwrap_or_else(|error| panic!("{error}"))
}

fn manifest<'a, 'b>(documents: &'a [Yaml<'b>], kind: &str) -> &'a Yaml<'b> {
    let found = documents
        .iter()
        .find(|document| document["kind"].as_str() == Some(kind));
    found.unwrap_or_else(|| panic!("no {kind}"))
}

#[test]
fn two_replicas_are_probed_where_a_standby_answers() {
    let text = text("docker/kubernetes/outboxd.yaml");
    let documents = documents(&text);
    let deployment = manifest(&documents, "Deployment");
    assert_eq!(at(deployment, "spec/replicas").as_integer(), Some(2));
    let pod = at(deployment, "spec/template/spec");
    let container = at(pod, "containers/0");
    for probe in ["livenessProbe", "readinessProbe"] {
        let path = string(container, &format!("{probe}/httpGet/path"));
        assert_eq!(path, "/livez", "{probe}");
    }
    let grace = at(pod, "terminationGracePeriodSeconds")
        .as_integer()
        .unwrap();
    let drain = Options::default().shutdown_timeout.as_secs();
    assert!(u64::try_from(grace).unwrap() > drain);
    let labels = at(deployment, "spec/selector/matchLabels");
    for (kind, path) in [
        ("Service", "spec/selector"),
        ("PodDisruptionBudget", "spec/selector/matchLabels"),
    ] {
        assert_eq!(at(manifest(&documents, kind), path), labels, "{kind}");
    }
}

#[test]
fn the_configuration_in_kubernetes_is_one_that_outboxd_takes() {
    let text = text("docker/kubernetes/outboxd.yaml");
    let documents = documents(&text);
    let container = at(
        manifest(&documents, "Deployment"),
        "spec/template/spec/containers/0",
    );
    let mut environment: BTreeMap<_, _> = at(container, "env")
        .as_vec()
        .unwrap()
        .iter()
        .map(|variable| (string(variable, "name"), string(variable, "value")))
        .collect();
    // The secret's file is only in the cluster; that it is mounted there is what can be seen here.
    let file = environment
        .remove("OUTBOXD_POSTGRES_PASSWORD_FILE")
        .unwrap();
    let mount = string(container, "volumeMounts/1/mountPath");
    let key = file.strip_prefix(&format!("{mount}/")).unwrap();
    let secret = manifest(&documents, "Secret");
    assert!(secret["stringData"][key].as_str().is_some(), "{file}");
    let toml = string(manifest(&documents, "ConfigMap"), "data/outboxd.toml");
    let config = load(Some(&toml), &environment);
    let port = at(container, "ports/0/containerPort").as_integer().unwrap();
    assert_eq!(i64::from(config.http.listen.unwrap().port), port);
}

#[test]
fn the_relays_of_the_compose_file_are_configured_and_scraped() {
    let (compose, prometheus) = (
        text("docker/compose.yml"),
        text("docker/prometheus/prometheus.yml"),
    );
    let (compose, prometheus) = (
        documents(&compose).remove(0),
        documents(&prometheus).remove(0),
    );
    let environment = compose["x-outboxd"]["environment"].as_mapping().unwrap();
    let environment = environment.iter().map(|(name, value)| {
        (
            name.as_str().unwrap().to_owned(),
            value.as_str().unwrap().to_owned(),
        )
    });
    let config = load(None, &environment.collect());
    assert_eq!(config.slot.name.as_str(), "outbox");
    let targets = at(&prometheus, "scrape_configs/0/static_configs/0/targets");
    for target in targets.as_vec().unwrap() {
        let (service, port) = target.as_str().unwrap().split_once(':').unwrap();
        assert!(
            compose["services"][service].as_mapping().is_some(),
            "{service}"
        );
        assert_eq!(port, "9464");
    }
    for mount in [
        "postgres/volumes/0",
        "prometheus/volumes/0",
        "grafana/volumes/0",
        "grafana/volumes/1",
    ] {
        let mount = string(&compose["services"], mount);
        let path = mount.split(':').next().unwrap().trim_start_matches("./");
        assert!(project("docker").join(path).exists(), "{path}");
    }
    let role = text("docker/postgres/init.sql");
    assert!(role.contains("CREATE PUBLICATION outbox FOR TABLE outbox"));
}

#[test]
fn the_image_runs_as_nobody_and_asks_the_relay_itself_for_its_health() {
    let text = text("docker/Dockerfile").replace("\\\n", " ");
    let instructions: Vec<_> = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .filter_map(|line| line.split_once(' '))
        .collect();
    let last = |name: &str| {
        let found = instructions.iter().rev().find(|(known, _)| *known == name);
        found.unwrap_or_else(|| panic!("no {name}")).1
    };
    assert_eq!(last("USER"), "nonroot");
    assert!(last("HEALTHCHECK").ends_with("CMD [\"/usr/local/bin/outboxd\", \"healthcheck\"]"));
    assert_eq!(last("ENTRYPOINT"), "[\"/usr/local/bin/outboxd\"]");
    for (_, copied) in instructions.iter().filter(|(name, _)| *name == "COPY") {
        let sources = copied.rsplit_once(' ').unwrap().0;
        if sources.starts_with("--from") {
            continue;
        }
        for source in sources.split(' ') {
            assert!(project(source).exists(), "{source}");
        }
    }
    let rust = format!("rust:{}-", env!("CARGO_PKG_RUST_VERSION"));
    assert!(
        text.contains(&rust),
        "the image's Rust is not that of Cargo.toml"
    );
}

#[test]
fn the_unit_waits_for_a_drain_and_does_not_restart_what_is_wrong_for_good() {
    use outboxd::cli::exit;

    let unit = text("docker/systemd/outboxd.service");
    let value = |name: &str| {
        let line = unit
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
        line.unwrap_or_else(|| panic!("no {name}"))
    };
    assert_eq!(value("Type"), "notify");
    let for_good = format!("{} {}", exit::USAGE, exit::CONFIG);
    assert_eq!(value("RestartPreventExitStatus"), for_good);
    let drain = Options::default().shutdown_timeout.as_secs();
    assert!(value("TimeoutStopSec").parse::<u64>().unwrap() > drain);
    assert!(value("ExecStart").starts_with("/usr/local/bin/outboxd run --config"));
}

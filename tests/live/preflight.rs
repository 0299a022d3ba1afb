//! `outboxd check` against set-ups that are broken in one way each, and a good one: the fault is named
//! with what mends it, and nothing else is.

mod cases;

use std::time::Duration;

use tokio_postgres::Client;

use crate::support::{Checked, Kafka, Pooler, Postgres, Scene, Version, wait_until};

const OUTBOX: &str = "
CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype text NOT NULL, aggregateid text NOT NULL,
                     seq bigint NOT NULL, type text NOT NULL, payload jsonb NOT NULL);
GRANT SELECT ON outbox TO relay;
INSERT INTO outbox VALUES (gen_random_uuid(), 'order', 'ORD-1', 1, 'OrderShipped', '{}');";

const PUBLICATION: &str = "CREATE PUBLICATION outbox FOR TABLE outbox WITH (publish = 'insert, update', publish_via_partition_root = true);";

struct World {
    postgres: Postgres,
    kafka: Kafka,
    client: Client,
}

/// One broken set-up: settings, and what `check` has to say of it, by the beginning and the end of each
/// line.
struct Case {
    name: &'static str,
    /// SQL for the database, of its own.
    sql: &'static [&'static str],
    user: &'static str,
    settings: Vec<String>,
    flags: &'static [&'static str],
    faults: &'static [[&'static str; 2]],
    /// On standard error.
    says: &'static str,
}

impl Case {
    fn of(name: &'static str, faults: &'static [[&'static str; 2]]) -> Self {
        Self {
            name,
            sql: &[OUTBOX, PUBLICATION],
            user: "relay",
            settings: Vec::new(),
            flags: &[],
            faults,
            says: "",
        }
    }

    fn sql(self, sql: &'static [&'static str]) -> Self {
        Self { sql, ..self }
    }

    fn set(self, settings: &[&str]) -> Self {
        let settings = settings.iter().map(|setting| (*setting).to_owned());
        Self {
            settings: settings.collect(),
            ..self
        }
    }
}

const NO_START: [&str; 2] = [
    "error start: not before the errors above are mended",
    "mended",
];

#[tokio::test(flavor = "multi_thread")]
async fn each_broken_set_up_is_named_with_what_mends_it_and_a_good_one_is_well() {
    let world = World::open().await;
    let cases = [
        cases::database_faults(),
        cases::topic_faults(&world).await,
        cases::access_faults(&world).await,
    ];
    let cases: Vec<Case> = cases.into_iter().flatten().collect();
    for case in &cases {
        world.make(case).await;
    }
    let mut wrong = world.run(&cases);
    wrong.extend(pooler(&world));
    wrong.extend(standing_in_the_way(&world).await);
    wrong.extend(settings_of_the_server(&world).await);
    wrong.extend(managed(&world).await);
    wrong.extend(old_server(&world.kafka).await);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

impl World {
    async fn open() -> Self {
        let kafka = Kafka::start_guarded();
        kafka.create_topic(Scene::TOPIC, 3, &[]).await;
        let settings = [
            ("max_slot_wal_keep_size", "50GB"),
            ("max_prepared_transactions", "2"),
        ];
        let postgres = Postgres::start(Version::V18, &settings);
        let client = postgres.client().await;
        client
            .batch_execute("CREATE ROLE relay LOGIN REPLICATION; CREATE ROLE poor LOGIN;")
            .await
            .unwrap();
        Self {
            postgres,
            kafka,
            client,
        }
    }

    /// A database of the case's name.
    async fn make(&self, case: &Case) -> Client {
        let create = format!("CREATE DATABASE {}", case.name);
        self.client.batch_execute(&create).await.unwrap();
        let client = self.postgres.client_of(case.name).await;
        // One by one: a slot is made in a transaction of its own.
        for sql in case.sql {
            client.batch_execute(sql).await.unwrap();
        }
        client
    }

    fn check(&self, case: &Case) -> Checked {
        let url = self
            .postgres
            .url_of(case.user)
            .replace("/postgres", &format!("/{}", case.name));
        let slot = format!("slot.name={}", case.name);
        let settings: Vec<&str> = [slot.as_str()]
            .into_iter()
            .chain(case.settings.iter().map(String::as_str))
            .collect();
        let flags = [&["--format", "json"][..], case.flags].concat();
        Checked::by([url, self.kafka.servers()], &settings, &flags)
    }

    /// All of them, two at a time.
    fn run(&self, cases: &[Case]) -> Vec<String> {
        let (left, right) = cases.split_at(cases.len() / 2);
        let judge = |half: &[Case]| {
            let wrong = half.iter().map(|case| case.judge(&self.check(case)));
            wrong.flatten().collect::<Vec<_>>()
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(|| judge(left));
            let mut wrong = judge(right);
            wrong.extend(other.join().unwrap());
            wrong
        })
    }
}

impl Case {
    /// Says where it is not as expected.
    fn judge(&self, checked: &Checked) -> Option<String> {
        let (name, faults) = (self.name, checked.faults());
        let matches = faults.len() == self.faults.len()
            && faults
                .iter()
                .zip(self.faults)
                .all(|(found, [begins, ends])| found.starts_with(begins) && found.ends_with(ends));
        let is_error = faults.iter().any(|fault| fault.starts_with("error"));
        let ended_well = checked.status == i32::from(is_error) && checked.said.contains(self.says);
        (!matches || !ended_well).then(|| {
            let status = checked.status;
            format!(
                "{name}, which ended with {status}: {faults:#?}, expected {:#?}",
                self.faults
            )
        })
    }
}

/// Debian's pgbouncer refuses what a relay's sessions begin with; what else it lets through is seen by
/// the process that it announces.
fn pooler(world: &World) -> Option<String> {
    let pooler = Pooler::start(&world.postgres);
    let servers = [pooler.url("good"), world.kafka.servers()];
    let checked = Checked::by(servers, &["slot.name=good"], &["--format", "json"]);
    let case = Case::of(
        "pooled",
        &[
            [
                "error connection: cannot connect to PostgreSQL at 127.0.0.1:",
                "A pooler such as pgbouncer answers there. A replication session cannot be shared: put PostgreSQL's own address into postgres.url.",
            ],
            NO_START,
        ],
    );
    case.judge(&checked)
}

/// A new slot waits for what is open, whoever's it is.
async fn standing_in_the_way(world: &World) -> Option<String> {
    let sleeper = world.postgres.client_of("good").await;
    sleeper
        .batch_execute("BEGIN; CREATE TABLE waits (); ")
        .await
        .unwrap();
    world
        .client
        .batch_execute("BEGIN; CREATE TABLE prepared (); PREPARE TRANSACTION 'two phases';")
        .await
        .unwrap();
    let case = Case::of(
        "good",
        &[
            ["warning open transactions: process ", ");"],
            // The prepared one is too young for a word.
        ],
    );
    let wrong = case.judge(&world.check(&case));
    drop(sleeper);
    world
        .client
        .batch_execute("ROLLBACK PREPARED 'two phases'")
        .await
        .unwrap();
    wrong
}

/// What the server is told can change under a relay.
async fn settings_of_the_server(world: &World) -> Option<String> {
    // With a star for a standby that does not come, no commit would be answered.
    world
        .client
        .batch_execute("SET synchronous_commit = local")
        .await
        .unwrap();
    let set = async |settings: &[(&str, &str)]| {
        for (name, value) in settings {
            let statement = format!("ALTER SYSTEM SET {name} = {value}");
            world.client.batch_execute(&statement).await.unwrap();
        }
        world
            .client
            .batch_execute("SELECT pg_reload_conf()")
            .await
            .unwrap();
        let (name, value) = settings.last().unwrap();
        wait_until(
            Duration::from_secs(10),
            "the server has read them",
            async || {
                let client = world.postgres.client().await;
                let row = client
                    .query_one(&format!("SHOW {name}"), &[])
                    .await
                    .unwrap();
                row.get::<_, String>(0) == value.trim_matches('\'')
            },
        )
        .await;
    };
    let unsafe_settings = [
        ("max_slot_wal_keep_size", "-1"),
        ("logical_decoding_work_mem", "'1MB'"),
        ("idle_replication_slot_timeout", "'1h'"),
        ("synchronous_standby_names", "'*'"),
    ];
    set(&unsafe_settings).await;
    let case = Case::of(
        "good",
        &[
            [
                "warning max_slot_wal_keep_size: not set: a slot that nobody reads keeps the log until the disk is full",
                "ALTER SYSTEM SET max_slot_wal_keep_size = '50GB'; SELECT pg_reload_conf();",
            ],
            [
                "warning idle_replication_slot_timeout: 1h: a slot that nobody reads for so long is lost",
                "ALTER SYSTEM SET idle_replication_slot_timeout = 0; SELECT pg_reload_conf();",
            ],
            [
                "warning wal_sender_timeout: 1m on the server, 5m on the relay's own sessions: an instance whose machine vanishes keeps the lead for so long",
                "Set postgres.wal_sender_timeout to 10s, the default.",
            ],
            [
                "warning logical_decoding_work_mem: 1.0 MiB: larger transactions go over the server's disk",
                "ALTER ROLE \"relay\" SET logical_decoding_work_mem = '64MB';",
            ],
            [
                "warning synchronous_commit: on, and synchronous_standby_names (*) takes the relay for a standby: every commit waits for Kafka",
                "Name in synchronous_standby_names the standbys alone, by the application_name that each has in pg_stat_replication.",
            ],
        ],
    )
    .set(&["postgres.wal_sender_timeout=300s"]);
    let wrong = case.judge(&world.check(&case));
    let safe = [
        ("max_slot_wal_keep_size", "'50GB'"),
        ("logical_decoding_work_mem", "'64MB'"),
        ("idle_replication_slot_timeout", "0"),
        ("synchronous_standby_names", "''"),
    ];
    set(&safe).await;
    wrong
}

/// As Amazon RDS looks from inside: there is nothing of it here but its roles and its parameter.
async fn managed(world: &World) -> Vec<String> {
    world
        .client
        .batch_execute(
            "CREATE ROLE rds_superuser; CREATE ROLE rds_replication;
             ALTER DATABASE good SET rds.logical_replication = 'on';
             GRANT relay TO poor",
        )
        .await
        .unwrap();
    let case = Case {
        user: "poor",
        ..Case::of(
            "good",
            &[
                [
                    "error role: \"poor\" may not replicate",
                    "GRANT rds_replication TO \"poor\";",
                ],
                NO_START,
            ],
        )
    };
    let checked = world.check(&case);
    let mut wrong = Vec::from_iter(case.judge(&checked));
    assert_eq!(checked.found("service"), ["ok service: Amazon RDS"]);
    world
        .client
        .batch_execute("GRANT rds_replication TO poor")
        .await
        .unwrap();
    let case = Case {
        user: "poor",
        ..Case::of(
            "good",
            // Which it is not.
            &[
                [
                    "error replication session: cannot connect to PostgreSQL at",
                    "",
                ],
                NO_START,
            ],
        )
    };
    wrong.extend(case.judge(&world.check(&case)));
    wrong
}

/// Not prepared at all, and of the oldest version.
async fn old_server(kafka: &Kafka) -> Option<String> {
    let settings = [
        ("wal_level", "replica"),
        ("max_replication_slots", "1"),
        ("max_wal_senders", "0"),
        ("max_slot_wal_keep_size", "50GB"),
    ];
    let postgres = Postgres::start(Version::V14, &settings);
    let client = postgres.client().await;
    client
        .batch_execute("CREATE ROLE relay LOGIN REPLICATION")
        .await
        .unwrap();
    client
        .batch_execute(&[OUTBOX, PUBLICATION].concat())
        .await
        .unwrap();
    client
        .batch_execute("SELECT pg_create_physical_replication_slot('standby')")
        .await
        .unwrap();
    let servers = [postgres.url_of("relay"), kafka.servers()];
    let checked = Checked::by(servers, &[], &["--format", "json"]);
    let case = Case::of(
        "unprepared",
        &[
            [
                "error wal_level: replica, expected logical",
                "ALTER SYSTEM SET wal_level = 'logical';",
            ],
            [
                "error replication slots: 1 of 1 in use, 2 more needed",
                "ALTER SYSTEM SET max_replication_slots = 3;",
            ],
            [
                "error WAL senders: 0 of 0 in use, 1 more needed",
                "ALTER SYSTEM SET max_wal_senders = 1;",
            ],
            NO_START,
        ],
    );
    case.judge(&checked)
}

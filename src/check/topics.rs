//! One topic at a time: whether it is there or can be made, whether what it acknowledges is safe, how
//! large a record may be, and whether the relay may write to it.

use bytesize::ByteSize;

use crate::config::Config;
use crate::kafka::{Answer, Inspector, SeenTopic, TopicCreation, TopicLimits, compacted};
use crate::postgres::preflight::Check;
use crate::relay::RelayError;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Events,
    DeadLetters,
    Journal,
}

impl Purpose {
    const fn name(self) -> &'static str {
        match self {
            Self::Events => "topic",
            Self::DeadLetters => "dead-letter topic",
            Self::Journal => "journal topic",
        }
    }
}

/// What came of looking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    There,
    Missing,
    Unknown,
}

pub(super) struct TopicChecks<'a> {
    config: &'a Config,
    inspector: &'a Inspector,
    brokers: usize,
    /// Of the topics of events: what a dead letter has to find room for.
    largest_event_bytes: Option<u64>,
    pub(super) checks: Vec<Check>,
}

/// What a dead letter has beside its event: headers that say why, and of a row the other columns.
const LETTER_BYTES: u64 = 4096;
/// The least age that a record of a long outage may have.
const DAY_MS: u64 = 86_400_000;

/// The journal's topic is there, and its entry cannot be had.
pub(super) fn unread(error: &RelayError) -> Check {
    let problem = error.problem();
    let found = match problem.detail {
        Some(detail) => format!("{}. {detail}", problem.message),
        None => problem.message,
    };
    Check::error("journal topic", found, problem.hint.unwrap_or_default())
}

/// What the relay keeps for itself has other settings than a topic of events, and other readers.
pub(super) fn of_another(config: &Config, topic: &str, purpose: Purpose) -> Option<Check> {
    let journal = config.relay.journal.as_ref();
    let is_journal = journal.is_some_and(|journal| journal.topic == topic);
    let letters = config.router.dead_letter_topic.as_deref();
    let (what, setting) = match purpose {
        Purpose::Events | Purpose::DeadLetters if is_journal => {
            ("the position journal's topic", "position.topic")
        }
        Purpose::Events if letters == Some(topic) => {
            ("the dead-letter topic", "errors.dead_letter.topic")
        }
        _ => return None,
    };
    let setting = config.door.spell(setting);
    Some(Check::error(
        purpose.name(),
        format!("\"{topic}\" is {what}: it is not for events"),
        format!("Name a topic that events go to, or give {setting} another one."),
    ))
}

impl<'a> TopicChecks<'a> {
    pub(super) fn new(config: &'a Config, inspector: &'a Inspector, brokers: usize) -> Self {
        Self {
            config,
            inspector,
            brokers,
            largest_event_bytes: None,
            checks: Vec::new(),
        }
    }

    pub(super) fn look(&mut self, topic: &str, purpose: Purpose) -> Seen {
        if let Some(check) = of_another(self.config, topic, purpose) {
            self.checks.push(check);
            return Seen::Unknown;
        }
        match self.inspector.topic(topic) {
            Ok(Some(seen)) => {
                self.checks.push(self.found(topic, purpose, &seen));
                self.rights(topic, purpose);
                self.judge(topic, purpose, &seen);
                Seen::There
            }
            Ok(None) => {
                let check = self.missing(topic, purpose);
                self.checks.push(check);
                Seen::Missing
            }
            Err(answer) => {
                let check = self.hidden(topic, purpose, &answer);
                self.checks.push(check);
                Seen::Unknown
            }
        }
    }

    fn found(&self, topic: &str, purpose: Purpose, seen: &SeenTopic) -> Check {
        let name = purpose.name();
        let partitions = match seen.partitions {
            1 => "1 partition".to_owned(),
            partitions => format!("{partitions} partitions"),
        };
        match seen.without_leader {
            0 => Check::ok(name, format!("\"{topic}\" has {partitions}")),
            without => Check::error(
                name,
                format!("\"{topic}\" has {partitions}, {without} of them without a leader: the relay waits for them"),
                "Bring their brokers back.",
            )
            .command(self.tool("kafka-topics.sh", &format!("--describe --topic {topic} --unavailable-partitions"))),
        }
    }

    fn missing(&self, topic: &str, purpose: Purpose) -> Check {
        let name = purpose.name();
        let is_not_there = format!("\"{topic}\" is not there");
        let rules = match (purpose, &self.config.kafka.topic_creation) {
            (Purpose::Journal, _) => compacted(),
            (_, creation) => creation.clone(),
        };
        let by_hand = || self.creating(topic, purpose);
        match rules {
            TopicCreation::Relay(rules) => {
                match self.inspector.may_create(topic, rules.settings(topic)) {
                    Answer::Yes => Check::ok(name, format!("{is_not_there}: the relay makes it")),
                    Answer::Denied => Check::error(
                        name,
                        format!("{is_not_there}, and the relay has no right to make it"),
                        "Grant Create on it or on the cluster, or make it by hand.",
                    )
                    .command(by_hand()),
                    Answer::Other(reason) => Check::error(
                        name,
                        format!("{is_not_there}, and the brokers would not make it: {reason}"),
                        "Change topics.* as the reason says, or make it by hand.",
                    )
                    .command(by_hand()),
                }
            }
            TopicCreation::Brokers => self.left_to_the_brokers(name, &is_not_there, by_hand()),
            TopicCreation::Nobody => Check::warning(
                name,
                format!("{is_not_there}: the relay waits for it"),
                "Make it.",
            )
            .command(by_hand()),
        }
    }

    fn left_to_the_brokers(
        &self,
        name: &'static str,
        is_not_there: &str,
        by_hand: String,
    ) -> Check {
        let create = self.config.door.spell("topics.create");
        let remedy = format!("Make it, or let the relay do so: {create}=missing.");
        match self.inspector.brokers_make_topics() {
            Some(true) => Check::ok(
                name,
                format!("{is_not_there}: the brokers make it with the first event (auto.create.topics.enable)"),
            ),
            Some(false) => Check::error(
                name,
                format!("{is_not_there}, and the brokers make none by themselves (auto.create.topics.enable)"),
                remedy,
            )
            .command(by_hand),
            None => Check::warning(
                name,
                format!("{is_not_there}: the relay waits for it, unless the brokers make topics by themselves"),
                remedy,
            )
            .command(by_hand),
        }
    }

    fn hidden(&self, topic: &str, purpose: Purpose, answer: &Answer) -> Check {
        match answer {
            Answer::Denied => Check::error(
                purpose.name(),
                format!("\"{topic}\" may not be seen: not authorized"),
                "Grant the relay's principal its rights.",
            )
            .command(self.granting(topic, purpose)),
            Answer::Other(reason) => Check::error(
                purpose.name(),
                format!("\"{topic}\" cannot be looked at: {reason}"),
                "Check the name and the brokers.",
            ),
            Answer::Yes => Check::ok(purpose.name(), format!("\"{topic}\"")),
        }
    }

    /// To write; what reading takes shows when the journal is read.
    fn rights(&mut self, topic: &str, purpose: Purpose) {
        let name = "rights";
        let check = match self.inspector.may_write(topic) {
            Answer::Yes => Check::ok(name, format!("\"{topic}\" may be written")),
            Answer::Denied => Check::error(
                name,
                format!("\"{topic}\" may not be written: not authorized"),
                "Grant the relay's principal its rights.",
            )
            .command(self.granting(topic, purpose)),
            Answer::Other(reason) => Check::warning(
                name,
                format!("whether \"{topic}\" may be written is not known: {reason}"),
                "Ask again.",
            ),
        };
        self.checks.push(check);
    }

    fn judge(&mut self, topic: &str, purpose: Purpose, seen: &SeenTopic) {
        let Some(limits) = &seen.limits else {
            let check = Check::warning(
                "rights",
                format!(
                    "the settings of \"{topic}\" may not be seen: its max.message.bytes, to which the relay fits its batches, is not known"
                ),
                "Grant DescribeConfigs on it.",
            );
            let arguments = format!(
                "--add --allow-principal {} --operation DescribeConfigs --topic {topic}",
                self.principal()
            );
            self.checks
                .push(check.command(self.tool("kafka-acls.sh", &arguments)));
            return;
        };
        let replicas = self.replicas(topic, seen, limits);
        self.checks.push(replicas);
        if limits.unclean_election {
            let check = Check::warning(
                "replicas",
                format!(
                    "\"{topic}\" may elect a leader that lacks acknowledged records (unclean.leader.election.enable): they are lost then"
                ),
                "Turn it off.",
            );
            self.checks
                .push(check.command(self.altering(topic, "unclean.leader.election.enable=false")));
        }
        match purpose {
            Purpose::Events => self.of_events(topic, limits),
            Purpose::DeadLetters => self.of_dead_letters(topic, limits),
            Purpose::Journal => {
                let check = self.of_the_journal(topic, limits);
                self.checks.push(check);
            }
        }
    }

    /// What an acknowledgement is worth, and whether one comes.
    fn replicas(&self, topic: &str, seen: &SeenTopic, limits: &TopicLimits) -> Check {
        let name = "replicas";
        let (replicas, in_sync, least) = (seen.replicas, seen.in_sync, limits.min_in_sync);
        let found = format!("\"{topic}\" has {replicas}, and min.insync.replicas = {least}");
        let more =
            "Give it three replicas (kafka-reassign-partitions.sh) and min.insync.replicas = 2.";
        let fewer = self.altering(
            topic,
            &format!("min.insync.replicas={}", replicas.saturating_sub(1).max(1)),
        );
        match () {
            () if least > replicas => Check::error(
                name,
                format!("{found}: no record is ever acknowledged"),
                "Give it more replicas, or ask for fewer in sync.",
            )
            .command(fewer),
            () if in_sync < least => Check::error(
                name,
                format!("{found}, but only {in_sync} in sync: no record is acknowledged now"),
                "Bring the brokers back that are away.",
            ),
            // There is no place for a second one.
            () if self.brokers == 1 => Check::ok(name, format!("{found}: there is one broker")),
            () if replicas == 1 => Check::warning(
                name,
                format!("{found}: what Kafka has acknowledged is lost with one broker"),
                more,
            ),
            () if least == replicas => Check::warning(
                name,
                format!("{found}: while one broker is away, no record is acknowledged"),
                "Ask for one fewer in sync.",
            )
            .command(fewer),
            () if least == 1 => Check::warning(
                name,
                format!("{found}: what one broker alone has acknowledged is lost with it"),
                "Ask for two in sync.",
            )
            .command(self.altering(topic, "min.insync.replicas=2")),
            () => Check::ok(name, found),
        }
    }

    fn of_events(&mut self, topic: &str, limits: &TopicLimits) {
        let bytes = limits.max_message_bytes;
        self.largest_event_bytes = self.largest_event_bytes.max(Some(bytes));
        let most = self.config.kafka.message_max_bytes() as u64;
        let limit = ByteSize(bytes);
        self.checks.push(match most < bytes {
            true => Check::warning(
                "message size",
                format!("\"{topic}\" takes {limit}, and the relay's producer {} (message.max.bytes): a larger event blocks the relay", ByteSize(most)),
                format!("Leave {} to its default: the topic's own limit counts then.", self.config.door.spell("kafka.message.max.bytes")),
            ),
            false => Check::ok("message size", format!("\"{topic}\" takes {limit} (max.message.bytes)")),
        });
        if limits.cleanup_policy.contains("compact") {
            let check = Check::warning(
                "cleanup",
                format!(
                    "\"{topic}\" is compacted: of each key the last event alone is kept, and an event without a key is refused"
                ),
                "If its consumers want every event, let it be deleted by age.",
            );
            self.checks
                .push(check.command(self.altering(topic, "cleanup.policy=delete")));
        }
        if let Some(age_ms) = limits.timestamp_age_ms.filter(|age| *age < DAY_MS) {
            let check = Check::warning(
                "timestamps",
                format!(
                    "\"{topic}\" refuses records older than {} s (message.timestamp.before.max.ms): after a longer outage the relay is blocked",
                    age_ms / 1000
                ),
                "Raise it above the longest outage to survive.",
            );
            self.checks.push(check.command(self.altering(
                topic,
                &format!("message.timestamp.before.max.ms={}", i64::MAX),
            )));
        }
    }

    fn of_dead_letters(&mut self, topic: &str, limits: &TopicLimits) {
        if limits.cleanup_policy.contains("compact") {
            let check = Check::error(
                "cleanup",
                format!(
                    "\"{topic}\" is compacted: a dead letter takes away the one before it with the same key, and one without a key is refused"
                ),
                "Let it be deleted by age.",
            );
            self.checks
                .push(check.command(self.altering(topic, "cleanup.policy=delete,retention.ms=-1")));
        }
        let (bytes, limit) = (limits.max_message_bytes, ByteSize(limits.max_message_bytes));
        let events = self.largest_event_bytes;
        let wanted = events.map(|events| events + LETTER_BYTES);
        self.checks.push(match wanted {
            Some(wanted) if bytes < wanted => Check::warning(
                "message size",
                format!("\"{topic}\" takes {limit}: an event that is too large for its own topic is too large here too, with headers on top"),
                "Let it take more than the topics of events.",
            )
            .command(self.altering(topic, &format!("max.message.bytes={}", wanted.max(16 << 20)))),
            _ => Check::ok("message size", format!("\"{topic}\" takes {limit} (max.message.bytes)")),
        });
    }

    fn of_the_journal(&self, topic: &str, limits: &TopicLimits) -> Check {
        match limits.cleanup_policy.as_str() {
            "compact" => Check::ok("cleanup", format!("\"{topic}\" is compacted: the last position is kept")),
            policy => Check::error(
                "cleanup",
                format!("\"{topic}\" has cleanup.policy = {policy}: positions are deleted with age, and a slot that was dropped or moved is not noticed any more"),
                "Let it be compacted alone.",
            )
            .command(self.altering(topic, "cleanup.policy=compact")),
        }
    }

    fn granting(&self, topic: &str, purpose: Purpose) -> String {
        let read = match purpose {
            Purpose::Journal => " --operation Read",
            Purpose::Events | Purpose::DeadLetters => "",
        };
        let arguments = format!(
            "--add --allow-principal {} --operation Write --operation Describe --operation DescribeConfigs{read} --topic {topic}",
            self.principal()
        );
        self.tool("kafka-acls.sh", &arguments)
    }

    fn creating(&self, topic: &str, purpose: Purpose) -> String {
        let replicas = self.brokers.min(3);
        let how = match purpose {
            Purpose::Events => "--partitions 12",
            Purpose::DeadLetters => {
                "--partitions 1 --config retention.ms=-1 --config max.message.bytes=16777216"
            }
            Purpose::Journal => "--partitions 1 --config cleanup.policy=compact",
        };
        self.tool(
            "kafka-topics.sh",
            &format!("--create --topic {topic} {how} --replication-factor {replicas}"),
        )
    }

    fn altering(&self, topic: &str, setting: &str) -> String {
        self.tool(
            "kafka-configs.sh",
            &format!("--alter --entity-type topics --entity-name {topic} --add-config {setting}"),
        )
    }

    fn tool(&self, program: &str, arguments: &str) -> String {
        let servers = self.config.kafka.bootstrap_servers();
        format!("{program} --bootstrap-server {servers} {arguments}")
    }

    /// As far as the configuration tells.
    fn principal(&self) -> String {
        let mut properties = self.config.kafka.shown_properties();
        let user = properties.find(|(name, _)| *name == "sasl.username");
        format!("User:{}", user.map_or("NAME", |(_, user)| user))
    }
}

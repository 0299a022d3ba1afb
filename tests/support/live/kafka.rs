use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier,
    TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};
use tempfile::TempDir;

use super::TcpProxy;
use super::acl::{self, Operation, Resource};
use super::process::{end, free_port, signal, wait_for_port};

/// Apache Kafka, one broker that is its own controller, in a temporary folder.
pub struct Kafka {
    folder: TempDir,
    port: u16,
    guarded_port: u16,
    child: Option<Child>,
}

/// The principal of a guarded broker's second listener, with PLAIN and SCRAM-SHA-256.
pub const USER: &str = "relay";
pub const PASSWORD: &str = "kafka-hunter2";

impl Kafka {
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// With the StandardAuthorizer: everything is allowed at [`Kafka::servers`], and at
    /// [`Kafka::guarded_servers`] what [`Kafka::allow`] says. Makes no topic by itself.
    pub fn start_guarded() -> Self {
        let modules = "org.apache.kafka.common.security";
        Self::start_with(&format!(
            "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\n\
             super.users=User:ANONYMOUS\n\
             sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256\n\
             listener.name.guarded.plain.sasl.jaas.config={modules}.plain.PlainLoginModule required user_{USER}=\"{PASSWORD}\";\n\
             listener.name.guarded.scram-sha-256.sasl.jaas.config={modules}.scram.ScramLoginModule required;\n\
             auto.create.topics.enable=false\n"
        ))
    }

    /// With further lines for the broker's properties; the last line for a property counts.
    pub fn start_with(more: &str) -> Self {
        let guarded_port = free_port();
        Self::start_telling(guarded_port, guarded_port, more)
    }

    /// A broker and a proxy before its second listener. A client that begins at the proxy stays
    /// behind it, because there the broker names the proxy as its own address.
    pub fn start_behind_proxy() -> (Self, TcpProxy) {
        let guarded_port = free_port();
        let proxy = TcpProxy::start(guarded_port);
        let kafka = Self::start_telling(guarded_port, proxy.port(), "");
        (kafka, proxy)
    }

    /// `told` is the port that the second listener tells its clients.
    fn start_telling(guarded_port: u16, told: u16, more: &str) -> Self {
        let folder = TempDir::with_prefix("outboxd-kafka-").unwrap();
        let mut kafka = Self {
            folder,
            port: free_port(),
            guarded_port,
            child: None,
        };
        let controller = free_port();
        let configuration = format!(
            "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@127.0.0.1:{controller}\n\
             controller.listener.names=CONTROLLER\n\
             listeners=PLAINTEXT://127.0.0.1:{port},GUARDED://127.0.0.1:{guarded},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port},GUARDED://127.0.0.1:{told}\n\
             listener.security.protocol.map=PLAINTEXT:PLAINTEXT,GUARDED:{protocol},CONTROLLER:PLAINTEXT\n\
             log.dirs={data}\nnum.partitions=3\ndefault.replication.factor=1\n\
             offsets.topic.replication.factor=1\ntransaction.state.log.replication.factor=1\n\
             transaction.state.log.min.isr=1\ngroup.initial.rebalance.delay.ms=0\n\
             log.retention.ms=-1\nlog.message.timestamp.before.max.ms=9223372036854775807\n{more}",
            port = kafka.port,
            guarded = kafka.guarded_port,
            protocol = match (more.contains("sasl"), more.contains("ssl.keystore")) {
                (true, true) => "SASL_SSL",
                (true, false) => "SASL_PLAINTEXT",
                (false, true) => "SSL",
                (false, false) => "PLAINTEXT",
            },
            data = kafka.folder.path().join("data").display(),
        );
        fs::write(kafka.configuration(), configuration).unwrap();
        let log4j = "Configuration:\n  Appenders:\n    Console:\n      name: OUT\n      PatternLayout: {pattern: '%d %p %m%n'}\n  Loggers:\n    Root:\n      level: WARN\n      AppenderRef: [{ref: OUT}]\n";
        fs::write(kafka.folder.path().join("log4j2.yaml"), log4j).unwrap();
        let formatted = kafka
            .java()
            .args([
                "kafka.tools.StorageTool",
                "format",
                "-t",
                "b3V0Ym94ZC10ZXN0cy1pZA",
                "-c",
            ])
            .arg(kafka.configuration())
            .arg("--add-scram")
            .arg(format!("SCRAM-SHA-256=[name={USER},password={PASSWORD}]"))
            .output()
            .unwrap();
        assert!(
            formatted.status.success(),
            "{}",
            String::from_utf8_lossy(&formatted.stderr)
        );
        kafka.start_again();
        kafka
    }

    fn configuration(&self) -> PathBuf {
        self.folder.path().join("server.properties")
    }

    fn java(&self) -> Command {
        let libs = super::servers().join("kafka-4.3.1").join("*");
        let mut command = Command::new("java");
        command
            .args([
                "-Xms128m",
                "-Xmx512m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
            ])
            .arg(format!(
                "-Dlog4j2.configurationFile={}",
                self.folder.path().join("log4j2.yaml").display()
            ))
            .arg("-cp")
            .arg(libs)
            .stdin(Stdio::null());
        command
    }

    /// On the same port with the same data.
    pub fn start_again(&mut self) {
        let log = self.folder.path().join("log");
        let out = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .unwrap();
        let mut child = self
            .java()
            .arg("kafka.Kafka")
            .arg(self.configuration())
            .stdout(out.try_clone().unwrap())
            .stderr(out)
            .spawn()
            .unwrap();
        let listens = wait_for_port(&mut child, self.port, Duration::from_secs(90));
        self.child = Some(child);
        if let Err(error) = listens {
            panic!("Kafka {error}: {}", fs::read_to_string(log).unwrap());
        }
    }

    pub fn stop(&mut self) {
        let mut child = self.child.take().expect("it runs");
        signal(child.id(), "TERM");
        end(&mut child, Duration::from_secs(60)).unwrap();
    }

    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().unwrap();
        child.wait().unwrap();
    }

    pub fn servers(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn guarded_servers(&self) -> String {
        format!("127.0.0.1:{}", self.guarded_port)
    }

    /// Grants the user of the guarded listener something.
    pub fn allow(&self, operation: Operation, resource: Resource<'_>) {
        acl::create(&self.servers(), USER, operation, resource);
    }

    /// Takes back everything that was granted for `resource`.
    pub fn forbid(&self, resource: Resource<'_>) {
        acl::delete(&self.servers(), USER, resource);
    }

    pub async fn delete_topic(&self, name: &str) {
        let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
        self.admin()
            .delete_topics(&[name], &options)
            .await
            .unwrap()
            .remove(0)
            .unwrap();
    }

    pub async fn topic_config(&self, topic: &str, key: &str) -> Option<String> {
        let resource = ResourceSpecifier::Topic(topic);
        let described = self
            .admin()
            .describe_configs([&resource], &AdminOptions::new())
            .await
            .unwrap()
            .remove(0)
            .unwrap();
        described.get(key)?.value.clone()
    }

    /// One record, as anybody may write it; without a value it takes the key out of a compacted topic.
    pub fn write(&self, topic: &str, key: &str, value: Option<&str>) {
        let producer: BaseProducer = ClientConfig::new()
            .set("bootstrap.servers", self.servers())
            .set("acks", "all")
            .create()
            .unwrap();
        let mut record = BaseRecord::<str, str>::to(topic).key(key);
        record.payload = value;
        producer.send(record).unwrap();
        producer.flush(Duration::from_secs(30)).unwrap();
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        ClientConfig::new()
            .set("bootstrap.servers", self.servers())
            .create()
            .unwrap()
    }

    pub async fn set_topic_config(&self, topic: &str, key: &str, value: &str) {
        let config = AlterConfig::new(ResourceSpecifier::Topic(topic)).set(key, value);
        self.admin()
            .alter_configs([&config], &AdminOptions::new())
            .await
            .unwrap()
            .remove(0)
            .unwrap();
    }

    pub async fn delete_topics(&self, names: &[&str]) {
        let admin: AdminClient<DefaultClientContext> = ClientConfig::new()
            .set("bootstrap.servers", self.servers())
            .create()
            .unwrap();
        let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
        for deleted in admin.delete_topics(names, &options).await.unwrap() {
            deleted.unwrap();
        }
    }

    pub async fn add_partitions(&self, topic: &str, partitions: usize) {
        let wanted = NewPartitions::new(topic, partitions);
        self.admin()
            .create_partitions([&wanted], &AdminOptions::new())
            .await
            .unwrap()
            .remove(0)
            .unwrap();
    }

    pub async fn create_topic(&self, name: &str, partitions: i32, config: &[(&str, &str)]) {
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        for (key, value) in config {
            topic = topic.set(key, value);
        }
        let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
        self.admin()
            .create_topics([&topic], &options)
            .await
            .unwrap()
            .remove(0)
            .unwrap();
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

//! A temporary PostgreSQL: made, started, ended and removed by the demo.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::fs::{MetadataExt, chown};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use tokio::process::Command;
use tokio_postgres::{Client, NoTls};

use super::child::{Guarded, Orphan, Program, User, tail};
use super::error::{DemoError, During};

/// Part of the socket's file name; nothing listens on TCP.
const PORT: u16 = 5432;
pub(super) const ROLE: &str = "postgres";
const SHOP: &str = "shop";
const WAREHOUSE: &str = "warehouse";

const INITDB_PATIENCE: Duration = Duration::from_secs(60);
const START_PATIENCE: Duration = Duration::from_secs(30);
const STOP_PATIENCE: Duration = Duration::from_secs(10);
const LOOK_INTERVAL: Duration = Duration::from_millis(50);
/// A socket's path has 108 bytes on Linux and 104 elsewhere, and the file's name needs some.
const MAX_FOLDER_BYTES: usize = 80;

pub(super) struct Server {
    folder: TempDir,
    process: Guarded,
}

impl Server {
    /// `bin`: the folder with `initdb` and `postgres`; found by itself where it is not given.
    pub(super) async fn start(bin: Option<&Path>) -> Result<Self, DemoError> {
        let bin = find_programs(bin).await?;
        let folder = temporary_folder()?;
        let user = not_root(folder.path())?;
        init(&bin, folder.path(), user.as_ref()).await?;
        let process = launch(&bin, folder.path(), user.as_ref())?;
        let mut server = Self { folder, process };
        match server.prepare().await {
            Ok(()) => Ok(server),
            Err(error) => {
                server.stop().await;
                Err(error)
            }
        }
    }

    /// Holds the socket, and the logs of all children.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The database of the shop, which the relay reads.
    pub(super) async fn shop(&self) -> Result<Client, DemoError> {
        self.connect(SHOP).await.during("connecting as the shop")
    }

    pub(super) const fn shop_database(&self) -> &'static str {
        SHOP
    }

    /// Another database, which stands for another service's.
    pub(super) async fn warehouse(&self) -> Result<Client, DemoError> {
        self.connect(WAREHOUSE)
            .await
            .during("connecting as the warehouse")
    }

    /// Ends the server by its own process id and removes its folder.
    pub(super) async fn stop(self) {
        // It is temporary: how it ended is of no interest.
        drop(self.process.stop("INT", STOP_PATIENCE).await);
        drop(self.folder.close());
    }

    async fn prepare(&mut self) -> Result<(), DemoError> {
        let admin = self.first_connection().await?;
        for database in [SHOP, WAREHOUSE] {
            let create = format!("CREATE DATABASE {database}");
            admin
                .batch_execute(&create)
                .await
                .during("creating a database")?;
        }
        Ok(())
    }

    async fn first_connection(&mut self) -> Result<Client, DemoError> {
        let deadline = tokio::time::Instant::now() + START_PATIENCE;
        loop {
            if let Ok(client) = self.connect(ROLE).await {
                return Ok(client);
            }
            let pause = tokio::time::timeout(LOOK_INTERVAL, self.process.ended());
            if let Ok(ended) = pause.await {
                return Err(DemoError::Failed {
                    program: "postgres",
                    ended: ended?.to_string(),
                    said: tail(&log_of(self.folder.path())),
                });
            }
            if tokio::time::Instant::now() > deadline {
                return Err(DemoError::TooSlow {
                    what: "the start of PostgreSQL",
                    patience: START_PATIENCE,
                    said: tail(&log_of(self.folder.path())),
                });
            }
        }
    }

    async fn connect(&self, database: &str) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::Config::new()
            .host_path(self.folder.path())
            .port(PORT)
            .user(ROLE)
            .dbname(database)
            .connect_timeout(START_PATIENCE)
            .connect(NoTls)
            .await?;
        // Ends with the client; what goes wrong shows in the client's next call.
        tokio::spawn(connection);
        Ok(client)
    }
}

fn log_of(folder: &Path) -> PathBuf {
    folder.join("postgres.log")
}

fn temporary_folder() -> Result<TempDir, DemoError> {
    let usual = std::env::temp_dir();
    let place = if usual.as_os_str().len() > MAX_FOLDER_BYTES {
        PathBuf::from("/tmp")
    } else {
        usual
    };
    tempfile::Builder::new()
        .prefix("outboxd-demo-")
        .tempdir_in(place)
        .during("the temporary folder")
}

/// `None` for an ordinary user. The folder's owner tells who we are.
fn not_root(folder: &Path) -> Result<Option<User>, DemoError> {
    let owner = std::fs::metadata(folder)
        .during("the temporary folder")?
        .uid();
    if owner != 0 {
        return Ok(None);
    }
    let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
    let user = ["postgres", "nobody"]
        .into_iter()
        .find_map(|name| User::find(&passwd, name))
        .ok_or(DemoError::NoUser)?;
    chown(folder, Some(user.uid), Some(user.gid)).during("giving the temporary folder away")?;
    Ok(Some(user))
}

async fn init(bin: &Path, folder: &Path, user: Option<&User>) -> Result<(), DemoError> {
    let mut command = Command::new(bin.join("initdb"));
    command
        .arg("--pgdata")
        .arg(folder.join("data"))
        .args(["--username", ROLE, "--auth", "trust", "--no-sync"])
        .args(["--encoding", "UTF8", "--locale", "C"])
        .current_dir(folder)
        .stdin(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    if let Some(user) = user {
        user.apply(&mut command);
    }
    let output = tokio::time::timeout(INITDB_PATIENCE, command.output())
        .await
        .map_err(|_| DemoError::TooSlow {
            what: "initdb",
            patience: INITDB_PATIENCE,
            said: String::new(),
        })?
        .during("initdb does not start")?;
    if output.status.success() {
        return Ok(());
    }
    Err(DemoError::Failed {
        program: "initdb",
        ended: output.status.to_string(),
        said: String::from_utf8_lossy(&output.stderr).trim().to_owned(),
    })
}

fn launch(bin: &Path, folder: &Path, user: Option<&User>) -> Result<Guarded, DemoError> {
    let mut arguments = vec![OsString::from("-D"), folder.join("data").into()];
    let mut socket = OsString::from("unix_socket_directories=");
    socket.push(folder);
    let settings = [
        OsString::from("wal_level=logical"),
        // Nobody outside can reach it: the folder of the socket belongs to its user.
        OsString::from("listen_addresses="),
        socket,
        OsString::from(format!("port={PORT}")),
        OsString::from("shared_buffers=16MB"),
        // It does not outlive the demo.
        OsString::from("fsync=off"),
    ];
    for setting in settings {
        arguments.extend([OsString::from("-c"), setting]);
    }
    let log = File::create(log_of(folder)).during("the log file")?;
    Guarded::spawn(Program {
        path: &bin.join("postgres"),
        arguments,
        log,
        folder,
        user,
        orphan: Orphan::InterruptAndRemove(folder),
    })
}

async fn find_programs(given: Option<&Path>) -> Result<PathBuf, DemoError> {
    let holds = |folder: &Path| {
        ["initdb", "postgres"]
            .iter()
            .all(|program| folder.join(program).is_file())
    };
    let missing = || DemoError::NoPostgres {
        given: given.map(Path::to_owned),
    };
    if let Some(folder) = given {
        let folder = std::path::absolute(folder).during("--postgres-bin")?;
        return if holds(&folder) {
            Ok(folder)
        } else {
            Err(missing())
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<_> = std::env::split_paths(&path)
        .filter(|folder| folder.is_absolute())
        .collect();
    folders.extend(versions_in(Path::new("/usr/lib/postgresql"), ""));
    folders.extend(versions_in(Path::new("/usr"), "pgsql-"));
    if let Some(folder) = folders.into_iter().find(|folder| holds(folder)) {
        return Ok(folder);
    }
    let told = Command::new("pg_config").arg("--bindir").output().await;
    told.ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .map(|folder| PathBuf::from(folder.trim()))
        .filter(|folder| holds(folder))
        .ok_or_else(missing)
}

/// `PLACE/PREFIX<version>/bin`, the newest version first.
fn versions_in(place: &Path, prefix: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(place) else {
        return Vec::new();
    };
    let mut versions: Vec<(u32, PathBuf)> = entries
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name();
            let version = name.to_str()?.strip_prefix(prefix)?.parse().ok()?;
            Some((version, entry.path().join("bin")))
        })
        .collect();
    versions.sort_by_key(|(version, _)| std::cmp::Reverse(*version));
    versions.into_iter().map(|(_, folder)| folder).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_versions_come_first_and_other_folders_not_at_all() {
        let place = tempfile::tempdir().unwrap();
        for name in ["9", "18", "14", "common"] {
            std::fs::create_dir(place.path().join(name)).unwrap();
        }
        let expected: Vec<_> = ["18", "14", "9"]
            .iter()
            .map(|name| place.path().join(name).join("bin"))
            .collect();
        assert_eq!(versions_in(place.path(), ""), expected);
        assert_eq!(
            versions_in(&place.path().join("absent"), ""),
            Vec::<PathBuf>::new()
        );
    }

    #[tokio::test]
    async fn a_folder_without_the_programs_is_named_in_the_error() {
        let folder = tempfile::tempdir().unwrap();
        let error = find_programs(Some(folder.path())).await.unwrap_err();
        assert_eq!(
            error.to_string(),
            format!("no initdb and postgres in {}", folder.path().display())
        );
    }
}

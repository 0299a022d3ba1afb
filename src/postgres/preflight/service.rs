//! Managed services, told by the roles and functions that they bring, and how a parameter is set there.

use std::fmt;

use super::Check;
use crate::wire::quote_identifier;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// Somebody's own server, as far as one can see.
    #[default]
    Own,
    AmazonRds,
    AmazonAurora,
    CloudSql,
    AlloyDb,
    Azure,
}

/// Before the server's own parameters.
pub(super) const ALL: [Service; 5] = [
    // Its servers have what RDS has, and more.
    Service::AmazonAurora,
    Service::AmazonRds,
    Service::AlloyDb,
    Service::CloudSql,
    Service::Azure,
];

impl Service {
    /// A role that exists there and nowhere else.
    pub(super) const fn role(self) -> Option<&'static str> {
        match self {
            Self::Own => None,
            Self::AmazonRds | Self::AmazonAurora => Some("rds_superuser"),
            Self::CloudSql => Some("cloudsqlsuperuser"),
            Self::AlloyDb => Some("alloydbsuperuser"),
            Self::Azure => Some("azure_pg_admin"),
        }
    }

    /// A function, likewise.
    pub(super) const fn function(self) -> Option<&'static str> {
        match self {
            Self::AmazonAurora => Some("aurora_version"),
            _ => None,
        }
    }

    /// The parameter that stands for `wal_level`, where that one cannot be set itself.
    pub(super) const fn logical_parameter(self) -> (&'static str, &'static str) {
        match self {
            Self::Own | Self::Azure => ("wal_level", "logical"),
            Self::AmazonRds | Self::AmazonAurora => ("rds.logical_replication", "1"),
            Self::CloudSql => ("cloudsql.logical_decoding", "on"),
            Self::AlloyDb => ("alloydb.logical_decoding", "on"),
        }
    }

    /// What gives a role the right to replicate.
    pub(super) fn allow_replication(self, role: &str) -> String {
        let role = quote_identifier(role);
        match self {
            Self::AmazonRds | Self::AmazonAurora => format!("GRANT rds_replication TO {role};"),
            Self::Own | Self::CloudSql | Self::AlloyDb | Self::Azure => {
                format!("ALTER ROLE {role} REPLICATION;")
            }
        }
    }

    /// A size as the parameter takes it there: the services want the number in the parameter's own
    /// unit, of which `max_slot_wal_keep_size` has megabytes.
    pub(super) fn size(self, gib: u64) -> String {
        match self {
            Self::Own => format!("{gib}GB"),
            _ => (gib << 10).to_string(),
        }
    }

    /// The check with what sets the parameter.
    pub(super) fn set(self, check: Check, name: &str, value: &str, when: Takes) -> Check {
        match self {
            Self::Own => {
                let reload = match when {
                    Takes::Reload => " SELECT pg_reload_conf();",
                    Takes::Restart => "",
                };
                let value = match value.parse::<i64>() {
                    Ok(number) => number.to_string(),
                    Err(_) => format!("'{value}'"),
                };
                check.sql(format!("ALTER SYSTEM SET {name} = {value};{reload}"))
            }
            _ => check.command(self.set_command(name, value, when)),
        }
    }

    fn set_command(self, name: &str, value: &str, when: Takes) -> String {
        let apply = match when {
            Takes::Reload => "immediate",
            Takes::Restart => "pending-reboot",
        };
        let aws = format!(
            "--parameters \"ParameterName={name},ParameterValue={value},ApplyMethod={apply}\""
        );
        match self {
            Self::Own => String::new(),
            Self::AmazonRds => {
                format!("aws rds modify-db-parameter-group --db-parameter-group-name GROUP {aws}")
            }
            Self::AmazonAurora => format!(
                "aws rds modify-db-cluster-parameter-group --db-cluster-parameter-group-name GROUP {aws}"
            ),
            // It takes the whole list of flags, and forgets those that are not in it.
            Self::CloudSql => format!(
                "gcloud sql instances patch INSTANCE --database-flags=OTHER_FLAGS,{name}={value}"
            ),
            Self::AlloyDb => format!(
                "gcloud alloydb instances update INSTANCE --cluster=CLUSTER --region=REGION --database-flags=OTHER_FLAGS,{name}={value}"
            ),
            Self::Azure => format!(
                "az postgres flexible-server parameter set --resource-group GROUP --server-name SERVER --name {name} --value {value}"
            ),
        }
    }
}

/// When a parameter's new value counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    Reload,
    Restart,
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Own => "a server of one's own",
            Self::AmazonRds => "Amazon RDS",
            Self::AmazonAurora => "Amazon Aurora",
            Self::CloudSql => "Google Cloud SQL",
            Self::AlloyDb => "Google AlloyDB",
            Self::Azure => "Azure Database for PostgreSQL",
        })
    }
}

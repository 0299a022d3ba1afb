//! The publication: which rows of which tables the server sends.

mod ensure;
mod options;
mod state;

pub use ensure::PublicationChange;
pub use ensure::create_sql;
pub use options::{
    Operations, PublicationMode, PublicationName, PublicationNameError, PublicationOptions,
};
pub use state::{Listing, Publication, PublicationNote, PublishedTable};

#[cfg(test)]
pub(crate) mod tests;

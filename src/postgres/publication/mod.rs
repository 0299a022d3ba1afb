//! The publication: which rows of which tables the server sends.

mod options;

pub use options::{
    Operations, PublicationMode, PublicationName, PublicationNameError, PublicationOptions,
};

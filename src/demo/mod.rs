//! `outboxd demo`.

use crate::cli::{DemoArgs, exit};

pub async fn run(_args: DemoArgs) -> u8 {
    exit::FAILED
}

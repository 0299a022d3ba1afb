//! `docs/metrics.md` says what the metrics in the source are.

use std::fs;
use std::path::Path;

use outboxd::observe::Metrics;

const MADE_FROM_HERE_ON: &str = "<!-- made from src/observe/metrics -->\n\n";
const WRITE: &str = "OUTBOXD_WRITE_GOLDEN";

#[test]
fn the_metrics_are_documented_as_they_are() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/metrics.md");
    let text = fs::read_to_string(&path).unwrap();
    let (by_hand, found) = text.split_once(MADE_FROM_HERE_ON).expect("the mark");
    let reference = Metrics::reference().unwrap();
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, format!("{by_hand}{MADE_FROM_HERE_ON}{reference}")).unwrap();
        return;
    }
    assert_eq!(
        found, reference,
        "run: {WRITE}=1 cargo test --test offline metrics"
    );
}

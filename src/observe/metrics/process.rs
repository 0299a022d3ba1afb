//! The process as the kernel sees it, under the names that Prometheus' own clients use.

use std::fs;

use prometheus::{Counter, Gauge, IntGauge};

use super::catalog::Catalog;

#[derive(Clone, Debug)]
pub(super) struct Process {
    cpu_seconds: Counter,
    start_time: Gauge,
    resident_bytes: IntGauge,
    open_files: IntGauge,
    max_files: IntGauge,
}

/// `USER_HZ`, in which `/proc` counts time on every architecture that Rust knows (time(7)).
const TICKS_PER_SECOND: f64 = 100.0;

impl Process {
    #[rustfmt::skip]
    pub(super) fn register(c: &mut Catalog) -> Result<Self, prometheus::Error> {
        let process = Self {
            cpu_seconds: c.seconds_counter("process_cpu_seconds_total", "Processor time of the process, user and system.")?,
            start_time: c.float_gauge("process_start_time_seconds", "When the process started, Unix time.")?,
            resident_bytes: c.gauge("process_resident_memory_bytes", "Resident memory.")?,
            open_files: c.gauge("process_open_fds", "Open file descriptors.")?,
            max_files: c.gauge("process_max_fds", "How many may be open.")?,
        };
        if let Some(start) = start_time() {
            process.start_time.set(start);
        }
        process.look();
        Ok(process)
    }

    /// What `/proc` does not tell stays as it was; without one (not Linux) all is 0.
    pub(super) fn look(&self) {
        if let Some(seconds) = cpu_seconds() {
            let more = seconds - self.cpu_seconds.get();
            self.cpu_seconds.inc_by(more.max(0.0));
        }
        if let Some(bytes) = resident_bytes() {
            self.resident_bytes.set(bytes);
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            // One of them is the folder's own.
            let count = files.count().saturating_sub(1);
            self.open_files
                .set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        if let Some(limit) = max_files() {
            self.max_files.set(limit);
        }
    }
}

/// The fields of `/proc/self/stat` from the third on: the second is the program's name, which may
/// hold anything.
fn stat_field(number: usize) -> Option<f64> {
    let stat = fs::read_to_string("/proc/self/stat").ok()?;
    let (_, fields) = stat.rsplit_once(')')?;
    fields.split_whitespace().nth(number - 3)?.parse().ok()
}

fn cpu_seconds() -> Option<f64> {
    Some((stat_field(14)? + stat_field(15)?) / TICKS_PER_SECOND)
}

/// The kernel counts from its own start.
fn start_time() -> Option<f64> {
    let system = fs::read_to_string("/proc/stat").ok()?;
    let booted = line_value(&system, "btime")?;
    Some(booted as f64 + stat_field(22)? / TICKS_PER_SECOND)
}

fn resident_bytes() -> Option<i64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    Some(line_value(&status, "VmRSS:")? * 1024)
}

fn max_files() -> Option<i64> {
    let limits = fs::read_to_string("/proc/self/limits").ok()?;
    line_value(&limits, "Max open files")
}

/// The number behind a line's name.
fn line_value(text: &str, name: &str) -> Option<i64> {
    let mut lines = text.lines();
    let rest = lines.find_map(|line| line.strip_prefix(name))?;
    rest.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    #[test]
    fn the_process_is_seen_as_it_is() {
        let process = Process::register(&mut Catalog::default()).unwrap();
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap();
        let started = Duration::from_secs_f64(process.start_time.get());
        // The kernel's own start is known to the second.
        assert!(
            started < now + Duration::from_secs(2),
            "{started:?} {now:?}"
        );
        assert!(now - started.min(now) < Duration::from_secs(3600));
        let (open, max) = (process.open_files.get(), process.max_files.get());
        assert!(3 <= open && open < max, "{open} of {max}");
        assert!(process.resident_bytes.get() > 1024 * 1024);
        let before = process.cpu_seconds.get();
        process.look();
        assert!(process.cpu_seconds.get() >= before);
    }

    #[test]
    fn a_line_is_found_by_its_name() {
        let text =
            "Max processes  5  6\nMax open files            1024                 524288  files\n";
        assert_eq!(line_value(text, "Max open files"), Some(1024));
        assert_eq!(
            line_value("Max open files unlimited", "Max open files"),
            None
        );
    }
}

use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

/// A page as Chromium has it once its scripts have run.
pub struct Page {
    /// The document as markup: text in it is escaped.
    pub dom: String,
    /// What scripts and policies complained of.
    pub complaints: Vec<String>,
}

/// Opens a page in a window of this size (pixels) and keeps a picture of it.
pub fn open_page(url: &str, (width, height): (u32, u32), picture: &Path) -> Page {
    let profile = TempDir::with_prefix("outboxd-chromium-").unwrap();
    let output = Command::new("chromium")
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            "--enable-logging=stderr",
            "--virtual-time-budget=2500",
            "--dump-dom",
        ])
        .arg(format!("--window-size={width},{height}"))
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .arg(format!("--screenshot={}", picture.display()))
        .arg(url)
        .stdin(Stdio::null())
        .output()
        .expect("chromium: run scripts/install-deps tests");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && picture.exists(), "{said}");
    let complaints = said.lines().filter(|line| line.contains("CONSOLE"));
    Page {
        dom: String::from_utf8(output.stdout).unwrap(),
        complaints: complaints.map(str::to_owned).collect(),
    }
}

impl Page {
    /// The markup inside the element with this id, up to the next end of such an element.
    pub fn inside(&self, id: &str) -> &str {
        let start = format!("id=\"{id}\"");
        let (before, rest) = self
            .dom
            .split_once(&start)
            .unwrap_or_else(|| panic!("no {id}"));
        let tag = before.rsplit('<').next().unwrap().trim();
        let (_, content) = rest.split_once('>').unwrap();
        let tag = tag.split(' ').next().unwrap();
        content.split_once(&format!("</{tag}>")).unwrap().0
    }
}

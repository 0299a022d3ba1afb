//! Signals: the first asks for a clean stop, the second ends the process.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Turns true when a stop was asked for. Cloned into every wait of the relay.
pub type Stop = watch::Receiver<bool>;

/// Listens for SIGTERM and SIGINT for as long as the process lives. The second one exits with
/// status 1: whatever was still in flight is sent again at the next start.
pub fn stop_on_signals() -> std::io::Result<Stop> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let (sender, receiver) = watch::channel(false);
    tokio::spawn(async move {
        let mut next = async || {
            tokio::select! {
                _ = terminate.recv() => "SIGTERM",
                _ = interrupt.recv() => "SIGINT",
            }
        };
        let name = next().await;
        tracing::info!(signal = name, "stop requested: draining");
        // No receiver is left only when the relay has ended already.
        sender.send_replace(true);
        let name = next().await;
        tracing::warn!(signal = name, "second signal: leaving without draining");
        std::process::exit(1);
    });
    Ok(receiver)
}

/// Ends when a stop was asked for.
pub async fn stop_requested(stop: &mut Stop) {
    if stop.wait_for(|stop| *stop).await.is_err() {
        // The sender lives as long as the signal task; without one nobody can ask any more.
        std::future::pending::<()>().await;
    }
}

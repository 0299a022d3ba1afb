//! Registers metrics and remembers what each is, so that the documentation is made of the same
//! lines as the metrics themselves.

use prometheus::core::Collector;
use prometheus::{
    Counter, Gauge, GaugeVec, Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Definition {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    /// At most one: few series, whatever happens.
    pub(super) label: Option<&'static str>,
    pub(super) help: &'static str,
}

/// 1 for the value that holds now, 0 for all others that are known.
#[derive(Clone, Debug)]
pub struct OneOf {
    gauge: IntGaugeVec,
    values: Vec<&'static str>,
}

impl OneOf {
    /// A newer server may have a word that is not known here: it shows all the same.
    pub fn set(&self, value: Option<&str>) {
        self.gauge.reset();
        for known in self.values.iter().copied().chain(value) {
            self.gauge
                .with_label_values(&[known])
                .set(i64::from(value == Some(known)));
        }
    }

    /// For values of which several can hold at a time.
    pub fn set_all(&self, holds: impl Fn(&str) -> bool) {
        for known in &self.values {
            let gauge = self.gauge.with_label_values(&[*known]);
            gauge.set(i64::from(holds(known)));
        }
    }
}

/// A registry under construction.
#[derive(Debug, Default)]
pub(super) struct Catalog {
    pub(super) registry: Registry,
    pub(super) definitions: Vec<Definition>,
}

type Result<T> = std::result::Result<T, prometheus::Error>;

/// From a millisecond to five minutes.
const SECONDS_BUCKETS: [f64; 16] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
];

impl Catalog {
    pub(super) fn counter(&mut self, name: &'static str, help: &'static str) -> Result<IntCounter> {
        let counter = IntCounter::new(name, help)?;
        self.register(Kind::Counter, name, None, help, counter)
    }

    pub(super) fn seconds_counter(
        &mut self,
        name: &'static str,
        help: &'static str,
    ) -> Result<Counter> {
        let counter = Counter::new(name, help)?;
        self.register(Kind::Counter, name, None, help, counter)
    }

    pub(super) fn counter_by(
        &mut self,
        label: &'static str,
        name: &'static str,
        help: &'static str,
    ) -> Result<IntCounterVec> {
        let counter = IntCounterVec::new(Opts::new(name, help), &[label])?;
        self.register(Kind::Counter, name, Some(label), help, counter)
    }

    pub(super) fn gauge(&mut self, name: &'static str, help: &'static str) -> Result<IntGauge> {
        let gauge = IntGauge::new(name, help)?;
        self.register(Kind::Gauge, name, None, help, gauge)
    }

    pub(super) fn float_gauge(&mut self, name: &'static str, help: &'static str) -> Result<Gauge> {
        let gauge = Gauge::new(name, help)?;
        self.register(Kind::Gauge, name, None, help, gauge)
    }

    pub(super) fn gauge_by(
        &mut self,
        label: &'static str,
        name: &'static str,
        help: &'static str,
    ) -> Result<IntGaugeVec> {
        let gauge = IntGaugeVec::new(Opts::new(name, help), &[label])?;
        self.register(Kind::Gauge, name, Some(label), help, gauge)
    }

    pub(super) fn float_gauge_by(
        &mut self,
        label: &'static str,
        name: &'static str,
        help: &'static str,
    ) -> Result<GaugeVec> {
        let gauge = GaugeVec::new(Opts::new(name, help), &[label])?;
        self.register(Kind::Gauge, name, Some(label), help, gauge)
    }

    /// A gauge with one series for each of `values`, all there from the start.
    pub(super) fn one_of(
        &mut self,
        label: &'static str,
        values: &[&'static str],
        name: &'static str,
        help: &'static str,
    ) -> Result<OneOf> {
        let one_of = OneOf {
            gauge: self.gauge_by(label, name, help)?,
            values: values.to_vec(),
        };
        one_of.set(None);
        Ok(one_of)
    }

    pub(super) fn seconds_histogram(
        &mut self,
        name: &'static str,
        help: &'static str,
    ) -> Result<Histogram> {
        let options = HistogramOpts::new(name, help).buckets(SECONDS_BUCKETS.to_vec());
        let histogram = Histogram::with_opts(options)?;
        self.register(Kind::Histogram, name, None, help, histogram)
    }

    fn register<C: Collector + Clone + 'static>(
        &mut self,
        kind: Kind,
        name: &'static str,
        label: Option<&'static str>,
        help: &'static str,
        collector: C,
    ) -> Result<C> {
        self.registry.register(Box::new(collector.clone()))?;
        self.definitions.push(Definition {
            name,
            kind,
            label,
            help,
        });
        Ok(collector)
    }
}

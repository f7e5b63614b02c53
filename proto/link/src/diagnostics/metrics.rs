//! Metrics: numbers a working thread changes with one atomic operation, and their Prometheus text form.
//!
//! Names are checked when the program is compiled: `redlatch_<subsystem>_<what>_<unit>`, in lower case.
//! The registry's lock is taken to register and to render, never to count.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Bounds for latencies in seconds: 100 µs to 10 s.
pub const SECONDS: &[f64] = &[
    0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5,
    5.0, 10.0,
];

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident $total:literal;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(&'static str);

        impl $name {
            /// Checks a name. In a constant, a bad one does not compile.
            ///
            /// # Panics
            /// If the name is not `redlatch_<subsystem>_<what>_<unit>`.
            pub const fn new(name: &'static str) -> $name {
                assert!(is_metric_name(name), "redlatch_<subsystem>_<what>_<unit>");
                assert!(ends_with(name, "_total") == $total, "counters, and only they, end in _total");
                $name(name)
            }
        }
    )*};
}

names! {
    /// The name of a number that only grows.
    CounterName true;
    /// The name of a number that goes up and down.
    GaugeName false;
    /// The name of a distribution.
    HistogramName false;
}

const fn is_metric_name(name: &str) -> bool {
    let (bytes, prefix) = (name.as_bytes(), b"redlatch_");
    let (mut at, mut parts) = (0, 1);
    while at < bytes.len() {
        let byte = bytes[at];
        if at < prefix.len() && byte != prefix[at] {
            return false;
        }
        let edge = at == 0 || at + 1 == bytes.len() || bytes[at - 1] == b'_';
        match byte {
            b'a'..=b'z' | b'0'..=b'9' => {}
            b'_' if !edge => parts += 1,
            _ => return false,
        }
        at += 1;
    }
    parts >= 4
}

const fn ends_with(name: &str, end: &str) -> bool {
    let (name, end) = (name.as_bytes(), end.as_bytes());
    if name.len() < end.len() {
        return false;
    }
    let mut at = 0;
    while at < end.len() {
        if name[name.len() - end.len() + at] != end[at] {
            return false;
        }
        at += 1;
    }
    true
}

/// A number that only grows.
#[derive(Clone, Debug, Default)]
pub struct Counter(Arc<AtomicU64>);

impl Counter {
    /// Adds one.
    pub fn increment(&self) {
        self.add(1);
    }

    /// Adds `amount`.
    pub fn add(&self, amount: u64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// How many so far.
    pub fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A number that goes up and down.
#[derive(Clone, Debug, Default)]
pub struct Gauge(Arc<AtomicI64>);

impl Gauge {
    /// Sets it.
    pub fn set(&self, value: impl TryInto<i64>) {
        self.0
            .store(value.try_into().unwrap_or(i64::MAX), Ordering::Relaxed);
    }

    /// Adds `amount`, which may be negative.
    pub fn add(&self, amount: i64) {
        self.0.fetch_add(amount, Ordering::Relaxed);
    }

    /// What it is.
    pub fn value(&self) -> i64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A distribution over fixed bounds.
#[derive(Clone, Debug)]
pub struct Histogram(Arc<Buckets>);

#[derive(Debug)]
struct Buckets {
    bounds: &'static [f64],
    /// One count per bound and one for what lies above all of them; not cumulative.
    counts: Vec<AtomicU64>,
    /// The sum's bits as an f64.
    sum: AtomicU64,
}

impl Histogram {
    fn new(bounds: &'static [f64]) -> Histogram {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Histogram(Arc::new(Buckets {
            bounds,
            counts,
            sum: AtomicU64::new(0f64.to_bits()),
        }))
    }

    /// Counts one value.
    pub fn observe(&self, value: f64) {
        let at = self.0.bounds.partition_point(|bound| *bound < value);
        self.0.counts[at].fetch_add(1, Ordering::Relaxed);
        let _ = self
            .0
            .sum
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |bits| {
                Some((f64::from_bits(bits) + value).to_bits())
            });
    }

    /// Counts one span, in seconds.
    pub fn observe_span(&self, span: Duration) {
        self.observe(span.as_secs_f64());
    }

    /// How many values were counted.
    pub fn count(&self) -> u64 {
        self.0
            .counts
            .iter()
            .map(|count| count.load(Ordering::Relaxed))
            .sum()
    }
}

/// The metrics of a process. Clones share one set.
#[derive(Clone, Default)]
pub struct Registry(Arc<Mutex<BTreeMap<&'static str, Family>>>);

struct Family {
    help: &'static str,
    /// By rendered labels.
    series: BTreeMap<String, Series>,
}

enum Series {
    Counter(Counter),
    Gauge(Gauge),
    Histogram(Histogram),
}

impl Series {
    const fn kind(&self) -> &'static str {
        match self {
            Series::Counter(_) => "counter",
            Series::Gauge(_) => "gauge",
            Series::Histogram(_) => "histogram",
        }
    }
}

impl Registry {
    /// No metrics.
    pub fn new() -> Registry {
        Registry::default()
    }

    /// The counter of this name and these labels; the same one each time.
    pub fn counter(
        &self,
        name: CounterName,
        help: &'static str,
        labels: &[(&str, &str)],
    ) -> Counter {
        self.series(name.0, help, labels, |series| match series {
            Some(Series::Counter(counter)) => Ok(counter.clone()),
            _ => Err(Series::Counter(Counter::default())),
        })
    }

    /// The gauge of this name and these labels; the same one each time.
    pub fn gauge(&self, name: GaugeName, help: &'static str, labels: &[(&str, &str)]) -> Gauge {
        self.series(name.0, help, labels, |series| match series {
            Some(Series::Gauge(gauge)) => Ok(gauge.clone()),
            _ => Err(Series::Gauge(Gauge::default())),
        })
    }

    /// The histogram of this name and these labels; the same one each time. `bounds` ascend.
    pub fn histogram(
        &self,
        name: HistogramName,
        help: &'static str,
        bounds: &'static [f64],
        labels: &[(&str, &str)],
    ) -> Histogram {
        self.series(name.0, help, labels, |series| match series {
            Some(Series::Histogram(histogram)) => Ok(histogram.clone()),
            _ => Err(Series::Histogram(Histogram::new(bounds))),
        })
    }

    /// Finds a series or puts the one that `pick` makes in its place.
    fn series<M>(
        &self,
        name: &'static str,
        help: &'static str,
        labels: &[(&str, &str)],
        pick: impl Fn(Option<&Series>) -> Result<M, Series>,
    ) -> M {
        let mut families = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let series = &mut families
            .entry(name)
            .or_insert_with(|| Family {
                help,
                series: BTreeMap::new(),
            })
            .series;
        let key = rendered(labels);
        loop {
            match pick(series.get(&key)) {
                Ok(metric) => return metric,
                Err(fresh) => drop(series.insert(key.clone(), fresh)),
            }
        }
    }

    /// Keeps everybody else from registering and rendering, as a stuck thread would.
    #[cfg(all(test, not(madsim)))]
    pub(super) fn hold(&self) -> impl Drop + '_ {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All metrics in the Prometheus text format, version 0.0.4.
    pub fn render(&self) -> String {
        let families = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        for (name, family) in families.iter() {
            let Some(first) = family.series.values().next() else {
                continue;
            };
            let _ = writeln!(
                text,
                "# HELP {name} {}\n# TYPE {name} {}",
                family.help,
                first.kind()
            );
            for (labels, series) in &family.series {
                render(&mut text, name, labels, series);
            }
        }
        text
    }
}

fn render(text: &mut String, name: &str, labels: &str, series: &Series) {
    let braced = if labels.is_empty() {
        String::new()
    } else {
        format!("{{{labels}}}")
    };
    // Writing to a string cannot fail.
    let _ = match series {
        Series::Counter(counter) => writeln!(text, "{name}{braced} {}", counter.value()),
        Series::Gauge(gauge) => writeln!(text, "{name}{braced} {}", gauge.value()),
        Series::Histogram(Histogram(buckets)) => {
            let comma = if labels.is_empty() { "" } else { "," };
            let bounds = buckets
                .bounds
                .iter()
                .map(f64::to_string)
                .chain(["+Inf".to_owned()]);
            let mut total = 0;
            for (bound, count) in bounds.zip(&buckets.counts) {
                total += count.load(Ordering::Relaxed);
                let _ = writeln!(
                    text,
                    "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {total}"
                );
            }
            let sum = f64::from_bits(buckets.sum.load(Ordering::Relaxed));
            writeln!(
                text,
                "{name}_sum{braced} {sum}\n{name}_count{braced} {total}"
            )
        }
    };
}

fn rendered(labels: &[(&str, &str)]) -> String {
    let pairs: Vec<String> = labels
        .iter()
        .map(|(name, value)| {
            format!(
                "{name}=\"{}\"",
                value
                    .replace('\\', "\\\\")
                    .replace('"', "\\\"")
                    .replace('\n', "\\n")
            )
        })
        .collect();
    pairs.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    const REFUSALS: CounterName = CounterName::new("redlatch_node_refusals_total");
    const PEERS: GaugeName = GaugeName::new("redlatch_raft_connected_peers");
    const COMMIT: HistogramName = HistogramName::new("redlatch_raft_commit_latency_seconds");

    #[test]
    fn names_follow_the_pattern() {
        for good in [
            "redlatch_raft_append_bytes",
            "redlatch_node_http2_open_streams",
        ] {
            assert!(is_metric_name(good), "{good}");
        }
        for bad in [
            "redlatch_raft_bytes",
            "raft_append_time_bytes",
            "redlatch__append_bytes",
            "redlatch_Raft_append_bytes",
            "redlatch_raft_append_",
            "_redlatch_raft_append_bytes",
            "",
            "redlatch",
        ] {
            assert!(!is_metric_name(bad), "{bad}");
        }
    }

    #[test]
    fn text_form() {
        let registry = Registry::new();
        registry
            .counter(
                REFUSALS,
                "Refusals by code.",
                &[("code", "red_\"latched\"")],
            )
            .add(2);
        registry
            .counter(REFUSALS, "Refusals by code.", &[("code", "frozen")])
            .increment();
        registry.gauge(PEERS, "Peers connected.", &[]).set(2);
        let commit = registry.histogram(COMMIT, "Commit latency.", &[0.5, 1.0], &[]);
        for value in [0.25, 0.5, 4.0] {
            commit.observe(value);
        }
        let text = "# HELP redlatch_node_refusals_total Refusals by code.\n\
            # TYPE redlatch_node_refusals_total counter\n\
            redlatch_node_refusals_total{code=\"frozen\"} 1\n\
            redlatch_node_refusals_total{code=\"red_\\\"latched\\\"\"} 2\n\
            # HELP redlatch_raft_commit_latency_seconds Commit latency.\n\
            # TYPE redlatch_raft_commit_latency_seconds histogram\n\
            redlatch_raft_commit_latency_seconds_bucket{le=\"0.5\"} 2\n\
            redlatch_raft_commit_latency_seconds_bucket{le=\"1\"} 2\n\
            redlatch_raft_commit_latency_seconds_bucket{le=\"+Inf\"} 3\n\
            redlatch_raft_commit_latency_seconds_sum 4.75\n\
            redlatch_raft_commit_latency_seconds_count 3\n\
            # HELP redlatch_raft_connected_peers Peers connected.\n\
            # TYPE redlatch_raft_connected_peers gauge\n\
            redlatch_raft_connected_peers 2\n";
        assert_eq!(registry.render(), text);
    }

    #[test]
    fn one_name_and_label_set_is_one_metric() {
        let registry = Registry::new();
        registry.counter(REFUSALS, "Refusals.", &[]).increment();
        assert_eq!(
            registry.clone().counter(REFUSALS, "Refusals.", &[]).value(),
            1
        );
    }
}

/// The number of a record in the order in which the pipeline made it; librdkafka carries it as the
/// delivery opaque. Never reused within a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

impl Ticket {
    pub(crate) const fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

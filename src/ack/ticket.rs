/// The number of a record in the order in which the pipeline made it; librdkafka carries it as the
/// delivery opaque.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

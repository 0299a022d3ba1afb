//! The journal over many starts: whoever touches the slot while no relay runs, wherever a start or a
//! stop is cut off, and whatever a frozen leader still writes.

use outboxd::journal::{Claim, Entry, Found, Gap, Knowledge, Past, Server, SlotState, judge};
use outboxd::lsn::Lsn;

use super::{Chance, seeds};
use crate::support::mutation::Random;

const STEPS: usize = 60;
/// More have shown nothing more.
const SEEDS_AT_MOST: usize = 100_000;

#[test]
fn what_happens_to_the_slot_behind_the_relays_back_is_noticed_and_nothing_else_is() {
    let (seeds, trace) = seeds();
    let mut total = Seen::default();
    for seed in seeds.take(SEEDS_AT_MOST) {
        let mut world = World::new(seed, trace);
        for _ in 0..STEPS {
            world.step(seed);
        }
        let Seen {
            gaps,
            accepted,
            drops,
            calm,
            by_hand,
            refused,
            late_marks,
        } = world.seen;
        total.gaps += gaps;
        total.accepted += accepted;
        total.drops += drops;
        total.calm += calm;
        total.by_hand += by_hand;
        total.refused += refused;
        total.late_marks += late_marks;
    }
    println!("{total:?}");
    let least = total.gaps.min(total.accepted).min(total.drops);
    let least = least.min(total.by_hand).min(total.refused);
    let least = least.min(total.late_marks);
    assert!(
        trace || least.min(total.calm) > 0,
        "too quiet to prove anything"
    );
}

#[derive(Debug, Default)]
struct Seen {
    gaps: u64,
    accepted: u64,
    drops: u64,
    calm: u64,
    by_hand: u64,
    refused: u64,
    late_marks: u64,
}

/// The server that a standby was promoted away from: somebody can still reach it.
struct Left {
    timeline: u32,
    history: Vec<Lsn>,
    written: u64,
    slot: Option<u64>,
    is_lost: bool,
}

struct World {
    random: Random,
    trace: bool,
    /// Every record under the key, oldest first.
    topic: Vec<Entry>,
    /// What a frozen leader may still write, and how many leaders there were before it wrote.
    late: Vec<(Entry, u64)>,
    leaders: u64,
    system: u64,
    timeline: u32,
    /// Where each earlier timeline was left.
    history: Vec<Lsn>,
    written: u64,
    slot: Option<u64>,
    /// The server has invalidated the slot.
    is_lost: bool,
    left: Option<Left>,
    running: Option<Entry>,
    truth: Truth,
    seen: Seen,
}

/// What nobody but the test knows.
#[derive(Debug)]
struct Truth {
    /// Everything before it is in Kafka, or its absence was accepted. Absent: nothing is claimed.
    covered: Option<u64>,
    /// Nobody but the relay has touched slot and server since the last stream.
    untouched: bool,
    /// The relay has dropped the slot itself.
    wanted_gone: bool,
    other_server: bool,
}

impl World {
    fn new(seed: u64, trace: bool) -> Self {
        Self {
            random: Random::new(seed),
            trace,
            topic: Vec::new(),
            late: Vec::new(),
            leaders: 0,
            system: 1,
            timeline: 1,
            history: Vec::new(),
            written: 100,
            slot: None,
            is_lost: false,
            left: None,
            running: None,
            truth: Truth {
                covered: None,
                untouched: true,
                wanted_gone: true,
                other_server: false,
            },
            seen: Seen::default(),
        }
    }

    fn dies_here(&mut self) -> bool {
        self.random.one_in(6)
    }

    fn step(&mut self, seed: u64) {
        let choice = self.random.below(16);
        self.written += 1 + self.random.below(20) as u64;
        if choice == 15 && !self.late.is_empty() {
            return self.thaw();
        }
        match (choice, self.running.take()) {
            (0..8, None) => self.start(seed),
            (8..12, None) => self.touch(),
            (12, None) => self.hand(None),
            (13, None) => self.hand_on_the_one_left(),
            (_, None) => {}
            (0..10, Some(entry)) => self.confirm(entry),
            (10..12, Some(entry)) => self.stop_with_drop(entry),
            (_, Some(_)) => {}
        }
        if self.trace {
            let Self { slot, truth, .. } = self;
            eprintln!(
                "{choice}: slot {slot:?}, {truth:?}, {:?}",
                self.topic.last()
            );
        }
    }

    /// A frozen leader writes what it still had to write, also behind the entries of its successor.
    fn thaw(&mut self) {
        let at = self.random.below(self.late.len());
        let (entry, leaders) = self.late.swap_remove(at);
        self.seen.late_marks += u64::from(entry.state == SlotState::Dropping);
        // Of the last leader it is its word; behind a successor it is nobody's.
        self.truth.wanted_gone |= entry.state == SlotState::Dropping && leaders == self.leaders;
        self.topic.push(entry);
    }

    /// Somebody else, while no relay runs.
    fn touch(&mut self) {
        self.truth.untouched = false;
        let choice = self.random.below(6);
        self.is_lost = choice == 5 && self.slot.is_some();
        match choice {
            5 => {}
            0 => self.slot = None,
            1 => self.slot = self.slot.map(|_| self.written),
            2 => self.slot = Some(self.written),
            3 => {
                self.system += 1;
                self.written = 50 + self.random.below(500) as u64;
                self.slot = self.random.one_in(2).then_some(self.written);
                (self.timeline, self.history) = (1, Vec::new());
                self.left = None;
                self.truth.other_server = true;
            }
            _ => self.promote(),
        }
    }

    /// A standby that has all or nearly all of the log, and the slot or not.
    fn promote(&mut self) {
        let left_at = self.written - self.random.below(15) as u64;
        // It is of the last timeline, and no timeline ends before it begins.
        let begins = self.history.last().map_or(0, |left_at| left_at.as_u64());
        let left_at = left_at.max(begins);
        self.left = Some(Left {
            timeline: self.timeline,
            history: self.history.clone(),
            written: self.written,
            slot: self.slot,
            is_lost: self.is_lost,
        });
        self.history.push(Lsn::new(left_at));
        (self.timeline, self.written) = (self.timeline + 1, left_at);
        let covered = &mut self.truth.covered;
        *covered = covered.map(|covered| covered.min(left_at));
        let back = self.random.below(30) as u64;
        let copied = self.slot.map(|at| at.saturating_sub(back).min(left_at));
        self.slot = copied.filter(|_| !self.random.one_in(3));
    }

    fn newest(&self) -> Option<Entry> {
        self.topic.iter().cloned().reduce(Entry::newest)
    }

    /// Compares, and accepts every other gap; any of what it writes and makes can be its last.
    /// Beside what the journal has.
    fn server<'a>(&self, system_id: &'a str, newest: Option<&Entry>) -> Server<'a> {
        let of_history = |entry: &Entry| self.history.get(entry.timeline as usize - 1).copied();
        Server {
            system_id,
            timeline: self.timeline,
            database: "shop",
            slot: "outbox",
            written: Lsn::new(self.written),
            left_at: newest.and_then(of_history),
        }
    }

    fn start(&mut self, seed: u64) {
        let newest = self.newest();
        let past = Past {
            entry: newest.as_ref(),
            generation: newest.as_ref().map_or(0, |entry| entry.generation),
        };
        let system = self.system.to_string();
        let server = self.server(&system, newest.as_ref());
        let accepts = self.random.one_in(2);
        if self.is_lost && self.slot.is_some() {
            // Told as lost, or replaced with `snapshot.mode = when_needed`.
            self.seen.gaps += u64::from(!accepts);
            let entry = past.anew(&server, self.slot.map(Lsn::new));
            if accepts {
                self.replace(past.end(), entry);
            }
            return;
        }
        let begun = past.begin(&server, self.slot.map(Lsn::new), |_| accepts);
        let context = || format!("seed {seed}: {:?} {:?} {newest:?}", self.slot, self.truth);
        let silent = match &begun {
            Ok(beginning) => matches!(beginning.found, Found::Fits(_)),
            Err(_) => false,
        };
        assert!(
            silent || !self.truth.untouched,
            "a false alarm: {}",
            context()
        );
        assert!(
            !silent || !self.truth.is_lost(self.slot),
            "not noticed: {}",
            context()
        );
        let Ok(beginning) = begun else {
            self.seen.gaps += 1;
            return;
        };
        let is_over = !silent || beginning.found == Found::Fits(Knowledge::Dropped);
        self.seen.accepted += u64::from(!silent);
        self.seen.calm += u64::from(silent);
        let end = past.end();
        if is_over && self.slot.is_none() {
            self.topic.extend(end);
            // Its absence is known now, whatever becomes of this start.
            self.truth.covered = None;
            (self.truth.wanted_gone, self.truth.other_server) = (true, false);
        }
        if self.dies_here() {
            return;
        }
        self.make_and_run(beginning.entry, silent);
    }

    /// A lost slot gives its place to a new one.
    fn replace(&mut self, end: Option<Entry>, entry: Entry) {
        self.seen.accepted += 1;
        if self.dies_here() {
            return;
        }
        self.topic.extend(end);
        // What it had is known to be gone, and nothing else has happened.
        self.truth = Truth {
            covered: None,
            untouched: true,
            wanted_gone: true,
            other_server: false,
        };
        if self.dies_here() {
            return;
        }
        (self.slot, self.is_lost) = (None, false);
        if self.dies_here() {
            return;
        }
        self.make_and_run(entry, false);
    }

    fn make_and_run(&mut self, mut entry: Entry, silent: bool) {
        if self.slot.is_none() {
            (self.slot, self.is_lost) = (Some(self.written), false);
            (entry.slot_lsn, entry.confirmed_lsn) =
                (Lsn::new(self.written), Lsn::new(self.written));
            if self.dies_here() {
                return;
            }
        }
        self.topic.push(entry.clone());
        self.leaders += 1;
        let covered = entry.confirmed_lsn.as_u64();
        self.truth = Truth {
            covered: Some(
                self.truth
                    .covered
                    .filter(|_| silent)
                    .unwrap_or(0)
                    .max(covered),
            ),
            untouched: true,
            wanted_gone: false,
            other_server: false,
        };
        self.running = Some(entry);
    }

    /// The journal first, then the server; the process may die before, between and after.
    fn confirm(&mut self, entry: Entry) {
        let covered = self.truth.covered.unwrap_or_default();
        let complete = (covered + self.random.below(10) as u64)
            .min(self.written)
            .max(covered);
        self.truth.covered = Some(complete);
        let next = entry.at(Lsn::new(complete), 0);
        if self.dies_here() {
            // Killed before it was sent, or frozen.
            if self.random.one_in(2) {
                self.late.push((next, self.leaders));
            }
            return;
        }
        self.topic.push(next);
        if self.dies_here() {
            return;
        }
        // A server that crashes may forget it again.
        if !self.random.one_in(4) {
            self.slot = self.slot.map(|at| at.max(complete));
        }
        self.running = Some(entry);
    }

    fn stop_with_drop(&mut self, entry: Entry) {
        let covered = self.truth.covered.unwrap_or_default();
        let dropping = entry.dropping(Lsn::new(covered));
        if self.dies_here() {
            self.late.push((dropping, self.leaders));
            return;
        }
        self.topic.push(dropping.clone());
        self.truth.wanted_gone = true;
        if self.dies_here() || self.random.one_in(3) {
            // The server was not reached, or refused.
            return;
        }
        self.slot = None;
        self.seen.drops += 1;
        if !self.dies_here() {
            self.truth.covered = None;
            self.topic.push(dropping.dropped());
        }
    }
}

/// `outboxd slot drop` and `outboxd slot advance`: each can die wherever it is.
impl World {
    fn swap(&mut self, other: &mut Left) {
        std::mem::swap(&mut self.timeline, &mut other.timeline);
        std::mem::swap(&mut self.history, &mut other.history);
        std::mem::swap(&mut self.written, &mut other.written);
        std::mem::swap(&mut self.slot, &mut other.slot);
        std::mem::swap(&mut self.is_lost, &mut other.is_lost);
    }

    fn hand_on_the_one_left(&mut self) {
        let Some(mut left) = self.left.take() else {
            return;
        };
        let left_at = self.history[left.timeline as usize - 1].as_u64();
        self.swap(&mut left);
        self.written += 1 + self.random.below(5) as u64;
        self.hand(Some(left_at));
        self.swap(&mut left);
        self.left = Some(left);
    }

    /// `left_at`: where the server that counts left this one.
    fn hand(&mut self, left_at: Option<u64>) {
        let Some(stands) = self.slot else {
            return;
        };
        let newest = self.newest();
        let system = self.system.to_string();
        let server = self.server(&system, newest.as_ref());
        let claim = match Claim::of(newest.as_ref(), &server, Lsn::new(stands)) {
            Ok(claim) => claim,
            Err(Gap::OtherSystem { .. }) => None,
            Err(_) => {
                self.seen.refused += 1;
                return;
            }
        };
        self.seen.by_hand += 1;
        if claim.is_none() && left_at.is_none() {
            self.truth.untouched = false;
        }
        match self.random.one_in(2) {
            true => self.hand_drops(claim, left_at.is_some()),
            false => self.hand_advances(claim, stands, left_at),
        }
    }

    fn hand_drops(&mut self, claim: Option<Claim>, is_left: bool) {
        if let Some(claim) = &claim {
            self.topic.push(claim.dropping());
            self.truth.wanted_gone |= !is_left;
            if self.dies_here() {
                return;
            }
        }
        self.slot = None;
        if self.dies_here() {
            return;
        }
        if let Some(claim) = claim {
            self.truth.covered = None;
            self.topic.push(claim.dropped());
        }
    }

    fn hand_advances(&mut self, claim: Option<Claim>, stood: u64, left_at: Option<u64>) {
        let room = self.written.saturating_sub(stood) as usize;
        if room == 0 {
            return;
        }
        let stands = stood + 1 + self.random.below(room) as u64;
        self.slot = Some(stands);
        let Some(claim) = claim else {
            return;
        };
        if self.dies_here() {
            self.truth.untouched &= left_at.is_some();
            return;
        }
        if let Some(entry) = claim.advanced(Lsn::new(stands)) {
            self.topic.push(entry);
            let given_up = left_at.map_or(stands, |left_at| left_at.min(stands));
            let covered = &mut self.truth.covered;
            *covered = covered.map(|covered| covered.max(given_up));
            self.truth.wanted_gone &= left_at.is_some();
        }
        // A server that crashes before its next checkpoint forgets it.
        if self.random.one_in(4) {
            self.slot = Some(stood);
        }
    }
}

impl Truth {
    /// Rows are missing of which nobody was told.
    fn is_lost(&self, slot: Option<u64>) -> bool {
        let Some(covered) = self.covered else {
            return false;
        };
        match slot {
            _ if self.other_server => true,
            None => !self.wanted_gone,
            Some(at) => at > covered,
        }
    }
}

const SERVER: Server<'static> = Server {
    system_id: "1",
    timeline: 1,
    database: "shop",
    slot: "outbox",
    written: Lsn::new(100),
    left_at: None,
};

#[test]
fn a_mark_of_the_end_outlives_what_a_frozen_leader_still_writes() {
    let entry = Entry::first(1, &SERVER, Lsn::new(10));
    let records = [
        entry.at(Lsn::new(20), 0),
        entry.dropping(Lsn::new(30)),
        entry.at(Lsn::new(25), 0),
    ];
    let newest = records.into_iter().reduce(Entry::newest).unwrap();
    assert_eq!(
        (newest.state, newest.confirmed_lsn),
        (SlotState::Dropping, Lsn::new(30))
    );
}

#[test]
fn a_mark_that_a_frozen_leader_writes_behind_its_successor_says_nothing_of_the_slot() {
    let frozen = Entry::first(1, &SERVER, Lsn::new(10)).at(Lsn::new(20), 0);
    let past = Past {
        entry: Some(&frozen),
        generation: 1,
    };
    let successor = past.begin(&SERVER, Some(Lsn::new(20)), |_| false);
    let successor = successor.unwrap().entry;
    let topic = [
        frozen.clone(),
        successor.clone(),
        successor.at(Lsn::new(60), 0),
        frozen.dropping(Lsn::new(20)),
    ];
    let newest = topic.into_iter().reduce(Entry::newest).unwrap();
    assert_eq!(newest, successor.at(Lsn::new(60), 0));
    let judged = |stands: Option<u64>| judge(Some(&newest), &SERVER, stands.map(Lsn::new));
    let fits = Knowledge::Known { repeats_from: None };
    assert_eq!(judged(Some(60)), Ok(fits));
    // Dropped by hand: it was not the leader who did it.
    assert!(matches!(judged(None), Err(Gap::Missing { .. })));
}

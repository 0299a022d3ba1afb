//! Random and damaged bytes. A case is a function of its number alone, so that one number replays it.

/// SplitMix64: small, and the same on every machine and version.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Below `limit`, which is not zero.
    pub fn below(&mut self, limit: usize) -> usize {
        let limit = limit as u64;
        usize::try_from(self.next() % limit).expect("below a usize")
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}

/// Up to 64 bytes of anything; half of them begin as one of `corpus` does.
pub fn random_bytes(random: &mut Random, corpus: &[Vec<u8>], out: &mut Vec<u8>) {
    out.clear();
    let length = random.below(65);
    while out.len() < length {
        out.extend(random.next().to_le_bytes());
    }
    out.truncate(length);
    if let (0, Some(first)) = (random.below(2), out.first_mut()) {
        *first = corpus[random.below(corpus.len())][0];
    }
}

/// One of `corpus` with one to four defects.
pub fn damaged(random: &mut Random, corpus: &[Vec<u8>], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(&corpus[random.below(corpus.len())]);
    for _ in 0..=random.below(4) {
        damage(random, corpus, out);
    }
}

fn damage(random: &mut Random, corpus: &[Vec<u8>], out: &mut Vec<u8>) {
    const BOUNDARIES: [u8; 6] = [0, 1, 0x7f, 0x80, 0xfe, 0xff];
    if out.is_empty() {
        out.push(random.byte());
        return;
    }
    let at = random.below(out.len());
    match random.below(8) {
        0 => out[at] ^= 1 << random.below(8),
        1 => out[at] = random.byte(),
        2 => out[at] = BOUNDARIES[random.below(BOUNDARIES.len())],
        3 => out.truncate(at),
        4 => out.insert(at, random.byte()),
        5 => {
            let end = at + 1 + random.below(out.len() - at);
            out.drain(at..end);
        }
        6 => {
            let end = (at + 1 + random.below(16)).min(out.len());
            out.extend_from_within(at..end);
        }
        _ => {
            let other = &corpus[random.below(corpus.len())];
            out.truncate(at);
            out.extend_from_slice(&other[random.below(other.len())..]);
        }
    }
}

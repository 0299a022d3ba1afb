//! numeric and money: Java's `BigDecimal`, from PostgreSQL's text.

use std::borrow::Cow;

/// A finite decimal as PostgreSQL prints it: an optional minus, digits, optionally a point and
/// digits. The digits behind the point are its scale.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decimal<'a> {
    text: Cow<'a, str>,
}

impl<'a> Decimal<'a> {
    pub fn parse(text: impl Into<Cow<'a, str>>) -> Option<Self> {
        let text = text.into();
        let digits = text.strip_prefix('-').unwrap_or(&text);
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
        (all_digits(whole) && all_digits(fraction)).then_some(Self { text })
    }

    pub fn into_owned(self) -> Decimal<'static> {
        Decimal {
            text: Cow::Owned(self.text.into_owned()),
        }
    }

    /// `toPlainString`
    pub fn plain(&self) -> &str {
        &self.text
    }

    fn is_negative(&self) -> bool {
        self.text.starts_with('-')
    }

    fn parts(&self) -> (&str, &str) {
        let digits = self.text.strip_prefix('-').unwrap_or(&self.text);
        digits.split_once('.').unwrap_or((digits, ""))
    }

    pub fn scale(&self) -> usize {
        self.parts().1.len()
    }

    /// `stripTrailingZeros`, with no scale below zero.
    #[must_use]
    pub fn without_trailing_zeros(self) -> Self {
        let keep = match self.text.split_once('.') {
            Some((_, fraction)) if fraction.trim_end_matches('0').is_empty() => {
                self.text.len() - fraction.len() - 1
            }
            Some((_, fraction)) => {
                self.text.len() - (fraction.len() - fraction.trim_end_matches('0').len())
            }
            None => return self,
        };
        let text = match self.text {
            Cow::Borrowed(text) => Cow::Borrowed(&text[..keep]),
            Cow::Owned(mut text) => {
                text.truncate(keep);
                Cow::Owned(text)
            }
        };
        Self { text }.without_negative_zero()
    }

    /// Java has no negative zero here, and PostgreSQL prints none.
    fn without_negative_zero(self) -> Self {
        if self.text == "-0" {
            return Self {
                text: Cow::Borrowed("0"),
            };
        }
        self
    }

    /// More digits behind the point are zeros; fewer are rounded half up, away from zero.
    #[must_use]
    pub fn with_scale(self, scale: usize) -> Self {
        let (whole, fraction) = self.parts();
        if fraction.len() == scale {
            return self;
        }
        let mut digits = format!("{whole}{fraction:0<scale$}");
        if fraction.len() > scale {
            let rounds_up = fraction.as_bytes()[scale] >= b'5';
            digits.truncate(whole.len() + scale);
            if rounds_up {
                digits = increment(&digits);
            }
        }
        let point = digits.len() - scale;
        let zero = digits.bytes().all(|digit| digit == b'0');
        let sign = if self.is_negative() && !zero { "-" } else { "" };
        let text = match scale {
            0 => format!("{sign}{digits}"),
            _ => format!("{sign}{}.{}", &digits[..point], &digits[point..]),
        };
        Self {
            text: Cow::Owned(text),
        }
    }

    /// `unscaledValue().toByteArray()`: two's complement, big-endian, as short as it goes.
    pub fn unscaled_bytes(&self) -> Vec<u8> {
        let (whole, fraction) = self.parts();
        let mut limbs: Vec<u32> = Vec::new();
        let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).collect();
        for chunk in digits.chunks(CHUNK_DIGITS) {
            let (mut factor, mut carry) = (1_u64, 0_u64);
            for digit in chunk {
                factor *= 10;
                carry = carry * 10 + u64::from(digit - b'0');
            }
            for limb in &mut limbs {
                let product = u64::from(*limb) * factor + carry;
                *limb = (product & 0xFFFF_FFFF) as u32;
                carry = product >> 32;
            }
            if carry > 0 {
                limbs.push(carry as u32);
            }
        }
        let mut bytes: Vec<u8> = std::iter::once(0)
            .chain(limbs.iter().rev().flat_map(|limb| limb.to_be_bytes()))
            .collect();
        if self.is_negative() {
            negate(&mut bytes);
        }
        let redundant =
            |pair: &[u8]| (pair[0] == 0 && pair[1] < 0x80) || (pair[0] == 0xFF && pair[1] >= 0x80);
        let skip = bytes.windows(2).take_while(|pair| redundant(pair)).count();
        bytes.split_off(skip)
    }

    /// `toString`: plain, but with an exponent where the number is small.
    pub fn java_string(&self) -> Cow<'_, str> {
        let (whole, fraction) = self.parts();
        let unscaled = format!("{whole}{fraction}");
        let significant = match unscaled.trim_start_matches('0') {
            "" => "0",
            digits => digits,
        };
        let exponent = significant.len().cast_signed() - 1 - fraction.len().cast_signed();
        if exponent >= -6 {
            return Cow::Borrowed(&self.text);
        }
        let sign = if self.is_negative() { "-" } else { "" };
        let (first, rest) = significant.split_at(1);
        let point = if rest.is_empty() { "" } else { "." };
        Cow::Owned(format!("{sign}{first}{point}{rest}E{exponent}"))
    }

    pub fn to_double(&self) -> f64 {
        self.text.parse().unwrap_or(f64::NAN)
    }
}

const CHUNK_DIGITS: usize = 9;

fn increment(digits: &str) -> String {
    let mut digits = digits.as_bytes().to_vec();
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return String::from_utf8_lossy(&digits).into_owned();
        }
        *digit = b'0';
    }
    format!("1{}", String::from_utf8_lossy(&digits))
}

fn negate(bytes: &mut [u8]) {
    let mut carry = true;
    for byte in bytes.iter_mut().rev() {
        let (value, overflow) = (!*byte).overflowing_add(u8::from(carry));
        *byte = value;
        carry = overflow;
    }
}

/// money in the server's `lc_monetary`: `-$1,234.56` or `($1,234.56)`. One currency character and
/// the commas go, as Debezium does it.
pub(super) fn money(text: &str) -> Option<Decimal<'static>> {
    let negative = text.starts_with(['(', '-']);
    let text = text.strip_prefix('-').unwrap_or(text);
    let text = text
        .strip_prefix('(')
        .and_then(|text| text.strip_suffix(')'))
        .unwrap_or(text);
    let mut characters = text.chars();
    let text = match characters.next()? {
        digit if digit.is_ascii_digit() || digit == '.' => text,
        _ => characters.as_str(),
    };
    let sign = if negative { "-" } else { "" };
    let digits: String = text.chars().filter(|c| *c != ',').collect();
    let whole = if digits.starts_with('.') { "0" } else { "" };
    Decimal::parse(format!("{sign}{whole}{digits}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(text: &str) -> Decimal<'_> {
        Decimal::parse(text).unwrap()
    }

    #[test]
    fn unscaled_bytes_are_those_of_java() {
        let cases: [(&str, &[u8]); 9] = [
            ("0", &[0]),
            ("1.10", &[110]),
            ("-0.001", &[0xFF]),
            ("128", &[0, 128]),
            ("-128", &[0x80]),
            ("-1.00", &[0x9C]),
            ("127.9", &[4, 0xFF]),
            ("1234.56", &[1, 0xE2, 0x40]),
            (
                "123456789012345678901234567890",
                &[
                    1, 0x8E, 0xE9, 0x0F, 0xF6, 0xC3, 0x73, 0xE0, 0xEE, 0x4E, 0x3F, 0x0A, 0xD2,
                ],
            ),
        ];
        for (text, bytes) in cases {
            assert_eq!(decimal(text).unscaled_bytes(), bytes, "{text}");
        }
    }

    #[test]
    fn small_numbers_have_an_exponent() {
        for (text, java) in [
            ("1.10", "1.10"),
            ("0.000001", "0.000001"),
            ("0.0000001", "1E-7"),
            ("-0.00000012", "-1.2E-7"),
            ("0.0000000", "0E-7"),
            ("100", "100"),
        ] {
            assert_eq!(decimal(text).java_string(), java);
        }
    }

    #[test]
    fn scales_grow_with_zeros_and_shrink_half_up() {
        for (text, scale, expected) in [
            ("1.5", 3, "1.500"),
            ("1.005", 2, "1.01"),
            ("-1.004", 2, "-1.00"),
            ("-0.004", 2, "0.00"),
            ("9.99", 1, "10.0"),
            ("12", 0, "12"),
            ("12.5", 0, "13"),
        ] {
            assert_eq!(decimal(text).with_scale(scale).plain(), expected);
        }
        for (text, expected) in [("123.4500", "123.45"), ("100", "100"), ("-0.00", "0")] {
            assert_eq!(decimal(text).without_trailing_zeros().plain(), expected);
        }
    }

    #[test]
    fn money_loses_its_signs() {
        for (text, expected) in [
            ("$1,234.56", "1234.56"),
            ("-$0.05", "-0.05"),
            ("($2.00)", "-2.00"),
            ("€12", "12"),
        ] {
            assert_eq!(money(text).unwrap().plain(), expected, "{text}");
        }
        assert_eq!(money("USD 1"), None);
    }

    #[test]
    fn other_texts_are_no_decimals() {
        for text in ["", "-", "1e5", "NaN", "1.", ".5", "+1"] {
            assert_eq!(Decimal::parse(text), None, "{text:?}");
        }
    }
}

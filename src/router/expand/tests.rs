use super::*;

fn rules() -> Rules<'static> {
    Rules {
        nulls: JsonNulls::Ignore,
        empty_arrays: JsonEmptyArrays::Ignore,
        root: "payload",
        unique_keys: false,
    }
}

/// The long way, as JSON.
fn typed(text: &str, rules: &Rules<'_>) -> Option<String> {
    match expand(text, rules) {
        Expanded::Typed(expansion) => {
            let mut out = Vec::new();
            expansion.write_json(&mut out);
            Some(String::from_utf8(out).unwrap())
        }
        _ => None,
    }
}

fn schema(text: &str) -> String {
    match expand(text, &rules()) {
        Expanded::Typed(expansion) => {
            let mut out = Vec::new();
            expansion.write_schema(None, &mut out);
            String::from_utf8(out).unwrap()
        }
        other => panic!("no type: {other:?}"),
    }
}

fn untyped(text: &str) -> Option<String> {
    match expand(text, &rules()) {
        Expanded::Untyped(json) => Some(String::from_utf8(json).unwrap()),
        _ => None,
    }
}

#[test]
fn one_pass_and_the_long_way_give_the_same() {
    for (text, expected) in [
        (
            r#"{"b": 1, "a": null, "c": [], "d": {"e": [1, 2]}}"#,
            r#"{"b":1,"d":{"e":[1,2]}}"#,
        ),
        ("{}", "{}"),
        (
            "{ \"a\" : {} , \"b\" : [ {} , {} ] }",
            r#"{"a":{},"b":[{},{}]}"#,
        ),
        (
            r#"{"a": 1.10, "b": 1E2, "c": -0, "d": -0.0, "e": 9223372036854775807}"#,
            r#"{"a":1.1,"b":100.0,"c":0,"d":-0.0,"e":9223372036854775807}"#,
        ),
        (
            r#"{"a": 1e400, "b": 1e-400}"#,
            r#"{"a":"Infinity","b":0.0}"#,
        ),
        (
            r#"{"a":"\u00e9\u4e2d\ud83d\ude00\u0000\ud800x\/\u0022\u005c","b":"😀\n"}"#,
            r#"{"a":"é中\uD83D\uDE00\u0000\uD800x/\"\\","b":"\uD83D\uDE00\n"}"#,
        ),
        (
            r#"{"l": [{"a": 1, "n": null}, {"a": 2}, null], "m": [[1], [2, null]], "o": [[{"p": 1}]]}"#,
            r#"{"l":[{"a":1},{"a":2},null],"m":[[1],[2,null]],"o":[[{"p":1}]]}"#,
        ),
        (r#"{"a": 1} xyz"#, r#"{"a":1}"#),
        (r#"{"a": 1}{"b": 2}"#, r#"{"a":1}"#),
    ] {
        let fast = compact(text, &rules()).map(|json| String::from_utf8(json).unwrap());
        assert_eq!(fast.as_deref(), Some(expected), "in one pass: {text}");
        assert_eq!(
            typed(text, &rules()).as_deref(),
            Some(expected),
            "the long way: {text}"
        );
    }
}

#[test]
fn objects_in_one_array_get_the_members_of_all() {
    for (text, expected) in [
        (
            r#"{"l": [{"z": 1}, {"a": 1}]}"#,
            r#"{"l":[{"z":1,"a":null},{"z":null,"a":1}]}"#,
        ),
        (
            r#"{"l": [{"a": null, "b": 1}, {"a": 2, "b": 2}]}"#,
            r#"{"l":[{"a":null,"b":1},{"a":2,"b":2}]}"#,
        ),
        (
            r#"{"l": [{"o": {"a": 1}}, {"o": {"b": 2}}]}"#,
            r#"{"l":[{"o":{"a":1,"b":null}},{"o":{"a":null,"b":2}}]}"#,
        ),
        (
            r#"{"l": [[{"a": 1}], [{"b": 1}]]}"#,
            r#"{"l":[[{"a":1,"b":null}],[{"a":null,"b":1}]]}"#,
        ),
        (
            r#"{"l": [{"l": [1]}, {"l": []}]}"#,
            r#"{"l":[{"l":[1]},{"l":[]}]}"#,
        ),
        (r#"{"a": 1, "b": 2, "a": 3}"#, r#"{"a":3,"b":2}"#),
        (r#"{"a": 1, "\u0061": null}"#, "{}"),
    ] {
        assert_eq!(compact(text, &rules()), None, "in one pass: {text}");
        assert_eq!(typed(text, &rules()).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn inner_arrays_without_a_value_take_the_type_of_the_first() {
    for (text, expected) in [
        (
            r#"{"l": [[0, 1], [null]], "n": null}"#,
            r#"{"l":[[0,1],[null]]}"#,
        ),
        (
            r#"{"l": [[{"a": 1}], [], [null, null]]}"#,
            r#"{"l":[[{"a":1}],[],[null,null]]}"#,
        ),
        (
            r#"{"l": [[["x"]], [[null], null]]}"#,
            r#"{"l":[[["x"]],[[null],null]]}"#,
        ),
    ] {
        assert_eq!(typed(text, &rules()).as_deref(), Some(expected), "{text}");
    }
    // One array too deep: Debezium fails on it.
    let deeper = r#"{"l": [[1], [[null]]]}"#;
    assert_eq!(untyped(deeper).as_deref(), Some(r#"{"l":[[1],[[null]]]}"#));
}

#[test]
fn where_debezium_gives_up_the_payload_stays_text() {
    let deep = "[".repeat(1001);
    let long = format!("{{\"a\": {}}}", "1".repeat(1001));
    for text in [
        "",
        " {}",
        "null",
        "12",
        "\"x\"",
        "{",
        "{\"a\": 1",
        "[1, 2",
        "{\"a\": 01}",
        "{\"a\": +1}",
        "{\"a\": .5}",
        "{\"a\": NaN}",
        "{'a': 1}",
        "{\"a\": 1 /* c */}",
        "{\"a\": \"\n\"}",
        "{\"a\": \"\\x\"}",
        "{\"a\" 1}",
        "{\"a\": 1,}",
        "{\"a\": tru}",
        "{\"a\": [1, 2.5]}",
        "{\"a\": [1, 3000000000]}",
        "{\"a\": [1, \"x\"]}",
        "{\"a\": [null]}",
        "{\"a\": [[], [1]]}",
        "{\"a\": [1, {\"d\": 1}]}",
        "{\"\": 1}",
        "[1, \"a\"]",
        "[null]",
        // Giving up goes before failing.
        "{\"a\": 99999999999999999999, \"b\": [1, \"x\"]}",
        deep.as_str(),
        long.as_str(),
    ] {
        assert_eq!(compact(text, &rules()), None, "{text:?}");
        assert_eq!(expand(text, &rules()), Expanded::Text, "{text:?}");
    }
    assert_eq!(expand("[]", &rules()), Expanded::Schemaless);
    // A member without a name that is left out anyway.
    assert_eq!(
        typed("{\"\": null, \"a\": 1}", &rules()).as_deref(),
        Some("{\"a\":1}")
    );
}

#[test]
fn where_debezium_fails_the_json_stays_as_it_was_written() {
    for (text, expected) in [
        ("[1, 2, 3]", "[1,2,3]"),
        ("[{\"a\": 1}] x", "[{\"a\":1}]"),
        (
            "{\"a\": 99999999999999999999, \"n\": null, \"e\": 1E+2, \"s\": \"\\u0061 \\\" b\"}",
            "{\"a\":99999999999999999999,\"n\":null,\"e\":1E+2,\"s\":\"\\u0061 \\\" b\"}",
        ),
        (
            "{\"l\": [{\"a\": 1}, {\"a\": \"x\"}]}",
            "{\"l\":[{\"a\":1},{\"a\":\"x\"}]}",
        ),
        (
            "{\"l\": [{\"a\": 1}, {\"a\": 3000000000}]}",
            "{\"l\":[{\"a\":1},{\"a\":3000000000}]}",
        ),
        (
            "{\"l\": [{\"a\": 1}, {\"a\": 1.5}]}",
            "{\"l\":[{\"a\":1},{\"a\":1.5}]}",
        ),
        (
            "{\"l\": [{\"a\": \"x\"}, {\"a\": []}]}",
            "{\"l\":[{\"a\":\"x\"},{\"a\":[]}]}",
        ),
        ("{\"l\": [[1], [\"a\"]]}", "{\"l\":[[1],[\"a\"]]}"),
        (
            "{\"l\": [{\"a\": 1}, {\"b\": 2}, null]}",
            "{\"l\":[{\"a\":1},{\"b\":2},null]}",
        ),
    ] {
        assert_eq!(compact(text, &rules()), None, "{text}");
        assert_eq!(untyped(text).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn nulls_and_empty_arrays_are_kept_when_asked_for() {
    let keep = Rules {
        nulls: JsonNulls::Keep,
        empty_arrays: JsonEmptyArrays::Keep,
        ..rules()
    };
    for (text, expected) in [
        (
            r#"{"a": null, "b": [], "c": 1}"#,
            r#"{"a":null,"b":[],"c":1}"#,
        ),
        (
            r#"{"b": [null, null], "c": [[null]]}"#,
            r#"{"b":[null,null],"c":[[null]]}"#,
        ),
        (
            r#"{"l": [{"a": null}, {"a": 1}, {"a": null, "b": 2}]}"#,
            r#"{"l":[{"a":null,"b":null},{"a":1,"b":null},{"a":null,"b":2}]}"#,
        ),
    ] {
        let fast = compact(text, &keep).map(|json| String::from_utf8(json).unwrap());
        assert!(fast.is_none_or(|json| json == expected), "{text}");
        assert_eq!(typed(text, &keep).as_deref(), Some(expected), "{text}");
    }
}

#[test]
fn schemas_are_those_that_debezium_infers() {
    let text =
        r#"{"a":1,"b":[1,null],"c":{"d":"x","e":[{"f":1},{"f":null,"g":2.5}]},"o":[[{"p":1}]]}"#;
    assert_eq!(
        schema(text),
        concat!(
            r#"{"type":"struct","fields":[{"type":"int32","optional":true,"field":"a"},"#,
            r#"{"type":"array","items":{"type":"int32","optional":true},"optional":true,"field":"b"},"#,
            r#"{"type":"struct","fields":[{"type":"string","optional":true,"field":"d"},"#,
            r#"{"type":"array","items":{"type":"struct","fields":["#,
            r#"{"type":"int32","optional":true,"field":"f"},{"type":"double","optional":true,"field":"g"}],"#,
            r#""optional":false,"name":"payload.c.e"},"optional":true,"field":"e"}],"#,
            r#""optional":true,"name":"payload.c","field":"c"},"#,
            r#"{"type":"array","items":{"type":"array","items":{"type":"struct","fields":["#,
            r#"{"type":"int32","optional":true,"field":"p"}],"optional":true},"optional":true},"#,
            r#""optional":true,"field":"o"}],"optional":true,"name":"payload"}"#,
        )
    );
}

#[test]
fn a_struct_is_printed_as_java_does() {
    let text = r#"{"a": 1, "b": "x\n😀\ud800", "c": [1, 2], "d": {"e": null, "f": 1.50}}"#;
    let Expanded::Typed(expansion) = expand(text, &rules()) else {
        panic!("no type")
    };
    let mut out = String::new();
    expansion.write_java(&mut out);
    assert_eq!(out, "Struct{a=1,b=x\n😀?,c=[1, 2],d=Struct{f=1.5}}");
}

/// A small generator of JSON, the same in every run.
struct Random(u64);

impl Random {
    fn next(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn pick(&mut self, from: &[&str]) -> String {
        let bound = u64::try_from(from.len()).unwrap();
        from[usize::try_from(self.next(bound)).unwrap()].to_owned()
    }

    fn value(&mut self, depth: u32) -> String {
        match self.next(if depth == 0 { 7 } else { 11 }) {
            0 => "null".to_owned(),
            1 => self.pick(&[
                "1",
                "-7",
                "2147483647",
                "3000000000",
                "1.5",
                "1e3",
                "12345678901234567890",
            ]),
            2 => self.pick(&["true", "false"]),
            3..=6 => self.pick(&["\"\"", "\"x\"", "\"\\u00e9\\/\"", "\"😀 \\n\"", "\"q\\\"\""]),
            7 | 8 => {
                let alike = self.value(depth - 1);
                let length = self.next(4);
                let elements: Vec<String> = (0..length)
                    .map(|_| {
                        if self.next(4) == 0 {
                            self.value(depth - 1)
                        } else {
                            alike.clone()
                        }
                    })
                    .collect();
                format!("[ {} ]", elements.join(" ,"))
            }
            _ => self.object(depth - 1),
        }
    }

    fn object(&mut self, depth: u32) -> String {
        let length = self.next(4);
        let members: Vec<String> = (0..length)
            .map(|_| {
                let name = self.pick(&["a", "b", "c", "d", "é", "", "\\u0061"]);
                format!("\"{name}\" : {}", self.value(depth))
            })
            .collect();
        format!("{{{}}}", members.join(", "))
    }
}

#[test]
fn whatever_one_pass_writes_the_long_way_writes_too() {
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let mut written = 0;
    for _ in 0..20_000 {
        let text = random.object(4);
        let Some(fast) = compact(&text, &rules()) else {
            continue;
        };
        written += 1;
        let fast = String::from_utf8(fast).unwrap();
        assert_eq!(typed(&text, &rules()), Some(fast), "{text}");
    }
    assert!(written > 5_000, "only {written} went in one pass");
}

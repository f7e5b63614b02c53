//! The reader against RFC 8259 by hand, and against serde_json by generated text.

use super::*;
use proptest::prelude::*;

fn only(text: &str) -> Result<Value, Fault> {
    object(text.as_bytes()).map(|members| members["a"].clone())
}

#[test]
fn values_are_read() {
    let text = |text: &str| Ok(Value::Text(text.to_owned()));
    assert_eq!(only(r#"{"a":"b"}"#), text("b"));
    assert_eq!(only(" {\t\"a\" :\r\n \"\" } "), text(""));
    assert_eq!(only(r#"{"\u0061":"\u0065\u00E9é"}"#), text("eéé"));
    assert_eq!(
        only(r#"{"a":"\"\\\/\b\f\n\r\t"}"#),
        text("\"\\/\u{8}\u{c}\n\r\t")
    );
    assert_eq!(only(r#"{"a":"\ud83D\uDe00"}"#), text("😀"));
    assert_eq!(only(r#"{"a":true}"#), Ok(Value::Bool(true)));
    assert_eq!(only(r#"{"a":false,"b":1}"#), Ok(Value::Bool(false)));
    for other in [
        "null",
        "0",
        "-0",
        "10",
        "-1.50",
        "1e9",
        "0E+0",
        "1.0e-7",
        "[]",
        "{}",
        "[ ]",
        "{ }",
        "[1, [true], {}]",
        r#"{"a":1,"b":{"a":2}}"#,
        "9007199254740993",
        "1e999",
    ] {
        assert_eq!(
            only(&format!(r#"{{"a":{other}}}"#)),
            Ok(Value::Other),
            "{other}"
        );
    }
    assert_eq!(object(b"{}"), Ok(BTreeMap::new()));
}

#[test]
fn fault_050_a_name_twice_is_refused() {
    for text in [
        r#"{"a":1,"a":1}"#,
        r#"{"a":1,"b":2,"\u0061":3}"#,
        r#"{"a":{"b":1,"b":2}}"#,
        r#"{"a":[{"b":1,"b":2}]}"#,
    ] {
        assert_eq!(object(text.as_bytes()), Err(Fault::DuplicateName), "{text}");
    }
}

#[test]
fn fault_050_what_is_not_one_json_object_is_refused() {
    for text in [
        "",
        " ",
        "[]",
        "null",
        "\"a\"",
        "1",
        "{",
        "}",
        "{}{}",
        "{} x",
        "{},",
        "\u{feff}{}",
        "{a:1}",
        "{'a':1}",
        r#"{"a"}"#,
        r#"{"a":}"#,
        r#"{"a" 1}"#,
        r#"{"a":1,}"#,
        r#"{,"a":1}"#,
        r#"{"a":1 "b":2}"#,
        r#"{"a":[1,]}"#,
        r#"{"a":[1}"#,
        r#"{"a":[,1]}"#,
        r#"{"a":01}"#,
        r#"{"a":.5}"#,
        r#"{"a":1.}"#,
        r#"{"a":1e}"#,
        r#"{"a":+1}"#,
        r#"{"a":-}"#,
        r#"{"a":NaN}"#,
        r#"{"a":tru}"#,
        r#"{"a":True}"#,
        r#"{"a":nul}"#,
        "{\"a\":\"\n\"}",
        r#"{"a":"\x"}"#,
        r#"{"a":"\u00e"}"#,
        r#"{"a":"\u+0e9"}"#,
        r#"{"a":"\ud800"}"#,
        r#"{"a":"\ud800x"}"#,
        r#"{"a":"\udc00"}"#,
        r#"{"a":"\ud800\u0061"}"#,
        r#"{"a":"\ud800\ud800"}"#,
        r#"{"a":"b}"#,
        r#"{"a":1}/**/"#,
        r#"{"a":é}"#,
        "{\u{a0}}",
    ] {
        assert_eq!(object(text.as_bytes()), Err(Fault::Malformed), "{text}");
    }
    assert_eq!(object(b"{\"a\":\"\xff\"}"), Err(Fault::Malformed));
}

#[test]
fn fault_094_nesting_is_bounded() {
    let nested = |levels: usize| {
        let text = format!("{{\"a\":{}{}}}", "[".repeat(levels), "]".repeat(levels));
        object(text.as_bytes())
    };
    assert!(nested(usize::from(DEPTH_MAX) - 1).is_ok());
    assert_eq!(nested(usize::from(DEPTH_MAX)), Err(Fault::Malformed));
    let objects = "{\"a\":".repeat(100_000);
    assert_eq!(object(objects.as_bytes()), Err(Fault::Malformed));
}

/// A value of serde_json as this reader keeps it.
fn kept(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::String(text) => Value::Text(text.clone()),
        serde_json::Value::Bool(bool) => Value::Bool(*bool),
        _ => Value::Other,
    }
}

fn members(value: &serde_json::Value) -> Option<BTreeMap<String, Value>> {
    let pairs = value.as_object()?.iter();
    Some(
        pairs
            .map(|(name, value)| (name.clone(), kept(value)))
            .collect(),
    )
}

fn json() -> impl Strategy<Value = serde_json::Value> {
    let text = prop_oneof![any::<String>(), "[a-c]{0,2}"];
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        (-1e9..1e9_f64).prop_map(Into::into),
        text.clone().prop_map(Into::into),
    ];
    let value = leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            proptest::collection::btree_map("[a-c]{0,2}", inner, 0..4)
                .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into()),
        ]
    });
    proptest::collection::btree_map(text, value, 0..5)
        .prop_map(|map| map.into_iter().collect::<serde_json::Map<_, _>>().into())
}

proptest! {
    #[test]
    fn what_serde_json_writes_is_read_the_same(value in json(), pretty: bool) {
        let text = if pretty {
            serde_json::to_vec_pretty(&value)
        } else {
            serde_json::to_vec(&value)
        };
        prop_assert_eq!(object(&text.unwrap()).ok(), members(&value));
    }

    /// One changed byte: what this reader takes, serde_json takes too, and as the same.
    #[test]
    fn nothing_is_read_that_serde_json_refuses(value in json(), at: prop::sample::Index, byte: u8) {
        let mut text = serde_json::to_vec(&value).unwrap();
        let at = at.index(text.len());
        text[at] = byte;
        if let Ok(read) = object(&text) {
            match serde_json::from_slice::<serde_json::Value>(&text) {
                Ok(theirs) => prop_assert_eq!(Some(read), members(&theirs)),
                // JSON has no largest number; serde_json has.
                Err(error) => prop_assert!(error.to_string().starts_with("number out of range")),
            }
        }
    }

    #[test]
    fn no_text_panics(text in "[{}\\[\\]:,\"\\\\ua0-9.eE+ \\-truefalsn\u{e9}]{0,40}") {
        let _ = object(text.as_bytes());
    }
}

//! A strict reader of one JSON object (RFC 8259), no more than client data needs.
//!
//! Two readers that take different values from the same signed bytes are a hole, and a reader
//! that changes with a library's version splits replicas. So this one is small and ours: names
//! are unique in every object, nothing stands before or behind the object, strings are Unicode,
//! and nesting is bounded. Numbers are checked and never read (FAULTS 50).

use std::collections::{BTreeMap, BTreeSet};

/// Levels of nesting, the object itself included.
const DEPTH_MAX: u8 = 16;

/// A member's value, as far as it matters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// A string, escapes resolved.
    Text(String),
    /// `true` or `false`.
    Bool(bool),
    /// `null`, a number, an array or an object; well-formed, and not kept.
    Other,
}

/// Why bytes are not one strict JSON object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// Not JSON, not an object, or nested too deeply.
    Malformed,
    /// An object names a member twice.
    DuplicateName,
}

/// The members of the object that `bytes` are.
pub(super) fn object(bytes: &[u8]) -> Result<BTreeMap<String, Value>, Fault> {
    let text = std::str::from_utf8(bytes).map_err(|_| Fault::Malformed)?;
    let mut reader = Reader { text, at: 0 };
    reader.skip_space();
    let mut members = BTreeMap::new();
    reader.members(1, |name, value| members.insert(name, value).is_none())?;
    reader.skip_space();
    if reader.at == text.len() {
        Ok(members)
    } else {
        Err(Fault::Malformed)
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn next(&mut self) -> Result<u8, Fault> {
        let byte = self.peek().ok_or(Fault::Malformed)?;
        self.at += 1;
        Ok(byte)
    }

    fn expect(&mut self, byte: u8) -> Result<(), Fault> {
        if self.next()? == byte {
            Ok(())
        } else {
            Err(Fault::Malformed)
        }
    }

    /// Advances over `byte` if it comes next.
    fn take(&mut self, byte: u8) -> bool {
        let there = self.peek() == Some(byte);
        self.at += usize::from(there);
        there
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: u8) -> Result<Value, Fault> {
        match self.peek().ok_or(Fault::Malformed)? {
            b'"' => self.string().map(Value::Text),
            b't' => self.word("true", Value::Bool(true)),
            b'f' => self.word("false", Value::Bool(false)),
            b'n' => self.word("null", Value::Other),
            b'[' => self.array(depth + 1).map(|()| Value::Other),
            b'{' => {
                let mut names = BTreeSet::new();
                self.members(depth + 1, |name, _| names.insert(name))?;
                Ok(Value::Other)
            }
            _ => self.number().map(|()| Value::Other),
        }
    }

    fn word(&mut self, word: &str, value: Value) -> Result<Value, Fault> {
        if !self.text[self.at..].starts_with(word) {
            return Err(Fault::Malformed);
        }
        self.at += word.len();
        Ok(value)
    }

    /// Reads an object; `keep` says whether a name is new.
    fn members(
        &mut self,
        depth: u8,
        mut keep: impl FnMut(String, Value) -> bool,
    ) -> Result<(), Fault> {
        self.open(b'{', depth)?;
        if self.take(b'}') {
            return Ok(());
        }
        loop {
            self.skip_space();
            let name = self.string()?;
            self.skip_space();
            self.expect(b':')?;
            self.skip_space();
            let value = self.value(depth)?;
            if !keep(name, value) {
                return Err(Fault::DuplicateName);
            }
            if self.closed_by(b'}')? {
                return Ok(());
            }
        }
    }

    fn array(&mut self, depth: u8) -> Result<(), Fault> {
        self.open(b'[', depth)?;
        if self.take(b']') {
            return Ok(());
        }
        loop {
            self.skip_space();
            self.value(depth)?;
            if self.closed_by(b']')? {
                return Ok(());
            }
        }
    }

    fn open(&mut self, bracket: u8, depth: u8) -> Result<(), Fault> {
        if depth > DEPTH_MAX {
            return Err(Fault::Malformed);
        }
        self.expect(bracket)?;
        self.skip_space();
        Ok(())
    }

    /// After an element: `false` at a comma, `true` at the closing bracket.
    fn closed_by(&mut self, bracket: u8) -> Result<bool, Fault> {
        self.skip_space();
        match self.next()? {
            b',' => Ok(false),
            byte if byte == bracket => Ok(true),
            _ => Err(Fault::Malformed),
        }
    }

    fn string(&mut self) -> Result<String, Fault> {
        self.expect(b'"')?;
        let mut read = String::new();
        loop {
            let start = self.at;
            // Quotes, backslashes and control characters are never inside a UTF-8 sequence.
            while !matches!(self.peek(), None | Some(b'"' | b'\\' | 0..0x20)) {
                self.at += 1;
            }
            read.push_str(&self.text[start..self.at]);
            match self.next()? {
                b'"' => return Ok(read),
                b'\\' => read.push(self.escape()?),
                _ => return Err(Fault::Malformed),
            }
        }
    }

    fn escape(&mut self) -> Result<char, Fault> {
        Ok(match self.next()? {
            b'"' => '"',
            b'\\' => '\\',
            b'/' => '/',
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            _ => return Err(Fault::Malformed),
        })
    }

    /// After `\u`: one character, which may be spelled as a pair of surrogates. A lone one is
    /// no character (FAULTS 50).
    fn unicode(&mut self) -> Result<char, Fault> {
        let first = self.hex4()?;
        let code = if (0xd800..0xdc00).contains(&first) {
            self.expect(b'\\')?;
            self.expect(b'u')?;
            let second = self.hex4()?;
            if !(0xdc00..0xe000).contains(&second) {
                return Err(Fault::Malformed);
            }
            0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)
        } else {
            first
        };
        char::from_u32(code).ok_or(Fault::Malformed)
    }

    fn hex4(&mut self) -> Result<u32, Fault> {
        let mut code = 0;
        for _ in 0..4 {
            let digit = char::from(self.next()?).to_digit(16);
            code = code << 4 | digit.ok_or(Fault::Malformed)?;
        }
        Ok(code)
    }

    fn number(&mut self) -> Result<(), Fault> {
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _sign = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        Ok(())
    }

    /// One digit or more.
    fn digits(&mut self) -> Result<(), Fault> {
        if !self.next()?.is_ascii_digit() {
            return Err(Fault::Malformed);
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;

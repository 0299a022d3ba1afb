//! What commands print. A terminal that is gone, a closed pipe or a full disk must not end the program: the
//! standard macros panic there.

use std::io::{self, ErrorKind, Write};
use std::sync::Arc;

use super::patient::Patient;
use super::{Problem, escaped};

/// One line of a command's result. A closed pipe ends the reader's interest, not the work.
pub fn say(line: &str) {
    drop(writeln!(io::stdout(), "{}", escaped(line)));
}

/// One line beside the result.
pub fn remark(line: &str) {
    let mut out = Patient::new(io::stderr(), Arc::default(), |_| String::new());
    drop(out.write_all(format!("{}\n", escaped(line)).as_bytes()));
}

/// The whole result of a command, as it is. What asked for it has to hear that it was cut off.
pub fn answer(text: &str) -> Result<(), Problem> {
    put(&mut io::stdout(), text)
}

fn put(out: &mut impl Write, text: &str) -> Result<(), Problem> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Problem {
            hint: Some("Part of it may be missing: make room, and run it again.".to_owned()),
            ..Problem::new(format!(
                "the result cannot be written to standard output: {error}"
            ))
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Refusing(ErrorKind);

    impl Write for Refusing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_full_disk_is_told_and_a_closed_pipe_is_not() {
        let full = put(&mut Refusing(ErrorKind::StorageFull), "text");
        assert_eq!(
            full.unwrap_err().message,
            "the result cannot be written to standard output: no storage space"
        );
        assert!(put(&mut Refusing(ErrorKind::BrokenPipe), "text").is_ok());
        let mut written = Vec::new();
        assert!(put(&mut written, "text").is_ok());
        assert_eq!(written, b"text");
    }
}

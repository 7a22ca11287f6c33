//! Which class an answer of the outside world belongs to, where it speaks a language that everybody knows.

use crate::failure::ErrorClass;

/// A process's exit code, as `sysexits.h` means it. What it does not know may help when tried again.
pub fn exit_code(code: i32) -> ErrorClass {
    match code {
        // usage, bad data, no input, software, protocol, permission, configuration
        64 | 65 | 66 | 70 | 76 | 77 | 78 => ErrorClass::Final,
        // 75 temporary failure, 69 unavailable, 71 operating system, 74 input/output; and all others
        _ => ErrorClass::Retryable,
    }
}

/// An HTTP status that is no success. `told_when` says whether the answer carried a `Retry-After`.
pub fn http_status(status: u16, told_when: bool) -> ErrorClass {
    match status {
        429 => ErrorClass::RateLimited,
        503 if told_when => ErrorClass::RateLimited,
        408 | 425 => ErrorClass::Retryable,
        400..=499 => ErrorClass::Final,
        _ => ErrorClass::Retryable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_those_of_sysexits() {
        for code in [64, 65, 66, 70, 76, 77, 78] {
            assert_eq!(exit_code(code), ErrorClass::Final, "{code}");
        }
        for code in [75, 69, 71, 74, 1, 2, 63, 67, 68, 72, 73, 79, 127, 255, -1] {
            assert_eq!(exit_code(code), ErrorClass::Retryable, "{code}");
        }
    }

    #[test]
    fn statuses_are_classified_by_who_can_do_something_about_them() {
        use ErrorClass::{Final, RateLimited, Retryable};
        let table = [
            (429, false, RateLimited),
            (429, true, RateLimited),
            (503, true, RateLimited),
            (503, false, Retryable),
            (408, false, Retryable),
            (425, true, Retryable),
            (500, true, Retryable),
            (502, false, Retryable),
            (504, false, Retryable),
            (400, false, Final),
            (401, false, Final),
            (404, true, Final),
            (410, false, Final),
            (302, false, Retryable),
        ];
        for (status, told_when, class) in table {
            assert_eq!(http_status(status, told_when), class, "{status} {told_when}");
        }
    }
}

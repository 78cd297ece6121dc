// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
//! strftime in the C locale, on seconds of the local wall clock.

const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

struct Time {
    year: i64,
    month: usize, // from 1
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    weekday: i64,  // Sunday is 0
    year_day: i64, // from 0
}

fn leap(year: i64) -> bool {
    year % 4 == 0 && (year % 100 != 0 || year % 400 == 0)
}

/// The proleptic Gregorian date of a day count since 1970-01-01, by 400-year eras that start in
/// March.
fn date(days: i64) -> (i64, usize, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153; // from March
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let calendar_month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + i64::from(calendar_month <= 2);
    (year, calendar_month as usize, day)
}

fn split(now: i64) -> Time {
    // Years 1 to 9999, as Python's datetime.
    let now = now.clamp(-62_135_596_800, 253_402_300_799);
    let days = now.div_euclid(86_400);
    let seconds = now.rem_euclid(86_400);
    let (year, month, day) = date(days);
    let lengths = [31, if leap(year) { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let before: i64 = lengths[..month - 1].iter().sum();
    Time {
        year,
        month,
        day,
        hour: seconds / 3600,
        minute: seconds / 60 % 60,
        second: seconds % 60,
        weekday: (days + 4).rem_euclid(7),
        year_day: before + day - 1,
    }
}

/// Year and week by ISO 8601.
fn iso(t: &Time) -> (i64, i64) {
    let monday_based = (t.weekday + 6) % 7;
    let week = (t.year_day - monday_based + 10) / 7;
    let weeks_of = |year: i64| {
        let p = |y: i64| (y + y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400)) % 7;
        if p(year) == 4 || p(year - 1) == 3 {
            53
        } else {
            52
        }
    };
    if week < 1 {
        (t.year - 1, weeks_of(t.year - 1))
    } else if week > weeks_of(t.year) {
        (t.year + 1, 1)
    } else {
        (t.year, week)
    }
}

/// What one letter stands for; nothing for a letter that has no meaning.
fn field(t: &Time, letter: char) -> Option<String> {
    let hour12 = if t.hour % 12 == 0 { 12 } else { t.hour % 12 };
    let day_name = DAYS[t.weekday as usize];
    let month_name = MONTHS[t.month - 1];
    Some(match letter {
        'a' => day_name[..3].to_string(),
        'A' => day_name.to_string(),
        'b' | 'h' => month_name[..3].to_string(),
        'B' => month_name.to_string(),
        'c' => format!(
            "{} {} {:2} {:02}:{:02}:{:02} {}",
            &day_name[..3],
            &month_name[..3],
            t.day,
            t.hour,
            t.minute,
            t.second,
            t.year
        ),
        'C' => format!("{:02}", t.year / 100),
        'd' => format!("{:02}", t.day),
        'D' | 'x' => format!("{:02}/{:02}/{:02}", t.month, t.day, t.year % 100),
        'e' => format!("{:2}", t.day),
        'f' => "000000".to_string(),
        'F' => format!("{}-{:02}-{:02}", t.year, t.month, t.day),
        'g' => format!("{:02}", iso(t).0 % 100),
        'G' => iso(t).0.to_string(),
        'H' => format!("{:02}", t.hour),
        'I' => format!("{hour12:02}"),
        'j' => format!("{:03}", t.year_day + 1),
        'k' => format!("{:2}", t.hour),
        'l' => format!("{hour12:2}"),
        'm' => format!("{:02}", t.month),
        'M' => format!("{:02}", t.minute),
        'n' => "\n".to_string(),
        'p' => if t.hour < 12 { "AM" } else { "PM" }.to_string(),
        'P' => if t.hour < 12 { "am" } else { "pm" }.to_string(),
        'r' => format!(
            "{hour12:02}:{:02}:{:02} {}",
            t.minute,
            t.second,
            if t.hour < 12 { "AM" } else { "PM" }
        ),
        'R' => format!("{:02}:{:02}", t.hour, t.minute),
        'S' => format!("{:02}", t.second),
        't' => "\t".to_string(),
        'T' | 'X' => format!("{:02}:{:02}:{:02}", t.hour, t.minute, t.second),
        'u' => if t.weekday == 0 { 7 } else { t.weekday }.to_string(),
        'U' => format!("{:02}", (t.year_day + 7 - t.weekday) / 7),
        'V' => format!("{:02}", iso(t).1),
        'w' => t.weekday.to_string(),
        'W' => format!("{:02}", (t.year_day + 7 - (t.weekday + 6) % 7) / 7),
        'y' => format!("{:02}", t.year % 100),
        'Y' => t.year.to_string(),
        'z' | 'Z' => String::new(),
        '%' => "%".to_string(),
        _ => return None,
    })
}

/// `%-d` and its like drop the padding, as the C library of Linux does.
pub fn format(now: i64, pattern: &str) -> String {
    let time = split(now);
    let mut out = String::new();
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let flag = chars.next_if(|f| "-_0^#".contains(*f));
        let Some(letter) = chars.next() else {
            out.push('%');
            out.extend(flag);
            break;
        };
        match field(&time, letter) {
            None => {
                out.push('%');
                out.extend(flag);
                out.push(letter);
            }
            Some(text) => out.push_str(&match flag {
                Some('-') => {
                    let short = text.trim_start_matches(['0', ' ']);
                    let numeric = text.chars().all(|c| c.is_ascii_digit() || c == ' ');
                    if !numeric {
                        text
                    } else if short.is_empty() {
                        "0".to_string()
                    } else {
                        short.to_string()
                    }
                }
                Some('_') if text.len() > 1 => {
                    let short = text.trim_start_matches('0');
                    format!("{short:>width$}", width = text.len())
                }
                Some('0') => text.replace(' ', "0"),
                Some('^') => text.to_uppercase(),
                _ => text,
            }),
        }
    }
    out
}

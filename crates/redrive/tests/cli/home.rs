//! A folder of its own for each test, the program in it with a clean environment, and the databases it may be given.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use redrive_fixture::TestDatabase;

/// The password in every URL of these tests. Whatever the program prints, this is not in it.
pub const SECRET: &str = "hunter2";

pub struct Home {
    directory: Directory,
    environment: Vec<(String, String)>,
}

enum Directory {
    Own(tempfile::TempDir),
    Given(PathBuf),
}

impl Home {
    pub fn new() -> Self {
        Self { directory: Directory::Own(tempfile::tempdir().unwrap()), environment: vec![] }
    }

    /// A folder that is not ours to remove.
    pub fn at(directory: &Path) -> Self {
        Self { directory: Directory::Given(directory.to_owned()), environment: vec![] }
    }

    /// A folder with this `redrive.toml`.
    pub fn with_config(text: &str) -> Self {
        let home = Self::new();
        home.write("redrive.toml", text);
        home
    }

    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    pub fn path(&self) -> &Path {
        match &self.directory {
            Directory::Own(directory) => directory.path(),
            Directory::Given(directory) => directory,
        }
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.file(name)).unwrap()
    }

    pub fn write(&self, name: &str, text: &str) {
        fs::write(self.file(name), text).unwrap();
    }

    /// What is in the folder, by name. The two files that SQLite may keep beside a database belong to it.
    pub fn files(&self) -> Vec<String> {
        let names = fs::read_dir(self.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let names: BTreeSet<String> = names.collect();
        let beside = |name: &str| name.strip_suffix("-wal").or(name.strip_suffix("-shm")).map(str::to_owned);
        names.iter().filter(|name| beside(name).is_none_or(|of| !names.contains(&of))).cloned().collect()
    }

    pub fn run(&self, arguments: &[&str]) -> Told {
        Told::of(assert_cmd::Command::from_std(self.command(arguments)).output().unwrap())
    }

    /// The program as a child that the test looks after.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_redrive"));
        command.env_clear().env("NO_COLOR", "1").current_dir(self.path()).args(arguments);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Runs SQL on a SQLite file of this folder.
    pub fn sqlite(&self, file: &str, sql: &str) {
        rusqlite::Connection::open(self.file(file)).unwrap().execute_batch(sql).unwrap();
    }
}

/// What the program said, and what it ended with. Shown as snapshots have it: the two streams apart.
#[derive(Debug)]
pub struct Told {
    pub code: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Told {
    pub fn of(output: Output) -> Self {
        let told = Self {
            code: output.status.code().unwrap(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        };
        assert!(!told.to_string().contains(SECRET), "a password is shown:\n{told}");
        told
    }

    /// Asserts that it did what it was asked.
    pub fn done(self) -> Self {
        assert_eq!(self.code, 0, "{self}");
        self
    }

    /// Asserts that it ended with `code`, one line on stderr and nothing else; gives the line.
    pub fn complaint(self, code: i32) -> String {
        assert_eq!(self.code, code, "{self}");
        assert_eq!(self.stdout, "", "{self}");
        let line = self.stderr.strip_suffix('\n').unwrap_or_default();
        assert!(line.starts_with("error: ") && !line.contains('\n'), "{self}");
        line.to_owned()
    }

    pub fn json(&self) -> serde_json::Value {
        assert_eq!(self.stdout.matches('\n').count(), 1, "{self}");
        serde_json::from_str(&self.stdout).unwrap()
    }
}

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = |text: &str| text.lines().map(|line| line.trim_end().to_owned() + "\n").collect::<String>();
        write!(f, "{}--- stderr\n{}--- exit {}", lines(&self.stdout), lines(&self.stderr), self.code)
    }
}

/// The program in a folder of its own, told to use an empty database of either kind.
pub struct TestProgram {
    pub home: Home,
    /// As the program is given it.
    pub url: String,
    pub kind: &'static str,
    pub database: TestDatabase,
}

impl From<TestDatabase> for TestProgram {
    fn from(database: TestDatabase) -> Self {
        let home = Home::at(database.path());
        match &database.server {
            None => Self { home, url: "sqlite:redrive.db".to_owned(), kind: "sqlite", database },
            Some(server) => {
                let url = server.url.clone();
                Self { home: home.env("REDRIVE_STORE__URL", &url), url, kind: "postgres", database }
            }
        }
    }
}

impl TestProgram {
    pub fn postgres() -> Self {
        TestDatabase::postgres().into()
    }

    /// Runs SQL on the database itself.
    pub fn execute(&self, sql: &str) {
        self.database.execute(sql);
    }

    /// Everything that outlives a command: files, and on PostgreSQL also schemas and tables.
    pub fn inventory(&self) -> Vec<String> {
        let mut found = self.home.files();
        if let Some(database) = &self.database.server {
            let schemas =
                "SELECT nspname FROM pg_namespace WHERE nspname !~ '^pg_' AND nspname <> 'information_schema'";
            let tables =
                "SELECT schemaname || '.' || tablename FROM pg_tables WHERE schemaname !~ '^(pg_|information_)'";
            found
                .extend(database.query(&format!("{schemas} UNION ALL {tables} ORDER BY 1")).lines().map(str::to_owned));
        }
        found
    }
}

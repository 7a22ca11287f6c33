use super::*;
use crate::failure::{Blame, Scope};

/// Work of a customer.
#[derive(Debug)]
struct Customer(&'static str);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Name {
    Customer,
    Day,
}

impl Placeholders for Customer {
    type Name = Name;
    const NAMES: &'static [(&'static str, Name)] = &[("customer_id", Name::Customer), ("day", Name::Day)];

    fn value(&self, name: Name) -> String {
        match name {
            Name::Customer => self.0.to_owned(),
            Name::Day => "2026-01-31".to_owned(),
        }
    }

    fn is_lasting(name: Name) -> bool {
        name == Name::Customer
    }
}

fn secret(named: SecretRef, variables: &'static [(&'static str, &'static str)]) -> Secret<Customer> {
    let find = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    named.resolve(&Surroundings::with(Variables::new(find))).unwrap()
}

fn in_file(path: impl Into<PathBuf>) -> Secret<Customer> {
    secret(SecretRef::File(path.into()), &[])
}

fn command(words: &[&str]) -> SecretCommand {
    SecretCommand {
        command: words.iter().map(|&word| word.to_owned()).collect(),
        ttl: SecretRef::TTL,
        timeout: SecretRef::TIMEOUT,
        directory: None,
    }
}

fn printed_by(words: &[&str]) -> Secret<Customer> {
    secret(SecretRef::Command(command(words)), &[("PATH", "/bin:/usr/bin")])
}

#[test]
fn a_secret_is_not_shown() {
    let secret = secret(SecretRef::Env("A".to_owned()), &[("A", "abcd")]);
    assert_eq!(format!("{secret:?}"), "Secret(…)");
}

#[tokio::test]
async fn a_file_that_was_changed_is_still_known() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let (secret, job) = (in_file(file.path()), Customer("a"));
    std::fs::write(file.path(), "first-one\n").unwrap();
    assert_eq!(secret.read(&job).await.unwrap(), "first-one");
    std::fs::write(file.path(), "second-one\n").unwrap();
    assert_eq!(secret.known(&job), ["first-one", "second-one"]);
}

#[tokio::test]
async fn what_is_missing_is_told_before_it_is_needed_and_holds_the_source() {
    let secret = secret(SecretRef::Env("TOKEN".to_owned()), &[("TOKEN", "")]);
    assert!(secret.missing().unwrap().contains("the environment has no TOKEN"), "an empty one is none");
    let failure = secret.read(&Customer("a")).await.unwrap_err();
    assert_eq!((failure.blame, failure.scope), (Blame::Setup, Scope::Source));
    assert!(in_file("/no/such/file").missing().unwrap().contains("/no/such/file"));
    assert!(printed_by(&["no-such-program"]).missing().unwrap().contains("no-such-program"));
    assert_eq!(printed_by(&["sh"]).missing(), None);
}

#[tokio::test]
async fn each_customer_has_a_secret_and_a_missing_one_holds_that_customer() {
    let variables = &[("TOKEN_1_1", "first"), ("TOKEN_b", "second")];
    let secret = secret(SecretRef::Env("TOKEN_{customer_id}".to_owned()), variables);
    assert_eq!(secret.missing(), None, "it depends on the work");
    assert_eq!(secret.read(&Customer("1-1")).await.unwrap(), "first");
    assert_eq!(secret.read(&Customer("b")).await.unwrap(), "second");
    assert_eq!(secret.known(&Customer("b")), ["second"], "another customer's is not among them");
    let failure = secret.read(&Customer("c")).await.unwrap_err();
    assert_eq!((failure.blame, failure.scope), (Blame::Setup, Scope::Customer));
}

#[test]
fn a_customers_secret_is_looked_for_before_there_is_work_and_a_days_is_not() {
    let secret = |name: &str| secret(SecretRef::Env(name.to_owned()), &[("TOKEN_b", "there")]);
    assert_eq!(secret("TOKEN_{customer_id}").missing_for(&Customer("b")), None);
    let missing = secret("TOKEN_{customer_id}").missing_for(&Customer("c")).unwrap();
    assert!(missing.contains("the environment has no TOKEN_c"), "{missing}");
    assert_eq!(secret("TOKEN_{customer_id}_{day}").missing_for(&Customer("c")), None, "it depends on the work");
    assert_eq!(secret("TOKEN").missing_for(&Customer("c")), None, "it is not the customer's");
}

#[tokio::test]
async fn two_customers_are_never_given_one_variable() {
    let secret = secret(SecretRef::Env("TOKEN_{customer_id}".to_owned()), &[("TOKEN_a_b", "of one of them")]);
    assert_eq!(secret.read(&Customer("a-b")).await.unwrap(), "of one of them");
    let failure = secret.read(&Customer("a.b")).await.unwrap_err();
    assert!(failure.message.contains("TOKEN_a-b and TOKEN_a.b are both the variable TOKEN_a_b"), "{failure}");
    assert_eq!(secret.read(&Customer("a-b")).await.unwrap(), "of one of them");
}

#[tokio::test]
async fn no_customer_reads_outside_the_folder() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("outside"), "not yours").unwrap();
    std::fs::create_dir(folder.path().join("in")).unwrap();
    let secret = in_file(folder.path().join("in/{customer_id}"));
    for hostile in ["../outside", "..", ".", "/etc/passwd", "a/../../outside", ".hidden", "a\0b", "%2e%2e/outside"] {
        assert!(secret.read(&Customer(hostile)).await.is_err(), "{hostile}");
        let names: Vec<_> = secret.name(&Customer(hostile)).rsplit('/').map(str::to_owned).collect();
        assert_eq!(names[1], "in", "{hostile} stays one name: {names:?}");
    }
    for (customer, file) in [("111-111-1111", "111-111-1111"), ("a.b_C", "a.b_C"), ("a/b", "a%2Fb"), ("..", "%2E.")] {
        std::fs::write(folder.path().join("in").join(file), file).unwrap();
        assert_eq!(secret.read(&Customer(customer)).await.unwrap(), file);
    }
}

#[tokio::test]
async fn a_program_is_asked_once_in_a_while() {
    let folder = tempfile::tempdir().unwrap();
    let calls = folder.path().join("calls");
    let script = format!("echo $1 >> {}; echo token-of-$1", calls.display());
    let mut named = command(&["sh", "-c", &script, "sh", "{customer_id}"]);
    let asks = |named: &SecretCommand| secret(SecretRef::Command(named.clone()), &[]);
    let kept = asks(&named);
    for customer in ["a", "b", "a"] {
        assert_eq!(kept.read(&Customer(customer)).await.unwrap(), format!("token-of-{customer}"));
    }
    assert_eq!(std::fs::read_to_string(&calls).unwrap(), "a\nb\n");
    assert_eq!(kept.known(&Customer("b")), ["token-of-b"]);
    named.ttl = Duration::ZERO;
    let anew = asks(&named);
    anew.read(&Customer("c")).await.unwrap();
    anew.read(&Customer("c")).await.unwrap();
    assert_eq!(std::fs::read_to_string(&calls).unwrap(), "a\nb\nc\nc\n");
}

#[tokio::test]
async fn a_program_that_fails_is_the_setups_fault_and_tells_no_secret() {
    let asked = async |script: &str| printed_by(&["sh", "-c", script]).read(&Customer("a")).await.unwrap_err();
    let failure = asked("echo s3cr3t-half; echo the vault is sealed, s3cr3t-half was not enough >&2; exit 2").await;
    assert_eq!((failure.blame, failure.scope), (Blame::Setup, Scope::Source));
    assert!(failure.message.contains("the vault is sealed") && failure.message.contains("***"), "{failure}");
    assert!(!failure.message.contains("s3cr3t"), "{failure}");
    assert!(asked("true").await.message.contains("printed nothing"));
    assert!(asked("head -c 100000 /dev/zero | tr '\\0' x").await.message.contains("more than 64 KiB"));
    let mut slow = command(&["sleep", "1000"]);
    slow.timeout = Duration::from_millis(50);
    let failure = secret(SecretRef::Command(slow), &[]).read(&Customer("a")).await.unwrap_err();
    assert!(failure.message.contains("0.05 s") && failure.blame == Blame::Setup, "{failure}");
}

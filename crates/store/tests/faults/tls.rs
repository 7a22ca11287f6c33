//! Encrypted connections to PostgreSQL: what each of libpq's `sslmode` words takes and refuses, at a real server with
//! certificates of its own.

use redrive_fixture::{Authority, Certificate, Database, Postgres};
use redrive_store::{Error, Open, Store, StoreUrl};

use crate::child;
use crate::support::{one_line, standing_still};

const HERE: &str = "DNS:localhost,IP:127.0.0.1";

struct Served {
    database: Database,
    _server: Postgres,
}

fn serve(certificate: &Certificate) -> Served {
    let server = Postgres::start_encrypted(certificate);
    Served { database: server.fresh_database(), _server: server }
}

impl Served {
    fn url(&self, options: &str) -> StoreUrl {
        StoreUrl::parse(&format!("{}?application_name=tls&{options}", self.database.url)).unwrap()
    }

    /// Opens a store and says whether all its connections are encrypted.
    async fn encrypted(&self, options: &str) -> Result<bool, Error> {
        let store = Store::open(&self.url(options), Open::Migrate, standing_still()).await?;
        let asked =
            "SELECT bool_and(ssl) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'tls'";
        let encrypted = self.database.query(asked) == "t";
        drop(store);
        Ok(encrypted)
    }

    async fn assert_taken(&self, options: &str) {
        match self.encrypted(options).await {
            Ok(encrypted) => assert!(encrypted, "{options} is not encrypted"),
            Err(error) => panic!("{options}: {error}"),
        }
    }

    async fn assert_refused(&self, options: &str, why: &str) {
        let error = self.encrypted(options).await.expect_err(options);
        assert!(matches!(error, Error::Unavailable { .. }), "{options}: {error:?}");
        let text = one_line(&error);
        println!("{options}: {text}");
        assert!(text.contains(why), "{options}: {text}");
    }
}

fn rooted(mode: &str, root: &std::path::Path) -> String {
    format!("sslmode={mode}&sslrootcert={}", root.display())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_of_the_right_authority_and_name_is_taken_in_every_mode() {
    let (authority, other) = (Authority::new(), Authority::new());
    let served = serve(&authority.issue(HERE));
    for options in ["sslmode=prefer", "sslmode=allow", "sslmode=require", ""] {
        served.assert_taken(options).await;
    }
    for mode in ["require", "verify-ca", "verify-full"] {
        served.assert_taken(&rooted(mode, &authority.file())).await;
        served.assert_refused(&rooted(mode, &other.file()), "UnknownIssuer").await;
    }
    assert!(!served.encrypted("sslmode=disable").await.unwrap());
    served.assert_refused("sslmode=verify-full", "UnknownIssuer").await;
    served.assert_refused("sslrootcert=system", "UnknownIssuer").await;
    served.assert_refused("sslmode=verify-ca&sslrootcert=/no/such/file", "sslrootcert /no/such/file: ").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_for_another_name_is_refused_only_where_the_name_counts() {
    let authority = Authority::new();
    let served = serve(&authority.issue("DNS:elsewhere.example"));
    for options in ["sslmode=prefer", "sslmode=require"] {
        served.assert_taken(options).await;
    }
    served.assert_taken(&rooted("verify-ca", &authority.file())).await;
    served.assert_refused(&rooted("verify-full", &authority.file()), "elsewhere.example").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_without_an_authority_is_trusted_when_it_is_named_itself() {
    let authority = Authority::new();
    let alone = authority.self_signed(HERE);
    let served = serve(&alone);
    for options in ["sslmode=prefer", "sslmode=require"] {
        served.assert_taken(options).await;
    }
    for mode in ["verify-ca", "verify-full"] {
        served.assert_taken(&rooted(mode, &alone.file)).await;
        served.assert_refused(&rooted(mode, &authority.file()), "invalid peer certificate").await;
    }
    let elsewhere = authority.self_signed("DNS:elsewhere.example");
    let served = serve(&elsewhere);
    served.assert_taken(&rooted("verify-ca", &elsewhere.file)).await;
    served.assert_refused(&rooted("verify-full", &elsewhere.file), "elsewhere.example").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_certificate_that_rustls_cannot_read_still_encrypts() {
    let served = serve(&Authority::new().issue_old());
    for options in ["sslmode=prefer", "sslmode=require"] {
        served.assert_taken(options).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_without_encryption_is_refused_where_it_is_required() {
    let database = Postgres::shared().fresh_database();
    for (mode, taken) in [("disable", true), ("prefer", true), ("require", false), ("verify-full", false)] {
        let url = StoreUrl::parse(&format!("{}?sslmode={mode}", database.url)).unwrap();
        let opened = Store::open(&url, Open::Migrate, standing_still()).await;
        assert_eq!(opened.is_ok(), taken, "{mode}");
        if let Err(error) = opened {
            assert!(one_line(&error).contains("server does not support TLS"), "{error}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_shows_its_certificate() {
    let authority = Authority::new();
    let served = serve(&authority.issue(HERE));
    let client = authority.issue_to_client("postgres");
    let shown = format!("sslmode=require&sslcert={}&sslkey={}", client.file.display(), client.key.display());
    let store = Store::open(&served.url(&shown), Open::Migrate, standing_still()).await.unwrap();
    let names =
        "SELECT DISTINCT client_dn FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'tls'";
    assert_eq!(served.database.query(names), "/CN=postgres");
    drop(store);
    let half = format!("sslmode=require&sslcert={}", client.file.display());
    served.assert_refused(&half, "sslcert is of no use without sslkey").await;
}

/// Opens a store in a process whose system trusts another authority.
#[tokio::test]
async fn child() {
    let Some(url) = child::order() else { return };
    Store::open(&StoreUrl::parse(&url).unwrap(), Open::Migrate, standing_still()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_system_trusts_is_trusted() {
    let authority = Authority::new();
    let served = serve(&authority.issue(HERE));
    for options in ["sslmode=verify-full", "sslrootcert=system"] {
        let mut command = child::command("tls::child", format!("{}?{options}", served.database.url));
        child::succeeded(command.env("SSL_CERT_FILE", authority.file()).spawn().unwrap());
    }
}

//! A primary that hands over to its standby: connections to the old one still answer, but take no writes any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use futures_util::future::join_all;
use redrive_fixture::{Durability, Postgres};
use redrive_store::{Error, StoreUrl};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{eventually, job, one_line, open};

/// An address that leads to whichever server is the primary, as a proxy or a name does.
struct Entrance {
    port: u16,
    leads_to: Arc<AtomicU16>,
}

impl Entrance {
    async fn to(port: u16) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let entrance = Self { port: listener.local_addr().unwrap().port(), leads_to: Arc::new(AtomicU16::new(port)) };
        let leads_to = Arc::clone(&entrance.leads_to);
        tokio::spawn(async move {
            while let Ok((mut inside, _)) = listener.accept().await {
                let port = leads_to.load(Ordering::SeqCst);
                tokio::spawn(async move {
                    let mut outside = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                    let _ = tokio::io::copy_bidirectional(&mut inside, &mut outside).await;
                });
            }
        });
        entrance
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_a_failover_the_store_finds_the_new_primary() {
    let primary = Postgres::start(Durability::Fast);
    let standby = primary.start_standby();
    let entrance = Entrance::to(primary.port()).await;
    let url = format!("postgres://postgres@127.0.0.1:{}/postgres", entrance.port);
    let store = open(&StoreUrl::parse(&url).unwrap()).await;
    // More than one connection, so that more than one has to be given up.
    let (control, other) = (store.control(), store.control());
    let (one, two) = tokio::join!(control.submit(vec![job("before")]), other.submit(vec![job("besides")]));
    one.unwrap();
    two.unwrap();
    // A standby that is asked too early knows nothing of the table.
    let there = "SELECT CASE WHEN to_regclass('runs') IS NULL THEN '0' ELSE \
                 (xpath('/row/n/text()', query_to_xml('SELECT count(*) AS n FROM runs', false, true, '')))[1]::text END";
    eventually("the standby has followed", async || standby.query(there) == "2").await;

    primary.query("ALTER SYSTEM SET default_transaction_read_only = on");
    primary.query("SELECT pg_reload_conf()");
    eventually("the primary takes no writes", async || store.control().submit(vec![job("before")]).await.is_err())
        .await;
    let error = store.control().submit(vec![job("too early")]).await.unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. }), "{error:?}");
    assert!(error.is_transient(), "{error:?}");
    one_line(&error);
    // Reads are still answered, on the connections that are there.
    store.view().audit_head().await.unwrap();

    // More connections than a call may try, all of them to the old primary.
    let pooled =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'redrive' AND query <> 'LISTEN redrive'";
    eventually("every connection leads to the old primary", async || {
        join_all((0..16).map(|_| store.view()).map(async |view| view.audit_head().await.unwrap())).await;
        primary.query(pooled) == "4"
    })
    .await;
    standby.query("SELECT pg_promote()");
    entrance.leads_to.store(standby.port(), Ordering::SeqCst);
    store.control().submit(vec![job("after")]).await.unwrap();
    assert_eq!(standby.query("SELECT count(*) FROM runs WHERE external_id = 'after'"), "1");
    assert_eq!(standby.query("SELECT count(*) FROM runs"), "3");
    assert_eq!(primary.query("SELECT count(*) FROM runs"), "2");
}

//! What must stay hidden stays hidden.

use serde_json::json;

use crate::scripted::{Reply, Server, job};
use crate::{extract, http};

#[tokio::test]
async fn a_source_that_repeats_a_secret_does_not_get_it_into_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "from-the-file\n").unwrap();
    let server = Server::start(|request| {
        let key = &request.headers["authorization"];
        assert_eq!(key, "Bearer value-of-token");
        assert_eq!(request.headers["x-file"], "from-the-file");
        // The second one is cut where reading an error's body ends.
        let padding = "-".repeat(2048 - 60);
        Reply::new(401, format!("bad {key} and from-the-file, {padding} value-of-token value-of-token"))
    });
    let headers = json!({"Authorization": {"env": "SECRET_token", "prefix": "Bearer "}, "X-File": {"file": file}});
    let extractor = http(&server, "/x", json!({"headers": headers}));
    let extracted = extract(&extractor).await;
    assert!(extracted.failure().message.contains("bad Bearer *** and ***, --"), "{extracted:?}");
    let mut secrets = extractor.secrets(&job("a/b", 1));
    secrets.sort();
    assert_eq!(secrets, ["from-the-file", "value-of-token"]);
    for text in [format!("{extracted:?}"), format!("{extractor:?}")] {
        assert!(!text.contains("value-of") && !text.contains("from-the"), "{text}");
    }
}

#[tokio::test]
async fn a_secret_that_cannot_be_sent_is_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("token");
    std::fs::write(&file, "two\nlines").unwrap();
    let server = Server::start(|_| Reply::ok("[]"));
    let extractor = http(&server, "/x", json!({"headers": {"x-key": {"file": file}}}));
    let failure = extract(&extractor).await.failure().clone();
    assert_eq!(failure.message, "the header x-key has characters that cannot be sent, such as a line break");
    std::fs::remove_file(&file).unwrap();
    let failure = extract(&extractor).await.failure().clone();
    assert!(failure.message.starts_with("cannot read the secret in "), "{failure}");
    assert!(server.requests().is_empty());
}

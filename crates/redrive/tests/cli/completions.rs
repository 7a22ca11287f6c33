//! `redrive completions SHELL`.

use crate::home::Home;

#[test]
fn every_shell_has_a_script_that_knows_the_commands() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let told = Home::new().run(&["completions", shell]).done();
        assert_eq!(told.stderr, "", "{shell}");
        for word in ["redrive", "doctor", "migrate", "baseline"] {
            assert!(told.stdout.contains(word), "{shell} lacks {word}");
        }
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let home = Home::new();
    home.run(&["man", "pages"]).done();
    for page in ["redrive.1", "redrive-worker.1", "redrive-state-retry.1", "redrive-runs-submit.1"] {
        let text = std::fs::read_to_string(home.file("pages").join(page)).unwrap();
        assert!(text.contains(".SH OPTIONS"), "{page}");
    }
}

#[test]
fn words_and_configured_sources_are_completed() {
    let home = Home::with_config("[sources.ads_eu.extract]\nkind = \"sample\"\n");
    for shell in ["bash", "zsh", "fish"] {
        let told = home.run(&["completions", shell]).done();
        for word in ["pending success failed", "final retryable rate_limited", "ads_eu"] {
            let is_there = word.split(' ').all(|word| told.stdout.contains(word));
            assert!(is_there, "{shell} lacks {word}");
        }
    }
    let none = Home::new().run(&["completions", "bash"]).done();
    assert!(!none.stdout.contains("ads_eu") && none.stdout.contains("--source"));
}

#[test]
fn completions_need_no_configuration() {
    Home::with_config("this is not TOML").run(&["completions", "bash"]).done();
}

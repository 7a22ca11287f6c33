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
fn completions_need_no_configuration() {
    Home::with_config("this is not TOML").run(&["completions", "bash"]).done();
}

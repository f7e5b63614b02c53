//! Each way in which a process's own files can be wrong has its own error, text and exit code.

use std::os::unix::fs::PermissionsExt;

use redlatch_link::Role;
use redlatch_link::exit::{ExitCode, Fails};
use redlatch_link::file::FileError;
use redlatch_link::transport::{Credentials, TransportError};
use redlatch_types::{Digest, OrganismId};

use crate::authority::{Authority, Files, key, leaf, peer, pin, uri, write};

fn files(root: &Authority) -> Files {
    Files::of(root, &peer(Role::Client, "a"))
}

fn refusal(files: &Files) -> TransportError {
    Credentials::load(&files.tls).expect_err("refused")
}

#[test]
fn good_files_make_an_identity() {
    let root = Authority::root();
    assert_eq!(files(&root).load().identity(), peer(Role::Client, "a"));
}

#[test]
fn what_is_not_configured_is_named() {
    let root = Authority::root();
    for key in ["organism", "certificate", "key", "authority"] {
        let mut files = files(&root);
        match key {
            "organism" => files.tls.organism.clear(),
            "certificate" => files.tls.certificate.clear(),
            "key" => files.tls.key.clear(),
            _ => files.tls.authority.clear(),
        }
        let error = refusal(&files);
        assert_eq!(error.to_string(), format!("tls.{key} is not set"));
        assert_eq!(error.code(), ExitCode::Usage);
    }
    let mut files = files(&root);
    files.tls.organism = "AB".repeat(32);
    assert!(matches!(refusal(&files), TransportError::NotAnOrganism));
    let files = Files::of(&root, &peer(Role::Client, "a")).pinned("node", "00".repeat(32));
    assert!(matches!(refusal(&files), TransportError::NotAPin(_)));
}

#[test]
fn missing_and_unreadable_files_are_named() {
    let root = Authority::root();
    let mut absent = files(&root);
    absent.tls.certificate = absent.path("absent");
    let error = refusal(&absent);
    assert!(
        matches!(
            &error,
            TransportError::File {
                source: FileError::Missing { .. },
                ..
            }
        ),
        "{error:?}"
    );
    assert_eq!(
        error.to_string(),
        format!(
            "certificate: {} does not exist",
            absent.path("absent").display()
        )
    );

    for which in 0..3 {
        let files = files(&root);
        let path = [&files.tls.certificate, &files.tls.key, &files.tls.authority][which];
        write(path, b"not PEM");
        assert!(
            matches!(refusal(&files), TransportError::NotPem { .. }),
            "{which}"
        );
    }

    let open = files(&root);
    std::fs::set_permissions(&open.tls.key, std::fs::Permissions::from_mode(0o644))
        .expect("opened up");
    let error = refusal(&open);
    assert!(
        matches!(
            &error,
            TransportError::File {
                source: FileError::TooOpen { .. },
                ..
            }
        ),
        "{error:?}"
    );
    assert!(error.hint().expect("advice").starts_with("chmod 600"));
}

#[test]
fn a_certificate_that_does_not_fit_is_refused() {
    let root = Authority::root();
    let other = files(&root);
    other.write_key(&key());
    assert!(matches!(
        refusal(&other),
        TransportError::KeyMismatch { .. }
    ));

    let stranger = files(&root);
    write(&stranger.tls.authority, Authority::root().pem.as_bytes());
    let error = refusal(&stranger);
    assert!(
        matches!(error, TransportError::WrongAuthority { .. }),
        "{error:?}"
    );
    assert_eq!(error.code(), ExitCode::Refused);

    let mut organism = files(&root);
    organism.tls.organism = OrganismId(Digest([1; 32])).to_string();
    let error = refusal(&organism);
    assert!(
        matches!(error, TransportError::WrongOrganism { .. }),
        "{error:?}"
    );
    assert_eq!(error.code(), ExitCode::Refused);
    assert!(error.to_string().contains(&"ab".repeat(32)), "{error}");
}

#[test]
fn a_certificate_out_of_its_time_is_refused() {
    let root = Authority::root();
    for (years, is_expired, words) in [
        ((2000, 2001), true, "has expired"),
        ((3000, 3001), false, "is not valid yet"),
    ] {
        let (files, key) = (files(&root), key());
        let mut params = leaf(vec![uri(peer(Role::Client, "a"))]);
        params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
        params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
        files.write_certificate(&root.sign(&params, &key).pem());
        files.write_key(&key);
        let error = refusal(&files);
        assert!(
            matches!(error, TransportError::OutOfValidity { expired, .. } if expired == is_expired),
            "{error:?}"
        );
        assert!(error.to_string().ends_with(words), "{error}");
    }
}

#[test]
fn a_certificate_without_one_identity_or_with_another_key_than_pinned_is_refused() {
    let root = Authority::root();
    let (files, key) = (files(&root), key());
    files.write_key(&key);
    let uris = vec![uri(peer(Role::Client, "a")), uri(peer(Role::Client, "b"))];
    files.write_certificate(&root.sign(&leaf(uris), &key).pem());
    let error = refusal(&files);
    assert!(
        error
            .to_string()
            .ends_with("the certificate has 2 SAN URIs instead of one"),
        "{error}"
    );
    assert_eq!(error.code(), ExitCode::Refused);

    let files = Files::of(&root, &peer(Role::Node, "n1")).pinned("node/n1", pin(&key));
    let error = refusal(&files);
    assert!(
        error
            .to_string()
            .ends_with("the key of node/n1 is not the pinned one"),
        "{error}"
    );
}

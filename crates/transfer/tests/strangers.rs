//! Peers whose keys are right and who lie: in a listing, and in a checkup.
#![expect(clippy::unwrap_used, reason = "a test")]
#![expect(clippy::disallowed_methods, reason = "a test is a world of its own")]

mod ends;

use std::sync::mpsc::{channel, sync_channel};
use std::thread;

use lighthaul_io::fs::ground::Ground;
use lighthaul_transfer::checkup;
use lighthaul_transfer::checkup::word::{Facts, Word};
use lighthaul_transfer::error::{Code, Error};
use lighthaul_transfer::files::far;
use lighthaul_transfer::files::verb::{Answer, Verb};
use lighthaul_transfer::files::work::Scope;
use lighthaul_transfer::message::Message;
use lighthaul_transfer::path::Door;

use ends::sessions;

/// What somebody hears who asked for files and got `words`; how many answers were taken, too.
fn hear(words: &[Message]) -> (Result<(), Error>, usize) {
    let [asking, answering] = sessions();
    for word in words {
        answering.say(word).unwrap();
    }
    drop(answering);
    let mut count = 0;
    let result = far::hear(&asking, &mut |_| {
        count += 1;
        Ok(())
    });
    (result, count)
}

#[test]
fn an_answer_ends_with_done_and_holds_nothing_else() {
    let busy = Message::Files(Answer::Busy(1));
    let done = Message::Files(Answer::Done(1));
    let (result, count) = hear(&[busy.clone(), done.clone(), busy.clone()]);
    assert_eq!((result, count), (Ok(()), 2));
    let (result, count) = hear(&[busy.clone(), Message::Welcome(Vec::new()), done]);
    assert_eq!(result.unwrap_err().code, Code::Protocol);
    assert_eq!(count, 1);
    let failed = Message::Failed(13, "no".into());
    let (result, _) = hear(&[busy.clone(), failed]);
    assert_eq!(result, Err(Error::new(Code::Permission, "no")));
    // one that goes is not one that is done
    let (result, _) = hear(&[busy]);
    assert_eq!(result.unwrap_err().code, Code::Network);
}

#[test]
fn a_listing_comes_in_pieces_and_ends_with_its_hearer() {
    let folder = std::env::temp_dir().join(format!("lighthaul-listing-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for nth in 0..200_u32 {
        std::fs::write(folder.join(nth.to_string()), "").unwrap();
    }
    let [asking, answering] = sessions();
    let (ended, end) = sync_channel(1);
    let paths = vec![b"0".to_vec(); 300_000];
    let ground = Ground::beneath(&folder).unwrap();
    let answerer = thread::spawn(move || {
        let scope = Scope {
            ground: &ground,
            writable: false,
            special: false,
        };
        let result = far::answer(&answering, scope, &Verb::Stat(paths));
        ended.send(result).unwrap();
    });
    // the first piece is there, and the rest waits for somebody to take it
    let Message::Files(Answer::Listed(listed)) = asking.hear().unwrap() else {
        panic!("that is no listing");
    };
    assert!(listed.len() < 10_000, "{}", listed.len());
    assert!(end.try_recv().is_err());
    drop(asking);
    assert_eq!(end.recv().unwrap().unwrap_err().code, Code::Network);
    answerer.join().unwrap();
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_checkup_takes_no_word_out_of_turn() {
    let facts = Word::Facts(Facts::default());
    for words in [
        vec![Message::Checkup(Word::End)],
        vec![Message::Checkup(facts.clone())],
        vec![
            Message::Checkup(Word::Time(0)),
            Message::Welcome(Vec::new()),
        ],
    ] {
        let [asking, answering] = sessions();
        for word in &words {
            asking.say(word).unwrap();
        }
        let (_probes, arrivals) = sync_channel(1);
        let result = checkup::answer::answer(&answering, &Door::Called(&arrivals, &channel().1));
        assert_eq!(result.unwrap_err().code, Code::Protocol, "{words:?}");
    }
    for word in [Word::Explore, facts, Word::End] {
        let [asking, answering] = sessions();
        answering.say(&Message::Checkup(word.clone())).unwrap();
        let result = checkup::ask::ask(&asking, true);
        assert_eq!(result.unwrap_err().code, Code::Protocol, "{word:?}");
    }
}

#[test]
fn a_clock_that_is_anywhere_is_no_harm() {
    for time in [0, 1, u64::MAX, u64::MAX / 2] {
        let [asking, answering] = sessions();
        let liar = thread::spawn(move || {
            for _ in 0..5 {
                answering.hear().unwrap();
                answering.say(&Message::Checkup(Word::Time(time))).unwrap();
            }
            answering.hear().unwrap();
            answering.say(&Message::Welcome(Vec::new())).unwrap();
        });
        let result = checkup::ask::ask(&asking, true);
        assert_eq!(result.unwrap_err().code, Code::Protocol, "{time}");
        liar.join().unwrap();
    }
}

//! What is already on the pull request: the threads of our findings, and what people made of them.

/// The threads of our findings, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FindingThreads {
    pub threads: Vec<FindingThread>,
}

/// A thread that a finding of ours began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FindingThread {
    pub fingerprint: String,
    pub verdict: ThreadVerdict,
    /// The forge says that its lines have changed since.
    pub outdated: bool,
}

/// What became of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadVerdict {
    /// Nobody has decided anything.
    Open,
    /// We resolved it, because its finding was fixed.
    ResolvedAsFixed,
    /// Somebody resolved it whose word counts.
    Resolved,
    /// Somebody resolved it whose word does not count.
    ResolvedByOthers,
    /// Somebody whose word counts answered that the finding is not wanted.
    Rejected,
    /// It could not be read, or whose word it is could not.
    Unknown,
}

impl FindingThreads {
    /// A person said in words that it is not wanted. That holds also when its code was gone meanwhile.
    pub fn is_rejected(&self, fingerprint: &str) -> bool {
        self.of(fingerprint).any(|verdict| verdict == ThreadVerdict::Rejected)
    }

    /// A person said no to it, in words or by resolving its newest thread. That the first `old` threads are
    /// resolved says nothing.
    pub fn is_dismissed(&self, fingerprint: &str, old: usize) -> bool {
        let is_resolved = self.newest(fingerprint) == Some(ThreadVerdict::Resolved);
        self.is_rejected(fingerprint) || (is_resolved && self.of(fingerprint).count() > old)
    }

    /// Nobody says no to it, or not any more; false where that is not known.
    pub(super) fn is_wanted(&self, fingerprint: &str) -> bool {
        let is_known =
            |verdict| !matches!(verdict, ThreadVerdict::Unknown | ThreadVerdict::Rejected);
        let newest = self.newest(fingerprint);
        let is_undecided = newest == Some(ThreadVerdict::Open);
        let is_undecided = is_undecided || newest == Some(ThreadVerdict::ResolvedByOthers);
        is_undecided && self.of(fingerprint).all(is_known)
    }

    /// It has a thread, and what became of its threads is known.
    pub(super) fn is_known(&self, fingerprint: &str) -> bool {
        let is_known = self.of(fingerprint).all(|verdict| verdict != ThreadVerdict::Unknown);
        is_known && self.newest(fingerprint).is_some()
    }

    /// It has a thread that says so to people, so it is not posted again. One that we resolved as fixed does
    /// not.
    pub(super) fn is_posted(&self, fingerprint: &str) -> bool {
        self.of(fingerprint).any(|verdict| verdict != ThreadVerdict::ResolvedAsFixed)
    }

    /// Its newest thread is not known to be resolved.
    pub(super) fn is_open(&self, fingerprint: &str) -> bool {
        let newest = self.newest(fingerprint);
        matches!(newest, Some(ThreadVerdict::Open | ThreadVerdict::Unknown))
    }

    /// How many threads it has, when the newest may be resolved.
    pub(super) fn closed_threads(&self, fingerprint: &str) -> usize {
        match self.newest(fingerprint) {
            None | Some(ThreadVerdict::Open) => 0,
            Some(
                ThreadVerdict::ResolvedAsFixed
                | ThreadVerdict::Resolved
                | ThreadVerdict::ResolvedByOthers
                | ThreadVerdict::Rejected
                | ThreadVerdict::Unknown,
            ) => self.of(fingerprint).count(),
        }
    }

    /// The lines of its newest thread have changed, as the forge says.
    pub(super) fn is_outdated(&self, fingerprint: &str) -> bool {
        let mut threads = self.threads.iter().rev();
        threads.find(|thread| thread.fingerprint == fingerprint).is_some_and(|it| it.outdated)
    }

    fn of(&self, fingerprint: &str) -> impl DoubleEndedIterator<Item = ThreadVerdict> {
        let threads = self.threads.iter().filter(move |thread| thread.fingerprint == fingerprint);
        threads.map(|thread| thread.verdict)
    }

    fn newest(&self, fingerprint: &str) -> Option<ThreadVerdict> {
        self.of(fingerprint).next_back()
    }
}

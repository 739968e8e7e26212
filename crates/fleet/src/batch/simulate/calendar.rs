//! When services do not answer.

use super::options::Options;
use super::simulation_run::SimulatedService;
use patchwright_base::error::Service;
use patchwright_types::campaign::Millis;

pub(super) struct Calendar {
    github: Vec<(Millis, Millis)>,
    model: Vec<(Millis, Millis)>,
}

impl Calendar {
    pub(super) fn new(options: &Options) -> Calendar {
        let of = |is_model: bool| {
            let outages = options.outages.iter();
            let outages = outages.filter(|one| (one.service == Service::Model) == is_model);
            let mut spans: Vec<_> = outages.map(|one| one.span(options.start())).collect();
            spans.sort_unstable();
            spans
        };
        Calendar { github: of(false), model: of(true) }
    }

    fn spans(&self, known: SimulatedService) -> &[(Millis, Millis)] {
        match known {
            SimulatedService::GitHub => &self.github,
            SimulatedService::Model => &self.model,
        }
    }

    /// Until when a service is out that is out at this time.
    pub(super) fn out_until(&self, known: SimulatedService, at: Millis) -> Option<Millis> {
        let out = self.spans(known).iter().filter(|(from, to)| *from <= at && at < *to);
        out.map(|(_, to)| *to).max()
    }

    /// The first outage that begins or lasts between two times.
    pub(super) fn first_within(
        &self,
        known: SimulatedService,
        from: Millis,
        to: Millis,
    ) -> Option<(Millis, Millis)> {
        let mut within = self.spans(known).iter().filter(|span| span.0 < to && span.1 > from);
        within.next().map(|span| (span.0.max(from), span.1))
    }
}

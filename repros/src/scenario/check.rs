//! What serde cannot see in a `scenario.json`.

use std::collections::BTreeSet;

use mockspore::census::Kind;
use serde_json::Value;

use crate::scenario::file::Complaint;
use crate::scenario::{
    Arm, BlockSize, Count, EveryArm, Ladder, MockExpectation, NOT_OFFERED, SCHEMA_VERSION, Scenario,
};

fn require(holds: bool, needle: &str, why: impl Into<String>) -> Result<(), Complaint> {
    if holds {
        return Ok(());
    }
    Err((needle.to_owned(), why.into()))
}

impl Scenario {
    /// Checks names, ranges and references.
    pub(super) fn check(&self, name: &str) -> Result<(), Complaint> {
        let version = format!("schema_version must be {SCHEMA_VERSION}");
        require(
            self.schema_version == SCHEMA_VERSION,
            "schema_version",
            version,
        )?;
        let own = format!("the name must be its folder's, '{name}'");
        require(self.name == name, "name", own)?;
        self.check_plans()?;
        self.check_references()?;
        self.arms.iter().try_for_each(|arm| self.check_arm(arm))
    }

    fn check_plans(&self) -> Result<(), Complaint> {
        let (plan, real) = (&self.plan, &self.real);
        let some = plan.steps > 0 && plan.samples > 0;
        require(some, "plan", "steps and samples must be at least 1")?;
        let report = real.report_baseline.iter();
        let report =
            report.map(|report| (report.steps, report.every, report.rounds, report.warmup));
        for (steps, every, rounds, warmup) in
            report.chain([(real.steps, real.every, real.rounds, real.warmup)])
        {
            let whole = every > 0 && steps > 0 && steps.is_multiple_of(every);
            require(
                whole,
                "every",
                "steps must be a multiple of every, and both at least 1",
            )?;
            require(rounds > 1, "rounds", "there must be at least 2 rounds")?;
            require(
                warmup > 0,
                "warmup",
                "there must be at least 1 step of warm-up",
            )?;
        }
        require(
            !real.metrics.is_empty(),
            "metrics",
            "there must be a metric",
        )
    }

    fn check_references(&self) -> Result<(), Complaint> {
        let calls = self.knobs.get(&self.calls_per_step);
        let integer = calls.is_some_and(|knob| knob.get("max").is_some());
        require(integer, "calls_per_step", "it must name an integer knob")?;
        for (knob, spec) in &self.knobs {
            let default = spec.get("default").cloned().unwrap_or_default();
            self.knob_value(knob, default)
                .map_err(|error| (knob.clone(), error.to_string()))?;
        }
        let known = |name: &str| Kind::ALL.into_iter().any(|kind| kind.name() == name);
        let kinds = self.arrays.iter().map(|array| &array.kind);
        for kind in kinds.chain(self.block_bytes.keys()) {
            require(known(kind), kind, format!("the runtime counts no '{kind}'"))?;
        }
        let counted = self.arrays.iter().filter_map(|array| array.of.as_ref());
        let capped = self.cap.iter().flat_map(|cap| &cap.kinds);
        for kind in counted.chain(capped).chain([&self.primary]) {
            let why = format!("block_bytes lacks '{kind}'");
            require(self.block_bytes.contains_key(kind), kind, why)?;
        }
        let report = self
            .real
            .report_baseline
            .iter()
            .flat_map(|report| &report.arms);
        let reported = self.reported.iter().map(|figure| &figure.arm);
        let limits = self.cap.iter().flat_map(|cap| [&cap.threshold, &cap.drops]);
        let sizes = self.block_bytes.values().filter_map(|size| match size {
            BlockSize::Fixed(_) => None,
            BlockSize::PerKnob { knob, .. } => Some(knob),
        });
        let times = self.real.per_call_times.iter();
        self.check_counts()?;
        let knobs = limits.chain(&self.ranks).chain(sizes).chain(times);
        for knob in knobs {
            let integer = self
                .knobs
                .get(knob)
                .is_some_and(|knob| knob.get("max").is_some());
            require(integer, knob, format!("'{knob}' must be an integer knob"))?;
        }
        let offered = self.releases.values().filter(|arm| *arm != NOT_OFFERED);
        let arms = [&self.real.control].into_iter().chain(offered);
        for wanted in arms.chain(report).chain(reported) {
            self.arm(wanted)
                .map_err(|error| (wanted.clone(), error.to_string()))?;
        }
        let control = self
            .arm(&self.real.control)
            .ok()
            .and_then(|arm| arm.real.as_ref());
        require(
            control.is_some(),
            &self.real.control,
            "the control must run on a real framework",
        )?;
        self.ladder
            .iter()
            .try_for_each(|ladder| self.check_ladder(ladder))?;
        let names: BTreeSet<&str> = self.arms.iter().map(|arm| &*arm.name).collect();
        require(
            names.len() == self.arms.len(),
            "arms",
            "two arms have one name",
        )
    }

    fn check_ladder(&self, ladder: &Ladder) -> Result<(), Complaint> {
        let why = "a ladder has as many rungs as causes";
        require(ladder.rungs.len() == ladder.causes.len(), "rungs", why)?;
        for rung in &ladder.rungs {
            self.arm(&rung.arm)
                .map_err(|error| (rung.arm.clone(), error.to_string()))?;
        }
        for kind in ladder.causes.iter().flat_map(|cause| &cause.kinds) {
            let array = self.arrays.iter().any(|array| array.kind == *kind);
            let why = format!("'{kind}' is neither in block_bytes nor in arrays");
            require(array || self.block_bytes.contains_key(kind), kind, why)?;
        }
        Ok(())
    }

    fn check_counts(&self) -> Result<(), Complaint> {
        for (name, count) in &self.counts {
            let knob = self.knobs.get(&count.by);
            let choices = knob.and_then(|knob| knob.get("choices")?.as_array());
            let why = format!("'{}' must be a choice knob", count.by);
            require(choices.is_some(), &count.by, why)?;
            let mut choices = choices.into_iter().flatten().filter_map(Value::as_str);
            let why = format!("the count '{name}' must have each choice of '{}'", count.by);
            let all = choices.all(|choice| count.of.contains_key(choice));
            require(all, name, why)?;
        }
        let of_arm = |arm: &'_ Arm| -> Vec<Count> {
            let own = [&arm.mock].into_iter().chain(arm.on.values());
            own.flat_map(MockExpectation::counts).cloned().collect()
        };
        let EveryArm {
            counts_per_call,
            counts_per_step,
        } = &self.every_arm;
        for counter in counts_per_call.keys().chain(counts_per_step.keys()) {
            let why = format!("every arm counts '{counter}', which counters lacks");
            require(self.counters.contains(counter), counter, why)?;
        }
        let every = counts_per_call.values().chain(counts_per_step.values());
        let counts = self.arms.iter().flat_map(of_arm).chain(every.cloned());
        for count in counts {
            let (Count::Named(name) | Count::Times { of: name, .. }) = count else {
                continue;
            };
            let knob = self.knobs.get(&name);
            let integer = knob.is_some_and(|knob| knob.get("max").is_some());
            let why = format!("'{name}' must be an integer knob or one of the counts");
            require(integer || self.counts.contains_key(&name), &name, why)?;
        }
        Ok(())
    }

    fn check_arm(&self, arm: &Arm) -> Result<(), Complaint> {
        let of_arm = |why: String| (arm.name.clone(), format!("arm '{}': {why}", arm.name));
        self.knobs(arm, &[])
            .map_err(|error| of_arm(error.to_string()))?;
        self.policies(arm).map_err(of_arm)?;
        if let Some(plan) = arm.plan {
            let some = plan.steps > 0 && plan.samples > 0;
            let why = format!("arm '{}': steps and samples must be at least 1", arm.name);
            require(some, &arm.name, why)?;
        }
        if let Some(plan) = arm.real.as_ref().and_then(|real| real.plan) {
            let whole = plan.every > 0 && plan.steps > 0 && plan.steps.is_multiple_of(plan.every);
            let why = format!("arm '{}': real steps must be a multiple of every", arm.name);
            require(whole && plan.warmup > 0, &arm.name, why)?;
        }
        let expectations = [&arm.mock].into_iter().chain(arm.on.values());
        expectations
            .into_iter()
            .try_for_each(|mock| self.check_expectation(arm, mock))
    }

    fn check_expectation(&self, arm: &Arm, mock: &MockExpectation) -> Result<(), Complaint> {
        let per_step = mock.keeps_per_step.keys().chain(mock.keeps_once.keys());
        for kind in mock.keeps_per_call.keys().chain(per_step) {
            let why = format!("arm '{}' keeps '{kind}', which block_bytes lacks", arm.name);
            require(self.block_bytes.contains_key(kind), kind, why)?;
        }
        for array in mock.peaks.keys() {
            let known = self.arrays.iter().any(|known| known.kind == *array);
            let why = format!(
                "arm '{}' has a peak of '{array}', which arrays lacks",
                arm.name
            );
            require(known, array, why)?;
        }
        for (counter, not) in &mock.first_of_step_does_not {
            let why = format!(
                "arm '{}': more calls do not count '{counter}' than count it",
                arm.name
            );
            let fewer = match mock.counts_per_call.get(counter) {
                Some(Count::Fixed(count)) => not <= count,
                Some(_) => true,
                None => false,
            };
            require(fewer, counter, why)?;
        }
        let counted = mock
            .counts_per_call
            .keys()
            .chain(mock.counts_per_step.keys())
            .chain(mock.counts_triangular.keys());
        for counter in counted {
            let why = format!(
                "arm '{}' counts '{counter}', which counters lacks",
                arm.name
            );
            require(self.counters.contains(counter), counter, why)?;
        }
        let why = format!("arm '{}' is capped, and there is no cap", arm.name);
        require(!mock.capped || self.cap.is_some(), &arm.name, why)
    }
}

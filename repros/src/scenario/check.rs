//! What serde cannot see in a `scenario.json`.

use std::collections::BTreeSet;

use crate::scenario::{Arm, SCHEMA_VERSION, Scenario};

/// What to look for in the file's text, and why it is wrong.
type Complaint = (String, String);

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
        let counted = self
            .array
            .iter()
            .map(|array| &array.of)
            .chain([&self.primary]);
        for kind in counted {
            let why = format!("block_bytes lacks '{kind}'");
            require(self.block_bytes.contains_key(kind), kind, why)?;
        }
        let report = self
            .real
            .report_baseline
            .iter()
            .flat_map(|report| &report.arms);
        let reported = self.reported.iter().map(|figure| &figure.arm);
        let arms = [&self.real.control]
            .into_iter()
            .chain(self.releases.values());
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
        let names: BTreeSet<&str> = self.arms.iter().map(|arm| &*arm.name).collect();
        require(
            names.len() == self.arms.len(),
            "arms",
            "two arms have one name",
        )
    }

    fn check_arm(&self, arm: &Arm) -> Result<(), Complaint> {
        let of_arm = |why: String| (arm.name.clone(), format!("arm '{}': {why}", arm.name));
        self.knobs(arm, &[])
            .map_err(|error| of_arm(error.to_string()))?;
        self.policies(arm).map_err(of_arm)?;
        let mock = &arm.mock;
        for kind in mock.keeps_per_call.keys().chain(mock.keeps_per_step.keys()) {
            let why = format!("arm '{}' keeps '{kind}', which block_bytes lacks", arm.name);
            require(self.block_bytes.contains_key(kind), kind, why)?;
        }
        Ok(())
    }
}

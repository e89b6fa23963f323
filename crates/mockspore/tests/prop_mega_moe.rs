//! Random layouts and core counts: what is classified is what is damaged.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use mockspore::mega_moe::{
    Attributes, Image, Layout, NUM_WORKERS_CUBE, Pass, classify, launched_cores,
    validate_num_cube_cores,
};
use mockspore::{CoreBound, Policies, Version};
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

fn config() -> ProptestConfig {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../proptest-regressions/mockspore/prop_mega_moe.txt"
    );
    ProptestConfig {
        failure_persistence: Some(Box::new(FileFailurePersistence::Direct(file))),
        ..ProptestConfig::with_cases(256)
    }
}

fn dense() -> impl Strategy<Value = (Layout, u64)> {
    (1_u64..40, 64_u64..80, 1_u64..48).prop_map(|(tasks, events, experts)| {
        let layout = Layout::dense(16 * tasks, 16 * events, experts).unwrap();
        (layout, experts)
    })
}

fn attributes(experts: u64) -> Attributes {
    Attributes {
        rank_id: 1,
        ep: 4,
        expert_num: 4 * experts.min(16) as i64,
        hidden_size: 128,
        seq_size: 64,
    }
}

fn bound(bound: CoreBound) -> Policies {
    Policies {
        forward_tiling: bound,
        backward_tiling: bound,
        num_cube_cores: bound,
        ..Policies::mindspore(Version::V2_10_0)
    }
}

#[test]
fn each_worker_of_the_fixed_layout_damages_what_it_is_classified_as() {
    let mut image = Image::new(Layout::Fixed, 64, 16).unwrap();
    for worker in 0..64 {
        for experts in 1..=16 {
            image.write_group_list(worker, experts, 0, 7).unwrap();
            let damage = image.damage(worker).unwrap();
            image.repair();
            assert_eq!(damage, classify(Layout::Fixed, worker, experts).unwrap());
        }
    }
    assert!(image.is_intact_before_the_lists());
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn each_worker_of_a_dense_layout_damages_what_it_is_classified_as(
        (layout, experts) in dense(), worker in 0_u64..96, index in 0_u64..4, tokens in any::<u32>()
    ) {
        // A list of canaries would not show.
        prop_assume!(tokens != 0xA5A5_A5A5);
        let mut image = Image::new(layout, 96, experts).unwrap();
        image.write_group_list(worker, experts, index, tokens).unwrap();
        let predicted = classify(layout, worker, experts).unwrap();
        prop_assert_eq!(image.damage(worker).unwrap(), predicted);
        prop_assert!(image.is_intact_before_the_lists());
        prop_assert_eq!(predicted.any() && worker < layout.slots(), false);
    }

    #[test]
    fn a_checked_launch_never_damages_and_an_unchecked_one_is_never_refused(
        (layout, experts) in dense(), cores in 1_i64..=96
    ) {
        for pass in Pass::ALL {
            let of = |policies: &Policies| launched_cores(policies, pass, cores, &attributes(experts));
            match of(&bound(CoreBound::Checked)) {
                Ok(launched) => for worker in 0..launched {
                    prop_assert!(!classify(layout, worker, experts).unwrap().any());
                },
                Err(error) => {
                    prop_assert!(cores > NUM_WORKERS_CUBE as i64);
                    prop_assert!(error.to_string().starts_with("coreNum cannot be"));
                }
            }
            prop_assert_eq!(of(&bound(CoreBound::Unchecked)).unwrap(), cores as u64);
        }
        let checked = validate_num_cube_cores(&bound(CoreBound::Checked), cores);
        prop_assert_eq!(checked.is_ok(), cores <= NUM_WORKERS_CUBE as i64);
    }

    #[test]
    fn no_geometry_makes_it_panic(
        core_num in any::<i64>(), rank_id in any::<i64>(), ep in any::<i64>(),
        expert_num in any::<i64>(), hidden_size in any::<i64>(), seq_size in any::<i64>(),
        tasks in any::<u64>(), events in any::<u64>(), experts in any::<u64>(), worker in any::<u64>()
    ) {
        let attributes = Attributes { rank_id, ep, expert_num, hidden_size, seq_size };
        for policies in [bound(CoreBound::Checked), bound(CoreBound::Unchecked)] {
            let launched = launched_cores(&policies, Pass::Forward, core_num, &attributes);
            prop_assert_eq!(launched.ok().is_none_or(|cores| cores as i64 == core_num), true);
            let _ = validate_num_cube_cores(&policies, core_num);
        }
        let _ = Layout::dense(tasks, events, experts);
        let _ = classify(Layout::Fixed, worker, experts);
    }
}

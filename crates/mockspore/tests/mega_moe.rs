//! The config's offsets are a C struct's, and bad geometry is named.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fmt::Write;
use std::fs;
use std::process::Command;

use mockspore::mega_moe::{
    Attributes, Damage, Layout, Pass, TilingTable, classify, launched_cores,
    validate_num_cube_cores,
};
use mockspore::{Policies, Version};

/// A header written from the table of regions.
fn header(layout: Layout) -> String {
    let mut text = String::from("#include <stdint.h>\ntypedef struct {\n");
    for region in layout.regions() {
        let (name, count) = (region.name, region.count);
        match region.element {
            4 => writeln!(text, "    int32_t {name}[{count}];"),
            8 => writeln!(text, "    int64_t {name}[{count}];"),
            bytes => writeln!(
                text,
                "    struct {{ int64_t word[{bytes} / 8]; }} {name}[{count}];"
            ),
        }
        .unwrap();
    }
    text + "} runtime_config;\n"
}

/// What the C compiler says of the header: offsets in order, then the size.
fn compiled(layout: Layout) -> Vec<u64> {
    let folder = tempfile::tempdir().unwrap();
    let mut source = String::from("#include <stddef.h>\n#include <stdio.h>\n");
    source += &header(layout);
    source += "int main(void) {\n";
    for region in layout.regions() {
        let name = region.name;
        writeln!(
            source,
            "    printf(\"%zu\\n\", offsetof(runtime_config, {name}));"
        )
        .unwrap();
    }
    source += "    printf(\"%zu\\n\", sizeof(runtime_config));\n    return 0;\n}\n";
    let (file, program) = (folder.path().join("layout.c"), folder.path().join("layout"));
    fs::write(&file, source).unwrap();
    let compiler = std::env::var("CC").unwrap_or_else(|_| "cc".to_owned());
    let built = Command::new(&compiler)
        .arg(&file)
        .arg("-o")
        .arg(&program)
        .status();
    assert!(
        built.unwrap().success(),
        "{compiler} does not take the header"
    );
    let output = Command::new(&program).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

#[test]
fn the_offsets_are_those_of_a_c_struct_with_the_same_members() {
    let layouts = [
        Layout::Fixed,
        Layout::dense(256, 1024, 16).unwrap(),
        Layout::dense(272, 1040, 16).unwrap(),
        Layout::dense(25_600, 2048, 33).unwrap(),
    ];
    for layout in layouts {
        let mut own: Vec<u64> = layout
            .regions()
            .iter()
            .map(|region| region.offset)
            .collect();
        own.push(layout.bytes());
        let compiled = compiled(layout);
        // The compiler rounds the whole up to its largest member.
        let rounded = own.last().unwrap().next_multiple_of(8);
        *own.last_mut().unwrap() = rounded;
        assert_eq!(own, compiled, "{layout:?}");
    }
}

#[test]
fn the_fixed_layout_is_the_upstream_one() {
    let layout = Layout::Fixed;
    let offsets: Vec<u64> = layout
        .regions()
        .iter()
        .map(|region| region.offset)
        .collect();
    let upstream = [
        0, 16, 4112, 14_749_712, 14_766_096, 14_766_112, 14_868_512, 14_970_912, 15_073_312,
        15_073_328, 15_077_424,
    ];
    assert_eq!(offsets, upstream);
    assert_eq!(layout.bytes(), 15_077_456);
    assert_eq!(layout.slot(0).unwrap(), 15_073_408);
    assert_eq!(layout.slot(31).unwrap(), 15_077_376);
    assert_eq!((layout.slots(), layout.slot_bytes()), (31, 128));
}

#[test]
fn the_dense_layout_starts_its_lists_where_the_formula_says() {
    for (tasks, events) in [(16, 1024), (256, 1024), (272, 2048), (25_600, 1040)] {
        let layout = Layout::dense(tasks, events, 16).unwrap();
        assert_eq!(layout.group_list().offset, 96 + 20 * events + 588 * tasks);
        // The first entry of worker 31 that is lost, by the parity of (T + E) / 16.
        let lost = if (tasks + events) / 16 % 2 == 1 {
            4
        } else {
            12
        };
        let damage = classify(layout, 31, 16).unwrap();
        assert_eq!(damage.atomic_from, Some(lost));
        assert_eq!(classify(layout, 31, lost).unwrap(), Damage::default());
    }
    assert_eq!(Layout::dense(256, 1024, 16).unwrap().slots(), 31);
    assert_eq!(Layout::dense(256, 1024, 17).unwrap().slots(), 24);
}

#[test]
fn both_kinds_of_damage_can_come_at_once() {
    let eleven = classify(Layout::Fixed, 31, 11).unwrap();
    assert_eq!((eleven.atomic_from, eleven.past_image_bytes), (Some(6), 8));
    let ten = classify(Layout::Fixed, 31, 10).unwrap();
    assert_eq!((ten.atomic_from, ten.past_image_bytes), (Some(6), 0));
    assert!(!classify(Layout::Fixed, 31, 6).unwrap().any());
}

#[test]
fn the_per_core_tables_end_with_the_cores_they_are_built_for() {
    for (table, bytes) in [(TilingTable::Gmm, 2016), (TilingTable::SwiGlu, 80)] {
        assert_eq!(table.past_bytes(23, 24).unwrap(), 0);
        assert_eq!(table.past_bytes(24, 24).unwrap(), bytes);
        assert!(table.past_bytes(u64::MAX - 1, 24).is_err());
    }
}

#[test]
fn bad_geometry_gets_the_fields_error() {
    let good = Attributes {
        rank_id: 0,
        ep: 8,
        expert_num: 64,
        hidden_size: 7168,
        seq_size: 4096,
    };
    let policies = Policies::mindspore(Version::V2_10_0);
    let refused = |cores, attributes: Attributes| {
        let launched = launched_cores(&policies, Pass::Backward, cores, &attributes);
        launched.unwrap_err().to_string()
    };
    assert_eq!(
        launched_cores(&policies, Pass::Backward, 64, &good).unwrap(),
        64
    );
    assert_eq!(refused(0, good), "coreNum cannot be 0: it is at least 1");
    assert_eq!(refused(-3, good), "coreNum cannot be -3: it is at least 1");
    let cases = [
        (
            Attributes {
                rank_id: -1,
                ..good
            },
            "rankId cannot be -1: it is at least 0",
        ),
        (
            Attributes { rank_id: 8, ..good },
            "rankId cannot be 8: it is less than ep",
        ),
        (
            Attributes { ep: 0, ..good },
            "ep cannot be 0: it is at least 1",
        ),
        (
            Attributes {
                expert_num: 0,
                ..good
            },
            "expertNum cannot be 0: it is at least 1",
        ),
        (
            Attributes {
                expert_num: 63,
                ..good
            },
            "expertNum cannot be 63: it is a multiple of ep",
        ),
        (
            Attributes {
                expert_num: 136,
                ..good
            },
            "expertNum cannot be 136: a rank has at most 16",
        ),
        (
            Attributes {
                hidden_size: 0,
                ..good
            },
            "hiddenSize cannot be 0: it is at least 1",
        ),
        (
            Attributes {
                seq_size: -1,
                ..good
            },
            "seqSize cannot be -1: it is at least 1",
        ),
    ];
    for (attributes, message) in cases {
        assert_eq!(refused(24, attributes), message);
    }
    let huge = Attributes {
        seq_size: i64::MAX,
        ..good
    };
    assert!(refused(24, huge).ends_with("its product with hiddenSize and ep overflows"));
    let cores = |cores| {
        validate_num_cube_cores(&policies, cores)
            .unwrap_err()
            .to_string()
    };
    assert_eq!(
        cores(0),
        "num_cube_cores cannot be 0: it is a positive integer"
    );
    assert!(cores(i64::MAX).ends_with("twice as many overflow"));
    assert_eq!(validate_num_cube_cores(&policies, 24).unwrap(), 48);
    for (tasks, events, experts) in [(0, 1024, 8), (17, 1024, 8), (16, 1008, 8), (16, 1024, 0)] {
        assert!(Layout::dense(tasks, events, experts).is_err());
    }
    assert!(Layout::dense(1 << 40, 1024, 8).is_err());
    assert!(Layout::Fixed.slot(u64::MAX / 64).is_err());
    assert!(classify(Layout::Fixed, 0, u64::MAX).is_err());
}

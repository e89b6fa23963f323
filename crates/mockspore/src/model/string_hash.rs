//! libstdc++'s `std::hash<std::string>`: 64-bit `MurmurHash2` with a fixed seed.
//! It decides in which bucket a key lies, and so the order of iteration.

const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
const SEED: u64 = 0xc70f_6907;

/// The hash of a string.
pub(crate) fn string_hash(text: &str) -> u64 {
    let mixed = |value: u64| value ^ (value >> 47);
    let bytes = text.as_bytes();
    let (words, rest) = bytes.as_chunks::<8>();
    let mut hash = SEED ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
    for &word in words {
        let data = mixed(u64::from_le_bytes(word).wrapping_mul(MULTIPLIER));
        hash = (hash ^ data.wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(MULTIPLIER);
    }
    mixed(mixed(hash).wrapping_mul(MULTIPLIER))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_those_of_libstdcxx() {
        let seen = [
            ("", 6_142_509_188_972_423_790),
            ("a", 4_993_892_634_952_068_459),
            ("abcdefg", 16_063_891_478_991_045_295),
            ("abcdefgh", 8_664_279_048_047_335_611),
            ("Tensor_0000000000000001", 18_041_713_092_384_147_629),
            ("Tensor_0000000000010001", 2_473_998_884_767_244_710),
        ];
        for (text, hash) in seen {
            assert_eq!(string_hash(text), hash, "{text}");
        }
    }
}

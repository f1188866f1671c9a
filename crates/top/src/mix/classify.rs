//! What one x86 instruction is: the instruction set it belongs to, and what it does to memory and control.

use iced_x86::{
    CpuidFeature, Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory,
    OpAccess, OpKind, Register,
};

use super::{Class, Kind};

/// Decodes the one instruction that `bytes` begin with; None when they begin with none.
///
/// `bits` is 64, or 32 for a program of the older kind.
pub fn classify(bytes: &[u8], bits: u32) -> Option<Kind> {
    let mut decoder = Decoder::new(bits, bytes, DecoderOptions::NONE);
    let instruction = decoder.decode();
    if instruction.is_invalid() {
        return None;
    }
    let mut factory = InstructionInfoFactory::new();
    let mut kind = Kind {
        class: class(&instruction),
        branches: is_branch(&instruction),
        vector_bits: vector_bits(&instruction),
        ..Kind::default()
    };
    for memory in factory.info(&instruction).used_memory() {
        let (loads, stores) = accesses(memory.access());
        kind.loads |= loads;
        kind.stores |= stores;
    }
    if kind.class == Class::Scalar {
        kind.vector_bits = 0;
    }
    Some(kind)
}

fn accesses(access: OpAccess) -> (bool, bool) {
    match access {
        OpAccess::Read | OpAccess::CondRead => (true, false),
        OpAccess::Write | OpAccess::CondWrite => (false, true),
        OpAccess::ReadWrite | OpAccess::ReadCondWrite => (true, true),
        _ => (false, false),
    }
}

fn is_branch(instruction: &Instruction) -> bool {
    match instruction.flow_control() {
        FlowControl::UnconditionalBranch
        | FlowControl::IndirectBranch
        | FlowControl::ConditionalBranch
        | FlowControl::Return
        | FlowControl::IndirectCall => true,
        // System calls count as calls there, and are none of the program's own branches.
        FlowControl::Call => !format!("{:?}", instruction.mnemonic()).starts_with("Sys"),
        _ => false,
    }
}

fn registers(instruction: &Instruction) -> impl Iterator<Item = Register> {
    (0..instruction.op_count())
        .filter(|operand| instruction.op_kind(*operand) == OpKind::Register)
        .map(|operand| instruction.op_register(operand))
}

/// The width of the widest vector register, 0 when there is none.
fn vector_bits(instruction: &Instruction) -> u16 {
    registers(instruction)
        .map(|register| {
            if register.is_zmm() {
                512
            } else if register.is_ymm() {
                256
            } else if register.is_xmm() {
                128
            } else if register.is_mm() {
                64
            } else {
                0
            }
        })
        .max()
        .unwrap_or(0)
}

/// The instruction set. Features name what a CPU must have, so that SSE has instructions, such as fences and
/// prefetches, that touch no vector: those are scalar.
fn class(instruction: &Instruction) -> Class {
    let features = instruction.cpuid_features();
    let names: Vec<String> = features
        .iter()
        .map(|feature: &CpuidFeature| format!("{feature:?}"))
        .collect();
    let any = |prefixes: &[&str]| {
        names
            .iter()
            .any(|name| prefixes.iter().any(|prefix| name.starts_with(prefix)))
    };
    if any(&["AMX"]) {
        return Class::Amx;
    }
    if any(&[
        "AES", "VAES", "SHA", "PCLMUL", "VPCLMUL", "SM3", "SM4", "PADLOCK",
    ]) {
        return Class::Crypto;
    }
    if any(&["FPU"]) {
        return Class::X87;
    }
    let touches_vectors = registers(instruction)
        .any(|register| register.is_vector_register() || register.is_mm() || register.is_k());
    let mnemonic = format!("{:?}", instruction.mnemonic());
    let is_vector_set = any(&[
        "SSE",
        "SSSE",
        "AVX",
        "FMA",
        "F16C",
        "XOP",
        "GFNI",
        "MMX",
        "CYRIX_EMMI",
        "D3NOW",
    ]);
    if !is_vector_set || !(touches_vectors || converts(&mnemonic) || mnemonic == "Vzeroupper") {
        return Class::Scalar;
    }
    if is_scalar_float(&mnemonic) {
        return Class::ScalarFloat;
    }
    if any(&["AVX512", "AVX10"]) || registers(instruction).any(|register| register.is_zmm()) {
        Class::Avx512
    } else if any(&["AVX", "FMA", "F16C", "XOP"]) {
        Class::Avx
    } else if any(&["MMX", "CYRIX_EMMI", "D3NOW"]) && vector_bits(instruction) < 128 {
        Class::Mmx
    } else {
        Class::Sse
    }
}

/// A conversion between general registers and floating point in memory names no vector register.
fn converts(mnemonic: &str) -> bool {
    mnemonic.starts_with("Cvt") || mnemonic.starts_with("Vcvt")
}

/// Instructions on one single- or double-precision number in a vector register: `addsd`, `vfmadd231ss`,
/// `cvtsi2sd`. Integer instructions, whose names begin with P, may end likewise (`pabsd`).
fn is_scalar_float(mnemonic: &str) -> bool {
    let name = mnemonic.to_ascii_lowercase();
    let name = name.strip_prefix('v').unwrap_or(&name);
    if name.starts_with('p') || name.starts_with("broadcast") {
        return false;
    }
    ["ss", "sd", "sh", "2si", "2usi"]
        .iter()
        .any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(bytes: &[u8]) -> Kind {
        classify(bytes, 64).expect("an instruction")
    }

    /// Encodings as GNU as writes them.
    #[test]
    fn instruction_sets() {
        let table: [(&[u8], Class, u16, &str); 22] = [
            (&[0x48, 0x01, 0xd8], Class::Scalar, 0, "add %rbx,%rax"),
            (&[0x0f, 0xae, 0xe8], Class::Scalar, 0, "lfence"),
            (&[0xf3, 0x90], Class::Scalar, 0, "pause"),
            (&[0x0f, 0x18, 0x08], Class::Scalar, 0, "prefetcht0 (%rax)"),
            (
                &[0x48, 0x0f, 0xc3, 0x00],
                Class::Scalar,
                0,
                "movnti %rax,(%rax)",
            ),
            (&[0xd8, 0xc1], Class::X87, 0, "fadd %st(1),%st"),
            (&[0x0f, 0xfe, 0xc1], Class::Mmx, 64, "paddd %mm1,%mm0"),
            (
                &[0xf2, 0x0f, 0x58, 0xc1],
                Class::ScalarFloat,
                128,
                "addsd %xmm1,%xmm0",
            ),
            (
                &[0xf2, 0x48, 0x0f, 0x2c, 0x00],
                Class::ScalarFloat,
                0,
                "cvttsd2si (%rax),%rax",
            ),
            (
                &[0xc5, 0xf3, 0x58, 0xc0],
                Class::ScalarFloat,
                128,
                "vaddsd %xmm0,%xmm1,%xmm0",
            ),
            (&[0xa4], Class::Scalar, 0, "movsb"),
            (&[0xa5], Class::Scalar, 0, "movsd, the string instruction"),
            (&[0x0f, 0x58, 0xc1], Class::Sse, 128, "addps %xmm1,%xmm0"),
            (
                &[0x66, 0x0f, 0x38, 0x1e, 0xc1],
                Class::Sse,
                128,
                "pabsd %xmm1,%xmm0",
            ),
            (
                &[0xc5, 0xf4, 0x58, 0xc0],
                Class::Avx,
                256,
                "vaddps %ymm0,%ymm1,%ymm0",
            ),
            (
                &[0xc5, 0xf5, 0xfe, 0xc0],
                Class::Avx,
                256,
                "vpaddd %ymm0,%ymm1,%ymm0",
            ),
            (
                &[0xc4, 0xe2, 0x75, 0xb8, 0xc0],
                Class::Avx,
                256,
                "vfmadd231ps %ymm0,%ymm1,%ymm0",
            ),
            (&[0xc5, 0xf8, 0x77], Class::Avx, 0, "vzeroupper"),
            (
                &[0x62, 0xf1, 0x74, 0x48, 0x58, 0xc0],
                Class::Avx512,
                512,
                "vaddps %zmm0,%zmm1,%zmm0",
            ),
            (
                &[0xc5, 0xf4, 0x41, 0xc0],
                Class::Avx512,
                0,
                "kandw %k0,%k1,%k0",
            ),
            (
                &[0x66, 0x0f, 0x38, 0xdc, 0xc1],
                Class::Crypto,
                128,
                "aesenc %xmm1,%xmm0",
            ),
            (
                &[0xc4, 0xe2, 0x63, 0x5e, 0xca],
                Class::Amx,
                0,
                "tdpbssd %tmm3,%tmm2,%tmm1",
            ),
        ];
        for (bytes, class, bits, text) in table {
            let kind = of(bytes);
            assert_eq!((kind.class, kind.vector_bits), (class, bits), "{text}");
        }
    }

    #[test]
    fn what_instructions_do() {
        let does = |bytes: &[u8]| {
            let kind = of(bytes);
            (kind.loads, kind.stores, kind.branches)
        };
        assert_eq!(
            does(&[0x48, 0x8b, 0x00]),
            (true, false, false),
            "mov (%rax),%rax"
        );
        assert_eq!(
            does(&[0x48, 0x89, 0x00]),
            (false, true, false),
            "mov %rax,(%rax)"
        );
        assert_eq!(
            does(&[0x48, 0x01, 0x00]),
            (true, true, false),
            "add %rax,(%rax)"
        );
        assert_eq!(
            does(&[0x48, 0x8d, 0x00]),
            (false, false, false),
            "lea (%rax),%rax"
        );
        assert_eq!(does(&[0x75, 0x00]), (false, false, true), "jne");
        assert_eq!(does(&[0xc3]), (true, false, true), "ret");
        assert_eq!(does(&[0xe8, 0, 0, 0, 0]), (false, true, true), "call");
        assert_eq!(does(&[0x0f, 0x05]), (false, false, false), "syscall");
    }

    #[test]
    fn the_same_bytes_are_something_else_in_32_bits() {
        // inc %eax in 32 bits, a prefix in 64.
        assert_eq!(
            classify(&[0x40], 32).map(|kind| kind.class),
            Some(Class::Scalar)
        );
        assert_eq!(classify(&[0x40], 64), None);
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_do_no_harm(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            classify(&bytes, 64);
            classify(&bytes, 32);
        }
    }
}

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of what check_instructions.py reads out of the text of other programs."""
import unittest

import check_instructions as ci

X86 = """
In archive libhone_kernels.a:

gemm_int4_avx512vnni.cc.o:     file format elf64-x86-64


Disassembly of section .text:

0000000000000000 <hone::kernels::gemm_int4::(anonymous namespace)::Tile<(int)12>(hone::kernels::IntGemmArgs const&, long)>:
   0:\tpush   %rbp
   4:\tvpxor  %xmm0,%xmm0,%xmm0
   8:\tvmovdqu64 (%rax),%zmm1
   e:\tvpdpbusd (%rcx){1to16},%zmm1,%zmm2
  14:\tvpdpbusd 0x4(%rcx){1to16},%zmm1,%zmm3
  1c:\tadd    $0x40,%rax
  20:\tcmp    %rax,%rdx
  23:\tjne    8 <hone::kernels::gemm_int4::(anonymous namespace)::Tile<(int)12>(hone::kernels::IntGemmArgs const&, long)+0x8>
  25:\tvpdpbusd (%rcx),%zmm1,%zmm2
  2b:\tjmp    25 <hone::kernels::gemm_int4::(anonymous namespace)::Tile<(int)12>(hone::kernels::IntGemmArgs const&, long)+0x25>
  2d:\tjb     4 <hone::kernels::gemm_int4::(anonymous namespace)::Tile<(int)12>(hone::kernels::IntGemmArgs const&, long)+0x4>
  2f:\tcall   4 <elsewhere>
  34:\tret

other.cc.o:     file format elf64-x86-64

0000000000000000 <other>:
   0:\tvpdpbusd (%rcx),%zmm1,%zmm2
   6:\tjmp    0 <other>
"""

ARM = """
gemm_int8_neon_i8mm.cc.o:     file format elf64-littleaarch64

0000000000000000 <gemm>:
   0:\tldr\tq0, [x1]
   4:\tsmmla\tv1.4s, v0.16b, v2.16b
   8:\tsubs\tx2, x2, #0x1
   c:\tb.ne\t0 <gemm>  // b.any
  10:\tsdot\tv1.4s, v0.16b, v2.4b[1]
  14:\ttbnz\tw0, #3, 10 <gemm+0x10>
  18:\tcbz\tx0, 20 <gemm+0x20>
  1c:\tret
  20:\tret
"""

CALLGRIND = """
--------------------------------------------------------------------------------
Ir                    file:function
--------------------------------------------------------------------------------
2,813,042 (100.0%)  ???:(below main) [/usr/lib/x86_64-linux-gnu/libc.so.6]
  123,456 ( 4.39%)  src/kernels/kernel_instructions.cc:hone_case_int8_m1 [/build/kernel_instructions]
    9,999 ( 0.36%)  src/kernels/kernel_instructions.cc:hone_case_rmsnorm [/build/kernel_instructions]
"""


class Objdump(unittest.TestCase):
    def test_takes_the_innermost_loops_by_their_number_of_products(self):
        name = "gemm_int4_avx512vnni: gemm_int4::Tile<(int)12>"
        counts = ci.count_loops(X86, ci.X86_KERNEL)
        self.assertEqual(counts, {f"{name}, 2 dot": [6, 2], f"{name}, 1 dot": [2, 1]})

    def test_keeps_the_worst_of_the_loops_with_as_many_products(self):
        longer = X86.replace("%zmm2\n  2b:", "%zmm2\n  28:\tnop\n  2b:").replace("long)>:", "long) [clone .part.0]>:")
        for text in (X86 + longer, longer + X86):
            counts = ci.count_loops(text, ci.X86_KERNEL)
            self.assertEqual(counts["gemm_int4_avx512vnni: gemm_int4::Tile<(int)12>, 1 dot"], [3, 1])
        twice = X86.replace("  2f:\tcall   4 <elsewhere>", "  2f:\tvpdpbusd (%rcx),%zmm1,%zmm2\n  30:\tnop\n  31:\tjne 2f <x>")
        counts = ci.count_loops(twice, ci.X86_KERNEL)
        self.assertEqual(counts["gemm_int4_avx512vnni: gemm_int4::Tile<(int)12>, 1 dot"], [3, 1])

    def test_a_float_loop_does_not_hide_one_of_dot_products(self):
        text = X86.replace("gemm_int4_avx512vnni.cc.o", "attention_avx512vnni.cc.o")
        text = text.replace("  25:\tvpdpbusd", "  25:\tvfmadd231ps (%rcx),%zmm1,%zmm2\n  28:\tvfmadd231ps")
        name = "attention_avx512vnni: gemm_int4::Tile<(int)12>"
        self.assertEqual(ci.count_loops(text, ci.X86_KERNEL), {f"{name}, 2 dot": [6, 2], f"{name}, 2 fma": [3, 2]})

    def test_reads_instructions_with_a_named_encoding(self):
        want = list(ci.count_loops(X86, ci.X86_KERNEL).values())
        for prefix in ("{vex}", "{evex}", "{vex3}"):
            text = X86.replace("vpdpbusd", prefix + " vpdpbusd")
            self.assertEqual(list(ci.count_loops(text, ci.X86_KERNEL).values()), want)

    def test_an_object_without_loops_is_named(self):
        silent = X86.replace("vpdpbusd", "vunknown")
        for text, table, want in ((X86, {}, []), (silent, {}, ["gemm_int4_avx512vnni"])):
            counts = ci.count_loops(text, ci.X86_KERNEL)
            self.assertEqual(ci.objects_without_loops(text, ci.X86_KERNEL, counts, table), want)
        # Those of other families may have none, unless the table says that they had.
        silent = silent.replace("gemm_int4_avx512vnni.cc.o", "rope_avx512vnni.cc.o")
        for table, want in (({}, []), ({"rope_avx512vnni: F, 1 dot": [2, 1]}, ["rope_avx512vnni"])):
            self.assertEqual(ci.objects_without_loops(silent, ci.X86_KERNEL, {}, table), want)

    def test_knows_the_jumps_of_arm64(self):
        functions = ci.parse_objdump(ARM)
        instructions = functions[("gemm_int8_neon_i8mm.cc.o", "gemm")]
        self.assertEqual(len(instructions), 9)
        self.assertEqual(ci.innermost_loops(instructions), [(0, 3), (4, 5)])
        self.assertEqual(ci.count_loops(ARM, ci.ARM_KERNEL), {"gemm_int8_neon_i8mm: gemm, 1 dot": [4, 1]})

    def test_a_fused_multiply_add_counts_in_float_kernels_alone(self):
        text = ARM.replace("smmla", "fmla").replace("sdot", "fmla")
        self.assertEqual(ci.count_loops(text, ci.ARM_KERNEL), {})
        text = text.replace("gemm_int8", "attention").replace("i8mm", "dot")
        self.assertEqual(ci.count_loops(text, ci.ARM_KERNEL), {"attention_neon_dot: gemm, 1 fma": [4, 1]})

    def test_names_lose_parameters_and_clones(self):
        self.assertEqual(ci.plain_name("void hone::kernels::(anonymous namespace)::F<true, (A)1>(int) [clone .isra.0]"),
                         "F<true, (A)1>")


class Callgrind(unittest.TestCase):
    def test_reads_the_cases(self):
        self.assertEqual(ci.parse_callgrind(CALLGRIND), {"int8_m1": 123456, "rmsnorm": 9999})


class Compare(unittest.TestCase):
    def test_ten_percent_more_fails_and_less_asks(self):
        table = {"a": 1000, "b": 1000, "c": 1000, "d": 1000, "gone": 1}
        counts = {"a": 1100, "b": 1101, "c": 899, "d": 900, "new": 1}
        self.assertEqual(ci.compare("test", counts, table, float), (2, 2))


if __name__ == "__main__":
    unittest.main()

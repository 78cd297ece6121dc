# SPDX-License-Identifier: Apache-2.0
# hone check and hone repair.
hone_module(bundle_check SOURCES
  buffer_sizes.cc check_container.cc check_deep.cc check_graph.cc check_memory.cc check_npu.cc
  check_report.cc check_scales.cc check_subject.cc check_table.cc check_template.cc check_text.cc
  mask_pattern.cc peek_check.cc precision_audit.cc repair.cc repair_graph.cc repair_scales.cc
  DEPS bundle executor exporter graph quant model bridge formats codec base)
hone_test(check_test SOURCES
  check_test.cc peek_check_test.cc check_faults_graph.cc check_faults_text.cc test_bundle.cc
  ../formats/tflite/test_models.cc
  DEPS bundle_check bundle executor exporter graph quant model kernels bridge formats codec base)
hone_test(repair_test SOURCES repair_test.cc test_bundle.cc ../formats/tflite/test_models.cc
  DEPS bundle_check bundle executor exporter graph quant model kernels bridge formats codec base)
if(TARGET check_test)
  target_compile_definitions(check_test PRIVATE
    HONE_CHECKS_DOC="${CMAKE_SOURCE_DIR}/docs/checks.md")
endif()

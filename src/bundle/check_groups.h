// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// The functions of the table of checks, one file for each group.
#pragma once

#include "bundle/check_subject.h"

namespace hone::bundle {

// check_container.cc
void CheckHeader(const Subject& subject, Findings& out);
void CheckSections(const Subject& subject, Findings& out);
// check_text.cc
void CheckStops(const Subject& subject, Findings& out);
void CheckStart(const Subject& subject, Findings& out);
void CheckSampler(const Subject& subject, Findings& out);
void CheckLimits(const Subject& subject, Findings& out);
void CheckVocabulary(const Subject& subject, Findings& out);
// check_template.cc
void CheckTemplate(const Subject& subject, Findings& out);
// check_graph.cc
void CheckScales(const Subject& subject, Findings& out);
void CheckLadder(const Subject& subject, Findings& out);
void CheckContext(const Subject& subject, Findings& out);
void CheckPrecision(const Subject& subject, Findings& out);
// check_memory.cc
void CheckMemory(const Subject& subject, Findings& out);
// check_npu.cc
void CheckGpu(const Subject& subject, Findings& out);
void CheckNpu(const Subject& subject, Findings& out);
// check_deep.cc
void CheckHashes(const Subject& subject, Findings& out);
void CheckWeights(const Subject& subject, Findings& out);
void CheckGraphs(const Subject& subject, Findings& out);

}  // namespace hone::bundle

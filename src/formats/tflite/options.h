// SPDX-FileCopyrightText: The Hone authors
// SPDX-License-Identifier: Apache-2.0
// Which options table belongs to which operator. Needs the generated schema, so only this folder
// includes it.
#pragma once

#include "formats/tflite/tflite.h"
#include "tflite_schema_generated.h"

namespace hone::formats::tflite {

struct OptionFacts {
  Op op;
  fb::BuiltinOptions type;  // the table that the public schema gives to the operator
  bool has_fields;          // it says something; else it is neither read nor written
};

// Null for operators that Hone does not know.
const OptionFacts* FindOptionFacts(Op op);

}  // namespace hone::formats::tflite

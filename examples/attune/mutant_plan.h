// Which mutants a sample's rules can have: all kinds, each where it applies.
//
// What a rule writes and reads tells most of them. A mask, a term or a scale is there only where an op's formula has one:
// the samples of those ops are listed in mutant_formulas.cpp.
#pragma once

#include <string>
#include <vector>

#include "mutant_subject.h"

namespace attune::program {

struct Planned {
  std::string kind, detail;
  MutantOptions options;
};

inline constexpr const char* kAssigns = "assigns";

// The kinds, in the order of the table.
extern const std::vector<std::string> kMutantKinds;

// Of the rule that writes to this input.
std::vector<Planned> mutants_of(MutantSubject& subject, const MutantTarget& target);

// What mutants_of() takes from the op's formula: the mask ignored, a term dropped, the scale missing.
std::vector<Planned> mutants_by_formula(const OpSample& sample, const MutantTarget& target);

// A mutant of the rule that writes to this input, and of no other.
MutantOptions aimed(const MutantTarget& target, MutantOptions options);

// The op that a sample is of: "softmax" of "softmax, causal".
std::string op_of(const OpSample& sample);

}  // namespace attune::program

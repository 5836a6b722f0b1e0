// SPDX-License-Identifier: Apache-2.0
// The choices that all kinds of random problems share. Used by problem.cc and conv.cc.
#pragma once

#include <array>

#include "lab/random/dice.h"
#include "lab/random/problem.h"

namespace sluice::lab {

inline Dice dice_of(const RandomSpec& spec, int index) {
  return Dice(spec.seed * 0x9e3779b97f4a7c15ull + static_cast<u64>(index));
}

inline constexpr std::array<DType, 3> kVectorTypes = {DType::bf16, DType::fp16, DType::fp32};
inline constexpr std::array<Activation, 4> kActivations = {Activation::none, Activation::relu,
                                                           Activation::gelu, Activation::silu};

inline Activation random_activation(Dice& dice, const RandomSpec& spec) {
  return kActivations[static_cast<size_t>(dice.below(spec.exact ? 2 : 4))];
}

}  // namespace sluice::lab

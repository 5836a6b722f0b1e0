// SPDX-License-Identifier: Apache-2.0
// A member that exists only in some configs; in the others it is empty and takes no register.
#pragma once

namespace sluice {

struct Nothing {};

template <bool kWanted, class T>
struct OptionalMember {
  using Type = T;
};
template <class T>
struct OptionalMember<false, T> {
  using Type = Nothing;
};

template <bool kWanted, class T>
using Optional = typename OptionalMember<kWanted, T>::Type;

}  // namespace sluice

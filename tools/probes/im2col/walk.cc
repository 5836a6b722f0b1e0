// SPDX-License-Identifier: Apache-2.0
#include "walk.h"

#include "../harness.h"

namespace probe {

void Geometry::pack(int pitch) {
  strides[0] = 1;
  strides[1] = pitch;
  for (int d = 2; d <= spatial + 1; ++d) strides[d] = strides[d - 1] * dims[d - 1];
}

std::string Geometry::text() const {
  std::string out = format("%d-D dims", spatial);
  for (int d = 0; d < rank(); ++d) out += format(" %d", dims[d]);
  out += " pitch" + format(" %ld lower", strides[1]);
  for (int d = 0; d < spatial; ++d) out += format(" %d", lower[d]);
  out += " upper";
  for (int d = 0; d < spatial; ++d) out += format(" %d", upper[d]);
  out += " steps";
  for (int d = 0; d < spatial; ++d) out += format(" %d", steps[d]);
  return out + format(" box %dx%d of %d bytes swizzle %d", channels, pixels, element_bytes, swizzle);
}

std::string Start::text(int spatial) const {
  std::string out = "at";
  for (int d = 0; d < spatial + 2; ++d) out += format(" %d", at[d]);
  out += " offsets";
  for (int d = 0; d < spatial; ++d) out += format(" %d", offsets[d]);
  return out;
}

std::vector<long> rows_of(const Geometry& g, const Start& start) {
  std::vector<long> rows(g.pixels);
  int at[4];  // w, h, d, n
  for (int d = 0; d <= g.spatial; ++d) at[d] = start.at[1 + d];
  for (long& row : rows) {
    row = g.base;
    bool inside = at[g.spatial] >= 0 && at[g.spatial] < g.images();
    for (int d = 0; d < g.spatial; ++d) {
      const int x = at[d] + start.offsets[d];
      inside = inside && x >= 0 && x < g.dims[1 + d];
      row += x * g.strides[1 + d];
    }
    row += at[g.spatial] * g.strides[1 + g.spatial];
    if (!inside) row = -1;
    int d = 0;
    for (; d < g.spatial; ++d) {
      at[d] += g.steps[d];
      if (at[d] < g.dims[1 + d] + g.upper[d] + (planted() && d == 0 ? 1 : 0)) break;
      at[d] = g.lower[d];
    }
    if (d == g.spatial) ++at[g.spatial];
  }
  return rows;
}

int live_channels(const Geometry& g, const Start& start) {
  const int left = g.dims[0] - start.at[0];
  return left < 0 ? 0 : left < g.channels ? left : g.channels;
}

unsigned swizzled(unsigned address, int swizzle) {
  const unsigned mask = swizzle == 128 ? 7 : swizzle == 64 ? 3 : swizzle == 32 ? 1 : 0;
  return address ^ ((address >> 7 & mask) << 4);
}

}  // namespace probe

// SPDX-License-Identifier: Apache-2.0
// E0: whether an im2col box has the same layout in shared memory as a tiled box of the same rows, and where
// the slices of a multicast are written.
#include "compare.h"
#include "experiments.h"

namespace probe {
namespace {

constexpr int kWidth = 56, kHeight = 56, kImages = 2, kChannels = 128;

Geometry whole_image(int rows) {
  Geometry g;
  g.dims[0] = kChannels, g.dims[1] = kWidth, g.dims[2] = kHeight, g.dims[3] = kImages;
  g.pack(kChannels);
  g.pixels = rows;
  return g;
}

Start start_at(int pixel, int channel) {
  Start s;
  s.at[0] = channel, s.at[1] = pixel % kWidth, s.at[2] = pixel / kWidth % kHeight;
  s.at[3] = pixel / kWidth / kHeight;
  return s;
}

}  // namespace

void run_layout(Cases& cases) {
  BoxLoader loader(4 * 4 * 64 * 128 + 256 * 128);
  const Buffer<uint16_t> x(kWidth * kHeight * kImages * kChannels, 1);
  std::printf("%-34s %8s %8s %8s\n", "case", "arrived", "wrong", "differ");
  for (const int rows : {8, 24, 32, 64, 66, 72, 128, 256})
    for (const int pixel : {0, 50, 3100}) {
      if (!cases.begin(format("swizzle rows %d pixel %d", rows, pixel))) continue;
      const Geometry g = whole_image(rows);
      const Matrix m{
          .rows = kWidth * kHeight * kImages, .columns = kChannels, .pitch = kChannels, .box_rows = rows};
      bool came = false, tiled_came = false;
      const auto box = loader.im2col(im2col_map(g, x.device), g, start_at(pixel, 64), &came);
      const auto tiled = loader.tiled(tiled_map(m, x.device), m, 64, pixel, &tiled_came);
      int differ = 0;
      for (size_t i = 0; i < box.size(); ++i) differ += box[i] != tiled[i];
      const int wrong = wrong_elements(box, expected_box(g, start_at(pixel, 64), x.host), 128);
      std::printf("%-34s %8d %8d %8d\n", cases.name().c_str(), came && tiled_came, wrong, differ);
      Line(cases.experiment(), cases.name())
          .add("arrived", came && tiled_came)
          .add("wrong_elements", wrong)
          .add("bytes_that_differ_from_tiled", differ)
          .write();
    }
  for (const int ctas : {2, 4})
    for (const int rows : {8, 16, 24, 32, 64}) {
      if (!cases.begin(format("multicast of %d slices of %d rows", ctas, rows))) continue;
      const Geometry g = whole_image(rows);
      std::vector<Start> starts;
      std::vector<uint16_t> expected;
      for (int rank = 0; rank < ctas; ++rank) {
        starts.push_back(start_at(3000 + rank * rows, 0));
        const auto slice = expected_box(g, starts.back(), x.host);
        expected.insert(expected.end(), slice.begin(), slice.end());
      }
      bool came = false;
      const auto all = loader.multicast(im2col_map(g, x.device), g, starts, &came);
      int wrong = 0;
      const size_t each = all.size() / ctas;
      for (int rank = 0; rank < ctas; ++rank) {
        const std::vector<unsigned char> own(all.begin() + rank * each, all.begin() + (rank + 1) * each);
        wrong += wrong_elements(own, expected, 128);
      }
      std::printf("%-34s %8d %8d\n", cases.name().c_str(), came, wrong);
      Line(cases.experiment(), cases.name()).add("arrived", came).add("wrong_elements", wrong).write();
    }
}

}  // namespace probe

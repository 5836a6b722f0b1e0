// SPDX-License-Identifier: Apache-2.0
// The calls of c_api_fuzz.cc from eight threads at once, with random bytes from a seed: `c_api_threads CALLS
// SEED`. The sanitizers and the checks there end the process where something is wrong; else it prints what it
// did.
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size);

namespace {

constexpr int kThreads = 8;
constexpr int kMostBytes = 512;

/// Mostly small numbers, among them what is at the ends of their ranges.
unsigned char byte_of(std::mt19937_64& random) {
  constexpr unsigned char kOften[] = {0, 0, 0, 0, 1, 2, 8, 16, 64, 128, 127, 255};
  const auto pick = random() % 16;
  return pick < sizeof(kOften) ? kOften[pick] : static_cast<unsigned char>(random());
}

void call(long calls, unsigned long long seed) {
  std::mt19937_64 random(seed);
  std::vector<unsigned char> bytes;
  for (long i = 0; i < calls; ++i) {
    bytes.resize(1 + random() % kMostBytes);
    for (unsigned char& byte : bytes) byte = byte_of(random);
    bytes[0] = static_cast<unsigned char>(i);  // which function
    LLVMFuzzerTestOneInput(bytes.data(), bytes.size());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const long calls = argc > 1 ? std::atol(argv[1]) : 10000;
  const unsigned long long seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back(call, calls / kThreads, seed * kThreads + static_cast<unsigned long long>(i));
  for (std::thread& thread : threads) thread.join();
  std::printf("%ld C calls from %d threads, seed %llu: nothing wrong\n", calls / kThreads * kThreads,
              kThreads, seed);
}

// SPDX-License-Identifier: Apache-2.0
// Makes the calls of c_api_fuzz.cc from eight threads at once. `c_api_threads CALLS SEED FILE...` reads fuzz
// inputs and changes some bytes before each call. Sanitizers and checks end the process at a fault. Otherwise
// it prints its counts.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <thread>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size);

namespace {

constexpr int kThreads = 8;
constexpr int kMostChanges = 6;

/// Returns mostly small numbers, and sometimes an end of the range.
char byte_of(std::mt19937_64& random) {
  constexpr unsigned char kOften[] = {0, 0, 0, 0, 1, 2, 8, 16, 64, 128, 127, 255};
  const auto pick = random() % 16;
  return static_cast<char>(pick < sizeof(kOften) ? kOften[pick] : random());
}

void call(const std::vector<std::string>& inputs, long calls, unsigned long long seed) {
  std::mt19937_64 random(seed);
  for (long i = 0; i < calls; ++i) {
    std::string bytes = inputs[random() % inputs.size()];
    for (auto changes = random() % kMostChanges; changes > 0; --changes)
      bytes[random() % bytes.size()] = byte_of(random);
    LLVMFuzzerTestOneInput(reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  }
}

}  // namespace

int main(int argc, char** argv) {
  const long calls = argc > 1 ? std::atol(argv[1]) : 10000;
  const unsigned long long seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  std::vector<std::string> inputs;
  for (int i = 3; i < argc; ++i) {
    std::ifstream file(argv[i], std::ios::binary);
    inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    if (inputs.back().empty()) inputs.pop_back();
  }
  if (inputs.empty()) return std::fprintf(stderr, "no inputs: give files\n"), 2;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i)
    threads.emplace_back(call, std::cref(inputs), calls / kThreads,
                         seed * kThreads + static_cast<unsigned long long>(i));
  for (std::thread& thread : threads) thread.join();
  std::printf("%ld C calls from %d threads, seed %llu: nothing wrong\n", calls / kThreads * kThreads,
              kThreads, seed);
}

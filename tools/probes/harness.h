// SPDX-License-Identifier: Apache-2.0
// Every probe writes one JSON line per case, and runs each experiment in a child process. If a case kills the
// child, the parent starts a new child at the next case. So a sticky CUDA error or a hang loses only one
// case.
#pragma once

#include <cuda_runtime.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace probe {

/// One line of the JSON file. Keys and texts must not contain quotes.
class Line {
 public:
  Line(const std::string& experiment, const std::string& name);
  Line& add(const char* key, const std::string& value);
  Line& add(const char* key, const char* value) { return add(key, std::string(value)); }
  Line& add(const char* key, double value);
  Line& add(const char* key, int value) { return add(key, static_cast<double>(value)); }
  Line& add(const char* key, long long value) { return add(key, static_cast<double>(value)); }
  Line& add(const char* key, unsigned long long value) { return add(key, static_cast<double>(value)); }
  Line& add(const char* key, bool value);
  /// Appends the line to the file and flushes it.
  void write();

 private:
  std::string text_;
};

/// Memory that parent and child share.
struct Progress {
  int current = -1;  // index of the case that is running
  char name[160] = "";
};

/// Iterates over the cases of one experiment; cases before `first` have run in an earlier process.
class Cases {
 public:
  Cases(const char* experiment, int first, Progress* progress)
      : experiment_(experiment), first_(first), progress_(progress) {}
  /// True if the case is to run now. A case that takes longer than the watchdog's time ends the process.
  bool begin(const std::string& name);
  const char* experiment() const { return experiment_; }
  const std::string& name() const { return name_; }

 private:
  const char* experiment_;
  int first_, next_ = 0;
  Progress* progress_;
  std::string name_;
};

/// Ends the process if `error` is not success; the parent records the case and continues with the next one.
void check(cudaError_t error, const char* what);

struct Experiment {
  const char* name;
  void (*run)(Cases&);
  bool needs_gpu;
};

/// Runs the experiments named on the command line (`all`: each), one child at a time. Options: --json FILE,
/// --plant (a wrong expectation, which must be reported), --seconds LIMIT of each case.
int run_experiments(int argc, char** argv, const std::vector<Experiment>& experiments);

/// True with --plant: expectations are made wrong on purpose.
bool planted();

/// Device memory that lives until the process ends.
template <class T>
T* device_array(size_t count) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, count * sizeof(T)), "cudaMalloc");
  return static_cast<T*>(memory);
}
template <class T>
void copy_to_device(T* to, const std::vector<T>& from) {
  check(cudaMemcpy(to, from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice), "copy to the device");
}
template <class T>
std::vector<T> copy_to_host(const T* from, size_t count) {
  std::vector<T> to(count);
  check(cudaMemcpy(to.data(), from, count * sizeof(T), cudaMemcpyDeviceToHost), "copy to the host");
  return to;
}

/// A small random generator, so that each run has the same cases.
class Random {
 public:
  explicit Random(unsigned long long seed) : state_(seed * 0x9e3779b97f4a7c15ull + 1) {}
  unsigned next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<unsigned>(state_ >> 16);
  }
  int in(int low, int high) { return low + static_cast<int>(next() % static_cast<unsigned>(high - low + 1)); }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[next() % values.size()];
  }

 private:
  unsigned long long state_;
};

std::string format(const char* text, ...) __attribute__((format(printf, 1, 2)));

}  // namespace probe

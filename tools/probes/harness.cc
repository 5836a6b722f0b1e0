// SPDX-License-Identifier: Apache-2.0
// The parent process and its children, and the JSON lines that they write.
#include "harness.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstring>

namespace probe {
namespace {

constexpr int kMostRestarts = 40;
constexpr int kCaseFailed = 3;

std::string json_path = "probes.jsonl";
bool plant = false;
int case_seconds = 20;

struct Ended {
  bool clean = false;
  std::string reason;
};

/// Waits for the child. Kills it if it stays in one case for longer than the limit.
Ended wait_for(pid_t child, const Progress& progress) {
  int seen = -1;
  for (double waited = 0;; waited += 0.01) {
    int status = 0;
    if (waitpid(child, &status, WNOHANG) == child) {
      if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {true, ""};
      if (WIFEXITED(status)) return {false, format("exit status %d", WEXITSTATUS(status))};
      return {false, format("signal %d", WTERMSIG(status))};
    }
    if (progress.current != seen) seen = progress.current, waited = 0;
    if (waited > case_seconds) {
      kill(child, SIGKILL);
      waitpid(child, &status, 0);
      return {false, format("no end within %d s, killed", case_seconds)};
    }
    usleep(10000);
  }
}

/// Makes a context. `say`: writes the names of the GPU, its driver and its runtime to the file.
void open_device(const Experiment& experiment, bool say) {
  check(cudaFree(nullptr), "cudaFree, to make a context");
  if (!say) return;
  cudaDeviceProp properties;
  int driver = 0, runtime = 0;
  check(cudaGetDeviceProperties(&properties, 0), "the GPU's properties");
  check(cudaDriverGetVersion(&driver), "the driver's version");
  check(cudaRuntimeGetVersion(&runtime), "the runtime's version");
  std::printf("%s, %d SMs, driver %d, runtime %d\n", properties.name, properties.multiProcessorCount, driver,
              runtime);
  Line(experiment.name, "device")
      .add("name", properties.name)
      .add("sms", properties.multiProcessorCount)
      .add("driver", driver)
      .add("runtime", runtime)
      .write();
}

/// Runs one experiment. Returns true if no case had to be ended.
bool run_one(const Experiment& experiment, Progress* progress) {
  bool clean = true;
  for (int first = 0, restarts = 0;; ++restarts) {
    progress->current = -1;
    std::fflush(stdout);
    const pid_t child = fork();
    if (child < 0) {
      std::printf("%s: fork failed\n", experiment.name);
      return false;
    }
    if (child == 0) {
      if (experiment.needs_gpu) open_device(experiment, first == 0);
      Cases cases(experiment.name, first, progress);
      experiment.run(cases);
      if (experiment.needs_gpu) check(cudaDeviceSynchronize(), "the end of the experiment");
      std::fflush(stdout);
      _exit(0);
    }
    const Ended ended = wait_for(child, *progress);
    if (ended.clean) return clean;
    clean = false;
    const bool any = progress->current >= first;
    const char* at = any ? progress->name : "start";
    std::printf("%s: case %d (%s) ended the process: %s\n", experiment.name, progress->current, at,
                ended.reason.c_str());
    Line(experiment.name, at).add("failed", true).add("reason", ended.reason).write();
    if (!any || restarts == kMostRestarts) return false;
    first = progress->current + 1;
  }
}

}  // namespace

std::string format(const char* text, ...) {
  char out[1000];
  va_list arguments;
  va_start(arguments, text);
  std::vsnprintf(out, sizeof out, text, arguments);
  va_end(arguments);
  return out;
}

Line::Line(const std::string& experiment, const std::string& name) {
  text_ = "{\"experiment\": \"" + experiment + "\", \"case\": \"" + name + "\"";
}
Line& Line::add(const char* key, const std::string& value) {
  text_ += format(", \"%s\": \"", key) + value + "\"";
  return *this;
}
Line& Line::add(const char* key, double value) {
  text_ += std::isfinite(value) ? format(", \"%s\": %.9g", key, value) : format(", \"%s\": null", key);
  return *this;
}
Line& Line::add(const char* key, bool value) {
  text_ += format(", \"%s\": %s", key, value ? "true" : "false");
  return *this;
}
void Line::write() {
  const std::string line = text_ + "}\n";
  const int file = open(json_path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (file < 0 || ::write(file, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    std::printf("%s cannot be written\n", json_path.c_str());
  if (file >= 0) close(file);
}

bool Cases::begin(const std::string& name) {
  const int index = next_++;
  if (index < first_) return false;
  name_ = name;
  std::snprintf(progress_->name, sizeof progress_->name, "%s", name.c_str());
  progress_->current = index;
  return true;
}

void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::printf("%s: %s (%s)\n", what, cudaGetErrorString(error), cudaGetErrorName(error));
  std::fflush(stdout);
  _exit(kCaseFailed);
}

bool planted() {
  return plant;
}

int run_experiments(int argc, char** argv, const std::vector<Experiment>& experiments) {
  setvbuf(stdout, nullptr, _IOLBF, 0);  // line buffered, so that a killed child's rows are printed
  std::vector<const Experiment*> chosen;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--plant") {
      plant = true;
    } else if ((word == "--json" || word == "--seconds") && i + 1 < argc) {
      ++i;
      if (word == "--json") json_path = argv[i];
      if (word == "--seconds") case_seconds = std::atoi(argv[i]);
    } else {
      const size_t before = chosen.size();
      for (const Experiment& e : experiments)
        if (word == "all" || word == e.name) chosen.push_back(&e);
      if (chosen.size() == before) {
        std::printf("%s is no experiment; there are all", word.c_str());
        for (const Experiment& e : experiments) std::printf(", %s", e.name);
        std::printf("; options --json FILE, --seconds LIMIT, --plant\n");
        return 2;
      }
    }
  }
  if (chosen.empty()) {
    std::printf("usage: %s all [--json FILE] [--seconds LIMIT] [--plant]\n", argv[0]);
    return 2;
  }
  void* shared = mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) return 2;
  Progress* progress = new (shared) Progress;
  bool clean = true;
  for (const Experiment* experiment : chosen) {
    std::printf("=== %s\n", experiment->name);
    clean = run_one(*experiment, progress) && clean;
  }
  std::printf("%s; lines are in %s\n",
              clean ? "every case ended by itself" : "some cases ended their process", json_path.c_str());
  return clean ? 0 : 1;
}

}  // namespace probe

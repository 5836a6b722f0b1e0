// SPDX-License-Identifier: Apache-2.0
#include "changed_units.h"

#include <memory>
#include <mutex>
#include <set>
#include <string_view>

#include <sluice/run/jit/compiler.h>
#include <sluice/run/jit/embedded_files.h>

namespace sluice::testing {
namespace {

std::string_view text_of(std::string_view path) {
  for (const EmbeddedFile& file : embedded_files())
    if (file.path == path) return file.text;
  return {};
}

int count_of(const std::string& text, const std::string& piece) {
  int count = 0;
  for (size_t at = text.find(piece); at != std::string::npos; at = text.find(piece, at + 1)) ++count;
  return count;
}

/// Replaces each #include of an embedded file by the file's text.
class Flattener {
 public:
  explicit Flattener(std::span<const Edit> edits) : edits_(edits) {}

  Result<void> add(const std::string& name, std::string text) {
    for (const Edit& edit : edits_) {
      if (edit.file != name) continue;
      if (const int count = count_of(text, edit.before); edit.before.empty() || count != 1)
        return Error{ErrorCode::invalid_argument, "the piece to be replaced stands " + std::to_string(count) +
                                                      " times in " + name + ", not once:\n" + edit.before};
      text.replace(text.find(edit.before), edit.before.size(), edit.after);
      ++made_;
    }
    return add_lines(name, text);
  }
  std::string text() && { return std::move(text_); }
  int made() const { return made_; }

 private:
  Result<void> add_lines(const std::string& name, const std::string& text) {
    constexpr std::string_view kInclude = "#include <";
    int number = 0;
    place(name, 1);
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const std::string line = text.substr(begin, end - begin);
      begin = end + 1;
      ++number;
      const std::string path =
          line.starts_with(kInclude) ? line.substr(kInclude.size(), line.find('>') - kInclude.size()) : "";
      if (path.empty() || text_of(path).empty()) {
        text_ += (line == "#pragma once" ? "" : line) + "\n";
        continue;
      }
      if (!seen_.insert(path).second) {
        text_ += "\n";
        continue;
      }
      if (const Result<void> added = add(path, std::string(text_of(path))); !added) return added;
      place(name, number + 1);
    }
    return {};
  }
  void place(const std::string& name, int line) {
    text_ += "#line " + std::to_string(line) + " \"" + name + "\"\n";
  }

  std::span<const Edit> edits_;
  std::set<std::string> seen_;
  std::string text_;
  int made_ = 0;
};

}  // namespace

Result<std::string> changed_unit(const std::string& unit, std::span<const Edit> edits, int* made) {
  Flattener flattener(edits);
  if (const Result<void> added = flattener.add("unit.cu", unit); !added) return added.error();
  if (made != nullptr) *made = flattener.made();
  return std::move(flattener).text();
}

KernelCache changed_cache(const Options& options, const Change& change,
                          std::vector<const char*> compiler_options) {
  struct Lazy {
    std::once_flag once;
    Result<std::shared_ptr<const Compiler>> compiler = Error{ErrorCode::toolchain, "not loaded"};
  };
  const auto lazy = std::make_shared<Lazy>();
  const auto load = [lazy, path = options.nvrtc_path] {
    std::call_once(lazy->once, [&] { lazy->compiler = Compiler::load(path); });
    return lazy->compiler;
  };
  // The compiler's version is part of each cache entry's name, so it carries the change's name.
  return KernelCache(options,
                     {.version =
                          [load, name = change.name] {
                            const auto compiler = load();
                            return compiler ? (*compiler)->version() + "-" + name : std::string();
                          },
                      .compile = [load, change, compiler_options](const std::string& unit) -> Result<Cubin> {
                        const auto compiler = load();
                        if (!compiler) return compiler.error();
                        const Result<std::string> text = changed_unit(unit, change.edits);
                        if (!text) return text.error();
                        return (*compiler)->compile(*text, compiler_options);
                      }});
}

}  // namespace sluice::testing
